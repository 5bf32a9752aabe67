//! `posterior ood MODEL IN_DATA OUT_DATA`: is the model less certain of rows that it should not know?

use super::{data_files, how, read};
use crate::chart::{Chart, Series, Tone};
use crate::cli::{Data, Ood};
use crate::output::{check_writable, grouped, json, number, print, table};
use crate::page::{Page, Section, TableHtml};
use crate::progress::notes;
use posterior::apply::detect::{Detection, UncertaintyScore, detect, uncertainty_scores};
use posterior::artifact;
use posterior::model::Model;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Bars of a histogram.
const BINS: usize = 30;

pub fn run(args: &Ood) -> anyhow::Result<()> {
    let data = [&args.known, &args.other].into_iter().flat_map(|d| data_files(d, None));
    let inputs = data.chain([args.model.clone()]);
    args.report.as_deref().map_or(Ok(()), |out| check_writable(out, inputs))?;
    let model = artifact::load(&args.model)?;
    let known = scores_of(args, &model, &args.known)?;
    let other = scores_of(args, &model, &args.other)?;
    let found: Vec<Detection> = known.iter().zip(&other).filter_map(|(k, o)| detect(k, o)).collect();
    let same: Vec<&str> = found.iter().filter(|d| d.constant).map(|d| d.measure).collect();
    if !same.is_empty() {
        let method = model.recipe.method.name.as_deref().unwrap_or("this method");
        let what = format!(
            "under {method} every row has the same {} uncertainty, so it cannot separate the sets",
            same.join(", ")
        );
        notes(&args.common, &[what]);
    }
    if let Some(path) = &args.report {
        artifact::write_file(path, page(args, &known, &other, &found).html().as_bytes())?;
    }
    let n = (known[0].values.len(), other[0].values.len());
    if args.common.json {
        return json(&as_json(args, n, &known, &other, &found));
    }
    let rows: Vec<Vec<String>> = found.iter().map(cells).collect();
    let warned = warned(&found, n).map_or(String::new(), |w| format!("{w}\n"));
    print(&format!("{} known rows, {} others\n{}{warned}", grouped(n.0), grouped(n.1), table(HEAD, &rows)))?;
    args.report.as_ref().map_or(Ok(()), |path| print(&format!("page in {}\n", path.display())))
}

const HEAD: &[&str] = &["measure", "auroc", "aupr_out", "aupr_in", "fpr95", "tpr_at_fpr5"];

fn cells(d: &Detection) -> Vec<String> {
    // With all scores equal there is no order to measure.
    let said = |v: f64| if d.constant { String::new() } else { number(v) };
    let numbers = [d.auroc, d.aupr_out, d.aupr_in, d.fpr95, d.tpr_at_fpr5].map(said);
    [d.measure.to_owned()].into_iter().chain(numbers).collect()
}

/// How far chance alone takes an AUROC from 0.5, two standard errors (Mann & Whitney 1947): √((n₁ + n₂ + 1)/(12 n₁ n₂)).
fn by_chance((a, b): (usize, usize)) -> f64 {
    2.0 * ((a + b + 1) as f64 / (12.0 * a as f64 * b as f64)).sqrt()
}

/// Whether the model is surer of the other rows than of the known ones, beyond chance.
fn is_reversed(d: &Detection, n: (usize, usize)) -> bool {
    !d.constant && d.auroc < 0.5 - by_chance(n)
}

