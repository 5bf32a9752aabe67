//! The page of a comparison: the table, every score as a picture, what it costs, and how far from the reference.

use super::Compared;
use super::table::{BY, Estimate, Row, Summary, bytes};
use crate::chart::{Chart, Series, Tone};
use crate::output::{count, number, seconds};
use crate::page::{Page, Section, TableHtml};
use posterior::score::{LEVELS, METRICS};
use std::path::Path;

pub fn page(compared: &Compared, summary: &Summary, data: &Path) -> Page {
    let plan = &compared.plan;
    let (head, rows) = summary.cells(compared);
    let best = summary.best.map_or(String::new(), |b| format!(" Best by mean rank: {b}."));
    let mut sections = vec![Section {
        heading: "Table".into(),
        text: format!(
            "Ordered by mean rank of the log-likelihood. ± is one standard error over splits; the paired difference to the best \
             method leaves out what makes a split hard for all of them.{}",
            failed(summary)
        ),
        charts: Vec::new(),
        table: Some(TableHtml { head, rows }),
    }];
    let mut shown: Vec<&str> = vec![BY];
    shown.extend(summary.shown().iter().map(|m| m.name));
    let charts = shown.iter().filter_map(|name| forest(summary, name)).collect();
    sections.push(Section {
        heading: "Scores".into(),
        text: "Dots are means over splits, lines are ± one standard error.".into(),
        charts,
        table: None,
    });
    if let Some(chart) = coverage(summary) {
        sections.push(Section {
            heading: "Do intervals hold what they promise?".into(),
            text: "Part of the test rows inside their interval, minus the interval's own probability: 0 is right, below is too sure."
                .into(),
            charts: vec![chart],
            table: None,
        });
    }
    sections.push(Section {
        heading: "What it costs".into(),
        text: "Seconds of a fit and the most memory that fit and predictions held at once.".into(),
        charts: vec![cost(summary, "time of a fit", "seconds", &|r| r.seconds, &seconds), {
            let megabytes = |r: &Row| r.memory_bytes.map(|b| b as f64 / 1e6);
            cost(summary, "memory", "megabytes", &megabytes, &|mb| bytes((mb * 1e6) as u64))
        }],
        table: None,
    });
    if let Some(reference) = plan.reference {
        let name = plan.methods[reference].name;
        let rows: Vec<&Row> = summary.rows.iter().filter(|r| r.method != name).collect();
        let of = |key: &str| {
            let values: Vec<(&Row, Estimate)> = rows.iter().filter_map(|r| Some((*r, *r.fidelity.get(key)?))).collect();
            (!values.is_empty()).then(|| spans(&key.replace('_', " "), &values))
        };
        sections.push(Section {
            heading: format!("How far from {name}"),
            text: format!(
                "Distances of each method's predictions to the reference's, on the test rows: agreement is the part of rows with the same \
                 class, total variation the most by which a probability differs, Wasserstein how far mass must be moved.\n\n{}",
                summary.reference_lines(compared).iter().map(|l| sentence(l)).collect::<Vec<_>>().join(" ")
            ),
            charts: ["agreement", "total_variation", "wasserstein"].iter().filter_map(|k| of(k)).collect(),
            table: None,
        });
    }
    Page {
        title: format!(
            "Methods compared on {}",
            data.file_name().map_or_else(|| data.display().to_string(), |n| n.to_string_lossy().into())
        ),
        lead: format!(
            "{} on {} of {}.{best}",
            count(plan.methods.len(), "method"),
            count(plan.splits.len(), "split"),
            count(plan.table.rows(), "row")
        ),
        sections,
    }
}

/// With a capital and a full stop.
fn sentence(clause: &str) -> String {
    let mut letters = clause.chars();
    let first = letters.next().map_or(String::new(), |c| c.to_uppercase().collect());
    format!("{first}{}.", letters.as_str().trim_end_matches('.'))
}

fn failed(summary: &Summary) -> String {
    let lines = summary.failures();
    if lines.is_empty() { String::new() } else { format!("\n\nNot done: {}.", lines.join("; ")) }
}

