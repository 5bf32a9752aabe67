//! Bad input: exit code 2, one sentence that says what, where and what to do; nothing written, nothing lost.

use crate::common::{contents, folder, run, small_model, succeed};
use std::path::Path;
use std::sync::OnceLock;

/// Runs in a folder with these files, where older results already stand, and checks all that holds for every wrong input.
pub fn refused(files: &[(&str, &[u8])], args: &[&str], expected: &[&str]) -> String {
    let dir = folder();
    for (name, bytes) in files.iter().chain(&[("old.st", &b"an older model"[..]), ("old.csv", b"older predictions\n")])
    {
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    let before = contents(dir.path());
    let run = run(dir.path(), args);
    let shown = format!("posterior {}\n{}{}", args.join(" "), run.stdout, run.stderr);
    assert_eq!(run.code, Some(2), "{shown}");
    assert_eq!(run.stdout, "", "{shown}");
    for part in expected {
        assert!(run.stderr.contains(part), "not said: {part}\n{shown}");
    }
    assert!(contents(dir.path()) == before, "files were touched\n{shown}");
    run.stderr
}

/// As [`refused`], by the program itself: one line.
pub fn one_sentence(files: &[(&str, &[u8])], args: &[&str], expected: &[&str]) {
    let text = refused(files, args, expected);
    assert!(text.starts_with("posterior: ") && text.ends_with('\n') && text.lines().count() == 1, "{text}");
    assert_eq!(text.matches("os error").count().max(1), 1, "said twice: {text}");
}

/// A fit of `text` as a file, with an older model in the place of the new one.
fn fit(text: &str, flags: &[&str], expected: &[&str]) {
    let args = [&["fit", "data.csv", "--out", "old.st", "--set", "epochs=1"], &mean_field(flags)[..], flags].concat();
    one_sentence(&[("data.csv", text.as_bytes())], &args, expected);
}

/// A fit of the good file with other flags.
fn fit_houses(flags: &[&str], expected: &[&str]) {
    let fit = ["fit", "houses.csv", "--out", "old.st", "--target", "price", "--set", "epochs=1"];
    one_sentence(&[], &[&fit[..], &mean_field(flags), flags].concat(), expected);
}

/// The method that has the settings of these fits, unless the flags name one.
fn mean_field(flags: &[&str]) -> Vec<&'static str> {
    if flags.contains(&"--method") { Vec::new() } else { vec!["--method", "mean-field"] }
}

/// A model of houses, fitted once.
fn model() -> &'static [u8] {
    static MODEL: OnceLock<Vec<u8>> = OnceLock::new();
    MODEL.get_or_init(|| small_model("houses.csv", "price"))
}

/// A prediction of `text` with the good model.
fn predict(text: &str, expected: &[&str]) {
    let args = ["predict", "good.st", "data.csv", "--out", "old.csv"];
    one_sentence(&[("good.st", model()), ("data.csv", text.as_bytes())], &args, expected);
}

/// Every command that reads a model, with a bad one.
fn bad_model(bytes: &[u8], expected: &[&str]) {
    let all = [&["bad.st"], expected].concat();
    for args in [
        &["predict", "bad.st", "houses.csv", "--out", "old.csv"][..],
        &["evaluate", "bad.st", "houses.csv"],
        &["inspect", "bad.st"],
        &["compress", "bad.st", "--out", "old.st"],
        &["diagnose", "bad.st"],
        &["draws", "bad.st", "--out", "old.csv"],
        &["calibrate", "bad.st", "houses.csv", "--out", "old.st"],
        &["ood", "bad.st", "houses.csv", "houses.csv"],
        &["attack", "bad.st", "houses.csv", "--epsilon", "0.1", "--out", "old.csv"],
    ] {
        one_sentence(&[("bad.st", bytes)], args, &all);
    }
}

/// The model file with another header, its length made right.
fn with_header(change: impl Fn(String) -> String) -> Vec<u8> {
    let bytes = model();
    let n = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = change(String::from_utf8(bytes[8..8 + n].to_vec()).unwrap());
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &bytes[8 + n..]].concat()
}

const ROWS: &str = "1,2\n2,3\n3,1\n4,4\n5,2\n6,3\n7,9\n8,4\n9,1\n10,3\n";

