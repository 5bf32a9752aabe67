//! `posterior calibrate MODEL DATA`: a temperature and conformal quantiles from rows that the fit has not seen, kept in the model file.

use super::{data_files, how, read};
use crate::cli::Calibrate;
use crate::output::{check_writable, facts, grouped, json, number, print};
use crate::progress::notes;
use posterior::apply::calibrate::{Calibration, HOTTEST};
use posterior::artifact;
use posterior::likelihood::Outcome;
use posterior::score::{Scored, find};
use serde_json::json;

/// Levels that are shown.
const LEVELS: [f64; 3] = [0.8, 0.9, 0.95];

pub fn run(args: &Calibrate) -> anyhow::Result<()> {
    let out = args.out.as_ref().unwrap_or(&args.model);
    let mut model = artifact::load(&args.model)?;
    // The model may be replaced: a calibrated one is the same model with more in it.
    check_writable(out, data_files(&args.data.data, args.data.labels.as_ref()))?;
    let data = read(&args.data, Some(&model.encoder))?;
    let encoded = model.encoder.encode(&data, true)?;
    notes(&args.common, &encoded.warnings);
    let predictive = model.fitted.predict(&encoded.data.x, &how(&model, args.draws, false, &args.common))?;
    let y = model.encoder.decode_target(&encoded.data.y);
    let outcome = model.likelihood().outcome();
    let calibration = Calibration::fit(&predictive, &y, outcome)?;
    let thresholds: Vec<(f64, Option<f64>)> = LEVELS.iter().map(|l| (*l, calibration.threshold(*l))).collect();
    let temperature = calibration.temperature;
    // What the temperature does to the rows it was fitted to.
    let scores = temperature.map(|t| {
        let of = |p: &posterior::predict::Predictive| {
            let scored = Scored::new(p, &y, outcome);
            ["log_likelihood", "ece"].map(|name| find(name).and_then(|m| m.score(&scored)).unwrap_or(f64::NAN))
        };
        (of(&predictive), of(&predictive.clone().tempered(t)))
    });
    if let Some(t) = temperature.filter(|t| *t <= 1.0001 / HOTTEST || *t >= 0.9999 * HOTTEST) {
        let what =
            format!("the temperature {} is at its limit: these rows are too few or too easy to tell it", number(t));
        notes(&args.common, &[what]);
    }
    let highest = calibration.highest_level();
    model.calibration = Some(calibration);
    artifact::save(&model, out)?;
    if args.common.json {
        let thresholds: serde_json::Map<String, serde_json::Value> =
            thresholds.iter().map(|(l, t)| (l.to_string(), json!(t))).collect();
        return json(&json!({
            "model": out.display().to_string(),
            "n": encoded.data.rows,
            "temperature": temperature,
            "log_likelihood_before": scores.map(|s| s.0[0]),
            "log_likelihood_after": scores.map(|s| s.1[0]),
            "ece_before": scores.map(|s| s.0[1]),
            "ece_after": scores.map(|s| s.1[1]),
            "highest_level": highest,
            "conformal_thresholds": thresholds,
        }));
    }
    if args.common.quiet {
        return Ok(());
    }
    let mut rows = vec![("held back", format!("{} rows", grouped(encoded.data.rows)))];
    if let (Some(t), Some((before, after))) = (temperature, scores) {
        let change = |i: usize| format!("{} → {}", number(before[i]), number(after[i]));
        rows.push(("temperature", number(t)));
        rows.push(("on these rows", format!("log-likelihood {}, calibration error {}", change(0), change(1))));
    }
    let what = if outcome == Outcome::Class { "1 − probability up to" } else { "standard deviations" };
    let levels = thresholds.iter().map(|(level, t)| match t {
        Some(t) => format!("{} % {}", number(100.0 * level), number(*t)),
        None => format!("{} % needs more rows", number(100.0 * level)),
    });
    rows.push(("conformal", format!("{what}: {}", levels.collect::<Vec<_>>().join(", "))));
    rows.push(("guarantee", format!("levels up to {}, for rows from where these came from", number(highest))));
    rows.push(("model", out.display().to_string()));
    print(&facts(&rows))
}
