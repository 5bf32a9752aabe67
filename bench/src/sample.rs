//! Samplers on a small Bayesian network: one JSON line with the fields of the peers' `nuts_numpyro.py`, whose model this is.
//!
//! UCI boston, split 0 (455 training rows, 51 test rows), everything standardised by the training rows; f(x) = tanh(x W1 + b1) W2 + b2 with 50 units,
//! every weight N(0, 1), y ~ N(f(x), s²), ln s ~ N(−1, 1): 752 parameters. ESS and R-hat are those of f at every test row. Settings of the method
//! follow as key=value; `seed=` sets the seed, `seconds` is all time from the first gradient to the last, starts and warm-up included.

use crate::timing::{Clock as Time, cpu_seconds};
use posterior::data::{Dataset, Values};
use posterior::diagnose::{Trace, ess_bulk, quantiles, r_hat};
use posterior::inference::{ChainProgress, Flow, Observer, Progress, find};
use posterior::likelihood::Outcome;
use posterior::model::{Choice, Recipe};
use posterior::nn::{Activation, NetworkSpec, Shape};
use posterior::posterior::Chains;
use posterior::predict::{NetworkPredictor, Predictor, TargetScale};
use posterior::rng::Key;
use posterior::settings::Value;
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

/// Rows in standard units, and the target's mean and standard deviation.
struct Boston {
    train: Dataset,
    test: Dataset,
    mean: f64,
    std: f64,
}

fn boston(data: &Path) -> Result<Boston, String> {
    let read = |name: &str| {
        let path = data.join("uci/boston").join(name);
        std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
    };
    let numbers = |line: &str| -> Result<Vec<f64>, String> {
        line.split(',').map(|v| v.trim().parse().map_err(|e| format!("'{v}': {e}"))).collect()
    };
    let table: Vec<Vec<f64>> = read("data.csv")?.lines().skip(1).map(numbers).collect::<Result<_, _>>()?;
    let test_rows = numbers(read("test_rows.csv")?.lines().next().unwrap_or_default())?;
    let is_test = |i: usize| test_rows.contains(&(i as f64));
    let width = table[0].len();
    let train: Vec<&Vec<f64>> = (0..table.len()).filter(|i| !is_test(*i)).map(|i| &table[i]).collect();
    let moments: Vec<(f64, f64)> = (0..width)
        .map(|c| {
            let n = train.len() as f64;
            let mean = train.iter().map(|r| r[c]).sum::<f64>() / n;
            let std = (train.iter().map(|r| (r[c] - mean).powi(2)).sum::<f64>() / n).sqrt();
            (mean, if std == 0.0 { 1.0 } else { std })
        })
        .collect();
    let dataset = |rows: Vec<&Vec<f64>>| {
        let standard = |r: &[f64], c: usize| (r[c] - moments[c].0) / moments[c].1;
        let x: Vec<f64> =
            rows.iter().flat_map(|r| (0..width - 1).map(|c| standard(r, c)).collect::<Vec<_>>()).collect();
        let y = rows.iter().map(|r| standard(r, width - 1)).collect();
        Dataset::new(Values::F64(x.into()), Shape::Flat(width - 1), y, 1)
    };
    let test = dataset(test_rows.iter().map(|i| &table[*i as usize]).collect());
    Ok(Boston { train: dataset(train), test, mean: moments[width - 1].0, std: moments[width - 1].1 })
}

/// When the last chain came out of its warm-up.
struct Clock {
    started: Instant,
    warm: Vec<Option<f64>>,
}

impl Observer for Clock {
    fn progress(&mut self, _: &Progress) -> Flow {
        Flow::Continue
    }
    fn chain(&mut self, p: &ChainProgress) -> Flow {
        self.warm.resize(p.chains, None);
        if p.transitions >= p.warmup {
            self.warm[p.chain].get_or_insert(self.started.elapsed().as_secs_f64());
        }
        Flow::Continue
    }
    fn warn(&mut self, message: &str) {
        eprintln!("note: {message}");
    }
}

/// Bulk ESS and R-hat of every column of `values` (chains × draws × columns).
fn judge(values: &[f64], chains: usize, columns: usize) -> (Vec<f64>, Vec<f64>) {
    let judged = (0..columns).map(|c| {
        let trace = Trace::new(values.iter().skip(c).step_by(columns).copied().collect(), chains);
        (ess_bulk(&trace), r_hat(&trace))
    });
    judged.unzip()
}

fn level(values: &[f64], level: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantiles(&sorted, &[level])[0]
}

pub fn run(args: &[String]) -> ExitCode {
    match sample(args) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("{e}");
            ExitCode::from(2)
        }
    }
}

