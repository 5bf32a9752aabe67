//! `posterior demo`: data with a gap, one network that does not know what it does not know and one that does.

use crate::chart::{Chart, Series, Tone};
use crate::cli::Demo;
use crate::output::{check_writable, json, number, print, seconds, table};
use crate::page::{Page, Section, TableHtml};
use crate::progress::Terminal;
use posterior::artifact::write_file;
use posterior::data::{Column, EncodeOptions, Table};
use posterior::model::{Choice, Model, Recipe};
use posterior::nn::{Activation, NetworkSpec};
use posterior::rng::{Key, Purpose, Stream};
use posterior::score::{METRICS, Scored};
use posterior::settings::Value;
use serde_json::json;
use std::path::Path;

/// Standard deviation of the noise in the made-up data.
const NOISE: f64 = 0.1;
/// Inputs are drawn from here; between the two there is a gap.
const CLUSTERS: [(f64, f64); 2] = [(-2.0, -0.7), (0.7, 2.0)];
const ROWS: usize = 400;
const DRAWS: usize = 500;

fn truth(x: f64) -> f64 {
    (2.0 * x).sin() + 0.5 * x
}

/// Rows in the two clusters.
fn rows(key: Key, n: usize) -> (Vec<f64>, Vec<f64>) {
    let mut stream = Stream::new(key.purpose(Purpose::Data));
    (0..n)
        .map(|i| {
            let (from, to) = CLUSTERS[i % 2];
            let x = from + (to - from) * stream.uniform();
            (x, truth(x) + NOISE * stream.normal())
        })
        .unzip()
}

fn to_table(x: &[f64], y: &[f64]) -> posterior::Result<Table> {
    Table::from_columns(vec![("x".into(), Column::Number(x.to_vec())), ("y".into(), Column::Number(y.to_vec()))])
}

/// One method's fit, what it predicts on the grid, and its scores.
struct Shown {
    method: &'static str,
    seconds: f64,
    mean: Vec<f64>,
    epistemic: Vec<f64>,
    total: Vec<f64>,
    scores: Vec<(&'static str, f64)>,
}

fn fit(args: &Demo, method: &'static str, train: &Table, test: &Table, grid: &Table) -> anyhow::Result<Shown> {
    let mut choice = Choice::named(method)
        .with("epochs", Value::Int(5000))
        .with("batch_size", Value::Int(ROWS as i64))
        .with("learning_rate", Value::Float(0.01));
    if method == "mean-field" {
        choice = choice.with("samples", Value::Int(4));
    }
    let recipe = Recipe {
        network: NetworkSpec::parse("30,30,30", Activation::Relu)?,
        // Wider than usual: the function bends sharply, and mean-field falls back to the prior where it can.
        prior: Choice::named("normal").with("weight_std", Value::Float(4.0)).with("bias_std", Value::Float(4.0)),
        method: choice,
        ..Recipe::default()
    };
    let options = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
    let mut terminal = Terminal::new(&args.common, &format!("fitting {method:<10}"));
    let model = Model::fit(&recipe, train, &options, args.common.seed.unwrap_or(0), &mut terminal)?;
    terminal.done();
    let real = model.predict(&model.encoder.encode(grid, false)?.data.x, &model.how(DRAWS))?.real();
    let std: Vec<_> = (0..real.mean.len()).map(|i| real.std(i)).collect();
    let encoded = model.encoder.encode(test, true)?;
    let predictive = model.predict(&encoded.data.x, &model.how(DRAWS))?;
    let y = model.encoder.decode_target(&encoded.data.y);
    let scored = Scored::new(&predictive, &y, model.likelihood().outcome());
    Ok(Shown {
        method,
        seconds: model.summary.seconds,
        mean: real.mean.clone(),
        epistemic: std.iter().map(|s| s.1).collect(),
        total: std.iter().map(|s| s.0).collect(),
        scores: METRICS.iter().filter(|m| m.short).filter_map(|m| m.score(&scored).map(|v| (m.name, v))).collect(),
    })
}

pub fn run(args: &Demo) -> anyhow::Result<()> {
    let out = args.out.as_deref().unwrap_or(Path::new("report.html"));
    check_writable(out, [])?;
    let key = Key::new(args.common.seed.unwrap_or(0));
    let ((x, y), (test_x, test_y)) = (rows(key.step(0), ROWS), rows(key.step(1), 1000));
    let grid: Vec<f64> = (0..=200).map(|i| -4.0 + 0.04 * f64::from(i)).collect();
    let (train, test) = (to_table(&x, &y)?, to_table(&test_x, &test_y)?);
    let grid_table = to_table(&grid, &vec![0.0; grid.len()])?;
    let shown = ["map", "mean-field"].map(|m| fit(args, m, &train, &test, &grid_table));
    let shown = shown.into_iter().collect::<anyhow::Result<Vec<_>>>()?;

    let places = [("on the data", -1.35), ("in the gap", 0.0), ("outside", 3.5)];
    let at = |v: &[f64], x0: f64| {
        let nearest = (0..grid.len()).min_by(|a, b| (grid[*a] - x0).abs().total_cmp(&(grid[*b] - x0).abs()));
        nearest.map_or(f64::NAN, |i| v[i])
    };
    write_file(out, page(&shown, &x, &y, &grid, &places, &at).html().as_bytes())?;
    if args.common.json {
        let rows: Vec<_> = shown
            .iter()
            .map(|s| {
                let places: serde_json::Map<_, _> =
                    places.iter().map(|(n, x0)| (format!("std_epistemic {n}"), json!(at(&s.epistemic, *x0)))).collect();
                let scores: serde_json::Map<_, _> = s.scores.iter().map(|(n, v)| ((*n).to_owned(), json!(v))).collect();
                json!({ "method": s.method, "seconds": s.seconds, "scores": scores, "places": places })
            })
            .collect();
        return json(&json!({ "rows": rows, "report": out.display().to_string() }));
    }
    if args.common.quiet {
        return Ok(());
    }
    let (head, cells) = cells(&shown, &places, &at);
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    print(&format!(
        "{ROWS} rows of y = sin 2x + x/2 + noise, with a gap in the middle. Network 30,30,30 relu.\n\n{}\n\
         How sure is it? MAP cannot say; mean-field is narrow on the data, wide in the gap and outside.\n\
         Picture: {}\n\nNext, your own file:  posterior fit DATA.csv --target COLUMN\n",
        table(&head, &cells),
        out.display()
    ))
}

type Places<'a> = [(&'a str, f64); 3];

