//! Commands that act on a model: decide, query, suggest, update, from files to JSON.

use crate::common::{folder, run, succeed};
use serde_json::Value;
use std::path::Path;

fn json(dir: &Path, args: &[&str]) -> Value {
    let out = succeed(dir, &[args, &["--json", "--quiet", "--seed", "1"]].concat());
    assert_eq!(out.stderr, "");
    serde_json::from_str(&out.stdout).unwrap()
}

fn fails(dir: &Path, args: &[&str], said: &str) {
    let out = run(dir, args);
    assert_ne!(out.code, Some(0), "{args:?}");
    assert!(out.stderr.contains(said) && out.stderr.trim().lines().count() == 1, "{args:?}: {}", out.stderr);
}

fn birds(d: &Path) {
    let fit = ["fit", "birds.csv", "--target", "species", "--method", "mean-field", "--network", "8", "--out", "m.st"];
    succeed(d, &[&fit[..], &["--set", "epochs=30", "-q", "--seed", "1"]].concat());
}

fn classes(d: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(d.join("birds.csv")).unwrap();
    let mut all: Vec<String> = text.lines().skip(1).filter_map(|l| l.rsplit(',').next().map(str::to_owned)).collect();
    all.sort();
    all.dedup();
    all
}

/// 1 for a wrong name, nothing for the right one, `ask` for asking.
fn costs(d: &Path, ask: f64) {
    let names = classes(d);
    let mut text = format!("action,{}\n", names.join(","));
    for a in &names {
        let row: Vec<&str> = names.iter().map(|c| if a == c { "0" } else { "1" }).collect();
        text += &format!("{a},{}\n", row.join(","));
    }
    text += &format!("ask,{}\n", vec![ask.to_string(); names.len()].join(","));
    std::fs::write(d.join("costs.csv"), text).unwrap();
}

/// Equal costs are Chow's rule: ask where no class is more probable than 1 − the price.
#[test]
fn decide_is_chows_rule_for_equal_costs() {
    let dir = folder();
    let d = dir.path();
    birds(d);
    costs(d, 0.3);
    let decided = json(d, &["decide", "m.st", "birds.csv", "--costs", "costs.csv", "--draws", "50"]);
    let predicted = json(d, &["predict", "m.st", "birds.csv", "--draws", "50"]);
    let (rows, names) = (decided["rows"].as_array().unwrap(), classes(d));
    let mut asked = 0;
    for (d, p) in rows.iter().zip(predicted["rows"].as_array().unwrap()) {
        let probability = |c: &String| p[format!("p_{c}")].as_f64().unwrap();
        let best = names.iter().max_by(|a, b| probability(a).total_cmp(&probability(b))).unwrap();
        let most = probability(best);
        let expected = if most >= 0.7 { best.as_str() } else { "ask" };
        assert!(d["action"] == expected || (most - 0.7).abs() < 1e-6, "{d} {p}");
        // Both come from the same draws; JSON of predictions has twelve digits.
        assert!((d["expected_cost"].as_f64().unwrap() - (1.0 - most).min(0.3)).abs() < 1e-6, "{d} {p}");
        assert!(d["saved_by_data"].as_f64().unwrap() <= d["saved_by_label"].as_f64().unwrap());
        asked += usize::from(d["action"] == "ask");
    }
    assert_eq!(decided["summary"]["actions"]["ask"], asked);
    assert!(decided["summary"]["realised"]["most_probable"].is_number());
    let csv = succeed(d, &["decide", "m.st", "birds.csv", "--costs", "costs.csv", "-q"]).stdout;
    assert!(csv.starts_with("action,expected_cost,saved_by_label,saved_by_data\n"));
    assert_eq!(csv.lines().count(), rows.len() + 1);
    let sure = json(d, &["decide", "m.st", "birds.csv", "--costs", "costs.csv", "--guarantee", "0.2"]);
    assert!(sure["summary"]["realised"]["cost_of_acting"].is_number(), "{}", sure["summary"]);
    fails(d, &["decide", "m.st", "birds.csv", "--loss", "squared"], "does not suit classes");
    std::fs::write(d.join("wrong.csv"), "action,finch\nfinch,0\n").unwrap();
    fails(d, &["decide", "m.st", "birds.csv", "--costs", "wrong.csv"], "no column for the class");
    std::fs::write(d.join("wrong.csv"), format!("action,{}\n", classes(d).join(",")) + "x,,,\n").unwrap();
    fails(d, &["decide", "m.st", "birds.csv", "--costs", "wrong.csv"], "wrong.csv");
}

#[test]
fn query_ranks_rows() {
    let dir = folder();
    let d = dir.path();
    birds(d);
    let top =
        json(d, &["query", "m.st", "birds.csv", "--n", "5", "--score", "bald", "--batch", "top", "--draws", "50"]);
    let scores: Vec<f64> = top["rows"].as_array().unwrap().iter().map(|r| r["score"].as_f64().unwrap()).collect();
    assert!(scores.len() == 5 && scores.windows(2).all(|w| w[0] >= w[1]));
    let joint = ["query", "m.st", "birds.csv", "--n", "5", "--score", "bald", "--batch", "batchbald", "--draws", "50"];
    assert_eq!(json(d, &joint)["rows"][0], top["rows"][0]);
    let by_chance = ["query", "m.st", "birds.csv", "--n", "5", "--for", "birds.csv", "--draws", "50"];
    assert_eq!(json(d, &by_chance), json(d, &by_chance), "the seed decides");
    assert_eq!(json(d, &by_chance)["score"], "epig");
    fails(d, &["query", "m.st", "houses.csv"], "houses.csv");
    fails(d, &["query", "m.st", "birds.csv", "--score", "bald", "--for", "birds.csv"], "only --score epig");
}