fn xy(rows: &str) -> String {
    format!("x,y\n{ROWS}{rows}")
}

#[test]
fn files_that_are_not_there_or_hold_nothing() {
    one_sentence(&[], &["fit", "no.csv", "--target", "y", "--out", "old.st"], &["no.csv", "cannot read"]);
    one_sentence(&[], &["fit", ".", "--target", "y", "--out", "old.st"], &["cannot read ."]);
    one_sentence(&[("m", model())], &["predict", "m", "no.csv", "--out", "old.csv"], &["no.csv"]);
    one_sentence(&[], &["inspect", "no.st"], &["no.st"]);
    one_sentence(
        &[],
        &["fit", "houses.csv", "--target", "price", "--config", "no.toml", "--out", "old.st"],
        &["no.toml"],
    );
    fit("", &["--target", "y"], &["data.csv", "empty"]);
    fit("\n\n", &["--target", "y"], &["data.csv", "empty"]);
    fit("x,y\n", &["--target", "y"], &["data.csv", "header", "no rows"]);
    one_sentence(&[], &["prior", "no.csv", "--target", "y"], &["no.csv"]);
}

#[test]
fn columns_that_are_not_there() {
    fit_houses(&["--ignore", "distrikt"], &["houses.csv", "no column 'distrikt'", "did you mean 'district'?"]);
    fit_houses(&["--text", "aeg"], &["houses.csv", "no column 'aeg'", "did you mean 'age'?"]);
    fit_houses(&["--ignore", "price"], &["'price'", "ignore"]);
    fit(&xy(""), &["--target", "zzzzzz"], &["data.csv", "no column 'zzzzzz'", "x, y"]);
    fit("size,price\n1,2\n", &["--target", "prcie"], &["did you mean 'price'?"]);
    fit(&xy(""), &[], &["--target", "x, y"]);
    fit("x,x\n1,2\n", &["--target", "x"], &["data.csv, line 1, column 'x'", "two columns"]);
}

#[test]
fn cells_that_cannot_be_used() {
    let target: &[&str] = &["--target", "y"];
    fit(&xy("11,3,5\n"), target, &["data.csv, line 12:", "2 cells", "3"]);
    fit(&xy("11\n"), target, &["data.csv, line 12:", "2 cells", "1"]);
    fit(&xy("eleven,3\n"), target, &["data.csv, line 12, column 'x'", "'eleven'", "numeric"]);
    fit(&xy("11,many\n"), target, &["data.csv, line 12, column 'y'", "'many'"]);
    let strict = [target, &["--missing", "error"]].concat();
    fit(&xy("NaN,3\n"), &strict, &["data.csv, line 12, column 'x'", "missing", "--missing"]);
    fit(&xy("11,NaN\n"), &strict, &["data.csv, line 12, column 'y'", "missing", "--missing drop"]);
    fit(&xy(",3\n"), &strict, &["data.csv, line 12, column 'x'", "missing"]);
    fit(&xy("inf,3\n"), target, &["data.csv, line 12, column 'x'", "inf is not finite"]);
    fit(&xy("11,-Infinity\n"), target, &["data.csv, line 12, column 'y'", "-Infinity is not finite"]);
    fit(&xy("1e300,3\n"), target, &["data.csv, line 12, column 'x'", "1e300", "too large"]);
    fit(&xy("11,2.5\n"), &["--target", "y", "--task", "count"], &["line 12, column 'y'", "2.5", "count"]);
    fit("x,y\n1,\"2\n3,4\n", target, &["data.csv, line 2:", "quote"]);
    let bytes = [xy("").as_bytes(), b"\xff\xfe,3\n"].concat();
    one_sentence(
        &[("d.csv", &bytes)],
        &["fit", "d.csv", "--target", "y", "--out", "old.st"],
        &["d.csv, line 12, column 'x'", "'ÿþ'", "numeric"],
    );
}