fn cells(shown: &[Shown], places: &Places<'_>, at: &dyn Fn(&[f64], f64) -> f64) -> (Vec<String>, Vec<Vec<String>>) {
    let mut head: Vec<String> = vec!["method".into()];
    head.extend(shown[0].scores.iter().map(|(name, _)| (*name).to_owned()));
    head.extend(places.iter().map(|(name, _)| format!("std {name}")));
    head.push("time".into());
    let rows = shown
        .iter()
        .map(|s| {
            let mut row = vec![s.method.to_owned()];
            row.extend(s.scores.iter().map(|(_, v)| number(*v)));
            row.extend(places.iter().map(|(_, x0)| number(at(&s.epistemic, *x0))));
            row.push(seconds(s.seconds));
            row
        })
        .collect();
    (head, rows)
}

fn page(
    shown: &[Shown],
    x: &[f64],
    y: &[f64],
    grid: &[f64],
    places: &Places<'_>,
    at: &dyn Fn(&[f64], f64) -> f64,
) -> Page {
    let band = |s: &Shown, label: &str, std: &[f64], tone| Series::Band {
        label: label.into(),
        x: grid.to_vec(),
        lower: s.mean.iter().zip(std).map(|(m, d)| m - 2.0 * d).collect(),
        upper: s.mean.iter().zip(std).map(|(m, d)| m + 2.0 * d).collect(),
        tone,
    };
    let charts = shown
        .iter()
        .map(|s| {
            let line = |label: &str, y: Vec<f64>, tone| Series::Line { label: label.into(), x: grid.to_vec(), y, tone };
            Chart {
                title: s.method.to_owned(),
                x_label: "x".into(),
                y_label: "y".into(),
                y_range: Some((-4.5, 4.5)),
                series: vec![
                    band(s, "total, ±2 std", &s.total, Tone::Total),
                    band(s, "epistemic, ±2 std", &s.epistemic, Tone::Epistemic),
                    line("truth", grid.iter().map(|x| truth(*x)).collect(), Tone::Truth),
                    line("predictive mean", s.mean.clone(), Tone::Mean),
                    Series::Points { label: "data".into(), x: x.to_vec(), y: y.to_vec() },
                ],
                ..Chart::default()
            }
            .svg()
        })
        .collect();
    let (head, rows) = cells(shown, places, at);
    Page {
        title: "What the network knows, and what it does not".into(),
        lead: format!(
            "{ROWS} rows of y = sin 2x + x/2 with noise of standard deviation {NOISE}, and none between {} and {}. The same \
             network, 30,30,30 relu, fitted twice: to one best set of weights, and to a distribution over weights.",
            CLUSTERS[0].1, CLUSTERS[1].0
        ),
        sections: vec![
            Section {
                heading: "Predictions".into(),
                text: "The inner band is epistemic: what more data would cure. The outer band adds the noise, which they \
                       would not. One set of weights has no inner band: it is as sure in the gap as on the data."
                    .into(),
                charts,
                table: None,
            },
            Section {
                heading: "Figures".into(),
                text: "Scores on 1000 new rows from where the data are, and the epistemic standard deviation at three places."
                    .into(),
                charts: Vec::new(),
                table: Some(TableHtml { head, rows }),
            },
        ],
    }
}
