//! The page of an evaluation: the scores, and pictures of calibration, predictions, uncertainty, training and risk.

use super::evaluate::{SEVERAL, cells, target_table};
use super::how;
use crate::chart::{Chart, Series, Tone};
use crate::cli::Evaluate;
use crate::output::{count, number};
use crate::page::{Page, Section, TableHtml};
use posterior::data::{Column, FeatureKind, Inputs, Table, Target};
use posterior::model::Model;
use posterior::score::{LEVELS, Rated, Scored, pit_histogram, reliability, risk_coverage_curve};

/// Rows that are drawn one by one at most; more are picked evenly.
const ROWS: usize = 300;
/// Points of a curve.
const POINTS: usize = 100;

pub fn page(
    args: &Evaluate,
    model: &Model,
    table: &Table,
    scored: &Scored,
    rated: &[Rated],
    targets: &[(String, Vec<Rated>)],
) -> Page {
    let head = ["score", "value", "± std error", "what it is"].map(str::to_owned).into();
    let mut sections = vec![Section {
        heading: "Scores".into(),
        text: "Standard errors come from drawing the rows anew 200 times; the fit is held.".into(),
        charts: Vec::new(),
        table: Some(TableHtml { head, rows: rated.iter().map(cells).collect() }),
    }];
    if !targets.is_empty() {
        let (head, rows) = target_table(targets);
        sections.push(Section {
            heading: "Every target".into(),
            text: SEVERAL.into(),
            charts: Vec::new(),
            table: Some(TableHtml { head, rows }),
        });
    }
    let mut add = |heading: &str, text: &str, charts: Vec<Option<String>>| {
        let charts: Vec<String> = charts.into_iter().flatten().collect();
        if !charts.is_empty() {
            sections.push(Section { heading: heading.into(), text: text.into(), charts, table: None });
        }
    };
    add(
        "Is it as often right as it says?",
        "Calibrated predictions lie on the dashed line.",
        vec![reliability_chart(scored), pit_chart(scored), coverage_chart(scored)],
    );
    add(
        "Predictions",
        "The interval holds 90 % of the predictive distribution.",
        predictions(args, model, table, scored),
    );
    add(
        "What it does not know",
        "Rows from the surest to the least sure. Aleatoric uncertainty is noise that more data would not cure; epistemic uncertainty is \
         what they would. Whoever answers only the surest rows makes fewer mistakes, if the model knows when it is wrong.",
        vec![decomposition(scored), risk_chart(scored)],
    );
    add("Training", "How the fit went, epoch by epoch.", vec![training(model)]);
    let method = model.recipe.method.name.as_deref().unwrap_or_default();
    Page {
        title: format!(
            "How good is {}?",
            args.model.file_name().map_or_else(String::new, |n| n.to_string_lossy().into())
        ),
        lead: format!(
            "{method}, {}, fitted to {}; judged on {} of {}.",
            model.fitted.describe(),
            count(model.rows, "row"),
            count(scored.rows(), "row"),
            args.data.data.display()
        ),
        sections,
    }
}

fn line(label: &str, points: &[(f64, f64)], tone: Tone) -> Series {
    let (x, y) = points.iter().copied().unzip();
    Series::Line { label: label.into(), x, y, tone }
}

/// A curve that tells its values when pointed at.
fn told(label: &str, points: &[(f64, f64)], tone: Tone, tip: impl Fn(f64, f64) -> String) -> [Series; 2] {
    let (x, y) = points.iter().copied().unzip();
    [line(label, points, tone), Series::Tips { x, y, tips: points.iter().map(|p| tip(p.0, p.1)).collect() }]
}

const DIAGONAL: [(f64, f64); 2] = [(0.0, 0.0), (1.0, 1.0)];

