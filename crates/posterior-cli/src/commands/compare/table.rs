//! The table of a comparison: means over splits, paired differences to the best, ranks, costs, and what failed.

use super::Compared;
use super::cell::{Done, Judged, Outcome};
use crate::cli::Compare;
use crate::output::{count, number, seconds, table};
use posterior::score::{METRICS, Metric, find, mean_and_error, mean_ranks, paired};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Methods are ranked by this.
pub const BY: &str = "log_likelihood";
/// Scores shown beside it, where the outcome has them.
const SHOWN: [&str; 6] = ["rmse", "crps", "coverage_90", "accuracy", "brier", "ece"];
/// Distances to the reference.
const FIDELITY: [&str; 3] = ["agreement", "total_variation", "wasserstein"];

/// Mean and standard error.
pub type Estimate = (f64, Option<f64>);

/// A method's row.
pub struct Row {
    pub method: &'static str,
    pub done: usize,
    pub rank: Option<f64>,
    /// Every score by name.
    pub scores: BTreeMap<&'static str, Estimate>,
    /// Score minus the best method's, over the splits both have.
    pub differences: BTreeMap<&'static str, Estimate>,
    pub fidelity: BTreeMap<&'static str, Estimate>,
    pub seconds: Option<f64>,
    pub predict_seconds: Option<f64>,
    pub memory_bytes: Option<u64>,
    pub model_bytes: Option<u64>,
    /// Split and reason.
    pub failures: Vec<(usize, String)>,
}

/// All rows, best first.
pub struct Summary {
    pub rows: Vec<Row>,
    pub best: Option<&'static str>,
    /// The reference's own diagnosis, split by split.
    pub judged: Vec<(usize, Judged)>,
}

