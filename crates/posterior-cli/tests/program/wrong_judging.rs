//! Bad input to the commands that judge and compare models: as in `wrong_input.rs`, one sentence and nothing lost.

use crate::common::{folder, run, small_model, succeed};
use crate::wrong_input::{one_sentence, refused};
use std::sync::OnceLock;

/// A model of birds, fitted once.
fn birds() -> &'static [u8] {
    static MODEL: OnceLock<Vec<u8>> = OnceLock::new();
    MODEL.get_or_init(|| small_model("birds.csv", "species"))
}

/// Every command that judges a model, on rows it cannot use. Those that need no outcome are told apart.
fn judged(text: &str, with_outcome: bool, expected: &[&str]) {
    let files: &[(&str, &[u8])] = &[("m", birds()), ("data.csv", text.as_bytes())];
    for args in [
        &["evaluate", "m", "data.csv", "--report", "old.csv"][..],
        &["calibrate", "m", "data.csv", "--out", "old.st"],
        &["attack", "m", "data.csv", "--epsilon", "0.1", "--out", "old.csv"],
    ] {
        one_sentence(files, args, expected);
    }
    if !with_outcome {
        one_sentence(files, &["ood", "m", "birds.csv", "data.csv", "--report", "old.csv"], expected);
        one_sentence(files, &["ood", "m", "data.csv", "birds.csv", "--report", "old.csv"], expected);
    }
}

#[test]
fn rows_that_a_model_cannot_be_judged_on() {
    judged(
        "wing,weight,beak,species\n80,20,10,owl\n",
        true,
        &["data.csv, line 2", "'owl' was not seen in training", "finch"],
    );
    judged("wing,weight,beak\n80,20,10\n", true, &["data.csv", "no column 'species'"]);
    judged("wing,weigth,beak,species\n80,20,10,wren\n", false, &["no column 'weight'", "did you mean 'weigth'?"]);
    judged("wing,weight,beak,species\n", false, &["data.csv", "no rows"]);
    judged("", false, &["data.csv", "empty"]);
    judged("wing,weight,beak,species\n80,heavy,10,wren\n", false, &["line 2, column 'weight'", "heavy"]);
    let one = ("data.csv", &b"wing,weight,beak,species\n80,20,10,wren\n"[..]);
    one_sentence(&[("m", birds()), one], &["calibrate", "m", "data.csv"], &["1 rows cannot calibrate", "at least 2"]);
}

