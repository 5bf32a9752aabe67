//! `posterior selftest`: does this machine find a posterior that is known in closed form?

use super::AnswerIsNo;
use crate::cli::Selftest;
use crate::output::{json, number, print, seconds, table};
use posterior::diagnose::{Agreement, selftest};
use serde_json::{Value, json};

pub fn run(args: &Selftest) -> anyhow::Result<()> {
    let rows = selftest(args.common.seed.unwrap_or(0))?;
    if args.common.json {
        json(&as_json(&rows))?;
    } else if !args.common.quiet {
        print(&as_text(&rows))?;
    }
    answer(&rows)
}

/// No where a method disagrees, or where there was nothing to try.
fn answer(rows: &[Agreement]) -> anyhow::Result<()> {
    if !rows.is_empty() && rows.iter().all(Agreement::agrees) { Ok(()) } else { Err(AnswerIsNo.into()) }
}

fn as_json(rows: &[Agreement]) -> Value {
    let row = |a: &Agreement| {
        json!({
            "method": a.method,
            "mean_error": a.mean_error,
            "mean_tolerance": a.mean_tolerance,
            "covariance_error": a.covariance_error,
            "covariance_tolerance": a.covariance_tolerance,
            "ess": a.ess,
            "seconds": a.seconds,
            "fault": a.fault,
            "agrees": a.agrees(),
        })
    };
    json!({ "agrees": answer(rows).is_ok(), "rows": rows.iter().map(row).collect::<Vec<_>>() })
}

fn as_text(rows: &[Agreement]) -> String {
    let row = |a: &Agreement| {
        let errors = [a.mean_error, a.mean_tolerance, a.covariance_error, a.covariance_tolerance].map(number);
        let [mean, mean_tolerance, covariance, covariance_tolerance] = errors;
        let agrees = match &a.fault {
            Some(fault) => format!("NO: {fault}"),
            None if a.agrees() => "yes".to_owned(),
            None => "NO".to_owned(),
        };
        vec![
            a.method.to_owned(),
            mean,
            mean_tolerance,
            covariance,
            covariance_tolerance,
            format!("{:.0}", a.ess),
            seconds(a.seconds),
            agrees,
        ]
    };
    let cells: Vec<_> = rows.iter().map(row).collect();
    let head = ["method", "means off by", "may be", "covariances off by", "may be", "draws worth", "time", "agrees"];
    let verdict = match answer(rows) {
        Ok(()) => "Every method agrees with the exact posterior.",
        Err(_) => "NOT every method agrees with the exact posterior: do not use this build on this machine.",
    };
    format!(
        "A linear model whose posterior is known in closed form; errors in its standard deviations.\n{}\n{verdict}\n",
        table(&head, &cells)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agreement(mean_error: f64) -> Agreement {
        Agreement {
            method: "hmc",
            mean_error,
            mean_tolerance: 0.1,
            covariance_error: 0.05,
            covariance_tolerance: 0.2,
            ess: 1000.0,
            seconds: 0.1,
            fault: None,
        }
    }

    /// The program ends with 1, which [`AnswerIsNo`] stands for.
    #[test]
    fn a_planted_disagreement_is_a_no() {
        let is_no = |rows: &[Agreement]| answer(rows).is_err_and(|e| e.downcast_ref::<AnswerIsNo>().is_some());
        assert!(!is_no(&[agreement(0.05), agreement(0.1)]));
        for wrong in [0.11, f64::NAN, f64::INFINITY] {
            let rows = [agreement(0.05), agreement(wrong)];
            assert!(is_no(&rows) && as_text(&rows).contains("NOT") && as_json(&rows)["agrees"] == false);
        }
        let failed = Agreement { fault: Some("it broke".into()), ..agreement(0.0) };
        assert!(as_text(std::slice::from_ref(&failed)).contains("NO: it broke") && is_no(&[failed]));
        assert!(is_no(&[]));
    }
}
