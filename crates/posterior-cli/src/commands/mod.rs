//! One file per command.

mod attack;
mod calibrate;
mod check;
mod compare;
mod compress;
mod decide;
mod demo;
mod demo_hmc;
mod demo_kl;
mod diagnose;
mod draws;
mod evaluate;
mod evaluate_report;
mod fit;
mod gradients;
mod holdout;
mod import;
mod inspect;
mod methods;
mod ood;
mod predict;
mod prior;
mod query;
mod recipe;
mod select;
mod selftest;
mod suggest;
mod update;

use crate::cli::{Command, Common, Data, Target};
use posterior::data::{EncodeOptions, Encoder, Missing, Table, Task, label_file};
use posterior::fitted::{How, Route};
use posterior::model::Model;
use posterior::rng::Key;
use std::path::{Path, PathBuf};

/// The command did what it was asked, and the answer is no: the program says nothing more and ends with 1.
#[derive(Debug)]
pub struct AnswerIsNo;

impl std::fmt::Display for AnswerIsNo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the answer is no")
    }
}

impl std::error::Error for AnswerIsNo {}

pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Demo(args) if args.tour.as_deref() == Some("hmc") => demo_hmc::run(args),
        Command::Demo(args) if args.tour.is_some() => demo_kl::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Check(args) => check::run(args),
        Command::Fit(args) => fit::run(args),
        Command::Import(args) => import::run(args),
        Command::Predict(args) => predict::run(args),
        Command::Evaluate(args) => evaluate::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Calibrate(args) => calibrate::run(args),
        Command::Ood(args) => ood::run(args),
        Command::Attack(args) => attack::run(args),
        Command::Decide(args) => decide::run(args),
        Command::Query(args) => query::run(args),
        Command::Suggest(args) => suggest::run(args),
        Command::Update(args) => update::run(args),
        Command::Gradients(args) => gradients::run(args),
        Command::Prior(args) => prior::run(args),
        Command::Select(args) => select::run(args),
        Command::Methods(args) => methods::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::Compress(args) => compress::run(args),
        Command::Diagnose(args) => diagnose::run(args),
        Command::Draws(args) => draws::run(args),
        Command::Selftest(args) => selftest::run(args),
    }
}

/// Reads a data file as the flags say; for a fitted model, also as its encoder needs it.
fn read(data: &Data, encoder: Option<&Encoder>) -> anyhow::Result<Table> {
    let mut options = encoder.map(Encoder::read_options).unwrap_or_default();
    options.labels = data.labels.clone();
    options.text.extend_from_slice(&data.text);
    if data.data == Path::new("-") {
        return Ok(Table::read_from(std::io::stdin().lock(), "standard input", &options)?);
    }
    Ok(Table::read(&data.data, &options)?)
}

/// A data file and, where it holds images, the file of their labels: what a command reads and must not overwrite.
pub fn data_files(data: &Path, labels: Option<&PathBuf>) -> Vec<PathBuf> {
    std::iter::once(data.to_owned()).chain(labels.cloned().or_else(|| label_file(data))).collect()
}

/// What the flags say about the target.
fn encode_options(target: &Target, table: &Table) -> anyhow::Result<EncodeOptions> {
    let name = match &target.target {
        Some(name) => name.clone(),
        None if table.images().is_some() => "label".to_owned(),
        None => {
            let names = table.column_names().take(20).collect::<Vec<_>>().join(", ");
            let more = if table.column_names().count() > 20 { ", …" } else { "" };
            anyhow::bail!("which column is to be predicted? say it with --target; there are: {names}{more}")
        }
    };
    // A name that holds a comma is one column where there is such a column.
    let mut names = match table.get(&name) {
        None if name.contains(',') => name.split(',').map(|n| n.trim().to_owned()).collect(),
        _ => vec![name],
    };
    let also = names.split_off(1);
    Ok(EncodeOptions {
        target: names.remove(0),
        also,
        task: match target.task.as_str() {
            "regression" => Task::Regression,
            "classification" => Task::Classification,
            "count" => Task::Count,
            _ => Task::Auto,
        },
        missing: match target.missing.as_str() {
            "mean" => Missing::Mean,
            "drop" => Missing::Drop,
            "error" => Missing::Error,
            _ => Missing::Auto,
        },
        ignore: target.ignore.clone(),
        inputs: target.input.clone(),
        weights: target.weights.clone(),
    })
}

/// Names of what a model predicts, as they are written after --target.
fn target_names(encoder: &Encoder) -> String {
    encoder.targets().map(|t| t.name.as_str()).collect::<Vec<_>>().join(",")
}

/// Tells that text in a CSV is not quite what it was.
fn tell_guarded(common: &Common, count: usize) {
    if count > 0 {
        let what = format!(
            "{} that a spreadsheet would run as a formula got a ' before it; --raw writes text as it is",
            crate::output::count(count, "cell")
        );
        crate::progress::notes(common, &[what]);
    }
}

/// How the model predicts: by moments if they are asked for, else by its own route; its random numbers follow from the model's seed unless
/// the user gives one.
fn how(model: &Model, draws: u32, moments: bool, common: &Common) -> How {
    let mut how = model.how(draws as usize);
    if let Some(seed) = common.seed {
        how.key = Key::new(seed);
    }
    if moments { how.by(Route::Moments) } else { how }
}
