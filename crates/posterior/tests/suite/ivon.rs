//! Variational online Newton against the paper's algorithm and against closed forms of its fixed point.

use crate::linear_model::{DIM, Linear, fit};
use posterior::family::Ivon;
use posterior::model::Choice;
use posterior::optim::{GaussianPenalty, Law};
use posterior::rng::{BLOCK, Key, fill_normals};
use posterior::settings::Value;
use posterior_testing::statistics::{moments, z_mean};

/// A normal prior N(c, 1/τ) on a range.
fn pull(range: std::ops::Range<usize>, centre: f32, precision: f32) -> GaussianPenalty {
    GaussianPenalty { range, centre, precision, kl_constant: -0.5 * f64::from(precision).ln() - 0.5, law: Law::Normal }
}

/// Three priors whose borders are not those of blocks; the last is not normal.
fn penalties(dim: usize) -> Vec<GaussianPenalty> {
    let (a, b) = (BLOCK + 7, dim - 100);
    vec![pull(0..a, 0.0, 2.0), pull(a..b, 3.0, 5.0), GaussianPenalty { kl_constant: 0.0, ..pull(b..dim, 0.0, 0.0) }]
}

#[test]
fn steps_are_those_of_the_papers_algorithm() {
    // Algorithm 1 of Shen et al. 2024 in its own scale, in f64: a loss that is the mean over N rows, λ = N/β, δ = βτ/N, the mean
    // measured from the prior's centre. Made-up gradients, the same for both.
    let (dim, rows, beta) = (2 * BLOCK + 200, 50.0, 0.7);
    let (beta1, beta2, rate) = (0.9, 0.98, 0.05);
    let penalties = penalties(dim);
    let mut start = vec![0.0f32; dim];
    fill_normals(Key::new(1), &mut start);
    let mut ours = Ivon::new(&start, 20.0, penalties.clone(), 1, beta1);
    let lambda = rows / beta;
    let (mut m, mut h, mut momentum): (Vec<f64>, _, _) =
        (start.iter().map(|v| f64::from(*v)).collect(), vec![20.0 / rows; dim], vec![0.0; dim]);
    let mut w = vec![0.0f32; dim];
    for t in 1..=20 {
        ours.draw(Key::new(100 + t), beta, &mut w);
        let gradient: Vec<f32> =
            (0..dim).map(|i| 30.0 * ((i as u64 * 7 + t * 13) as f32).sin() - 10.0 * w[i]).collect();
        ours.update(&w, &gradient, rate, 1.0 - beta2);
        for p in &penalties {
            let (delta, centre) = (beta * f64::from(p.precision) / rows, f64::from(p.centre));
            for i in p.range.clone() {
                let g_hat = -f64::from(gradient[i]) / rows;
                let std = 1.0 / (lambda * (h[i] + delta)).sqrt();
                let h_hat = g_hat * (f64::from(w[i]) - m[i]) / (std * std);
                momentum[i] = beta1 * momentum[i] + (1.0 - beta1) * g_hat;
                h[i] = beta2 * h[i]
                    + (1.0 - beta2) * h_hat
                    + 0.5 * (1.0 - beta2).powi(2) * (h[i] - h_hat).powi(2) / (h[i] + delta);
                let corrected = momentum[i] / (1.0 - beta1.powi(t as i32));
                m[i] -= rate * (corrected + delta * (m[i] - centre)) / (h[i] + delta);
            }
        }
    }
    let (mean, std) = ours.moments();
    for p in &penalties {
        let delta = beta * f64::from(p.precision) / rows;
        for i in p.range.clone() {
            let expected = 1.0 / (lambda * (h[i] + delta)).sqrt();
            // Twenty steps in f32 of numbers near 1. The draw is w − m, whose last digit is that of m: 1e-7 of |m| ≈ 3 is 3e-6
            // of σ ≈ 0.2, and the curvature takes it up 20 times.
            assert!((f64::from(mean[i]) - m[i]).abs() < 2e-5, "mean {i}: {} for {}", mean[i], m[i]);
            assert!((f64::from(std[i]) / expected - 1.0).abs() < 1e-4, "std {i}: {} for {expected}", std[i]);
        }
    }
}

