//! The predictive mixture against brute force: moments, quantiles, entropies, log-likelihood, units.

use posterior::likelihood::{LIKELIHOODS, Likelihood, Outcome, find};
use posterior::predict::{Predictive, TargetScale};
use posterior::rng::{Key, Stream, fill_normals};
use posterior::settings::Settings;
use std::sync::Arc;

const DRAWS: usize = 7;
const ROWS: usize = 5;

fn likelihood(name: &str, width: usize) -> Arc<dyn Likelihood> {
    let entry = find(name).unwrap();
    (entry.build)(&Settings::resolve(entry.settings, &[], name).unwrap(), width).unwrap()
}

/// Outputs and noises of made-up draws.
fn predictive(likelihood: &Arc<dyn Likelihood>, scale: TargetScale) -> (Predictive, Vec<f32>, Vec<f32>) {
    let noises: usize = likelihood.blocks().iter().map(|b| b.len()).sum();
    let mut f = vec![0.0f32; DRAWS * ROWS * likelihood.outputs()];
    let mut noise = vec![0.0f32; DRAWS * noises];
    fill_normals(Key::new(1), &mut f);
    fill_normals(Key::new(2), &mut noise);
    noise.iter_mut().for_each(|n| *n = 0.3 * *n - 0.5);
    (Predictive::new(likelihood.clone(), f.clone(), noise.clone(), DRAWS, ROWS, scale), f, noise)
}

fn row(v: &[f32], s: usize, n: usize, width: usize) -> Vec<f64> {
    v[(s * ROWS + n) * width..][..width].iter().map(|x| f64::from(*x)).collect()
}

fn noise_of(v: &[f32], s: usize) -> Vec<f64> {
    let k = v.len() / DRAWS;
    v[s * k..(s + 1) * k].iter().map(|x| f64::from(*x)).collect()
}

#[test]
fn samples_from_the_mixture_have_its_moments_and_quantiles() {
    let scale = TargetScale { targets: vec![(10.0, 3.0)] };
    for name in ["gaussian", "heteroscedastic", "student-t", "poisson"] {
        let l = likelihood(name, 1);
        let count = l.outcome() == Outcome::Count;
        let scale = if count { TargetScale::default() } else { scale.clone() };
        let (p, f, noise) = predictive(&l, scale.clone());
        let (real, levels) = (p.real(), [0.05, 0.5, 0.9]);
        let quantiles = p.quantiles(&levels);
        let mut stream = Stream::new(Key::new(3));
        for n in 0..ROWS {
            const SAMPLES: usize = 40_000;
            let mut y: Vec<f64> = (0..SAMPLES)
                .map(|i| {
                    let (s, mut y) = (i % DRAWS, [0.0]);
                    l.sample(&row(&f, s, n, l.outputs()), &noise_of(&noise, s), &mut stream, &mut y);
                    let (mean, std) = scale.of(0);
                    mean + std * y[0]
                })
                .collect();
            y.sort_by(f64::total_cmp);
            let mean = y.iter().sum::<f64>() / SAMPLES as f64;
            let variance = real.epistemic[n] + real.aleatoric[n];
            let error = (variance / SAMPLES as f64).sqrt();
            assert!((mean - real.mean[n]).abs() < 5.0 * error, "{name}: mean {mean} for {}", real.mean[n]);
            if name != "student-t" {
                // Its fourth moment does not exist at four degrees, so its sample variance has no standard error.
                let sample = y.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / SAMPLES as f64;
                assert!((sample / variance - 1.0).abs() < 0.06, "{name}: variance {sample} for {variance}");
            }
            for (level, q) in levels.iter().zip(&quantiles[n * 3..]) {
                let below = y.iter().filter(|v| *v <= q).count() as f64 / SAMPLES as f64;
                let strictly = y.iter().filter(|v| *v < q).count() as f64 / SAMPLES as f64;
                let error = 5.0 * (level * (1.0 - level) / SAMPLES as f64).sqrt();
                if count {
                    assert!(below >= level - error && strictly < level + error, "{name}: {strictly} {level} {below}");
                } else {
                    assert!((below - level).abs() < error, "{name}: {below} of samples below the {level} quantile");
                    assert!((p.cdf(n, 0, *q) - level).abs() < 1e-7, "{name}");
                }
            }
        }
    }
}

#[test]
fn the_quantile_is_the_mixtures_not_a_fitted_gaussians() {
    let l = likelihood("gaussian", 1);
    // Two draws far apart: the mixture's 25 % quantile lies on the lower one's mean.
    let p = Predictive::new(l, vec![-5.0, 5.0], vec![-3.0, -3.0], 2, 1, TargetScale::default());
    assert!((p.quantiles(&[0.25])[0] + 5.0).abs() < 1e-6);
}