#[test]
fn data_one_cannot_learn_from() {
    let target: &[&str] = &["--target", "y"];
    fit("x,y\n1,7\n2,7\n3,7\n4,7\n5,7\n6,7\n", target, &["data.csv, column 'y'", "'7' in every row"]);
    fit("x,y\n1,a\n2,a\n3,a\n4,a\n5,a\n6,a\n", target, &["data.csv, column 'y'", "'a' in every row"]);
    fit("x,y\n1,2\n2,3\n", target, &["data.csv", "2 rows", "at least 5"]);
    fit("x,y\n1,a\n2,a\n3,b\n4,b\n5,c\n6,a\n", target, &["data.csv, column 'y'", "class 'c' has one row"]);
    fit("x,y\n1,2\n1,3\n1,4\n1,5\n1,6\n", target, &["data.csv", "no column is left"]);
    fit("y\n2\n3\n4\n5\n6\n", target, &["data.csv", "no column is left"]);
    let task = ["--target", "species", "--task", "regression", "--out", "old.st"];
    one_sentence(&[], &[&["fit", "birds.csv"], &task[..]].concat(), &["birds.csv, column 'species'", "text", "--task"]);
}

#[test]
fn rows_to_predict_that_do_not_fit_the_model() {
    predict("size,age,district\n50,3,east\n", &["data.csv", "no column 'garden'"]);
    predict("sise,age,district,garden\n50,3,east,true\n", &["no column 'size'", "did you mean 'sise'?"]);
    predict("size,age,district,garden\nbig,3,east,true\n", &["data.csv, line 2, column 'size'", "'big'"]);
    // What to do is what this command can do.
    let known = succeed(Path::new("."), &["predict", "--help"]).stdout;
    let files: &[(&str, &[u8])] = &[("m", model()), ("d.csv", b"size,age,district,garden\nbig,3,east,true\n")];
    let said = refused(files, &["predict", "m", "d.csv"], &[]);
    let flags = said.split_whitespace().filter(|w| w.starts_with("--"));
    flags.for_each(|flag| assert!(known.contains(flag), "{flag}: {said}"));
    predict("size,age,district,garden\n", &["data.csv", "no rows"]);
    let text = b"size,age,district,garden\n50,3,east,true\n";
    let files: &[(&str, &[u8])] = &[("m", model()), ("d.csv", text)];
    one_sentence(files, &["evaluate", "m", "d.csv"], &["d.csv", "no column 'price'"]);
    one_sentence(files, &["predict", "d.csv", "m"], &["d.csv", "not a model file"]);
    one_sentence(files, &["predict", "m", "m"], &["m: ", "a model file, not data"]);
    let image: &[u8] = &[0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, 1, 2, 3, 4];
    one_sentence(&[("m", model()), ("i", image)], &["predict", "m", "i"], &["images", "trained on a table"]);
}

#[test]
fn extra_columns_are_a_note_and_no_error() {
    let dir = folder();
    std::fs::write(dir.path().join("m"), model()).unwrap();
    let text = "colour,size,age,district,garden\nred,50,3,east,true\n";
    std::fs::write(dir.path().join("d.csv"), text).unwrap();
    let loud = succeed(dir.path(), &["predict", "m", "d.csv"]);
    assert!(loud.stderr.starts_with("note: ") && loud.stderr.contains("'colour'"), "{}", loud.stderr);
    let quiet = succeed(dir.path(), &["predict", "m", "d.csv", "--quiet"]);
    assert_eq!((quiet.stderr.as_str(), &quiet.stdout), ("", &loud.stdout));
}

#[test]
fn model_files_that_are_damaged_foreign_or_hostile() {
    let whole = model();
    bad_model(b"", &["empty"]);
    for keep in [1, 7] {
        bad_model(&whole[..keep], &["not a model file"]);
    }
    for keep in [8, 100, whole.len() / 2, whole.len() - 1] {
        bad_model(&whole[..keep], &["cut short or damaged"]);
    }
    bad_model(b"size,price\n1,2\n3,4\n5,6\n", &["not a model file", "posterior fit"]);
    bad_model(&with_header(|h| h.replacen("\"posterior\":", "\"other\":", 1)), &["no model of posterior"]);
    bad_model(
        &with_header(|h| h.replacen("posterior model", "posterior shopping list", 1)),
        &["'posterior shopping list'"],
    );
    bad_model(
        &with_header(|h| h.replacen("\\\"format\\\":1", "\\\"format\\\":99", 1)),
        &["format 99", "newer version"],
    );
    bad_model(&with_header(|h| h.replacen("\\\"units\\\":4", "\\\"units\\\":1048576", 1)), &["parameters"]);
    bad_model(&with_header(|h| h.replacen("\\\"units\\\":4", "\\\"units\\\":99999999999", 1)), &["units"]);
    bad_model(&with_header(|h| h.replacen("data_offsets\":[0,", "data_offsets\":[9999999999999,", 1)), &["bad.st"]);
    for length in [u64::MAX, 1 << 62, whole.len() as u64, 99_999_999] {
        bad_model(&[&length.to_le_bytes(), &whole[8..]].concat(), &["bad.st"]);
    }
}

