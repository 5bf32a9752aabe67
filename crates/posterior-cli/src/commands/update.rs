//! `posterior update MODEL NEW_DATA`: the old posterior is the prior of the new rows.

use super::{data_files, read};
use crate::cli::Update;
use crate::output::{check_writable, count, facts, json, number, print};
use crate::progress::{Terminal, notes};
use posterior::artifact;
use posterior::decide::{Updated, update};
use serde_json::json;
use std::path::Path;

pub fn run(args: &Update) -> anyhow::Result<()> {
    let out = args.out.as_ref().unwrap_or(&args.model);
    check_writable(out, data_files(&args.data.data, args.data.labels.as_ref()))?;
    let model = artifact::load(&args.model)?;
    let calibrated = model.calibration.is_some();
    let done = if has_no_rows(&args.data.data) {
        notes(&args.common, &["there is no new row, so the model stays what it is".to_owned()]);
        Updated { model, rows: 0, log_predictive: None, surprise: None }
    } else {
        let table = read(&args.data, Some(&model.encoder))?;
        let mut terminal = Terminal::new(&args.common, "updating");
        let done = update(&model, &table, args.common.seed.unwrap_or(model.seed), &mut terminal)?;
        terminal.done();
        done
    };
    if done.rows > 0 {
        if calibrated {
            notes(
                &args.common,
                &["the calibration belonged to the old posterior and is gone; calibrate again".to_owned()],
            );
        }
        artifact::save(&done.model, out)?;
    } else if out != &args.model {
        artifact::write_file(out, &std::fs::read(&args.model)?)?;
    }
    let look = done.surprise.map(|s| if s.is_surprising() { "do not look" } else { "look" });
    if args.common.json {
        let surprise = done.surprise.map(|s| {
            json!({
                "p_value": s.p_value, "surprising": s.is_surprising(), "log_likelihood": s.log_likelihood,
                "expected_log_likelihood": s.expected, "rows": s.rows,
            })
        });
        return json(&json!({
            "model": out.display().to_string(), "rows": done.rows, "rows_in_all": done.model.rows,
            "log_predictive": done.log_predictive, "log_evidence": done.model.fitted.log_evidence(), "surprise": surprise,
        }));
    }
    let mut lines = vec![("rows", format!("{} new, {} in all", count(done.rows, "row"), done.model.rows))];
    if let (Some(s), Some(look)) = (done.surprise, look) {
        lines.push((
            "surprise",
            format!(
                "the new rows {look} like the old ones: p = {:.3}, log-likelihood {} a row where {} was expected",
                s.p_value,
                number(s.log_likelihood),
                number(s.expected)
            ),
        ));
    }
    if let Some(v) = done.log_predictive {
        lines.push(("log p(new | old)", format!("{} of standardised targets; the update is exact", number(v))));
    }
    lines.push(("model", out.display().to_string()));
    if args.common.quiet { Ok(()) } else { print(&facts(&lines)) }
}

/// A text file with nothing below its header.
fn has_no_rows(path: &Path) -> bool {
    let small = std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() < 1 << 20);
    let text = if small { std::fs::read_to_string(path).ok() } else { None };
    text.is_some_and(|t| t.lines().filter(|l| !l.trim().is_empty()).count() <= 1)
}