#[test]
fn log_likelihood_is_the_log_of_the_mean_density_in_the_users_units() {
    for entry in LIKELIHOODS {
        let width = if entry.outcome == Outcome::Class { if entry.name == "bernoulli" { 2 } else { 3 } } else { 1 };
        let l = likelihood(entry.name, width);
        let scale = TargetScale { targets: if entry.outcome == Outcome::Real { vec![(10.0, 3.0)] } else { vec![] } };
        let (p, f, noise) = predictive(&l, scale.clone());
        let y: Vec<f64> =
            (0..ROWS).map(|n| if entry.outcome == Outcome::Real { 8.0 + n as f64 } else { (n % 2) as f64 }).collect();
        for (n, ours) in p.log_likelihood(&y).into_iter().enumerate() {
            let (mean, std) = scale.of(0);
            let density = |s: usize| {
                l.log_prob_row(&row(&f, s, n, l.outputs()), &[(y[n] - mean) / std], &noise_of(&noise, s)).exp() / std
            };
            let direct = ((0..DRAWS).map(density).sum::<f64>() / DRAWS as f64).ln();
            assert!((ours - direct).abs() < 1e-9, "{}: {ours} for {direct}", entry.name);
        }
    }
}

#[test]
fn entropies_add_up_and_mutual_information_is_not_negative() {
    for (name, classes) in [("categorical", 4), ("bernoulli", 2)] {
        let l = likelihood(name, classes);
        let (p, f, _) = predictive(&l, TargetScale::default());
        let c = p.classes();
        for n in 0..ROWS {
            let mut mean = vec![0.0; classes];
            let (mut aleatoric, mut squares, mut logs) = (0.0, vec![0.0; classes], vec![0.0; classes]);
            for s in 0..DRAWS {
                let mut q = vec![0.0; classes];
                l.probabilities(&row(&f, s, n, l.outputs()), &mut q);
                for k in 0..classes {
                    mean[k] += q[k] / DRAWS as f64;
                    squares[k] += q[k] * q[k] / DRAWS as f64;
                    aleatoric -= q[k] * q[k].ln() / DRAWS as f64;
                    logs[k] += q[k].ln() / DRAWS as f64;
                }
            }
            let total: f64 = -mean.iter().map(|q| q * q.ln()).sum::<f64>();
            assert!((c.total[n] - total).abs() < 1e-12 && (c.aleatoric[n] - aleatoric).abs() < 1e-12);
            assert!((c.mutual_information(n) - (total - aleatoric)).abs() < 1e-12 && c.mutual_information(n) > 0.0);
            let apart: f64 = (0..classes).map(|k| mean[k] * (mean[k].ln() - logs[k])).sum();
            assert!((c.disagreement[n] - apart).abs() < 1e-12 * (1.0 + apart) && apart > 0.0);
            assert!((c.row(n).iter().sum::<f64>() - 1.0).abs() < 1e-12);
            for k in 0..classes {
                assert!((c.variance[n * classes + k] - (squares[k] - mean[k] * mean[k])).abs() < 1e-12);
            }
        }
    }
}

/// p₁ = (9/10, 1/10) and p₂ = (1/2, 1/2), so p̄ = (7/10, 3/10): half of 0.7 ln(7/9) + 0.3 ln 3 + 0.7 ln(7/5) + 0.3 ln(3/5). Outputs are kept in
/// single precision. And two draws that are each all but sure of another class: no infinity.
#[test]
fn disagreement_of_two_draws() {
    let of = |f: Vec<f32>| {
        let l = likelihood("categorical", 2);
        Predictive::new(l, f, vec![], 2, 1, TargetScale::default()).classes().disagreement[0]
    };
    let expected = 0.5 * (0.7 * (7.0f64 / 9.0).ln() + 0.3 * 3.0f64.ln() + 0.7 * 1.4f64.ln() + 0.3 * 0.6f64.ln());
    assert!((of(vec![9.0f32.ln(), 0.0, 0.0, 0.0]) - expected).abs() < 1e-7);
    let apart = of(vec![5000.0, 0.0, 0.0, 5000.0]);
    assert!(apart > 300.0 && apart.is_finite(), "{apart}");
}

#[test]
fn one_draw_has_no_epistemic_part() {
    let l = likelihood("categorical", 3);
    let p = Predictive::new(l, vec![1.0, -2.0, 0.5], vec![], 1, 1, TargetScale::default());
    assert_eq!(p.classes().mutual_information(0), 0.0);
    assert_eq!(p.classes().disagreement[0], 0.0);
    let l = likelihood("gaussian", 1);
    let p = Predictive::new(l, vec![1.0], vec![-1.0], 1, 1, TargetScale::default());
    assert_eq!(p.real().epistemic[0], 0.0);
}