fn reliability_chart(scored: &Scored) -> Option<String> {
    let bins = reliability(scored)?;
    let n = bins.len();
    let tip = |(i, b): (usize, &posterior::score::Bin)| match b.rows {
        0 => format!(
            "no row between {:.0} % and {:.0} %",
            100.0 * i as f64 / n as f64,
            100.0 * (i + 1) as f64 / n as f64
        ),
        _ => format!("{}: {:.1} % sure, {:.1} % right", count(b.rows, "row"), 100.0 * b.confidence, 100.0 * b.accuracy),
    };
    let bars = Series::Bars {
        label: "accuracy".into(),
        edges: (0..=n).map(|i| i as f64 / n as f64).collect(),
        height: bins.iter().map(|b| b.accuracy).collect(),
        tips: bins.iter().enumerate().map(tip).collect(),
        tone: Tone::Forward,
    };
    let means: Vec<(f64, f64)> = bins.iter().filter(|b| b.rows > 0).map(|b| (b.confidence, b.accuracy)).collect();
    let (x, y) = means.into_iter().unzip();
    let points = Series::Points { label: "mean of a bin".into(), x, y };
    let chart = Chart {
        title: "Reliability".into(),
        x_label: "confidence: probability of the most probable class".into(),
        y_label: "accuracy".into(),
        series: vec![bars, line("calibrated", &DIAGONAL, Tone::Truth), points],
        x_range: Some((0.0, 1.0)),
        y_range: Some((0.0, 1.0)),
        ..Chart::default()
    };
    Some(chart.svg())
}

fn pit_chart(scored: &Scored) -> Option<String> {
    const BINS: usize = 20;
    let parts = pit_histogram(scored, BINS)?;
    let tip = |(i, p): (usize, &f64)| {
        format!("{:.1} % of rows from {:.2} to {:.2}", 100.0 * p, i as f64 / 20.0, (i + 1) as f64 / 20.0)
    };
    let bars = Series::Bars {
        label: "rows".into(),
        edges: (0..=BINS).map(|i| i as f64 / BINS as f64).collect(),
        tips: parts.iter().enumerate().map(tip).collect(),
        height: parts,
        tone: Tone::Forward,
    };
    let level = 1.0 / BINS as f64;
    let chart = Chart {
        title: "Where outcomes lie in their distributions (PIT)".into(),
        x_label: "P(y ≤ the observed outcome)".into(),
        y_label: "fraction of rows".into(),
        series: vec![bars, line("calibrated", &[(0.0, level), (1.0, level)], Tone::Truth)],
        x_range: Some((0.0, 1.0)),
        ..Chart::default()
    };
    Some(chart.svg())
}

fn coverage_chart(scored: &Scored) -> Option<String> {
    scored.real.as_ref()?;
    // A row is inside the central interval of probability p where |2F(y) − 1| ≤ p; a count's F is taken in the middle of its step.
    let mut need: Vec<f64> = (0..scored.y.len()).map(|n| scored.pit(n)).map(|(a, b)| (a + b - 1.0).abs()).collect();
    need.sort_by(f64::total_cmp);
    let part = |p: f64| need.partition_point(|v| *v <= p) as f64 / need.len() as f64;
    let points: Vec<(f64, f64)> = (0..=40).map(|i| i as f64 / 40.0).map(|p| (p, part(p))).collect();
    let mut series = vec![line("calibrated", &DIAGONAL, Tone::Truth)];
    series.extend(told("coverage", &points, Tone::Mean, |p, c| {
        format!("{:.1} % of rows in the {:.1} % interval", 100.0 * c, 100.0 * p)
    }));
    let chart = Chart {
        title: "Coverage of intervals".into(),
        x_label: "probability of the interval".into(),
        y_label: "fraction of rows inside".into(),
        series,
        x_range: Some((0.0, 1.0)),
        y_range: Some((0.0, 1.0)),
        ..Chart::default()
    };
    Some(chart.svg())
}

/// Rows that are drawn, in the order given.
fn picked(n: usize) -> impl Iterator<Item = usize> + Clone {
    let every = n.div_ceil(ROWS).max(1);
    (0..n).step_by(every)
}

/// Of every target.
fn predictions(args: &Evaluate, model: &Model, table: &Table, scored: &Scored) -> Vec<Option<String>> {
    let of = |(t, target): (usize, &Target)| {
        let several = scored.targets() > 1;
        let (own, name) = (several.then(|| scored.of_target(t)), several.then_some(target.name.as_str()));
        let scored = own.as_ref().unwrap_or(scored);
        [bands(args, model, table, scored, t, &target.name), against_truth(scored, name)]
    };
    model.encoder.targets().enumerate().flat_map(of).collect()
}