#[test]
fn places_one_cannot_write_to_are_known_before_the_work() {
    let price = ["--target", "price"];
    // A fit of a million epochs would never come to its end here.
    let long = [&["fit", "houses.csv", "--method", "mean-field", "--set", "epochs=1000000"], &price[..]].concat();
    one_sentence(&[], &[&long[..], &["--out", "no/where.st"]].concat(), &["cannot write no/where.st"]);
    one_sentence(&[], &[&long[..], &["--out", "."]].concat(), &["cannot write .", "folder"]);
    one_sentence(&[], &["demo", "--out", "no/where.html"], &["cannot write no/where.html"]);
    one_sentence(&[], &["prior", "--out", "no/where.svg"], &["cannot write no/where.svg"]);
    let files: &[(&str, &[u8])] = &[("m", model())];
    one_sentence(files, &["predict", "m", "houses.csv", "--out", "no/where.csv"], &["cannot write no/where.csv"]);
    one_sentence(files, &["predict", "m", "houses.csv", "--out", "houses.csv/x"], &["cannot write houses.csv/x"]);
}

#[test]
fn settings_with_a_wrong_name_or_value() {
    fit_houses(&["--set", "epocs=3"], &["no setting 'epocs'", "did you mean 'epochs'?"]);
    fit_houses(&["--set", "epochs=-3"], &["'epochs' cannot be '-3'", "from 0 to 1000000"]);
    fit_houses(&["--set", "epochs=many"], &["'epochs' cannot be 'many'", "from 0 to 1000000"]);
    fit_houses(&["--set", "learning_rate=nan"], &["'learning_rate'", "it takes a number"]);
    fit_houses(&["--set", "epochs"], &["--set epochs", "key=value"]);
    fit_houses(&["--set", "prior.wieght_std=1"], &["prior 'normal'", "did you mean 'weight_std'?"]);
    fit_houses(&["--set", "prior.weight_std=0"], &["'weight_std' cannot be '0'", "from 0.000001"]);
    fit_houses(&["--set", "prio.weight_std=1"], &["'prio'", "method, prior or likelihood"]);
    fit_houses(&["--method", "meanfield"], &["no method 'meanfield'", "did you mean 'mean-field'?"]);
    fit_houses(&["--prior", "laplase"], &["no prior 'laplase'", "did you mean 'laplace'?"]);
    fit_houses(&["--likelihood", "gausian"], &["no likelihood 'gausian'", "did you mean 'gaussian'?"]);
    fit_houses(&["--likelihood", "categorical"], &["'categorical' is for classes", "real numbers"]);
    fit_houses(&["--activation", "rleu"], &["no activation 'rleu'", "did you mean 'relu'?"]);
    fit_houses(&["--network", "lenet5"], &["no network 'lenet5'", "did you mean 'lenet-5'?"]);
    fit_houses(&["--network", "50,x"], &["'x'", "from 1 to 1048576"]);
    fit_houses(&["--network", "0"], &["'0'", "from 1 to 1048576"]);
    fit_houses(&["--network", "1000000,1000000"], &["weights", "narrower"]);
    fit_houses(&["--network", "lenet-5"], &["image"]);
    fit_houses(&["--network", "linear", "--activation", "relu"], &["--activation", "linear"]);
    let draws = ["calibrate", "m", "houses.csv", "--draws", "1000000", "--memory", "1GB"];
    let many = format!("size,age,district,garden,price\n{}", "50,3,east,true,9\n".repeat(2000));
    one_sentence(
        &[("m", model()), ("houses.csv", many.as_bytes())],
        &draws,
        &["2000 rows", "use fewer draws", "--memory"],
    );
    one_sentence(&[], &["methods", "maps"], &["no method, likelihood or prior 'maps'", "did you mean 'map'?"]);
    one_sentence(&[], &["prior", "--set", "prior.weight_sdt=1"], &["did you mean 'weight_std'?"]);
}