/// One class alone has no area under a curve: it is said, and it is null, not a number that is none.
#[test]
fn one_class_alone() {
    let dir = folder();
    std::fs::write(dir.path().join("m"), birds()).unwrap();
    let rows = std::fs::read_to_string(dir.path().join("birds.csv")).unwrap();
    let wrens: String =
        rows.lines().filter(|l| l.starts_with("wing") || l.ends_with("wren")).map(|l| format!("{l}\n")).collect();
    std::fs::write(dir.path().join("wrens.csv"), wrens).unwrap();
    let run = succeed(dir.path(), &["evaluate", "m", "wrens.csv"]);
    assert!(
        run.stderr.contains("note: auroc is not defined here: it needs rows of every class, and these hold 1 of 3"),
        "{}",
        run.stderr
    );
    assert!(!run.stdout.contains("NaN") && run.stdout.contains("accuracy"), "{}", run.stdout);
    let json = succeed(dir.path(), &["evaluate", "m", "wrens.csv", "--json", "-q", "--report", "r.html"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(
        json["auroc"].is_null() && json["undefined"]["auroc"].is_string() && json["standard_errors"]["auroc"].is_null()
    );
    assert!(json["accuracy"].is_f64());
    assert!(!std::fs::read_to_string(dir.path().join("r.html")).unwrap().contains("NaN"));
    // A point has no epistemic uncertainty: nothing can be told apart by it.
    let fit = ["fit", "birds.csv", "--target", "species", "--method", "map", "--set", "epochs=2", "--out", "p", "-q"];
    succeed(dir.path(), &fit);
    let run = succeed(dir.path(), &["ood", "p", "birds.csv", "wrens.csv", "--json"]);
    assert!(
        run.stderr.contains("under map every row has the same epistemic, disagreement uncertainty"),
        "{}",
        run.stderr
    );
    let json: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    let epistemic = json["rows"].as_array().unwrap().iter().find(|r| r["measure"] == "epistemic").unwrap();
    assert!(epistemic["auroc"].is_null() && json["rows"][0]["auroc"].is_f64(), "{json}");
}

#[test]
fn pages_that_cannot_be_written() {
    let m: &[(&str, &[u8])] = &[("m", birds())];
    one_sentence(m, &["evaluate", "m", "birds.csv", "--report", "no/r.html"], &["cannot write no/r.html"]);
    one_sentence(m, &["evaluate", "m", "birds.csv", "--report", "."], &["cannot write", "folder"]);
    one_sentence(m, &["ood", "m", "birds.csv", "birds.csv", "--report", "no/r.html"], &["cannot write no/r.html"]);
    one_sentence(m, &["attack", "m", "birds.csv", "--epsilon", "0.1", "--out", "no/a.csv"], &["cannot write no/a.csv"]);
    one_sentence(m, &["calibrate", "m", "birds.csv", "--out", "no/m"], &["cannot write no/m"]);
    compare(&["--report", "no/r.html"], &["cannot write no/r.html"]);
}

/// A comparison that cannot begin.
fn compare(flags: &[&str], expected: &[&str]) {
    let args = [&["compare", "houses.csv", "--target", "price", "--set", "epochs=1"], flags].concat();
    one_sentence(&[], &args, expected);
}

#[test]
fn comparisons_that_cannot_begin() {
    compare(&["--methods", "map,meanfield"], &["no method 'meanfield'", "did you mean 'mean-field'?"]);
    compare(&["--reference", "mpa"], &["no method 'mpa'", "did you mean 'map'?"]);
    compare(&["--methods", "zzzzzzzzzzzz"], &["choose one of", "mean-field"]);
    compare(
        &["--methods", "map", "--set", "epoch=3"],
        &["none of the methods has a setting 'epoch'", "did you mean 'epochs'?"],
    );
    compare(&["--methods", "map", "--set", "epochs=-3"], &["epochs"]);
    compare(&["--folds", "1"], &["1 folds", "at least 2"]);
    compare(&["--folds", "61"], &["60 rows cannot be split into 61 folds"]);
    one_sentence(&[], &["compare", "houses.csv", "--target", "prise"], &["no column 'prise'", "did you mean 'price'?"]);
    compare(&["--test-rows", "no.txt"], &["no.txt"]);
    compare(&["--state", "houses.csv"], &["houses.csv", "not a folder", "--state"]);
    for (text, expected) in [
        ("", "there is no split in it"),
        ("0 1\n2 x\n", "rows.txt, line 2: 'x' is no row number"),
        ("0 60\n", "rows.txt, line 1: there is no row 60; the data have rows 0 to 59"),
        ("3 4 3\n", "rows.txt, line 1: row 3 stands there twice"),
        ("-1\n", "'-1' is no row number"),
    ] {
        let args = ["compare", "houses.csv", "--target", "price", "--test-rows", "rows.txt"];
        one_sentence(&[("rows.txt", text.as_bytes())], &args, &[expected]);
    }
    let every: Vec<String> = (0..60).map(|i| i.to_string()).collect();
    let args = ["compare", "houses.csv", "--target", "price", "--test-rows", "rows.txt"];
    one_sentence(&[("rows.txt", every.join(",").as_bytes())], &args, &["line 1: no row is left to learn from"]);
}

#[test]
fn attacks_that_cannot_begin() {
    let m: &[(&str, &[u8])] = &[("m", birds())];
    refused(m, &["attack", "m", "birds.csv", "--epsilon", "0"], &["numbers above 0"]);
    refused(m, &["attack", "m", "birds.csv", "--epsilon", "0.1,x"], &["numbers above 0"]);
    refused(m, &["attack", "m", "birds.csv"], &["--epsilon"]);
    refused(m, &["attack", "m", "birds.csv", "--epsilon", "0.1", "--attack", "fsgm"], &["fgsm", "pgd"]);
    for wrong in ["0", "-1"] {
        refused(
            &[],
            &["compare", "houses.csv", "--target", "price", "--budget", wrong],
            &["number of seconds above 0"],
        );
    }
    let words: String =
        (0..12).map(|i| format!("{},{}\n", ["red", "green", "blue"][i % 3], ["a", "b"][i % 2])).collect();
    let dir = folder();
    std::fs::write(dir.path().join("w.csv"), format!("colour,kind\n{words}")).unwrap();
    succeed(
        dir.path(),
        &["fit", "w.csv", "--target", "kind", "--method", "mean-field", "--set", "epochs=1", "--out", "w.st", "-q"],
    );
    let run = run(dir.path(), &["attack", "w.st", "w.csv", "--epsilon", "0.1"]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("w.csv: no column of numbers could be changed"), "{}", run.stderr);
    assert!(!dir.path().join("adversarial.csv").exists());
}
