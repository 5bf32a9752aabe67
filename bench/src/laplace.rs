//! Laplace's approximation, the cases of the peer: curvature, 100 evidence steps, linearised prediction of 1000 rows; peak memory.
//!
//! `reg` is MLP 8-50-1 tanh, N = 1000, normal noise; `cls` is MLP 64-24-10 relu (P = 1810), N = 10000, categorical; made-up data, weights first trained
//! by 300 Adam steps on all rows. Structures full, kron, diag over all weights, and `last` (full over the last layer). `fit` is one pass over the
//! training rows; `evidence` is the eigenvalues and 100 Adam steps on the log evidence over one prior precision (and the noise for reg);
//! `posterior` is the whole decomposition, which the peer has no line for; `predict` is mean and variance (probit probabilities for cls) of 1000 rows in
//! closed form, without components of a mixture on either side, `predictfirst` the same with the posterior and everything kept in the predictor built
//! anew for the prior precision found. `WL=` filters lines, `BUDGET=` sets seconds per line.

use posterior::data::{Dataset, Values};
use posterior::inference::{LaplaceApproximation, LaplaceOptions, PointTrainer, StepPlan};
use posterior::likelihood::Outcome;
use posterior::model::{Choice, Recipe};
use posterior::nn::{Activation, NetworkSpec, Shape};
use posterior::predict::{LinearisedPredictor, Link, TargetScale};
use posterior::problem::curvature::{Structure, Subset};
use posterior::problem::{Problem, Rows};
use posterior::rng::{Key, fill_normals};
use posterior::settings::Value;
use std::hint::black_box;
use std::time::Instant;

const OPERATIONS: [&str; 5] = ["fit", "evidence", "posterior", "predictfirst", "predict"];

/// As the peer measures: single calls, at least four unless they take too long, the first one left out.
fn measure(who: &str, workload: &str, mut call: impl FnMut()) {
    if std::env::var("WL").is_ok_and(|filter| !workload.contains(&filter)) {
        return;
    }
    let budget: f64 = std::env::var("BUDGET").ok().and_then(|b| b.parse().ok()).unwrap_or(3.0);
    let (started, mut samples) = (Instant::now(), Vec::new());
    loop {
        let t = Instant::now();
        call();
        samples.push(t.elapsed().as_secs_f64() * 1e6);
        let spent = started.elapsed().as_secs_f64();
        if (spent > budget && samples.len() >= 4) || spent > 2.5 * budget || samples.len() >= 2000 {
            break;
        }
    }
    let capped = samples.len() < 4;
    if !capped {
        samples.remove(0);
    }
    samples.sort_by(f64::total_cmp);
    let n = samples.len();
    let end = if capped { " capped" } else { "" };
    println!("RES {who} {workload} {:.3} {:.3} {:.3} {n}{end}", samples[0], samples[n / 2], samples[n * 9 / 10]);
}

fn normals(seed: u64, n: usize) -> Vec<f64> {
    let mut v = vec![0.0; n];
    fill_normals(Key::new(seed), &mut v);
    v
}

/// The problem, trained weights, and 1000 other rows.
fn case(name: &str) -> (Problem, Vec<f64>, Values) {
    let (d, network, k, n) = match name {
        "reg" => (8, NetworkSpec::parse("50", Activation::Tanh), 1, 1000),
        _ => (64, NetworkSpec::parse("24", Activation::Relu), 10, 10_000),
    };
    let (x, mix, noise) = (normals(1, n * d), normals(2, d * k), normals(3, n * k));
    let z = |row: usize, o: usize| {
        let sum: f64 = (0..d).map(|i| x[row * d + i] * mix[i * k + o]).sum();
        3.0 * (1.5 * sum / (d as f64).sqrt()).sin() + 0.3 * noise[row * k + o]
    };
    let best = |row: usize| (0..k).max_by(|a, b| z(row, *a).total_cmp(&z(row, *b))).unwrap_or(0);
    let y: Vec<f64> = (0..n).map(|row| if k == 1 { z(row, 0) } else { best(row) as f64 }).collect();
    let recipe = Recipe {
        network: network.expect("a network"),
        prior: Choice::default().with("scaling", Value::Text("none".into())),
        likelihood: Choice { name: None, settings: Default::default() },
        ..Recipe::default()
    };
    let (outcome, width) = if k == 1 { (Outcome::Real, 1) } else { (Outcome::Class, k) };
    let resolved = recipe.resolve_for(Shape::Flat(d), outcome, width).expect("a recipe");
    let data = Dataset::new(Values::F64(x.into()), Shape::Flat(d), y, 1);
    let problem = resolved.problem(data).expect("a problem");
    let mut trainer = PointTrainer::new(&problem, true, n, Key::new(4));
    (0..300).for_each(|step| {
        trainer.step(Rows::All, StepPlan { step, rate: 1e-2, beta: 1.0 });
    });
    let mut w: Vec<f64> = trainer.point().iter().map(|v| f64::from(*v)).collect();
    if k == 1 {
        // The noise starts at 1, as the peer's does.
        *w.last_mut().expect("a noise") = 0.0;
    }
    (problem, w, Values::F64(normals(5, 1000 * d).into()))
}