#[test]
fn it_rests_at_the_optimum_of_a_quadratic() {
    // log p(D | w) = −½ Σ κ(w − μ)²: the optimum is at the mean (κμ + βτc)/(κ + βτ) with variance β/(κ + βτ).
    const STEPS: u64 = 6000;
    let dim = 3 * BLOCK;
    let penalties = penalties(dim);
    let curvature = |i: usize| 4.0 + (i % 5) as f32;
    let peak = |i: usize| (i % 3) as f32 - 1.0;
    for (draws, beta) in [(1, 1.0), (1, 0.3), (4, 2.0)] {
        let mut q = Ivon::new(&vec![0.5; dim], 50.0, penalties.clone(), draws, 0.9);
        let (mut w, mut g) = (vec![0.0f32; dim], vec![0.0f32; dim]);
        for t in 0..STEPS {
            let left = 0.01f64.powf(t as f64 / STEPS as f64);
            for k in 0..draws {
                q.draw(Key::new(t).derive(k as u64), beta, &mut w);
                (0..dim).for_each(|i| g[i] = -curvature(i) * (w[i] - peak(i)));
                if draws > 1 {
                    q.accumulate(&w, &g, 1.0 / draws as f32);
                }
            }
            if draws > 1 {
                q.update_accumulated(0.1 * left, 0.02 * left);
            } else {
                q.update(&w, &g, 0.1 * left, 0.02 * left);
            }
        }
        let (mean, std) = q.moments();
        let (mut logs, mut shifts) = (Vec::new(), Vec::new());
        for p in &penalties {
            let pulled = beta * f64::from(p.precision);
            for i in p.range.clone() {
                let precision = f64::from(curvature(i)) + pulled;
                let expected =
                    (f64::from(curvature(i)) * f64::from(peak(i)) + pulled * f64::from(p.centre)) / precision;
                let variance = beta / precision;
                logs.push((f64::from(std[i]).powi(2) / variance).ln());
                shifts.push((f64::from(mean[i]) - expected) / variance.sqrt());
            }
        }
        // The parameters are independent replicates, so their spread gives the standard errors. At the last rates, 1e-3 and 2e-4, ln σ²
        // has a standard deviation of about √(2e-4) and the mean one of √(½·1e-3) σ, up to what is left of larger ones.
        for (what, errors) in [("ln variance", &logs), ("mean", &shifts)] {
            let case = format!("{what} with {draws} draws and beta {beta}");
            let spread = moments(errors).variance.sqrt();
            assert!(spread < 0.05, "{case}: spread {spread}");
            // The stationary law of ln(H + βτ) is off by the third moment of x = ρ(Ĥ − H)/(H + βτ), some ρ² ≈ 1e-6 per 1/ρ steps.
            assert!(z_mean(errors, 0.0).abs() < 5.0, "{case}: {} standard errors", z_mean(errors, 0.0));
        }
    }
}

#[test]
fn no_draw_makes_a_standard_deviation_unreal() {
    let dim = 2 * BLOCK;
    // One half has a normal prior, the other none.
    let penalties = vec![pull(0..BLOCK, 0.0, 1.0), GaussianPenalty { kl_constant: 0.0, ..pull(BLOCK..dim, 0.0, 0.0) }];
    for sign in [1.0f32, -1.0, 0.0] {
        let mut q = Ivon::new(&vec![0.0; dim], 1.0, penalties.clone(), 1, 0.9);
        let mut w = vec![0.0f32; dim];
        for t in 0..2000 {
            let (mean, before) = q.moments();
            q.draw(Key::new(t), 1.0, &mut w);
            // Curvature of the wrong sign in every draw, or of an extreme size in some, or none at all.
            let size = if t % 10 == 0 { 1e5 } else { 1.0 };
            let g: Vec<f32> = w.iter().zip(&mean).map(|(w, m)| sign * size * (w - m)).collect();
            q.update(&w, &g, 1e-4, 0.1);
            let (_, after) = q.moments();
            for (a, b) in after.iter().zip(&before) {
                // H + βτ at most halves in a step, and σ ≤ 1000 where nothing holds it.
                assert!(*a > 0.0 && *a <= 1.0001 * (2.0f32.sqrt() * b).min(1000.0), "{b} → {a}");
            }
        }
    }
}

