//! `posterior demo hmc`: a function known at three places, sampled where it is not; Hamiltonian Monte Carlo beside mean-field.

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
use posterior::settings::Value;
use serde_json::json;
use std::path::Path;

/// Standard deviation of the noise in the made-up data.
const NOISE: f64 = 0.05;
/// Inputs are drawn from here.
const CLUSTERS: [(f64, f64); 3] = [(-2.6, -1.6), (-0.4, 0.4), (1.7, 2.4)];
const ROWS: usize = 60;
/// Half the width of the interval that should hold the truth, in standard deviations: 95 %.
const WIDTH: f64 = 1.96;
/// Functions drawn in the picture.
const FUNCTIONS: usize = 12;

fn truth(x: f64) -> f64 {
    0.8 * (1.7 * x).sin() + 0.15 * x * x
}

fn is_known(x: f64) -> bool {
    CLUSTERS.iter().any(|(from, to)| (*from..=*to).contains(&x))
}

/// One method's fit, and what it says on the grid.
struct Shown {
    method: &'static str,
    seconds: f64,
    mean: Vec<f64>,
    epistemic: Vec<f64>,
    functions: Vec<Vec<f64>>,
}

impl Shown {
    /// The part of the grid, where there are data or where there are none, whose truth is inside the interval; and the mean width of it.
    fn covers(&self, grid: &[f64], known: bool) -> (f64, f64) {
        let places: Vec<usize> = (0..grid.len()).filter(|i| is_known(grid[*i]) == known).collect();
        let inside = |i: &&usize| (self.mean[**i] - truth(grid[**i])).abs() <= WIDTH * self.epistemic[**i];
        let width = places.iter().map(|i| 2.0 * WIDTH * self.epistemic[*i]).sum::<f64>();
        (places.iter().filter(inside).count() as f64 / places.len() as f64, width / places.len() as f64)
    }
}

fn fit(args: &Demo, method: Choice, name: &'static str, train: &Table, grid: &Table) -> anyhow::Result<Shown> {
    let recipe = Recipe {
        network: NetworkSpec::parse("20,20", Activation::Tanh)?,
        prior: Choice::named("normal").with("weight_std", Value::Float(2.0)).with("bias_std", Value::Float(2.0)),
        method,
        ..Recipe::default()
    };
    let options = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
    let mut terminal = Terminal::new(&args.common, &format!("fitting {name:<10}"));
    let model = Model::fit(&recipe, train, &options, args.common.seed.unwrap_or(0), &mut terminal)?;
    terminal.done();
    let predictive = model.predict(&model.encoder.encode(grid, false)?.data.x, &model.how(400))?;
    let real = predictive.real();
    let every = predictive.draws() / FUNCTIONS;
    Ok(Shown {
        method: name,
        seconds: model.summary.seconds,
        epistemic: (0..real.mean.len()).map(|i| real.std(i).1).collect(),
        functions: (0..FUNCTIONS).map(|k| predictive.draw_mean(k * every)).collect(),
        mean: real.mean,
    })
}

pub fn run(args: &Demo) -> anyhow::Result<()> {
    let out = args.out.as_deref().unwrap_or(Path::new("hmc.html"));
    check_writable(out, [])?;
    let mut stream = Stream::new(Key::new(args.common.seed.unwrap_or(0)).purpose(Purpose::Data));
    let (x, y): (Vec<f64>, Vec<f64>) = (0..ROWS)
        .map(|i| {
            let (from, to) = CLUSTERS[i % CLUSTERS.len()];
            let x = from + (to - from) * stream.uniform();
            (x, truth(x) + NOISE * stream.normal())
        })
        .unzip();
    let columns = |x: &[f64], y: &[f64]| {
        Table::from_columns(vec![("x".into(), Column::Number(x.to_vec())), ("y".into(), Column::Number(y.to_vec()))])
    };
    let grid: Vec<f64> = (0..=160).map(|i| -3.2 + 0.04 * f64::from(i)).collect();
    let (train, grid_table) = (columns(&x, &y)?, columns(&grid, &vec![0.0; grid.len()])?);
    let mean_field = Choice::named("mean-field").with("samples", Value::Int(4)).with("epochs", Value::Int(20_000));
    let hmc = Choice::named("hmc").with("draws", Value::Int(250)).with("warmup", Value::Int(300));
    let shown =
        [fit(args, mean_field, "mean-field", &train, &grid_table)?, fit(args, hmc, "hmc", &train, &grid_table)?];
    write_file(out, page(&shown, &x, &y, &grid).html().as_bytes())?;
    if args.common.json {
        let rows: Vec<_> = shown
            .iter()
            .map(|s| {
                let ((known, known_width), (unknown, unknown_width)) = (s.covers(&grid, true), s.covers(&grid, false));
                json!({
                    "method": s.method, "seconds": s.seconds, "covered_on_data": known, "covered_elsewhere": unknown,
                    "width_on_data": known_width, "width_elsewhere": unknown_width,
                })
            })
            .collect();
        return json(&json!({ "rows": rows, "report": out.display().to_string() }));
    }
    if args.common.quiet {
        return Ok(());
    }
    let (head, cells) = cells(&shown, &grid);
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    print(&format!(
        "{ROWS} rows of a smooth function, at three places. Network 20,20 tanh.\n\n{}\n\
         Covered: the part of the x axis where the truth lies inside the 95 % interval of f.\nPicture: {}\n",
        table(&head, &cells),
        out.display()
    ))
}