/// What a reader must know of scores that do not grow with uncertainty: below 0.5 they rank the wrong way round.
fn warned(found: &[Detection], n: (usize, usize)) -> Option<String> {
    let named = |which: &dyn Fn(&Detection) -> bool| {
        let all = found.iter().filter(|d| which(d)).map(|d| format!("{} (auroc {})", d.measure, number(d.auroc)));
        Some(all.collect::<Vec<_>>().join(", ")).filter(|t| !t.is_empty())
    };
    let reversed = named(&|d| is_reversed(d, n)).map(|all| {
        format!(
            "The wrong way round: the model is more certain of the others than of the known rows by {all}. \
             Do not use these measures to detect rows like the others."
        )
    });
    let chance = named(&|d| !d.constant && d.auroc < 0.5 && !is_reversed(d, n))
        .map(|all| format!("No better than chance (auroc 0.5): {all}."));
    let lines: Vec<String> = reversed.into_iter().chain(chance).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn scores_of(args: &Ood, model: &Model, path: &Path) -> anyhow::Result<Vec<UncertaintyScore>> {
    let data = Data { data: PathBuf::from(path), labels: None, text: Vec::new() };
    let encoded = model.encoder.encode(&read(&data, Some(&model.encoder))?, false)?;
    notes(&args.common, &encoded.warnings);
    let mut all: Vec<UncertaintyScore> = Vec::new();
    model.predict_blocks(&encoded.data.x, &how(model, args.draws, false, &args.common), |_, raw| {
        let next = uncertainty_scores(&model.calibrated(raw), model.likelihood().outcome());
        match all.is_empty() {
            true => all = next,
            false => all.iter_mut().zip(next).for_each(|(all, next)| all.values.extend(next.values)),
        }
        Ok(())
    })?;
    Ok(all)
}

/// Edges that both sets share, and the part of either between them.
fn histogram(known: &UncertaintyScore, other: &UncertaintyScore) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let all = || known.values.iter().chain(&other.values).copied();
    let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    let width = if high > low { (high - low) / BINS as f64 } else { 1.0 / BINS as f64 };
    let edges = (0..=BINS).map(|i| low + width * i as f64).collect();
    let parts = |d: &UncertaintyScore| {
        let mut parts = vec![0.0; BINS];
        for v in &d.values {
            parts[(((v - low) / width) as usize).min(BINS - 1)] += 1.0 / d.values.len() as f64;
        }
        parts
    };
    (edges, parts(known), parts(other))
}

fn as_json(
    args: &Ood,
    n: (usize, usize),
    known: &[UncertaintyScore],
    other: &[UncertaintyScore],
    found: &[Detection],
) -> Value {
    let rows = found.iter().zip(known.iter().zip(other)).map(|(d, (k, o))| {
        let (edges, parts_in, parts_out) = histogram(k, o);
        json!({
            "measure": d.measure,
            // With all scores equal there is no order to measure.
            "auroc": (!d.constant).then_some(d.auroc),
            "aupr_out": (!d.constant).then_some(d.aupr_out),
            "aupr_in": (!d.constant).then_some(d.aupr_in),
            "fpr95": (!d.constant).then_some(d.fpr95),
            "tpr_at_fpr5": (!d.constant).then_some(d.tpr_at_fpr5),
            "reversed": is_reversed(d, n),
            "histogram": { "edges": edges, "in": parts_in, "out": parts_out },
        })
    });
    json!({
        "n_in": n.0,
        "n_out": n.1,
        "rows": rows.collect::<Vec<_>>(),
        "report": args.report.as_ref().map(|p| p.display().to_string()),
    })
}

fn page(args: &Ood, known: &[UncertaintyScore], other: &[UncertaintyScore], found: &[Detection]) -> Page {
    let charts = known.iter().zip(other).map(|(k, o)| {
        let (edges, parts_in, parts_out) = histogram(k, o);
        let bars = |label: &str, height: Vec<f64>, tone| {
            let tips = height
                .iter()
                .zip(edges.windows(2))
                .map(|(h, e)| format!("{label}: {:.1} % from {} to {}", 100.0 * h, number(e[0]), number(e[1])));
            Series::Bars { label: label.into(), edges: edges.clone(), tips: tips.collect(), height, tone }
        };
        let unit = if k.measure == "max_probability" { "1 − largest probability" } else { "uncertainty" };
        Chart {
            title: format!("By {}", k.measure.replace('_', " ")),
            x_label: unit.into(),
            y_label: "fraction of rows".into(),
            series: vec![bars("known", parts_in, Tone::Forward), bars("others", parts_out, Tone::Truth)],
            ..Chart::default()
        }
        .svg()
    });
    let head = HEAD.iter().map(|h| (*h).to_owned()).collect();
    Page {
        title: "What the model does not know".into(),
        lead: format!(
            "{} known rows of {} against {} rows of {}, separated by how uncertain {} is of them.",
            grouped(known[0].values.len()),
            args.known.display(),
            grouped(other[0].values.len()),
            args.other.display(),
            args.model.display()
        ),
        sections: vec![
            Section {
                heading: "How well they are separated".into(),
                text: "auroc: probability that an other row is more uncertain than a known one. fpr95: fraction of the others that pass as known when \
                       95 % of the known rows pass. tpr_at_fpr5: fraction of the others found when at most 5 % of the known rows are \
                       taken for others. "
                    .to_owned()
                    + &warned(found, (known[0].values.len(), other[0].values.len())).unwrap_or_default(),
                charts: Vec::new(),
                table: Some(TableHtml { head, rows: found.iter().map(cells).collect() }),
            },
            Section {
                heading: "Uncertainty about known and other rows".into(),
                text: String::new(),
                charts: charts.collect(),
                table: None,
            },
        ],
    }
}
