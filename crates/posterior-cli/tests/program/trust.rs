//! What may be believed of the output itself: one verdict, scores that warn where they mislead, no file that steers a terminal or runs in a
//! spreadsheet, errors that machines can read.

use crate::common::{folder, run, small_model, succeed};
use crate::golden::SHORT;
use serde_json::Value;
use std::path::Path;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// z is known in six rows of thirty, all with one x: x drives y, and stays an input.
#[test]
fn dropping_rows_costs_no_column_its_place() {
    let dir = folder();
    let d = dir.path();
    let row = |i: usize| match i {
        0..6 => format!("5,{},{}\n", i % 3, i * 3),
        _ => format!("{},,{}\n", i % 4, i * 3),
    };
    std::fs::write(d.join("e.csv"), format!("x,z,y\n{}", (0..30).map(row).collect::<String>())).unwrap();
    let fit = ["fit", "e.csv", "--target", "y", "--missing", "drop", "--method", "map", "--set", "epochs=2"];
    let said = succeed(d, &[&fit[..], &["--out", "m"]].concat()).stderr;
    assert!(
        said.contains("column 'x' has one value in the 6 complete rows") && said.contains("leave out column 'z'"),
        "{said}"
    );
    let inspected = succeed(d, &["inspect", "m"]).stdout;
    assert!(inspected.contains("2: x, z"), "{inspected}");
}

/// Too short to have mixed: said at once, and in the same words by every later question.
#[test]
fn a_fit_that_fails_its_own_check_says_so_and_the_verdict_stays() {
    let dir = folder();
    let d = dir.path();
    let fit = ["fit", "houses.csv", "--target", "price", "--method", "hmc", "--network", "3", "--out", "m.st"];
    let short = ["--set", "draws=40", "--set", "warmup=40", "--set", "chains=2", "--json"];
    let fitted = succeed(d, &[&fit[..], &short].concat());
    let first = json(&fitted.stdout);
    assert_eq!(first["chains"]["trust"], "nothing");
    let sentence = first["chains"]["verdict"].as_str().unwrap();
    assert!(sentence.starts_with("Do not trust: "), "{sentence}");
    assert!(fitted.stderr.contains(&format!("this fit does not pass its own check. {sentence}")), "{}", fitted.stderr);
    for args in [&["diagnose", "m.st", "--json"][..], &["diagnose", "m.st", "houses.csv", "--json"]] {
        let later = run(d, args);
        assert_eq!(later.code, Some(1));
        let later = json(&later.stdout);
        assert_eq!((later["sentence"].as_str(), &later["trust"]), (Some(sentence), &first["chains"]["trust"]));
        assert_eq!(later["chains"]["log_density"]["r_hat"], first["chains"]["r_hat"]);
    }
}

/// Rows in the middle of the known ones: the model is surer of them, so that uncertainty ranks them the wrong way round.
#[test]
fn scores_that_rank_the_wrong_way_round_are_named() {
    let dir = folder();
    let d = dir.path();
    let line = |x: f64| format!("{x},{}\n", 2.0 * x + (7.0 * x).sin());
    let rows = |from: f64, to: f64| (0..40).map(|i| line(from + (to - from) * f64::from(i) / 39.0)).collect::<String>();
    for (name, from, to) in [("wide.csv", -4.0, 4.0), ("middle.csv", -0.5, 0.5), ("far.csv", 20.0, 30.0)] {
        std::fs::write(d.join(name), format!("x,y\n{}", rows(from, to))).unwrap();
    }
    succeed(d, &["fit", "wide.csv", "--target", "y", "--method", "linear", "--out", "m", "-q"]);
    let said = |other: &str| succeed(d, &["ood", "m", "wide.csv", other, "--report", "r.html"]).stdout;
    let wrong = said("middle.csv");
    assert!(wrong.contains("The wrong way round: ") && wrong.contains("more certain of the others"), "{wrong}");
    assert!(std::fs::read_to_string(d.join("r.html")).unwrap().contains("The wrong way round"));
    assert!(!said("far.csv").contains("wrong way"));
    let reversed =
        |other: &str| json(&succeed(d, &["ood", "m", "wide.csv", other, "--json"]).stdout)["rows"][0].clone();
    assert_eq!((&reversed("middle.csv")["reversed"], &reversed("far.csv")["reversed"]), (&true.into(), &false.into()));
    // The same rows: chance, not the wrong way round.
    assert!(!said("wide.csv").contains("wrong way"));
}