fn cells(shown: &[Shown], grid: &[f64]) -> (Vec<String>, Vec<Vec<String>>) {
    let head = ["method", "covered on the data", "covered elsewhere", "width on the data", "width elsewhere", "time"];
    let rows = shown.iter().map(|s| {
        let ((known, known_width), (unknown, unknown_width)) = (s.covers(grid, true), s.covers(grid, false));
        let numbers = [known, unknown, known_width, unknown_width].map(number);
        [s.method.to_owned()].into_iter().chain(numbers).chain([seconds(s.seconds)]).collect()
    });
    (head.map(str::to_owned).to_vec(), rows.collect())
}

fn page(shown: &[Shown], x: &[f64], y: &[f64], grid: &[f64]) -> Page {
    let line =
        |label: &str, y: &[f64], tone| Series::Line { label: label.into(), x: grid.to_vec(), y: y.to_vec(), tone };
    let chart = |title: String, mut series: Vec<Series>| {
        let truth: Vec<f64> = grid.iter().map(|x| truth(*x)).collect();
        series.push(line("truth", &truth, Tone::Truth));
        series.push(Series::Points { label: "data".into(), x: x.to_vec(), y: y.to_vec() });
        Chart {
            title,
            x_label: "x".into(),
            y_label: "y".into(),
            y_range: Some((-3.5, 4.5)),
            series,
            ..Chart::default()
        }
        .svg()
    };
    let band = |s: &Shown| {
        let edge = |sign: f64| s.mean.iter().zip(&s.epistemic).map(|(m, d)| m + sign * WIDTH * d).collect();
        let label = "epistemic, 95 %".into();
        Series::Band { label, x: grid.to_vec(), lower: edge(-1.0), upper: edge(1.0), tone: Tone::Epistemic }
    };
    let bands =
        shown.iter().map(|s| chart(s.method.to_owned(), vec![band(s), line("predictive mean", &s.mean, Tone::Mean)]));
    let functions = shown.iter().map(|s| {
        let lines = s.functions.iter().map(|f| line("a draw", f, Tone::Mean)).collect();
        chart(format!("{}: {FUNCTIONS} draws", s.method), lines)
    });
    let (head, rows) = cells(shown, grid);
    Page {
        title: "What is between the data".into(),
        lead: format!(
            "{ROWS} rows of a smooth function with noise of standard deviation {NOISE}, from three places. The same network, 20,20 tanh, \
             under a mean-field Gaussian and under draws of Hamiltonian Monte Carlo, which come from the posterior itself."
        ),
        sections: vec![
            Section {
                heading: "Between and beyond".into(),
                text: "Where there are data all networks agree. Elsewhere a posterior has to leave room for whatever the truth may be: the \
                       band of mean-field, whose weights know nothing of one another, is not the posterior's."
                    .into(),
                charts: bands.collect(),
                table: None,
            },
            Section {
                heading: "Draws".into(),
                text: "A draw is a whole function.".into(),
                charts: functions.collect(),
                table: Some(TableHtml { head, rows }),
            },
        ],
    }
}
