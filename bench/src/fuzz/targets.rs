//! What is fuzzed: every way in which bytes or text of others reach the library.
//!
//! A target reads its input, uses what was read, and checks what must hold: an error is one line of text, numbers are finite, a model that was
//! read can be written and read again.

use super::mutate::{self, Chance};
use super::structure;
use posterior::artifact;
use posterior::data::{Column, EncodeOptions, Encoder, Images, Missing, ReadOptions, Table, Task};
use posterior::likelihood::Outcome;
use posterior::model::{Choice, Model, Recipe};
use posterior::nn::Shape;
use std::path::Path;
use std::sync::LazyLock;

/// What an execution came to: a word that is the same for inputs that took about the same way, or what must not be.
pub type Outcomes = Result<String, String>;

pub struct Target {
    pub name: &'static str,
    pub summary: &'static str,
    /// Reads the input, which also lies under the path, and uses what it read.
    pub run: fn(&[u8], &Path) -> Outcomes,
    /// Changes a seed; the second input is one to take pieces from.
    pub change: fn(&mut Vec<u8>, &[u8], &mut Chance),
}

pub const TARGETS: &[Target] = &[
    Target { name: "model", summary: "a model file, and a prediction with it", run: model, change: change_model },
    Target { name: "csv", summary: "CSV, plain or gzip", run: table, change: change_csv },
    Target { name: "parquet", summary: "Parquet", run: table, change: change_parquet },
    Target { name: "npy", summary: "NPY and NPZ", run: table, change: change_npy },
    Target { name: "idx", summary: "IDX images, plain or gzip", run: table, change: change_idx },
    Target { name: "config", summary: "a recipe in TOML", run: config, change: change_config },
    Target { name: "set", summary: "names and settings of a command line", run: set, change: change_set },
];

/// Targets with a planted fault, by which the fuzzer itself is tested; they run when they are named, and read the seeds of `set`.
pub const PLANTED: &[Target] = &[
    Target { name: "planted-panic", summary: "", run: |i, _| Ok(planted(i, || panic!("planted"))), change: change_set },
    Target { name: "planted-hang", summary: "", run: |i, _| Ok(planted(i, hang)), change: change_set },
    Target { name: "planted-memory", summary: "", run: |i, _| Ok(planted(i, take)), change: change_set },
    Target {
        name: "planted-abort",
        summary: "",
        run: |i, _| Ok(planted(i, || std::process::abort())),
        change: change_set,
    },
    Target { name: "planted-wrong", summary: "", run: wrong, change: change_set },
];

/// The fault shows on inputs with a comma, of which no seed has one.
fn planted(input: &[u8], fault: fn()) -> String {
    if input.contains(&b',') {
        fault();
    }
    String::new()
}

fn hang() {
    loop {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

fn take() {
    std::hint::black_box(vec![1u8; 1 << 30]);
}

fn wrong(input: &[u8], _: &Path) -> Outcomes {
    if input.contains(&b',') { Err("a planted wrong answer".to_owned()) } else { Ok(String::new()) }
}

/// What a format knows, a word a line, and what few formats expect.
static WORDS: LazyLock<[Vec<&str>; 5]> = LazyLock::new(|| {
    let files = [
        include_str!("../../../fuzz/words/model.txt"),
        include_str!("../../../fuzz/words/csv.txt"),
        include_str!("../../../fuzz/words/npy.txt"),
        include_str!("../../../fuzz/words/config.txt"),
        include_str!("../../../fuzz/words/set.txt"),
    ];
    files.map(|file| file.lines().chain(["", " ", "\t", "\n", "\r\n", "\r", "\0", "\u{7}", "\u{feff}", "é"]).collect())
});
const MODEL: usize = 0;
const CSV: usize = 1;
const NPY: usize = 2;
const CONFIG: usize = 3;
const SET: usize = 4;

fn change_model(input: &mut Vec<u8>, other: &[u8], chance: &mut Chance) {
    // Most files whose bytes are changed at random end at the same few checks.
    let packed = if chance.once_in(5) { None } else { structure::safetensors(input, &WORDS[MODEL], chance) };
    match packed {
        Some(packed) => *input = packed,
        None => mutate::bytes(input, other, &WORDS[MODEL], chance),
    }
}

fn change_csv(input: &mut Vec<u8>, other: &[u8], chance: &mut Chance) {
    if input.starts_with(&[0x1f, 0x8b]) && !chance.once_in(5) {
        let change = |content: &mut Vec<u8>| mutate::text(content, b"", &WORDS[CSV], chance);
        *input = structure::gzip(input, change).unwrap_or_default();
    } else if chance.once_in(4) {
        mutate::bytes(input, other, &WORDS[CSV], chance);
    } else {
        mutate::text(input, other, &WORDS[CSV], chance);
    }
}

fn change_parquet(input: &mut Vec<u8>, other: &[u8], chance: &mut Chance) {
    let packed = if chance.once_in(5) { None } else { structure::parquet(input, other, chance) };
    match packed {
        Some(packed) => *input = packed,
        None => mutate::bytes(input, other, &["PAR1"], chance),
    }
}

fn change_npy(input: &mut Vec<u8>, other: &[u8], chance: &mut Chance) {
    let packed = if chance.once_in(4) {
        None
    } else {
        structure::zip(input, other, &WORDS[NPY], chance).or_else(|| structure::npy(input, &WORDS[NPY], chance))
    };
    match packed {
        Some(packed) => *input = packed,
        None => mutate::bytes(input, other, &WORDS[NPY], chance),
    }
}

fn change_idx(input: &mut Vec<u8>, other: &[u8], chance: &mut Chance) {
    if input.starts_with(&[0x1f, 0x8b]) && !chance.once_in(4) {
        let change = |content: &mut Vec<u8>| mutate::bytes(content, b"", &[], chance);
        *input = structure::gzip(input, change).unwrap_or_default();
    } else {
        mutate::bytes(input, other, &[], chance);
    }
}

fn change_config(input: &mut Vec<u8>, other: &[u8], chance: &mut Chance) {
    mutate::text(input, other, &WORDS[CONFIG], chance);
}

fn change_set(input: &mut Vec<u8>, other: &[u8], chance: &mut Chance) {
    mutate::text(input, other, &WORDS[SET], chance);
}

/// The error as the word of an outcome: without what it quotes and counts, which differ from input to input.
fn error(e: &posterior::Error) -> Outcomes {
    let text = e.to_string();
    if text.trim().is_empty() || text.contains(['\n', '\r', '\0']) {
        return Err(format!("the error is not one line of text: {text:?}"));
    }
    let mut quoted = false;
    let keep = |c: &char| {
        quoted ^= *c == '\'';
        !quoted && !c.is_ascii_digit()
    };
    Ok(text.chars().filter(keep).take(120).collect())
}

macro_rules! or_told {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(e) => return error(&e),
        }
    };
}