/// Means with their errors, a row for every method.
fn spans(title: &str, values: &[(&Row, Estimate)]) -> String {
    let ends = |e: &Estimate| [e.0 - e.1.unwrap_or(0.0), e.0, e.0 + e.1.unwrap_or(0.0)];
    let tip = |(r, e): &(&Row, Estimate)| match e.1 {
        Some(error) => format!("{}: {} ± {}", r.method, number(e.0), number(error)),
        None => format!("{}: {}", r.method, number(e.0)),
    };
    Chart {
        title: title.into(),
        series: vec![Series::Spans {
            label: String::new(),
            at: (0..values.len()).map(|i| i as f64).collect(),
            span: values.iter().map(|v| ends(&v.1)).collect(),
            tips: values.iter().map(tip).collect(),
            flat: true,
        }],
        rows: values.iter().map(|v| v.0.method.to_owned()).collect(),
        ..Chart::default()
    }
    .svg()
}

fn forest(summary: &Summary, name: &str) -> Option<String> {
    let values: Vec<(&Row, Estimate)> = summary.rows.iter().filter_map(|r| Some((r, *r.scores.get(name)?))).collect();
    let better = METRICS.iter().find(|m| m.name == name).and_then(|m| m.larger_is_better);
    let hint = match better {
        Some(true) => ", more is better",
        Some(false) => ", less is better",
        None => "",
    };
    (!values.is_empty()).then(|| spans(&format!("{}{hint}", name.replace('_', " ")), &values))
}

fn cost(
    summary: &Summary,
    title: &str,
    unit: &str,
    value: &dyn Fn(&Row) -> Option<f64>,
    say: &dyn Fn(f64) -> String,
) -> String {
    let rows: Vec<(&Row, f64)> = summary.rows.iter().filter_map(|r| Some((r, value(r)?))).collect();
    Chart {
        title: title.into(),
        x_label: unit.into(),
        series: vec![Series::Spans {
            label: String::new(),
            at: (0..rows.len()).map(|i| i as f64).collect(),
            span: rows.iter().map(|r| [0.0, r.1, r.1]).collect(),
            tips: rows.iter().map(|r| format!("{}: {}", r.0.method, say(r.1))).collect(),
            flat: true,
        }],
        rows: rows.iter().map(|r| r.0.method.to_owned()).collect(),
        ..Chart::default()
    }
    .svg()
}

/// Coverage minus level for the levels that are scored, a line for every method.
fn coverage(summary: &Summary) -> Option<String> {
    let levels: Vec<f64> = LEVELS.to_vec();
    let of = |r: &Row| -> Option<Vec<f64>> {
        levels.iter().map(|l| Some(r.scores.get(format!("coverage_{:.0}", 100.0 * l).as_str())?.0 - l)).collect()
    };
    let rows: Vec<(&Row, Vec<f64>)> = summary.rows.iter().filter_map(|r| Some((r, of(r)?))).collect();
    if rows.is_empty() {
        return None;
    }
    let mut series =
        vec![Series::Line { label: "right".into(), x: levels.clone(), y: vec![0.0; 4], tone: Tone::Truth }];
    for (i, (row, y)) in rows.iter().enumerate() {
        let (label, tone) =
            if i == 0 { (row.method.to_owned(), Tone::Mean) } else { ("others".to_owned(), Tone::Draw) };
        series.push(Series::Line { label, x: levels.clone(), y: y.clone(), tone });
        let tip = |(l, d): (&f64, &f64)| {
            format!("{}: {:.1} % of rows in the {:.0} % interval", row.method, 100.0 * (l + d), 100.0 * l)
        };
        series.push(Series::Tips { x: levels.clone(), tips: levels.iter().zip(y).map(tip).collect(), y: y.clone() });
    }
    Some(
        Chart {
            title: "Coverage minus level".into(),
            x_label: "probability of the interval".into(),
            y_label: "coverage − level".into(),
            series,
            ..Chart::default()
        }
        .svg(),
    )
}