fn sample(args: &[String]) -> Result<serde_json::Value, String> {
    let began = Instant::now();
    let Some(folder) = std::env::var_os("POSTERIOR_DATA") else {
        return Ok(json!({ "skipped": "POSTERIOR_DATA is not set" }));
    };
    let method = args.first().ok_or("usage: sample METHOD [threads=2] [seed=0] [key=value …]")?;
    let (mut given, mut seed, mut threads) = (Vec::new(), 0, 2);
    for arg in &args[1..] {
        let (key, value) = arg.split_once('=').ok_or_else(|| format!("'{arg}' is not key=value"))?;
        match key {
            "seed" => seed = value.parse().map_err(|e| format!("{arg}: {e}"))?,
            "threads" => threads = value.parse().map_err(|e| format!("{arg}: {e}"))?,
            _ => given.push((key.to_owned(), Value::parse(value))),
        }
    }
    let data = boston(Path::new(&folder))?;
    let text = |e: posterior::Error| e.to_string();
    let recipe = Recipe {
        network: NetworkSpec::parse("50", Activation::Tanh).map_err(text)?,
        prior: Choice::default().with("scaling", Value::Text("none".into())),
        ..Recipe::default()
    };
    let resolved = recipe.resolve_for(data.train.shape, Outcome::Real, 1).map_err(text)?;
    let (network, likelihood) = (resolved.network.clone(), resolved.likelihood.clone());
    let problem = resolved.problem(data.train.clone()).map_err(text)?;
    let method = find(method).and_then(|m| m.configure(&given)).map_err(text)?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().map_err(|e| e.to_string())?;
    let cpu_before = cpu_seconds(Time::Process);
    let mut clock = Clock { started: Instant::now(), warm: Vec::new() };
    let fit = pool.install(|| method.fit(&problem, Key::new(seed), &mut clock)).map_err(text)?;
    let run_s = clock.started.elapsed().as_secs_f64();
    let cpu_s = cpu_seconds(Time::Process) - cpu_before;
    let warmup_s = clock.warm.iter().flatten().copied().fold(0.0, f64::max);
    let chains = fit.posterior.chains().ok_or("the method has no chains")?.clone();
    let scale = TargetScale { targets: vec![(data.mean, data.std)] };
    let posterior: Arc<dyn posterior::posterior::Posterior> = fit.posterior.into();
    let predictor = NetworkPredictor { network, likelihood, posterior, draws: usize::MAX, key: Key::new(0), scale };
    let predictive = pool.install(|| predictor.predict(&data.test.x));
    let (draws, rows) = (chains.draws(), data.test.rows);
    let f: Vec<f64> =
        (0..draws).flat_map(|s| predictive.draw(s).unwrap_or_default().iter().map(|v| f64::from(*v))).collect();
    let (ess, rhat) = judge(&f, chains.chains.len(), rows);
    let noise: Vec<f64> = (0..draws).filter_map(|s| chains.draw(s).last()).map(|v| f64::from(*v)).collect();
    let (ess_noise, rhat_noise) = judge(&noise, chains.chains.len(), 1);
    let y: Vec<f64> = data.test.y.iter().map(|v| data.mean + data.std * v).collect();
    let mean = predictive.real().mean;
    let rmse = (mean.iter().zip(&y).map(|(m, y)| (m - y).powi(2)).sum::<f64>() / rows as f64).sqrt();
    let test_ll = predictive.log_likelihood(&y).iter().sum::<f64>() / rows as f64;
    let (sample_s, wall_s) = (run_s - warmup_s, began.elapsed().as_secs_f64());
    let each =
        |f: fn(&posterior::posterior::Chain) -> f64| chains.chains.iter().map(|c| round(f(c))).collect::<Vec<_>>();
    let grads_warmup: u64 = chains.chains.iter().map(|c| c.warmup_gradients).sum();
    let grads_sample: u64 = chains.chains.iter().flat_map(|c| &c.gradients).map(|g| u64::from(*g)).sum();
    let grads = (grads_warmup + grads_sample) as f64;
    let least = ess.iter().copied().fold(f64::INFINITY, f64::min);
    let median = level(&ess, 0.5);
    let over = |limit: f64| rhat.iter().filter(|r| **r > limit).count();
    Ok(json!({
        "who": format!("posterior-{}", method.name()),
        "settings": given.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" "),
        "threads": threads,
        "chains": chains.chains.len(),
        "warmup": method.settings().typed::<usize>("warmup"),
        "draws": chains.shortest(),
        "seed": seed,
        "wall_s": round(wall_s),
        "compile_s": 0.0,
        "run_s": round(run_s),
        "cpu_s": round(cpu_s),
        "warmup_s": round(warmup_s),
        "sample_s": round(sample_s),
        "grads_warmup": grads_warmup,
        "grads_sample": grads_sample,
        "grads_per_s": round(grads / run_s),
        "us_per_grad": round(1e6 * run_s / grads),
        "ess_min": round(least),
        "ess_p10": round(level(&ess, 0.1)),
        "ess_median": round(median),
        "ess_noise": round(ess_noise[0]),
        "ess_min_per_s": round(least / run_s),
        "ess_median_per_s": round(median / run_s),
        "ess_min_per_s_sampling": round(least / sample_s),
        "ess_min_per_1k_grad": round(1e3 * least / grads_sample as f64),
        "ess_median_per_1k_grad": round(1e3 * median / grads_sample as f64),
        "rhat_max": round(rhat.iter().copied().fold(0.0, f64::max)),
        "rhat_median": round(level(&rhat, 0.5)),
        "rows_rhat_over_1_01": over(1.01),
        "rows_rhat_over_1_05": over(1.05),
        "rhat_noise": round(rhat_noise[0]),
        "noise_sd": round(noise.iter().map(|r| r.exp()).sum::<f64>() / draws as f64 * data.std),
        "test_ll": round(test_ll),
        "rmse": round(rmse),
        "divergences": chains.divergences(),
        "steps_per_draw_mean": round(grads_sample as f64 / draws as f64),
        "steps_per_draw_by_chain": steps_by_chain(&chains),
        "acceptance": each(|c| c.acceptance),
        "step_size": each(|c| c.step_size),
    }))
}

fn steps_by_chain(chains: &Chains) -> Vec<f64> {
    let mean = |g: &[u32]| g.iter().map(|g| f64::from(*g)).sum::<f64>() / g.len() as f64;
    chains.chains.iter().map(|c| round(mean(&c.gradients))).collect()
}

/// Five digits.
fn round(v: f64) -> f64 {
    format!("{v:.4e}").parse().unwrap_or(v)
}