fn against_truth(scored: &Scored, target: Option<&str>) -> Option<String> {
    let real = scored.real.as_ref()?;
    let level = LEVELS.iter().position(|l| *l == 0.9)?;
    let rows = picked(scored.y.len());
    let tip = |n: usize| {
        let (low, high) = scored.interval(n, level);
        format!("true {}, predicted {}, {} to {}", number(scored.y[n]), number(real.mean[n]), number(low), number(high))
    };
    let ends = scored.y.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |e, y| (e.0.min(*y), e.1.max(*y)));
    let spans = Series::Spans {
        label: "prediction with its 90 % interval".into(),
        at: rows.clone().map(|n| scored.y[n]).collect(),
        span: rows.clone().map(|n| (n, scored.interval(n, level))).map(|(n, b)| [b.0, real.mean[n], b.1]).collect(),
        tips: rows.map(tip).collect(),
        flat: false,
    };
    let chart = Chart {
        title: target.map_or("Predicted against true".to_owned(), |name| format!("{name}: predicted against true")),
        x_label: "the observed outcome".into(),
        y_label: "predicted".into(),
        series: vec![spans, line("the same", &[(ends.0, ends.0), (ends.1, ends.1)], Tone::Truth)],
        ..Chart::default()
    };
    Some(chart.svg())
}

/// Predictive bands over the input, if there is one column of numbers and nothing else.
fn bands(args: &Evaluate, model: &Model, table: &Table, scored: &Scored, target: usize, name: &str) -> Option<String> {
    scored.real.as_ref()?;
    let Inputs::Columns(features) = &model.encoder.inputs else { return None };
    let [feature] = &features[..] else { return None };
    let FeatureKind::Standard(_) = feature.kind else { return None };
    let Some(Column::Number(x)) = table.get(&feature.name) else { return None };
    if x.len() != scored.y.len() || x.iter().any(|v| v.is_nan()) {
        return None;
    }
    let (low, high) = x.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |e, v| (e.0.min(*v), e.1.max(*v)));
    let margin = 0.1 * (high - low);
    let grid: Vec<f64> = (0..=200).map(|i| low - margin + (high - low + 2.0 * margin) * f64::from(i) / 200.0).collect();
    let asked = Table::from_columns(vec![(feature.name.clone(), Column::Number(grid.clone()))]).ok()?;
    let rows = model.encoder.encode(&asked, false).ok()?;
    let predictive = model.predict(&rows.data.x, &how(model, args.draws, args.moments, &args.common)).ok()?;
    let targets = model.likelihood().targets();
    let own = |all: Vec<f64>| -> Vec<f64> { all.into_iter().skip(target).step_by(targets).collect() };
    let real = predictive.real();
    let bounds: Vec<f64> =
        predictive.quantiles(&[0.05, 0.95]).chunks(2).skip(target).step_by(targets).flatten().copied().collect();
    let epistemic: Vec<f64> = (0..grid.len()).map(|i| real.std(i * targets + target).1).collect();
    let mean = own(real.mean);
    let band = |label: &str, lower: Vec<f64>, upper: Vec<f64>, tone| Series::Band {
        label: label.into(),
        x: grid.clone(),
        lower,
        upper,
        tone,
    };
    let shifted = |sign: f64| mean.iter().zip(&epistemic).map(|(m, e)| m + sign * 1.645 * e).collect();
    let points: Vec<(f64, f64)> = grid.iter().copied().zip(mean.iter().copied()).collect();
    let mut series = vec![
        band(
            "90 % interval",
            bounds.iter().step_by(2).copied().collect(),
            bounds.iter().skip(1).step_by(2).copied().collect(),
            Tone::Total,
        ),
        band("of it epistemic", shifted(-1.0), shifted(1.0), Tone::Epistemic),
    ];
    series.extend(told("predictive mean", &points, Tone::Mean, |x, y| format!("{} at {}", number(y), number(x))));
    let rows = picked(x.len());
    series.push(Series::Points {
        label: "rows".into(),
        x: rows.clone().map(|n| x[n]).collect(),
        y: rows.map(|n| scored.y[n]).collect(),
    });
    let chart = Chart {
        title: format!("{name} by {}", feature.name),
        x_label: feature.name.clone(),
        y_label: name.to_owned(),
        series,
        ..Chart::default()
    };
    Some(chart.svg())
}