impl Summary {
    pub fn of(compared: &Compared) -> Summary {
        let (plan, cells) = (&compared.plan, &compared.cells);
        let score = |m: usize, name: &str| -> Vec<Option<f64>> {
            cells[m].iter().map(|c| done(c).and_then(|d| d.scores.get(name).copied())).collect()
        };
        let by: Vec<Vec<Option<f64>>> = (0..cells.len()).map(|m| score(m, BY)).collect();
        let ranks = mean_ranks(&by, true);
        let order = best_first(&by);
        let best = order.first().copied().filter(|m| by[*m].iter().any(Option::is_some));
        let row = |m: usize| {
            let finished: Vec<&Done> = cells[m].iter().filter_map(done).collect();
            let over =
                |value: &dyn Fn(&Done) -> f64| mean_and_error(&finished.iter().map(|d| value(d)).collect::<Vec<_>>());
            let estimate = |name: &'static str, values: Vec<Option<f64>>| {
                Some((name, mean_and_error(&values.into_iter().flatten().collect::<Vec<_>>())?))
            };
            let distance =
                |name: &str| cells[m].iter().map(|c| done(c).and_then(|d| d.fidelity.get(name).copied())).collect();
            let failure = |(split, c): (usize, &Outcome)| match c {
                Outcome::Failed(why) | Outcome::TooLarge(why) => Some((split, why.clone())),
                Outcome::OutOfTime => Some((split, "not done within the budget".to_owned())),
                Outcome::Done(_) => None,
            };
            Row {
                method: plan.methods[m].name,
                done: finished.len(),
                rank: ranks[m],
                scores: METRICS.iter().filter_map(|k| estimate(k.name, score(m, k.name))).collect(),
                differences: METRICS
                    .iter()
                    .filter_map(|k| Some((k.name, paired(&score(m, k.name), &score(best?, k.name))?)))
                    .collect(),
                fidelity: FIDELITY.iter().filter_map(|name| estimate(name, distance(name))).collect(),
                seconds: over(&|d| d.seconds).map(|e| e.0),
                predict_seconds: over(&|d| d.predict_seconds).map(|e| e.0),
                memory_bytes: finished.iter().map(|d| d.memory_bytes).max(),
                model_bytes: finished.iter().map(|d| d.model_bytes).max(),
                failures: cells[m].iter().enumerate().filter_map(failure).collect(),
            }
        };
        let of_reference = plan.reference.map_or(&[][..], |r| &cells[r]);
        let judged = of_reference.iter().enumerate().filter_map(|(s, c)| Some((s, done(c)?.judged.clone()?)));
        Summary {
            rows: order.into_iter().map(row).collect(),
            best: best.map(|m| plan.methods[m].name),
            judged: judged.collect(),
        }
    }

    /// Whether the others may be measured by the reference: a sentence for every reason why not, or one that says they may.
    pub fn reference_lines(&self, compared: &Compared) -> Vec<String> {
        let Some(name) = compared.plan.reference.map(|r| compared.plan.methods[r].name) else { return Vec::new() };
        let doubted = self.judged.iter().filter(|(_, j)| !j.trusted).map(|(s, j)| (*s, j.sentence.as_str()));
        let lines = by_reason(doubted)
            .into_iter()
            .map(|(sentence, splits)| format!("distances to {name} on {splits} are not to be relied on. {sentence}"));
        let lines: Vec<String> = lines.collect();
        match (lines.is_empty(), self.judged.len()) {
            (true, 0) => Vec::new(),
            (true, n) => vec![format!("the predictions of {name} can be trusted on {}", count(n, "split"))],
            _ => lines,
        }
    }

    /// The scores that some method has, in the order they are shown.
    pub fn shown(&self) -> Vec<&'static Metric> {
        let has = |name: &&str| self.rows.iter().any(|r| r.scores.contains_key(*name));
        SHOWN.iter().filter(|n| has(n)).filter_map(|n| find(n)).collect()
    }

    /// Names and cells, for people.
    pub fn cells(&self, compared: &Compared) -> (Vec<String>, Vec<Vec<String>>) {
        let (shown, splits) = (self.shown(), compared.plan.splits.len());
        let reference = compared.plan.reference.is_some();
        let fidelity: Vec<&str> = FIDELITY
            .iter()
            .copied()
            .filter(|n| reference && self.rows.iter().any(|r| r.fidelity.contains_key(n)))
            .collect();
        let mut head: Vec<String> = ["method", BY, "to the best, paired"].map(str::to_owned).into();
        head.extend(shown.iter().map(|m| m.name.to_owned()));
        head.extend(fidelity.iter().map(|n| format!("{} to reference", n.replace('_', " "))));
        head.extend(["rank", "time", "memory", "splits"].map(str::to_owned));
        let row = |r: &Row| {
            let mut cells = vec![r.method.to_owned(), r.scores.get(BY).map_or(String::new(), plus_minus)];
            cells.push(match r.differences.get(BY) {
                Some(_) if Some(r.method) == self.best => "best".to_owned(),
                Some(d) => plus_minus(d),
                None => String::new(),
            });
            cells.extend(shown.iter().map(|m| r.scores.get(m.name).map_or(String::new(), plus_minus)));
            cells.extend(fidelity.iter().map(|n| r.fidelity.get(n).map_or(String::new(), |e| number(e.0))));
            cells.push(r.rank.map_or(String::new(), |v| format!("{v:.2}")));
            cells.push(r.seconds.map_or(String::new(), seconds));
            cells.push(r.memory_bytes.map_or(String::new(), bytes));
            cells.push(format!("{}/{splits}", r.done));
            cells
        };
        (head, self.rows.iter().map(row).collect())
    }

    /// Method and reason with the splits it stopped, each reason once.
    pub fn failures(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for row in &self.rows {
            for (why, splits) in by_reason(row.failures.iter().map(|(split, why)| (*split, why.as_str()))) {
                lines.push(format!("{}, {splits}: {why}", row.method));
            }
        }
        lines
    }

    pub fn as_text(&self, args: &Compare, compared: &Compared) -> String {
        let (head, rows) = self.cells(compared);
        let head: Vec<&str> = head.iter().map(String::as_str).collect();
        let plan = &compared.plan;
        let mut out = format!(
            "{}, {}, best mean {BY} first, ± is one standard error over splits\n",
            count(plan.table.rows(), "row"),
            count(plan.splits.len(), "split")
        );
        out += &table(&head, &rows);
        for line in self.failures() {
            out += &format!("not done: {line}\n");
        }
        for line in self.reference_lines(compared) {
            out += &format!("reference: {line}\n");
        }
        if let Some(path) = &args.report {
            out += &format!("page in {}\n", path.display());
        }
        out
    }

    pub fn as_json(&self, args: &Compare, compared: &Compared) -> Value {
        let plan = &compared.plan;
        let pick = |all: &BTreeMap<&'static str, Estimate>, value: &dyn Fn(&Estimate) -> Value| {
            Value::Object(all.iter().map(|(k, e)| ((*k).to_owned(), value(e))).collect())
        };
        let row = |r: &Row| {
            let mut object: Map<String, Value> = Map::new();
            object.insert("method".into(), json!(r.method));
            object.insert("rank".into(), json!(r.rank));
            object.insert("splits_done".into(), json!(r.done));
            object.extend(r.scores.iter().map(|(k, e)| ((*k).to_owned(), json!(e.0))));
            object.insert("standard_errors".into(), pick(&r.scores, &|e| json!(e.1)));
            object.insert("differences_to_best".into(), pick(&r.differences, &|e| json!(e.0)));
            object.insert("paired_standard_errors".into(), pick(&r.differences, &|e| json!(e.1)));
            if plan.reference.is_some() {
                object.extend(FIDELITY.iter().map(|n| ((*n).to_owned(), json!(r.fidelity.get(n).map(|e| e.0)))));
            }
            object.insert("seconds".into(), json!(r.seconds));
            object.insert("predict_seconds".into(), json!(r.predict_seconds));
            object.insert("memory_bytes".into(), json!(r.memory_bytes));
            object.insert("model_bytes".into(), json!(r.model_bytes));
            let failure = |(split, why): &(usize, String)| json!({ "split": split, "why": why });
            object.insert("failures".into(), r.failures.iter().map(failure).collect());
            Value::Object(object)
        };
        json!({
            "n": plan.table.rows(),
            "splits": plan.splits.len(),
            "test_rows": plan.splits.iter().map(|s| s.validation.len()).collect::<Vec<_>>(),
            "ranked_by": BY,
            "best": self.best,
            "reference": plan.reference.map(|r| plan.methods[r].name),
            "reference_trusted": plan.reference.map(|_| !self.judged.is_empty() && self.judged.iter().all(|(_, j)| j.trusted)),
            "reference_verdicts": self
                .judged
                .iter()
                .map(|(s, j)| json!({ "split": s, "trusted": j.trusted, "sentence": j.sentence }))
                .collect::<Vec<_>>(),
            "fits_taken_from_state": compared.taken,
            "state": args.state.display().to_string(),
            "report": args.report.as_ref().map(|p| p.display().to_string()),
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }
}