/// Whether anything in the text would steer a terminal: C0 but line breaks, DEL, C1, bidirectional controls.
fn steers(text: &str) -> bool {
    text.chars().any(|c| {
        (c.is_control() && c != '\n')
            || ('\u{202a}'..='\u{202e}').contains(&c)
            || ('\u{2066}'..='\u{2069}').contains(&c)
    })
}

const HOSTILE: &str = "\u{1b}[2Jowned\u{7}\u{9b}2J\u{202e}x";

/// A file in which every name and category is hostile.
fn hostile(d: &Path) {
    let rows: String =
        (0..30).map(|i| format!("{i},{}{HOSTILE},{}{HOSTILE}\n", ["a", "b"][i % 2], ["u", "v"][i / 3 % 2])).collect();
    std::fs::write(d.join("h.csv"), format!("n{HOSTILE},k{HOSTILE},t{HOSTILE}\n{rows}")).unwrap();
}

#[test]
fn nothing_from_a_file_steers_the_terminal() {
    let dir = folder();
    let d = dir.path();
    hostile(d);
    let target = format!("t{HOSTILE}");
    let fit = ["fit", "h.csv", "--target", &target, "--method", "mean-field", "--out", "m"];
    let long = format!("n{HOSTILE},k{HOSTILE},q{HOSTILE}\n1,z{HOSTILE},2\n");
    std::fs::write(d.join("unseen.csv"), long).unwrap();
    std::fs::write(d.join("lacks.csv"), format!("k{HOSTILE}\nx\n")).unwrap();
    std::fs::copy(d.join("h.csv"), d.join("pa\u{1b}[31mth.csv")).unwrap();
    let runs: &[&[&str]] = &[
        &[&fit[..], SHORT].concat(),
        &["inspect", "m"],
        &["inspect", "m", "--json"],
        &["evaluate", "m", "h.csv"],
        &["predict", "m", "h.csv", "--json"],
        &["predict", "m", "unseen.csv", "--json"],
        &["predict", "m", "lacks.csv"],
        &["predict", "m", "pa\u{1b}[31m.csv"],
        &["evaluate", "m", "pa\u{1b}[31mth.csv", "--report", "r\u{1b}[31m.html"],
        &["fit", "h.csv"],
        &["fit", "h.csv", "--target", "nobody\u{1b}[2J"],
        &["fit", "h.csv", "--target", &target, "--flag\u{1b}[2J"],
        &["diagnose", "m", "h.csv"],
        &["compare", "h.csv", "--target", &target, "--methods", "map", "--folds", "2", "--set", "epochs=2"],
        &["ood", "m", "h.csv", "h.csv"],
        &["attack", "m", "h.csv", "--epsilon", "0.1"],
    ];
    for args in runs {
        let run = run(d, args);
        assert!(!steers(&run.stdout) && !steers(&run.stderr), "{args:?}\n{:?}\n{:?}", run.stdout, run.stderr);
    }
    // Nothing is lost on the way to machines.
    let inspected = json(&succeed(d, &["inspect", "m", "--json"]).stdout);
    assert!(inspected.to_string().contains(&serde_json::to_string(&target).unwrap().trim_matches('"').to_owned()));
    let piped = succeed(d, &["predict", "m", "h.csv"]).stdout;
    assert!(piped.lines().next().unwrap().contains(HOSTILE), "a pipe gets the data as they are");
}