fn decomposition(scored: &Scored) -> Option<String> {
    let rows: Vec<(f64, f64)> = match (&scored.real, &scored.classes) {
        (Some(r), _) => (0..scored.y.len())
            .map(|n| (scored.unit(n).powi(2), r.aleatoric[n], r.epistemic[n]))
            .map(|(unit, a, e)| (a / unit, e / unit))
            .collect(),
        (_, Some(c)) => (0..scored.y.len()).map(|n| (c.aleatoric[n], c.mutual_information(n))).collect(),
        _ => return None,
    };
    let mut rows = rows;
    rows.sort_by(|a, b| (a.0 + a.1).total_cmp(&(b.0 + b.1)));
    let n = rows.len();
    let every = n.div_ceil(POINTS).max(1);
    let groups: Vec<(f64, f64, f64)> = rows
        .chunks(every)
        .enumerate()
        .map(|(i, g)| {
            let mean = |f: &dyn Fn(&(f64, f64)) -> f64| g.iter().map(f).sum::<f64>() / g.len() as f64;
            let x = (i * every) as f64 + 0.5 * g.len() as f64;
            (x / n as f64, mean(&|r| r.0), mean(&|r| r.1))
        })
        .collect();
    let x: Vec<f64> = groups.iter().map(|g| g.0).collect();
    let aleatoric: Vec<f64> = groups.iter().map(|g| g.1).collect();
    let total: Vec<f64> = groups.iter().map(|g| g.1 + g.2).collect();
    let tip = |g: &(f64, f64, f64)| {
        format!("{:.0} % of rows are surer: aleatoric {}, epistemic {}", 100.0 * g.0, number(g.1), number(g.2))
    };
    let unit = match (&scored.real, scored.targets()) {
        (Some(_), 1) => "variance",
        (Some(_), _) => "variance, in that of the target",
        (None, _) => "entropy in nats",
    };
    let chart = Chart {
        title: format!("Uncertainty in two parts: {unit}"),
        x_label: "fraction of rows, most certain first".into(),
        y_label: unit.into(),
        series: vec![
            Series::Band {
                label: "aleatoric".into(),
                x: x.clone(),
                lower: vec![0.0; x.len()],
                upper: aleatoric.clone(),
                tone: Tone::Total,
            },
            Series::Band {
                label: "epistemic".into(),
                x: x.clone(),
                lower: aleatoric,
                upper: total.clone(),
                tone: Tone::Epistemic,
            },
            Series::Tips { tips: groups.iter().map(tip).collect(), x, y: total },
        ],
        ..Chart::default()
    };
    Some(chart.svg())
}

fn risk_chart(scored: &Scored) -> Option<String> {
    let curve = risk_coverage_curve(scored, POINTS)?;
    let most = curve.iter().map(|c| c.1).fold(0.0, f64::max);
    let (what, as_text): (&str, fn(f64) -> String) = match scored.real {
        Some(_) => ("mean absolute error", number),
        None => ("fraction wrong", |v| format!("{:.1} %", 100.0 * v)),
    };
    let tip = |c: f64, r: f64| format!("surest {:.0} %: {what} {}", 100.0 * c, as_text(r));
    let chart = Chart {
        title: "Risk against coverage".into(),
        x_label: "fraction of rows answered, most certain first".into(),
        y_label: what.into(),
        series: told("", &curve, Tone::Mean, tip).into(),
        x_range: Some((0.0, 1.0)),
        y_range: Some((0.0, if most > 0.0 { 1.05 * most } else { 1.0 })),
        ..Chart::default()
    };
    Some(chart.svg())
}

fn training(model: &Model) -> Option<String> {
    let trace = &model.summary.trace;
    if trace.len() < 2 {
        return None;
    }
    let points = |value: &dyn Fn(&posterior::inference::EpochRecord) -> f64| -> Vec<(f64, f64)> {
        trace.iter().map(|e| (e.epoch as f64, value(e))).filter(|p| p.1.is_finite()).collect()
    };
    let (objective, likelihood) = (points(&|e| e.objective), points(&|e| -e.nll));
    // The first epochs are far below the rest; the axis is for the rest.
    let mut values: Vec<f64> = objective.iter().chain(&likelihood).map(|p| p.1).collect();
    values.sort_by(f64::total_cmp);
    let (low, high) = (*values.get(values.len() / 50)?, *values.last()?);
    let mut series: Vec<Series> = Vec::new();
    series.extend(told("objective", &objective, Tone::Mean, |x, y| format!("epoch {x:.0}: objective {}", number(y))));
    series.extend(told("log-likelihood", &likelihood, Tone::Draw, |x, y| {
        format!("epoch {x:.0}: log-likelihood {}", number(y))
    }));
    let chart = Chart {
        title: "Objective by epoch".into(),
        x_label: "epoch".into(),
        y_label: "nats".into(),
        series,
        y_range: (high > low).then_some((low - 0.05 * (high - low), high + 0.05 * (high - low))),
        ..Chart::default()
    };
    Some(chart.svg())
}