#[test]
fn slips_in_a_configuration_file() {
    let config = |text: &str, expected: &[&str]| {
        let args = ["fit", "houses.csv", "--target", "price", "--config", "c.toml", "--out", "old.st"];
        one_sentence(&[("c.toml", text.as_bytes())], &args, expected);
    };
    config("[netwrok]\n", &["c.toml, line 1", "netwrok", "network"]);
    config("[network]\nhiden = [5]\n", &["c.toml, line 2", "hiden", "hidden"]);
    config("[network\n", &["c.toml, line 1"]);
    config("[network]\nhidden = [5]\nname = \"linear\"\n", &["c.toml", "name, hidden"]);
    config("[network]\nhidden = [0]\n", &["c.toml", "'0'", "from 1 to 1048576"]);
    config("[method]\nname = \"map\"\nepochs = \"x\"\n", &["'epochs' cannot be 'x'", "from 0 to 1000000"]);
    config("[method]\nname = \"map\"\nepochs = [1]\n", &["c.toml, line", "a number, a word, true or false"]);
    config("[[network.layers]]\nkind = \"convv\"\n", &["c.toml, line 1", "convv", "'conv'"]);
    config("[[network.layers]]\nkind = \"dense\"\nunits = 0\n", &["units", "from 1 to 1048576"]);
}

#[test]
fn wrong_flags_are_told_with_the_right_ones() {
    let flags = |args: &[&str], expected: &[&str]| one_sentence(&[("m", model())], args, expected);
    let fit: &[&str] = &["fit", "houses.csv", "--target", "price", "--out", "old.st"];
    flags(&[fit, &["--threads", "0"]].concat(), &["--threads", "from 1 to 4096"]);
    flags(&[fit, &["--seed", "x"]].concat(), &["--seed"]);
    flags(&[fit, &["--sede", "1"]].concat(), &["there is no flag '--sede' here; did you mean '--seed'?"]);
    flags(&[fit, &["--zzz"]].concat(), &["there is no flag '--zzz' here; see 'posterior fit --help'"]);
    flags(&[fit, &["--seed", "1", "--seed", "2"]].concat(), &["'--seed <N>' cannot be used twice"]);
    flags(&[fit, &["--seed"]].concat(), &["'--seed <N>' lacks its value"]);
    flags(&[fit, &["--task", "regresion"]].concat(), &["regresion", "regression"]);
    flags(&[fit, &["--missing", "zero"]].concat(), &["zero", "auto, mean, drop, error"]);
    flags(&["predict", "m", "houses.csv", "--interval", "90"], &["--interval", "between 0 and 1"]);
    flags(&["predict", "m", "houses.csv", "--draws", "0"], &["--draws", "1..=1000000"]);
    flags(&["predict", "m"], &["DATA"]);
    let compress: &[&str] = &["compress", "m", "--out", "old.st"];
    for wrong in ["NaN", "inf", "three"] {
        flags(&[compress, &["--threshold", wrong]].concat(), &["--threshold", "it takes a number, as in 3"]);
    }
    for wrong in ["0", "2", "-0.5", "NaN", "most"] {
        flags(&[compress, &["--keep", wrong]].concat(), &["--keep", "above 0 and at most 1"]);
    }
    flags(&[compress, &["--keep", "0.5", "--threshold", "3"]].concat(), &["--keep", "--threshold", "cannot be used"]);
    flags(&["diagnose", "m", "houses.csv", "--draws", "3"], &["--draws", "25..=10000000"]);
    flags(&["draws", "m"], &["--out"]);
    flags(&["draws", "m", "--out", "d", "--draws", "0"], &["--draws", "1..=10000000"]);
    flags(&["selftest", "m"], &["'m'"]);
    flags(&["demo", "lk"], &["lk", "kl"]);
    flags(&["predct", "m", "houses.csv"], &["there is no command 'predct'; did you mean 'predict'?"]);
}