/// Two sets of rows that models of the corpus were fitted to.
static ROWS: LazyLock<[Table; 2]> = LazyLock::new(|| [super::seeds::rows(4), super::seeds::images(2)]);

fn model(input: &[u8], path: &Path) -> Outcomes {
    let model = or_told!(artifact::from_bytes(input, path));
    let kind = model.fitted.as_network().map_or(model.fitted.kind(), |fit| fit.posterior.kind());
    let word = format!("+{kind} {} {}", model.likelihood().name(), model.fitted.parameters() % 7);
    let written = artifact::to_bytes(&model).map_err(|e| format!("a model that was read cannot be written: {e}"))?;
    artifact::from_bytes(&written, path).map_err(|e| format!("a model that was written cannot be read: {e}"))?;
    for rows in &*ROWS {
        match model.encoder.encode(rows, false) {
            Ok(rows) => drop(predict(&model, &rows).or_else(|e| error(&e).map(drop))?),
            Err(e) => drop(error(&e)?),
        }
    }
    Ok(word)
}

fn predict(model: &Model, rows: &posterior::data::Encoded) -> posterior::Result<()> {
    let predictive = model.predict(&rows.data.x, &model.how(2))?;
    match model.likelihood().outcome() {
        Outcome::Class => drop(std::hint::black_box(predictive.classes())),
        _ => {
            std::hint::black_box(predictive.real());
            std::hint::black_box(predictive.quantiles(&[0.05, 0.95]));
        }
    }
    Ok(())
}

/// Reads, and encodes what could be read, in three ways.
fn table(_: &[u8], path: &Path) -> Outcomes {
    let table = or_told!(Table::read(path, &ReadOptions::default()));
    let mut word = "+".to_owned();
    for (_, column) in table.columns().take(20) {
        word.push(match column {
            Column::Number(_) => 'n',
            Column::Text(_) => 't',
            Column::Bool(_) => 'b',
        });
    }
    word.push_str(if table.images().is_some_and(|Images { shape, .. }| !shape.is_empty()) { "i" } else { "" });
    let target = table.column_names().last().unwrap_or("label").to_owned();
    for (task, missing) in
        [(Task::Auto, Missing::Error), (Task::Classification, Missing::Mean), (Task::Count, Missing::Drop)]
    {
        let options = EncodeOptions { target: target.clone(), task, missing, ..EncodeOptions::default() };
        match Encoder::fit(&table, &options) {
            Err(e) => word += &error(&e)?,
            Ok(fitted) => {
                let encoded = fitted.encoder.encode(&table, true);
                let encoded = encoded.map_err(|e| format!("rows an encoder was fitted to cannot be encoded: {e}"))?;
                if encoded.data.rows + fitted.dropped_rows.len() != table.rows() {
                    return Err("rows were lost".to_owned());
                }
                let finite = |v: &f64| v.is_finite();
                if !(encoded.data.x.to::<f64>().iter().all(finite) && encoded.data.y.iter().all(finite)) {
                    return Err("an encoded number is not finite".to_owned());
                }
                word.push('+');
            }
        }
    }
    Ok(word)
}

/// A recipe, for rows and for images.
fn config(_: &[u8], path: &Path) -> Outcomes {
    resolved(&or_told!(Recipe::from_file(path)))
}

fn resolved(recipe: &Recipe) -> Outcomes {
    let image = Shape::Image { channels: 1, height: 8, width: 8 };
    let mut word = String::new();
    for (shape, outcome, width) in
        [(Shape::Flat(3), Outcome::Real, 1), (image, Outcome::Class, 3), (Shape::Flat(2), Outcome::Count, 1)]
    {
        match recipe.resolve_for(shape, outcome, width) {
            Err(e) => word += &error(&e)?,
            Ok(resolved) => {
                resolved.method().map_err(|e| format!("settings that were checked are refused: {e}"))?;
                word.push('+');
            }
        }
    }
    Ok(word)
}

/// The first line names method, prior and likelihood; every other is an assignment.
fn set(input: &[u8], _: &Path) -> Outcomes {
    let text = String::from_utf8_lossy(input);
    let mut lines = text.lines();
    let mut names = lines.next().unwrap_or_default().split_whitespace().map(Choice::named);
    let mut recipe = Recipe {
        method: names.next().unwrap_or_default(),
        prior: names.next().unwrap_or_default(),
        likelihood: names.next().unwrap_or_default(),
        ..Recipe::default()
    };
    for line in lines {
        or_told!(recipe.set(line));
    }
    resolved(&recipe)
}
