//! `posterior gradients DATA --target COL`: how noisy each estimator of the ELBO's gradient is on the user's problem.

use super::{encode_options, read, recipe};
use crate::cli::Gradients;
use crate::output::{count, grouped, json, number, print, seconds, table};
use crate::progress::{Terminal, notes};
use posterior::data::{Batches, Encoder};
use posterior::inference::{GradientVariance, check_memory, gradient_variances};
use posterior::rng::{Key, Purpose};
use posterior::settings::Value;
use serde_json::json;

/// Steps of the fit that gives q, unless the user sets epochs.
const STEPS: usize = 2000;

pub fn run(args: &Gradients) -> anyhow::Result<()> {
    let mut recipe = recipe::from_flags(&args.recipe, Some("mean-field"))?;
    let file = read(&args.data, None)?;
    let fitted = Encoder::fit(&file, &encode_options(&args.target, &file)?)?;
    notes(&args.common, &fitted.warnings);
    let data = fitted.encoder.encode(&file, true)?.data;
    let rows = data.rows;
    let given = |key: &str| recipe.method.settings.get(key).cloned();
    let batch = match given("batch_size") {
        Some(Value::Int(n)) if n > 0 => (n as usize).min(rows),
        _ => rows.min(128),
    };
    if given("epochs").is_none() {
        recipe.method = recipe.method.with("epochs", Value::Int((STEPS * batch).div_ceil(rows) as i64));
    }
    let resolved = recipe.resolve(&fitted.encoder)?;
    let method = resolved.method()?;
    let problem = resolved.problem(data)?;
    let key = Key::new(args.common.seed.unwrap_or(0));
    let mut terminal = Terminal::new(&args.common, "fitting q");
    check_memory(&*method, &problem)?;
    let fit = method.fit(&problem, key, &mut terminal)?;
    terminal.done();
    let Some((mean, std)) = fit.posterior.diagonal() else {
        anyhow::bail!("the fit gave no mean-field Gaussian; leave the method out of the settings")
    };
    let batch_rows = Batches::new(rows, batch, key.purpose(Purpose::Batches)).next().to_vec();
    let mut terminal = Terminal::new(&args.common, "measuring");
    let (repeats, key) = (args.repeats as usize, key.purpose(Purpose::Estimate));
    let found = gradient_variances(&problem, mean, std, &batch_rows, repeats, key, &mut terminal)?;
    terminal.done();
    if args.common.json {
        let rows: Vec<_> = found
            .iter()
            .map(|g| json!({"estimator": g.estimator, "variance": g.variance, "seconds": g.seconds, "draws": g.draws}))
            .collect();
        return json(&json!({"rows": rows, "repeats": args.repeats, "batch_size": batch}));
    }
    let head = format!(
        "variance of the ELBO's gradient at one q: {} of {} rows, {} repeats, the same cost for all\n",
        grouped(batch),
        grouped(rows),
        grouped(repeats)
    );
    print(&(head + &as_table(&found)))
}

fn as_table(found: &[GradientVariance]) -> String {
    let best = found.iter().map(|g| g.variance).fold(f64::INFINITY, f64::min);
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|g| {
            let times = if best > 0.0 { format!("{}×", number(g.variance / best)) } else { String::new() };
            vec![g.estimator.to_owned(), count(g.draws, "draw"), number(g.variance), times, seconds(g.seconds)]
        })
        .collect();
    table(&["estimator", "average of", "variance", "of the best", "time"], &rows)
}