/// The CSV is the state: results are added, and what comes next is near the optimum.
#[test]
fn suggest_finds_the_best_of_a_parabola() {
    let dir = folder();
    let d = dir.path();
    let f = |x: f64, kind: &str| 3.0 - (x - 0.7).powi(2) - if kind == "a" { 0.5 } else { 0.0 };
    let mut text = "x,kind,y\n".to_owned();
    for (x, kind) in [(0.0, "a"), (0.5, "b"), (1.0, "a"), (0.25, "b")] {
        text += &format!("{x},{kind},{}\n", f(x, kind));
    }
    std::fs::write(d.join("space.toml"), "[x]\nlow = 0.0\nhigh = 1.0\n[kind]\nvalues = [\"a\", \"b\"]\n").unwrap();
    let args = ["suggest", "state.csv", "--target", "y", "--goal", "max", "--space", "space.toml"];
    for _ in 0..8 {
        std::fs::write(d.join("state.csv"), &text).unwrap();
        let next = json(d, &args);
        let row = &next["rows"][0];
        assert!(row["row"].is_null() && row["std"].as_f64().unwrap() >= 0.0, "{next}");
        let (x, kind) = (row["inputs"]["x"].as_f64().unwrap(), row["inputs"]["kind"].as_str().unwrap());
        text += &format!("{x},{kind},{}\n", f(x, kind));
    }
    std::fs::write(d.join("state.csv"), &text).unwrap();
    let end = json(d, &args);
    assert!(end["best"]["value"].as_f64().unwrap() > 2.999, "{end}");
    assert_eq!(end["stop"]["stop"], true, "{end}");
    assert!(succeed(d, &args).stdout.contains("you may stop"));
    // Pending rows, pools, and several at once.
    std::fs::write(d.join("state.csv"), text.clone() + "0.3,b,\n").unwrap();
    assert_eq!(json(d, &args)["pending"], 1);
    std::fs::write(d.join("pool.csv"), "x,kind\n0.1,a\n0.69,b\n0.5,b\n0.9,b\n").unwrap();
    let pool = ["suggest", "state.csv", "--target", "y", "--goal", "max", "--pool", "pool.csv", "--n", "3"];
    let chosen = json(d, &pool);
    let rows: Vec<u64> = chosen["rows"].as_array().unwrap().iter().map(|r| r["row"].as_u64().unwrap()).collect();
    assert_eq!((rows.len(), rows[0], rows.contains(&2)), (3, 1, false), "row 2 was tried: {chosen}");
    std::fs::write(d.join("none.csv"), "x,y\n1,\n2,\n").unwrap();
    fails(d, &["suggest", "none.csv", "--target", "y", "--goal", "max"], "no row of none.csv has a value");
    std::fs::write(d.join("narrow.toml"), "[x]\nlow = 0.4\nhigh = 1.0\n[kind]\nvalues = [\"a\", \"b\"]\n").unwrap();
    fails(
        d,
        &["suggest", "state.csv", "--target", "y", "--goal", "max", "--space", "narrow.toml"],
        "outside of the range of 'x'",
    );
    std::fs::write(d.join("pool.csv"), "z\n0.1\n").unwrap();
    fails(d, &pool, "'x'");
}

#[test]
fn update_goes_on_and_an_empty_file_changes_nothing() {
    let dir = folder();
    let d = dir.path();
    let text = std::fs::read_to_string(d.join("houses.csv")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    std::fs::write(d.join("first.csv"), lines[..31].join("\n")).unwrap();
    std::fs::write(d.join("second.csv"), [&lines[..1], &lines[31..]].concat().join("\n")).unwrap();
    std::fs::write(d.join("empty.csv"), format!("{}\n", lines[0])).unwrap();
    succeed(d, &["fit", "first.csv", "--target", "price", "--method", "linear", "--out", "m.st", "-q"]);
    succeed(d, &["update", "m.st", "empty.csv", "--out", "same.st", "-q"]);
    assert_eq!(std::fs::read(d.join("m.st")).unwrap(), std::fs::read(d.join("same.st")).unwrap());
    let done = json(d, &["update", "m.st", "second.csv", "--out", "next.st"]);
    assert_eq!(done["rows"].as_u64().unwrap() + 30, done["rows_in_all"].as_u64().unwrap());
    assert!(done["log_predictive"].is_number() && done["surprise"]["p_value"].as_f64().unwrap() > 0.0, "{done}");
    let sum = json(d, &["inspect", "m.st"])["log_evidence"].as_f64();
    if let Some(before) = sum {
        let after = done["log_evidence"].as_f64().unwrap();
        assert!((before + done["log_predictive"].as_f64().unwrap() - after).abs() < 1e-6 * after.abs());
    }
    succeed(d, &["predict", "next.st", "houses.csv", "-q"]);
    fails(d, &["update", "m.st", "birds.csv"], "birds.csv");
    succeed(d, &["fit", "first.csv", "--target", "price", "--method", "map", "--network", "4", "--out", "p.st", "-q"]);
    fails(d, &["update", "p.st", "second.csv", "-q"], "cannot be the next prior");
}