#[test]
fn csv_for_spreadsheets_holds_no_formula() {
    let dir = folder();
    let d = dir.path();
    let rows: String = (0..30).map(|i| format!("{i},{},{}\n", ["@k", "b"][i / 2 % 2], ["=1+1", "-2"][i % 2])).collect();
    std::fs::write(d.join("f.csv"), format!("=x,k,t\n{rows}")).unwrap();
    let fit =
        ["fit", "f.csv", "--target", "t", "--text", "t", "--method", "map", "--set", "epochs=2", "--out", "m", "-q"];
    succeed(d, &fit);
    let cells = |text: &str| text.lines().flat_map(|l| l.split(',')).map(str::to_owned).collect::<Vec<_>>();
    let runs = |cell: &String| cell.starts_with(['=', '+', '@']);
    let safe = succeed(d, &["predict", "m", "f.csv", "--text", "t"]);
    assert!(!cells(&safe.stdout).iter().any(runs) && safe.stdout.contains("\n'=1+1,"), "{}", safe.stdout);
    assert!(safe.stderr.contains("--raw"), "{}", safe.stderr);
    // A class that is a number is no formula.
    assert!(!safe.stdout.contains("'-2"));
    let raw = succeed(d, &["predict", "m", "f.csv", "--text", "t", "--raw"]);
    assert!(raw.stdout.contains("\n=1+1,") && raw.stderr.is_empty(), "{}", raw.stdout);
    let attack = ["attack", "m", "f.csv", "--epsilon", "0.1", "--text", "t", "--out", "a.csv", "-q"];
    succeed(d, &attack);
    let safe = std::fs::read_to_string(d.join("a.csv")).unwrap();
    assert!(safe.starts_with("'=x,k,t\n") && !cells(&safe).iter().any(runs), "{safe}");
    succeed(d, &[&attack[..], &["--raw"]].concat());
    let raw = std::fs::read_to_string(d.join("a.csv")).unwrap();
    assert!(raw.starts_with("=x,k,t\n") && raw.contains(",@k,"), "{raw}");
    succeed(d, &["evaluate", "m", "a.csv", "--text", "t"]);
}

/// Under --json standard output is one JSON document whatever happens; people read the same sentence on standard error.
#[test]
fn errors_are_json_where_json_is_asked_for() {
    let dir = folder();
    let d = dir.path();
    std::fs::write(d.join("m"), small_model("houses.csv", "price")).unwrap();
    std::fs::write(d.join("gap.csv"), "size,age,district,garden\n50,3,east,true\nwide,3,east,true\n").unwrap();
    let error = |args: &[&str]| {
        let run = run(d, args);
        assert_eq!(run.code, Some(2), "{args:?}");
        let error = json(&run.stdout)["error"].clone();
        let message = error["message"].as_str().unwrap().to_owned();
        assert_eq!(run.stderr, format!("posterior: {message}\n"), "{args:?}");
        assert!(message.lines().count() == 1 && !message.is_empty());
        error
    };
    let gap = error(&["predict", "m", "gap.csv", "--json"]);
    assert_eq!((gap["file"].as_str(), gap["line"].as_u64()), (Some("gap.csv"), Some(3)));
    assert_eq!((gap["column"].as_str(), gap["what"].as_str()), (Some("size"), Some("text 'wide' in a numeric column")));
    assert!(gap["fix"].as_str().unwrap().starts_with("correct the cell"));
    assert_eq!(error(&["predict", "nowhere", "gap.csv", "--json"])["file"], "nowhere");
    assert!(error(&["fit", "houses.csv", "--json"])["message"].as_str().unwrap().contains("--target"));
    let flag = error(&["predict", "m", "gap.csv", "--interwal", "0.5", "--json"]);
    assert_eq!(flag["fix"], "did you mean '--interval'?");
    assert_eq!(error(&["--json", "predct"])["what"], "there is no flag '--json' here");
    // Without it standard output stays empty; help is no error.
    assert_eq!(run(d, &["predict", "m", "gap.csv"]).stdout, "");
    assert!(succeed(d, &["predict", "--help", "--json"]).stdout.contains("Usage"));
}