/// 100 steps of Adam on ln δ and, where there is one, ln σ; returns δ, σ² and the evidence.
fn evidence_steps(at: &LaplaceApproximation, with_noise: bool) -> (f64, f64, f64) {
    let (mut t, mut first, mut second) = ([0.0_f64; 2], [0.0_f64; 2], [0.0_f64; 2]);
    let mut value = 0.0;
    for step in 1..=100 {
        let mut slopes = [0.0; 2];
        // ln c = 2 ln σ.
        value = at.evidence_at(&[t[0].exp()], (2.0 * t[1]).exp(), &mut slopes);
        slopes[1] *= 2.0;
        for i in 0..if with_noise { 2 } else { 1 } {
            first[i] = 0.9 * first[i] + 0.1 * slopes[i];
            second[i] = 0.999 * second[i] + 0.001 * slopes[i] * slopes[i];
            let (m, v) = (first[i] / (1.0 - 0.9f64.powi(step)), second[i] / (1.0 - 0.999f64.powi(step)));
            t[i] += 0.1 * m / (v.sqrt() + 1e-8);
        }
    }
    (t[0].exp(), (2.0 * t[1]).exp(), value)
}

/// A line of `/proc/self/status` in MB; 0 where there is none.
fn memory(line: &str) -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let found =
        text.lines().find_map(|l| l.strip_prefix(line)?.strip_prefix(':')?.split_whitespace().next()?.parse().ok());
    found.map_or(0.0, |kb: f64| kb / 1024.0)
}

pub fn run(threads: usize) {
    let who = &format!("posterior-{threads}t");
    for name in ["reg", "cls"] {
        let wanted = |s: &str| {
            std::env::var("WL").map_or(true, |f| OPERATIONS.iter().any(|o| format!("{name}-{s}-{o}").contains(&f)))
        };
        let (problem, w, x) = case(name);
        for (structure, kept) in [
            ("full", Structure::Full),
            ("kron", Structure::Kron),
            ("diag", Structure::Diagonal),
            ("last", Structure::Full),
        ] {
            if !wanted(structure) {
                continue;
            }
            let network = problem.network();
            let subset = if structure == "last" { Subset::last_layer(&**network) } else { Subset::all(&**network) };
            let subset = subset.expect("dense layers");
            let options = LaplaceOptions {
                structure: kept,
                per_layer: false,
                separate_bias: false,
                learn_prior: false,
                learn_noise: false,
            };
            // Peak memory from here on.
            let _ = std::fs::write("/proc/self/clear_refs", "5");
            let base = memory("VmRSS");
            let line = |operation: &str| format!("{name}-{structure}-{operation}");
            measure(who, &line("fit"), || {
                black_box(problem.ggn(&w, &subset, kept));
            });
            let after_fit = memory("VmHWM");
            let ggn = problem.ggn(&w, &subset, kept);
            let mut result = (1.0, 1.0, 0.0);
            let decompose =
                || LaplaceApproximation::from_ggn(&problem, w.clone(), &ggn, &subset, options).expect("a spectrum");
            measure(who, &line("evidence"), || result = evidence_steps(&decompose(), name == "reg"));
            let after_evidence = memory("VmHWM");
            measure(who, &line("posterior"), || drop(black_box(decompose().posterior())));
            let after_posterior = memory("VmHWM");
            let mut at = decompose();
            at.set_prior_factor(result.0);
            at.set_noise_factor(result.1);
            let mut build = || {
                let q = at.posterior().expect("eigenvectors");
                let (network, likelihood) = (problem.network().clone(), problem.likelihood().clone());
                LinearisedPredictor::new(network, likelihood, &q, 100, Link::Probit, TargetScale::default())
                    .expect("blocks")
            };
            let predict = |p: &LinearisedPredictor| match name {
                "reg" => drop(black_box(p.moments(&x))),
                _ => drop(black_box(p.probit(&x))),
            };
            measure(who, &line("predictfirst"), || predict(&build()));
            let predictor = build();
            measure(who, &line("predict"), || predict(&predictor));
            let round = |v: f64| (v * 10.0).round() / 10.0;
            println!(
                "{}",
                serde_json::json!({
                    "who": who, "case": format!("{name}-{structure}"), "base_mb": round(base), "fit_mb": round(after_fit - base),
                    "evidence_mb": round(after_evidence - base), "posterior_mb": round(after_posterior - base), "peak_mb": round(memory("VmHWM") - base), "parameters": subset.len(),
                    "prior_precision": result.0, "sigma": result.1.sqrt(), "log_evidence": result.2,
                })
            );
        }
    }
}