#[test]
fn models_that_cannot_be_compressed() {
    let dir = folder();
    let fit = ["fit", "houses.csv", "--target", "price", "--network", "4", "--set", "epochs=2", "-q"];
    succeed(dir.path(), &[&fit[..], &["--method", "map", "--out", "point"]].concat());
    succeed(dir.path(), &[&fit[..], &["--method", "mean-field", "--out", "dense"]].concat());
    succeed(dir.path(), &["compress", "dense", "--out", "sparse", "-q"]);
    for kind in ["point", "sparse"] {
        let model = std::fs::read(dir.path().join(kind)).unwrap();
        let expected = ["m cannot be compressed", &format!("kind '{kind}'"), "such as mean-field"];
        one_sentence(&[("m", &model)], &["compress", "m", "--out", "old.st"], &expected);
    }
    let files: &[(&str, &[u8])] = &[("m", model()), ("bad.csv", b"size,age,district,garden\n50,old,east,true\n")];
    let compress =
        |rest: &[&str], expected: &[&str]| one_sentence(files, &[&["compress", "m"], rest].concat(), expected);
    compress(&["--data", "no.csv", "--out", "old.st"], &["no.csv"]);
    compress(&["--data", "bad.csv", "--out", "old.st"], &["bad.csv, line 2, column 'age'", "'old'"]);
    compress(&["--out", "no/where.st"], &["cannot write no/where.st"]);
    compress(
        &["--draws", "1000000", "--out", "old.st", "--memory", "1GB"],
        &["1000000 draws", "GB of memory", "use fewer draws", "--memory"],
    );
    one_sentence(&[], &["compress", "no.st", "--out", "old.st"], &["cannot read no.st"]);
    one_sentence(&[], &["demo", "kl", "--out", "no/where.html"], &["cannot write no/where.html"]);
}

#[test]
fn posteriors_that_cannot_be_judged_or_written() {
    let files: &[(&str, &[u8])] = &[
        ("m", model()),
        ("bad.csv", b"size,age,district,garden,price\n50,old,east,true,9\n"),
        ("few.csv", b"size,age,district,garden,price\n50,3,east,true,9\n60,4,north,true,8\n"),
        ("inputs.csv", b"size,age,district,garden\n50,3,east,true\n"),
    ];
    let diagnose = |rest: &[&str], expected: &[&str]| {
        one_sentence(files, &[&["diagnose", "m"], rest].concat(), expected);
    };
    diagnose(&[], &["kind 'mean-field'", "the rows it was fitted to", "posterior diagnose MODEL DATA"]);
    diagnose(&["no.csv"], &["no.csv"]);
    diagnose(&["bad.csv"], &["bad.csv, line 2, column 'age'", "'old'"]);
    diagnose(&["few.csv"], &["few.csv: there are 2 rows", "fitted to 60", "give the rows it was fitted to"]);
    diagnose(&["inputs.csv"], &["inputs.csv", "no column 'price'"]);
    diagnose(&["m"], &["m: ", "a model file, not data"]);
    one_sentence(files, &["draws", "m", "--out", "no/where.parquet"], &["cannot write no/where.parquet"]);
    one_sentence(files, &["draws", "m", "--out", "."], &["cannot write .", "folder"]);
    one_sentence(&[], &["draws", "no.st", "--out", "old.csv"], &["no.st"]);
    one_sentence(&[], &["diagnose", "no.st"], &["no.st"]);
    fit_houses(
        &["--method", "importance", "--set", "proposal=map"],
        &["'proposal' cannot be 'map'", "prior, mean-field"],
    );
    fit_houses(&["--method", "importance", "--set", "draws=3"], &["'draws' cannot be '3'", "from 25"]);
}

#[test]
fn names_with_spaces_and_other_letters_are_names() {
    let dir = folder();
    let name = "häuser ☃ 1.csv";
    std::fs::copy(dir.path().join("houses.csv"), dir.path().join(name)).unwrap();
    let model = "mödel 1.st";
    succeed(
        dir.path(),
        &["fit", name, "--target", "price", "--method", "mean-field", "--set", "epochs=1", "--out", model, "--quiet"],
    );
    let run = succeed(dir.path(), &["predict", model, name]);
    assert_eq!(run.stdout.lines().count(), 61);
    assert!(!Path::new(dir.path()).join("model.safetensors").exists());
}