/// Methods by the mean of the score that is shown, best first. Those that lack splits another has come after those that lack none: their
/// mean is over other rows.
fn best_first(by: &[Vec<Option<f64>>]) -> Vec<usize> {
    let scores = |m: usize| by[m].iter().flatten().copied().collect::<Vec<f64>>();
    let mean = |m: usize| mean_and_error(&scores(m)).map_or(f64::NEG_INFINITY, |e| e.0);
    let most = (0..by.len()).map(|m| scores(m).len()).max().unwrap_or(0);
    let mut order: Vec<usize> = (0..by.len()).collect();
    order.sort_by(|a, b| {
        let lacks = |m: usize| scores(m).len() < most;
        lacks(*a).cmp(&lacks(*b)).then(mean(*b).total_cmp(&mean(*a)))
    });
    order
}

/// Reasons, each once, with the splits it holds for.
fn by_reason<'a>(all: impl Iterator<Item = (usize, &'a str)>) -> Vec<(&'a str, String)> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for (split, why) in all {
        match reasons.iter_mut().find(|(w, _)| *w == why) {
            Some((_, splits)) => splits.push(split.to_string()),
            None => reasons.push((why, vec![split.to_string()])),
        }
    }
    let said = |splits: Vec<String>| format!("split{} {}", if splits.len() == 1 { "" } else { "s" }, splits.join(", "));
    reasons.into_iter().map(|(why, splits)| (why, said(splits))).collect()
}

fn done(outcome: &Outcome) -> Option<&Done> {
    match outcome {
        Outcome::Done(done) => Some(done),
        _ => None,
    }
}

/// A number and its standard error, rounded to what the error leaves known.
pub fn plus_minus(e: &Estimate) -> String {
    match e.1 {
        Some(error) if error > 0.0 && error.is_finite() => {
            let places = (1 - error.log10().floor() as i32).clamp(0, 6) as usize;
            format!("{:.places$} ± {error:.places$}", e.0)
        }
        _ => number(e.0),
    }
}

/// 1.5 MB
pub fn bytes(n: u64) -> String {
    match n as f64 {
        b if b < 1e6 => format!("{:.0} kB", b / 1e3),
        b if b < 1e9 => format!("{:.1} MB", b / 1e6),
        b => format!("{:.1} GB", b / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A method that wins most splits by little and loses one by much is not the best by its mean, which is what the table shows.
    #[test]
    fn the_best_is_best_by_the_score_that_is_shown() {
        let steady = vec![Some(-1.0), Some(-1.0), Some(-1.0)];
        let wins_twice = vec![Some(-0.9), Some(-0.9), Some(-5.0)];
        let lacks_the_hard_one = vec![Some(-0.5), None, Some(-0.5)];
        assert_eq!(best_first(&[wins_twice, lacks_the_hard_one, steady, vec![None; 3]]), [2, 0, 1, 3]);
    }

    #[test]
    fn errors_decide_the_digits() {
        assert_eq!(plus_minus(&(-2.51234, Some(0.0417))), "-2.512 ± 0.042");
        assert_eq!(plus_minus(&(1234.5, Some(37.0))), "1234 ± 37");
        assert_eq!((plus_minus(&(0.5, None)), plus_minus(&(0.5, Some(0.0)))), ("0.5000".into(), "0.5000".into()));
        assert_eq!((bytes(1500), bytes(2_340_000)), ("2 kB".into(), "2.3 MB".into()));
    }
}