#[test]
fn the_kl_is_the_closed_form() {
    let Linear { problem, .. } = Linear::new(10, 2.0);
    let q = Ivon::new(&[0.3, -1.0, 2.0, 0.0], 30.0, problem.penalties(), 1, 0.9);
    let (mean, std) = q.moments();
    let closed = problem.prior().kl_from_normal(&mean, &std).unwrap();
    assert!((q.kl() / closed - 1.0).abs() < 1e-5, "{} for {closed}", q.kl()); // f32 logarithms
}

#[test]
fn on_a_linear_model_it_finds_the_best_diagonal_gaussian() {
    // A prior about half as precise as the data: it counts in means and variances.
    let linear = Linear::new(200, 0.05);
    for (samples, batch_size, beta) in [(1, 200, 1.0), (1, 50, 1.0), (4, 200, 0.3), (1, 50, 2.0)] {
        let (mean, variances) = linear.optimum(beta);
        let settings = [
            ("epochs", Value::Int(10_000 * batch_size / 200)),
            ("batch_size", Value::Int(batch_size)),
            ("samples", Value::Int(samples)),
            ("beta", Value::Float(beta)),
        ];
        let fit = fit(&linear.problem, "ivon", &settings);
        let (m, s) = fit.posterior.diagonal().unwrap();
        for i in 0..DIM {
            let case = format!("{samples} samples, batches of {batch_size}, beta {beta}, parameter {i}");
            let (variance, target) = (f64::from(s[i]).powi(2), variances[i]);
            // At its last rates ρ = 1e-4, α = 5e-4 and with batches of a quarter: ln σ² has a standard deviation of
            // √(½ρ·Var[Ĥ]/H²) ≈ √(½·1e-4·(4 + N/B)) ≈ 0.02 and more from earlier, larger rates; the mean √(½α·(N/B + …)) ≈ 0.04 σ. A
            // prior counted per batch or without its β, or Σᵢᵢ for 1/Λᵢᵢ, is wrong by 25 % and more.
            assert!((variance / target - 1.0).abs() < 0.12, "{case}: variance {variance} for {target}");
            assert!((f64::from(m[i]) - mean[i]).abs() < 0.3 * target.sqrt(), "{case}: {} for {}", m[i], mean[i]);
        }
        assert_eq!(fit.posterior.log_evidence().is_some(), beta == 1.0);
    }
}

#[test]
fn priors_that_are_not_normal_give_the_optimum_of_the_reparameterised_gradient() {
    let laplace = Choice::named("laplace").with("weight_std", Value::Float(0.3));
    let mixture = Choice::named("scale-mixture").with("std1", Value::Float(0.5)).with("std2", Value::Float(0.1));
    for prior in [laplace, mixture] {
        let name = format!("{prior:?}");
        // Few rows, so that the prior counts.
        let linear = Linear::with_prior(20, prior);
        let common = [("epochs", Value::Int(20_000)), ("samples", Value::Int(4)), ("kl_warmup", Value::Float(0.0))];
        let newton = fit(&linear.problem, "ivon", &common);
        let mut settings = common.to_vec();
        settings.push(("learning_rate", Value::Float(0.02)));
        let adam = fit(&linear.problem, "mean-field", &settings);
        let ((m, s), (m0, s0)) = (newton.posterior.diagonal().unwrap(), adam.posterior.diagonal().unwrap());
        for i in 0..DIM {
            // Both still wander: Adam by some parts in a hundred of σ (tests/mean_field.rs), Newton by less.
            assert!((m[i] - m0[i]).abs() < 0.2 * s0[i], "{name}: mean {} for {}", m[i], m0[i]);
            assert!((s[i] / s0[i] - 1.0).abs() < 0.08, "{name}: std {} for {}", s[i], s0[i]);
        }
        let (a, b) = (newton.posterior.log_evidence().unwrap(), adam.posterior.log_evidence().unwrap());
        // One epoch's estimate from four draws each: log p(D | w) scatters by √(DIM/2) a draw.
        assert!((a - b).abs() < 5.0, "{name}: ELBO {a} for {b}");
    }
}
