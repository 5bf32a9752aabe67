//! The one-dimensional regression of Izmailov et al. (2021): does a sampler cover the truth where there are no data?
//!
//! 120 rows in three clusters, noise 0.02, a truth drawn from a 3×100 network over (x, x²). Here: 3×50 over the same two features, standardised; noise learned.
//! Prints one JSON line: the part of the grid whose truth lies in the central 95 % of f, on the data, between them and beyond.

use posterior::data::{Dataset, Values};
use posterior::diagnose::{Trace, ess_bulk, quantiles, r_hat};
use posterior::inference::{Silent, find};
use posterior::likelihood::Outcome;
use posterior::model::{Choice, Recipe};
use posterior::nn::{Activation, NetworkSpec, Shape};
use posterior::predict::{NetworkPredictor, Predictor, TargetScale};
use posterior::rng::Key;
use posterior::settings::Value;
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

fn columns(path: &Path) -> Result<(Vec<f64>, Vec<f64>), String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let number =
        |v: Option<&str>| v.and_then(|v| v.trim().parse::<f64>().ok()).ok_or_else(|| "not a number".to_owned());
    text.lines()
        .skip(1)
        .map(|l| {
            l.split_once(',')
                .ok_or("a line without a comma".to_owned())
                .and_then(|(a, b)| Ok((number(Some(a))?, number(Some(b))?)))
        })
        .collect::<Result<Vec<_>, _>>()
        .map(|v| v.into_iter().unzip())
}

pub fn run(args: &[String]) -> ExitCode {
    match cover(args) {
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

fn cover(args: &[String]) -> Result<serde_json::Value, String> {
    let Some(folder) = std::env::var_os("POSTERIOR_DATA") else {
        return Ok(json!({ "skipped": "POSTERIOR_DATA is not set" }));
    };
    let folder = Path::new(&folder).join("bnn_hmc_synthetic");
    let method = args.first().ok_or("usage: gap METHOD [seed=0] [prior=2] [key=value …]")?;
    let (mut given, mut seed, mut prior) = (Vec::new(), 0, 2.0);
    for arg in &args[1..] {
        let (key, value) = arg.split_once('=').ok_or_else(|| format!("'{arg}' is not key=value"))?;
        match key {
            "seed" => seed = value.parse().map_err(|e| format!("{arg}: {e}"))?,
            "prior" => prior = value.parse().map_err(|e| format!("{arg}: {e}"))?,
            _ => given.push((key.to_owned(), Value::parse(value))),
        }
    }
    let (x, y) = columns(&folder.join("train.csv"))?;
    let (grid, truth) = columns(&folder.join("truth_grid.csv"))?;
    let moments = |v: &[f64]| {
        let mean = v.iter().sum::<f64>() / v.len() as f64;
        (mean, (v.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / v.len() as f64).sqrt())
    };
    let squares: Vec<f64> = x.iter().map(|x| x * x).collect();
    let ((mx, sx), (m2, s2), (my, sy)) = (moments(&x), moments(&squares), moments(&y));
    let features = |x: &[f64]| Values::F64(x.iter().flat_map(|x| [(x - mx) / sx, (x * x - m2) / s2]).collect());
    let text = |e: posterior::Error| e.to_string();
    let recipe = Recipe {
        network: NetworkSpec::parse("50,50,50", Activation::Relu).map_err(text)?,
        prior: Choice::named("normal").with("weight_std", Value::Float(prior)).with("bias_std", Value::Float(1.0)),
        likelihood: Choice::named("gaussian").with("noise_prior_mean", Value::Float((0.02 / sy).ln())),
        ..Recipe::default()
    };
    let shape = Shape::Flat(2);
    let resolved = recipe.resolve_for(shape, Outcome::Real, 1).map_err(text)?;
    let (network, likelihood) = (resolved.network.clone(), resolved.likelihood.clone());
    let data = Dataset::new(features(&x), shape, y.iter().map(|y| (y - my) / sy).collect(), 1);
    let problem = resolved.problem(data).map_err(text)?;
    let method = find(method).and_then(|m| m.configure(&given)).map_err(text)?;
    let fit = method.fit(&problem, Key::new(seed), &mut Silent).map_err(text)?;
    let seconds = fit.summary.seconds;
    let posterior: Arc<dyn posterior::posterior::Posterior> = fit.posterior.into();
    let draws = if posterior.distinct().is_some() { usize::MAX } else { 1000 };
    let (key, scale) = (Key::new(seed), TargetScale { targets: vec![(my, sy)] });
    let chains = posterior.chains().map(|c| (c.chains.len(), c.divergences()));
    let predictor = NetworkPredictor { network, likelihood, posterior, draws, key, scale };
    let predictive = predictor.predict(&features(&grid));
    let (mut worst, mut least) = (0.0_f64, f64::INFINITY);
    let intervals: Vec<(f64, f64)> = (0..grid.len())
        .map(|i| {
            let f: Vec<f64> = (0..predictive.draws())
                .map(|s| my + sy * f64::from(predictive.draw(s).unwrap_or_default()[i]))
                .collect();
            if let Some((chains, _)) = chains {
                let trace = Trace::new(f.clone(), chains);
                (worst, least) = (worst.max(r_hat(&trace)), least.min(ess_bulk(&trace)));
            }
            let mut sorted = f;
            sorted.sort_by(f64::total_cmp);
            let q = quantiles(&sorted, &[0.025, 0.975]);
            (q[0], q[1])
        })
        .collect();
    let near = |g: f64| x.iter().map(|x| (x - g).abs()).fold(f64::INFINITY, f64::min) < 0.2;
    let (low, high) = x.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| (l.min(*x), h.max(*x)));
    let part = |name: &str, is: &dyn Fn(f64) -> bool| {
        let at: Vec<usize> = (0..grid.len()).filter(|i| is(grid[*i])).collect();
        let inside = at.iter().filter(|i| (intervals[**i].0..=intervals[**i].1).contains(&truth[**i])).count();
        let width = at.iter().map(|i| intervals[*i].1 - intervals[*i].0).sum::<f64>() / at.len() as f64;
        json!({ "where": name, "points": at.len(), "covered": inside as f64 / at.len() as f64, "mean_width": width })
    };
    Ok(json!({
        "who": format!("posterior-{}", method.name()),
        "settings": given.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" "),
        "prior": prior,
        "seed": seed,
        "parameters": problem.dim(),
        "draws": predictive.draws(),
        "divergences": chains.map(|c| c.1),
        "rhat_max": worst,
        "ess_min": least,
        "seconds": seconds,
        "regions": [
            part("on the data", &near),
            part("between", &|g| !near(g) && g > low && g < high),
            part("beyond", &|g| !near(g) && (g <= low || g >= high)),
        ],
    }))
}
