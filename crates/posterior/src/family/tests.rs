//! The correlated families against dense matrices: draws, closed parts of the KL, and every gradient of the ELBO.
//!
//! The bound that is differentiated is Σ_k gₖᵀwₖ/K − β·KL with given g and the same ε and z on both sides, so that nothing is
//! random. After one step of Adam from moments of 0 the first moment is a tenth of the gradient: that is where it is read.

use super::full_covariance::FullCovariance;
use super::low_rank::LowRank;
use super::{ByRow, Family, MeanField, packed_len};
use crate::distribution::{MultivariateNormal, kl};
use crate::math::linalg::testing::normals;
use crate::math::linalg::{self, Cholesky};
use crate::nn::RowNoise;
use crate::optim::{GaussianPenalty, Law};
use crate::rng::{BLOCK, Key, fill_normals};
use posterior_testing::expect_gradient;

const BETA: f64 = 0.7;
const TAU: f64 = std::f64::consts::TAU;

/// The first parameters with prior N(0.3, 0.5²), the others with one that is not normal.
fn penalties(dim: usize, cut: usize) -> Vec<GaussianPenalty> {
    let normal = GaussianPenalty {
        range: 0..cut,
        centre: 0.3,
        precision: 4.0,
        kl_constant: 0.5f64.ln() - 0.5,
        law: Law::Normal,
    };
    let other = GaussianPenalty {
        range: cut..dim,
        centre: 0.0,
        precision: 0.0,
        kl_constant: -0.5 * (TAU.ln() + 1.0),
        law: Law::Normal,
    };
    vec![normal, other]
}

/// The closed part of the KL by a dense covariance.
fn closed_kl(mean: &[f64], covariance: &[f64], cut: usize) -> f64 {
    let dim = mean.len();
    let entropy = MultivariateNormal::new(mean.to_vec(), covariance).unwrap().entropy();
    let cross = |i: usize| 2.0 * (covariance[i * dim + i] + (mean[i] - 0.3).powi(2)) + 0.5 * (TAU / 4.0).ln();
    (0..cut).map(cross).sum::<f64>() - entropy
}

fn softplus(rho: f64) -> f64 {
    rho.exp().ln_1p()
}

fn f32s(x: &[f64]) -> Vec<f32> {
    x.iter().map(|v| *v as f32).collect()
}

fn noise(key: Key, n: usize) -> Vec<f64> {
    let mut e = vec![0.0f32; n];
    fill_normals(key, &mut e);
    e.iter().map(|v| f64::from(*v)).collect()
}

/// Draws `draws` times and steps once at rate 0.
fn step(family: &mut impl Family, gradients: &[Vec<f64>], penalties: &[GaussianPenalty], key: Key) {
    let share = 1.0 / gradients.len() as f32;
    let mut w = vec![0.0; gradients[0].len()];
    for (k, g) in gradients.iter().enumerate() {
        family.draw(key.derive(k as u64), penalties, &mut w);
        if k + 1 < gradients.len() {
            family.accumulate(&f32s(g), share);
        } else {
            family.update(&f32s(g), share, penalties, BETA, 0.0);
        }
    }
}

fn low_rank_covariance(std: &[f64], factor: &[f64]) -> Vec<f64> {
    let dim = std.len();
    let product = |i: usize, j: usize| factor.chunks(dim).map(|u| u[i] * u[j]).sum::<f64>();
    (0..dim * dim)
        .map(|k| product(k / dim, k % dim) + if k / dim == k % dim { std[k / dim].powi(2) } else { 0.0 })
        .collect()
}

/// A low-rank family with given U.
fn low_rank(mean: &[f64], std: &[f64], factor: &[f64], draws: usize) -> LowRank {
    let dim = mean.len();
    let mut family = LowRank::new(&f32s(mean), &f32s(std), factor.len() / dim, draws, Key::new(1));
    family.set_factor(&f32s(factor));
    family
}

#[test]
fn low_rank_gradients_are_those_of_the_elbo() {
    let (dim, rank, cut, key) = (6, 2, 4, Key::new(9));
    for draws in [1, 3] {
        let gradients: Vec<Vec<f64>> = (0..draws).map(|k| normals(20 + k, dim)).collect();
        let elbo_and_gradient = |x: &[f64]| {
            let (mean, rho, factor) = (&x[..dim], &x[dim..2 * dim], &x[2 * dim..]);
            let std: Vec<f64> = rho.iter().map(|r| softplus(*r)).collect();
            let mut value = -BETA * closed_kl(mean, &low_rank_covariance(&std, factor), cut);
            for (k, g) in gradients.iter().enumerate() {
                let key = key.derive(k as u64);
                let (e, z) = (noise(key, dim), noise(key.derive(u64::MAX), rank));
                for i in 0..dim {
                    let correlated: f64 = (0..rank).map(|a| z[a] * factor[a * dim + i]).sum();
                    value += g[i] * (mean[i] + std[i] * e[i] + correlated) / gradients.len() as f64;
                }
            }
            let mut family = low_rank(mean, &std, factor, gradients.len());
            step(&mut family, &gradients, &penalties(dim, cut), key);
            (value, family.gradient())
        };
        let mut at = normals(2, 2 * dim + rank * dim);
        at[2 * dim] = 3.0; // a direction that is almost one parameter's own: 1 − h is small there
        // f32 arithmetic on gradients of up to about 10: some 1e-6 each, relative to 1 or their size.
        expect_gradient(elbo_and_gradient, &at, 2e-5);
    }
}

#[test]
fn full_covariance_gradients_are_those_of_the_elbo() {
    let (dim, cut, key) = (5, 3, Key::new(9));
    let numbers = packed_len(dim).unwrap();
    for draws in [1, 3] {
        let gradients: Vec<Vec<f64>> = (0..draws).map(|k| normals(20 + k, dim)).collect();
        let elbo_and_gradient = |x: &[f64]| {
            let (mean, packed) = x.split_at(dim);
            // The diagonal's numbers are ρ.
            let mut l = vec![0.0; dim * dim];
            for i in 0..dim {
                for j in 0..=i {
                    let v = packed[i * (i + 1) / 2 + j];
                    l[i * dim + j] = if i == j { softplus(v) } else { v };
                }
            }
            let product = |i: usize, j: usize| (0..dim).map(|k| l[i * dim + k] * l[j * dim + k]).sum::<f64>();
            let covariance: Vec<f64> = (0..dim * dim).map(|k| product(k / dim, k % dim)).collect();
            let mut value = -BETA * closed_kl(mean, &covariance, cut);
            for (k, g) in gradients.iter().enumerate() {
                let e = noise(key.derive(k as u64), dim);
                for i in 0..dim {
                    let draw: f64 = mean[i] + (0..=i).map(|j| l[i * dim + j] * e[j]).sum::<f64>();
                    value += g[i] * draw / gradients.len() as f64;
                }
            }
            let std: Vec<f64> = (0..dim).map(|i| l[i * dim + i]).collect();
            let mut family = FullCovariance::new(&f32s(mean), &f32s(&std), gradients.len());
            let lower: Vec<f64> = (0..dim).flat_map(|i| l[i * dim..i * dim + i + 1].to_vec()).collect();
            family.set_lower(&f32s(&lower));
            step(&mut family, &gradients, &penalties(dim, cut), key);
            (value, family.gradient())
        };
        // f32 arithmetic, as above.
        expect_gradient(elbo_and_gradient, &normals(2, dim + numbers), 2e-5);
    }
}

/// Several blocks, teams and tiles, a cut inside of a tile: the same sums as Woodbury's in f64.
#[test]
fn large_low_rank_agrees_with_woodbury() {
    let (dim, rank, key) = (9 * BLOCK + 77, 3, Key::new(4));
    let cut = 5 * BLOCK + 13;
    let (mean, factor, g) = (normals(1, dim), normals(2, dim * rank), normals(3, dim));
    let std: Vec<f64> = normals(5, dim).iter().map(|v| (0.5 * v).exp()).collect();
    let mut family = low_rank(&mean, &std, &factor, 1);
    let mut w = vec![0.0; dim];
    let got = family.draw(key, &penalties(dim, cut), &mut w);
    let rows: Vec<f64> = (0..dim * rank).map(|k| factor[k % rank * dim + k / rank]).collect();
    let q = linalg::LowRank::new(std.iter().map(|s| s * s).collect(), rows, rank).unwrap();
    let variances = q.variances();
    let cross = |i: usize| 2.0 * (variances[i] + (mean[i] - 0.3).powi(2)) + 0.5 * (TAU / 4.0).ln();
    let entropy = 0.5 * (q.log_det() + dim as f64 * (TAU.ln() + 1.0));
    let expected = (0..cut).map(cross).sum::<f64>() - entropy;
    assert!((got / expected - 1.0).abs() < 1e-6, "{got} for {expected}"); // f32 sums of blocks
    let (e, z) = (noise(key, dim), noise(key.derive(u64::MAX), rank));
    family.update(&f32s(&g), 1.0, &penalties(dim, cut), BETA, 0.0);
    let gradient = family.gradient();
    let inverse = q.inverse_diagonal();
    let close = |got: f64, expected: f64, what: &str| {
        assert!((got - expected).abs() < 2e-5 * expected.abs().max(1.0), "{what}: {got} for {expected}"); // f32
    };
    for i in 0..dim {
        let (tau, s) = (if i < cut { 4.0 } else { 0.0 }, std[i]);
        let correlated: f64 = (0..rank).map(|a| z[a] * factor[a * dim + i]).sum();
        close(f64::from(w[i]), mean[i] + s * e[i] + correlated, "w");
        close(gradient[i], g[i] - BETA * tau * (mean[i] - 0.3), "mean");
        let on_std = g[i] * e[i] + BETA * (s * inverse[i] - tau * s);
        close(gradient[dim + i], on_std * (1.0 - (-s).exp()), "rho");
    }
    for a in 0..rank {
        let u = &factor[a * dim..(a + 1) * dim];
        let mut v = u.to_vec();
        q.solve(&mut v);
        for i in 0..dim {
            let tau = if i < cut { 4.0 } else { 0.0 };
            close(gradient[(2 + a) * dim + i], g[i] * z[a] + BETA * (v[i] - tau * u[i]), "factor");
        }
    }
}

/// Several groups of rows, against the same sums in f64 and the KL of `distribution`.
#[test]
fn large_full_covariance_agrees_with_dense_sums() {
    let (dim, key) = (400, Key::new(4));
    let (mean, mut lower) = (normals(1, dim), normals(2, packed_len(dim).unwrap()));
    lower.iter_mut().for_each(|v| *v *= 0.1);
    let std = vec![0.5; dim];
    let at = |i: usize, j: usize| i * (i + 1) / 2 + j;
    (0..dim).for_each(|i| lower[at(i, i)] = std[i]);
    let mut family = FullCovariance::new(&f32s(&mean), &f32s(&std), 1);
    family.set_lower(&f32s(&lower));
    let mut w = vec![0.0; dim];
    let got = family.draw(key, &penalties(dim, dim), &mut w);
    let mut l = vec![0.0; dim * dim];
    (0..dim).for_each(|i| (0..=i).for_each(|j| l[i * dim + j] = lower[at(i, j)]));
    let q = MultivariateNormal::from_cholesky(mean.clone(), Cholesky::from_factor(l, dim).unwrap()).unwrap();
    let prior = crate::distribution::DiagonalNormal::new(vec![0.3; dim], vec![0.5; dim]).unwrap();
    let expected = kl::multivariate_diagonal(&q, &prior).unwrap();
    assert!((got / expected - 1.0).abs() < 1e-6, "{got} for {expected}"); // f32 sums of rows
    let (e, g) = (noise(key, dim), normals(3, dim));
    family.update(&f32s(&g), 1.0, &penalties(dim, dim), BETA, 0.0);
    let gradient = family.gradient();
    for i in 0..dim {
        let drawn = mean[i] + (0..=i).map(|j| lower[at(i, j)] * e[j]).sum::<f64>();
        assert!((f64::from(w[i]) - drawn).abs() < 1e-5); // a sum of 400 in f32
        for j in 0..i {
            let expected = g[i] * e[j] - BETA * 4.0 * lower[at(i, j)];
            assert!((gradient[dim + at(i, j)] - expected).abs() < 1e-5, "{i} {j}"); // f32, terms of up to 10
        }
    }
}

#[test]
fn sizes_that_cannot_be_are_refused_in_one_sentence() {
    assert!(FullCovariance::check("full-covariance", 10_000, 1, false, "").is_ok());
    let message = FullCovariance::check("full-covariance", 478_410, 1, false, "use low-rank").unwrap_err().to_string();
    // Four triangles and two vectors of f32: 8P(P + 1) + 8P.
    assert_eq!(
        message,
        "full-covariance on 478410 parameters needs 1831016679360 bytes (1705.3 GiB), more than the 2 GiB it may take; \
         use low-rank"
    );
    assert!(FullCovariance::check("", usize::MAX, 10_000, true, "").is_err());
    assert!(LowRank::check(478_410, 5, 1).is_ok() && LowRank::check(1 << 30, 1000, 1).is_err());
}

/// An update that writes the next step's means and variances, and one that leaves them to the next draw: the same bits, with parameters
/// that are drawn once in the middle of a block.
#[test]
fn updating_ahead_changes_nothing() {
    let (dim, fixed) = (2 * BLOCK + 100, 2 * BLOCK + 60);
    let (mean, penalties) = (f32s(&noise(Key::new(1), dim)), penalties(dim, 700));
    let mut plain = MeanField::new(&mean, &vec![0.3; dim], 1);
    let mut ahead = plain.clone();
    let arrays = || (vec![0.0f32; dim], vec![0.0f32; dim]);
    let ((mut centre, mut spread), (mut centre_ahead, mut spread_ahead)) = (arrays(), arrays());
    for t in 0..4 {
        let key = Key::new(2).step(t);
        let draw = |q: &mut MeanField, centre: &mut [f32], spread: &mut [f32]| {
            q.draw_by_row(key, RowNoise::Local, &penalties, fixed, centre, spread, None)
        };
        let kl = draw(&mut plain, &mut centre, &mut spread);
        assert_eq!(kl.to_bits(), draw(&mut ahead, &mut centre_ahead, &mut spread_ahead).to_bits(), "step {t}");
        assert!(centre == centre_ahead && spread == spread_ahead, "step {t}");
        let (g, d_variance) = (f32s(&noise(key.derive(1), dim)), f32s(&noise(key.derive(2), dim)));
        let by_row = ByRow { noise: RowNoise::Local, spread: &d_variance, fixed };
        plain.update(&g, Some(by_row), &penalties, 0.7, 0.01);
        let (centre, spread) = (&mut centre_ahead[..], &mut spread_ahead[..]);
        ahead.update_ahead(&g, &d_variance, fixed, &penalties, 0.7, 0.01, centre, spread);
    }
    assert_eq!(plain.moments(), ahead.moments());
}

/// An update that makes the next draw, and one that leaves it to the next step: the same bits, also when another draw comes between.
#[test]
fn drawing_ahead_changes_nothing() {
    let dim = BLOCK + 100;
    let (mean, penalties) = (f32s(&noise(Key::new(1), dim)), penalties(dim, 700));
    let mut plain = MeanField::new(&mean, &vec![0.3; dim], 1);
    let mut ahead = plain.clone();
    let (mut w, mut w_ahead) = (vec![0.0f32; dim], vec![0.0f32; dim]);
    for t in 0..5 {
        let key = Key::new(2).step(t);
        if t == 3 {
            ahead.draw(key.derive(9), &penalties, &mut w_ahead);
        }
        let kl = plain.draw(key, &penalties, &mut w);
        assert_eq!(kl.to_bits(), ahead.draw(key, &penalties, &mut w_ahead).to_bits(), "step {t}");
        assert!(w == w_ahead, "step {t}");
        let g = f32s(&noise(key.derive(1), dim));
        plain.update(&g, None, &penalties, 0.7, 0.01);
        ahead.update_and_draw(&g, &penalties, 0.7, 0.01, Key::new(2).step(t + 1), &mut w_ahead);
    }
    assert_eq!(plain.moments(), ahead.moments());
}

/// Weights above an α stay out whatever their gradients, by each way to update; the others' bits are those of a family that removed none.
#[test]
fn removed_weights_stay_out_and_the_others_do_not_notice() {
    let (dim, cut, alpha) = (BLOCK + 100, 300, 20.0f32);
    let mean = f32s(&noise(Key::new(1), dim));
    let all = |range, law| GaussianPenalty { range, centre: 0.0, precision: 1.0, kl_constant: 0.0, law };
    let penalties = vec![all(0..cut, Law::Normal), all(cut..dim, Law::LogUniform)];
    let start = MeanField::new(&mean, &vec![0.5; dim], 2);
    let gone: Vec<bool> = (0..dim).map(|i| i >= cut && 0.25 > alpha * mean[i] * mean[i]).collect();
    // |m| < 0.11 has a probability of 9 %.
    assert!((40..150).contains(&gone.iter().filter(|g| **g).count()));
    for way in ["update", "update_and_draw", "update_ahead", "update_accumulated"] {
        let [whole, pruned] = [false, true].map(|prune| {
            let mut q = start.clone();
            if prune {
                q.remove(&penalties, alpha);
            }
            let (mut centre, mut spread) = (vec![0.0f32; dim], vec![0.0f32; dim]);
            for t in 0..3 {
                let key = Key::new(2).step(t);
                q.draw_by_row(key, RowNoise::Local, &penalties, dim, &mut centre, &mut spread, None);
                let (g, d) = (f32s(&noise(key.derive(1), dim)), f32s(&noise(key.derive(2), dim)));
                let by_row = Some(ByRow { noise: RowNoise::Local, spread: &d, fixed: dim });
                match way {
                    "update" => q.update(&g, by_row, &penalties, BETA, 0.01),
                    "update_and_draw" => {
                        let mut w = vec![0.0f32; dim];
                        q.draw(key, &penalties, &mut w);
                        q.update_and_draw(&g, &penalties, BETA, 0.01, key.derive(3), &mut w);
                    }
                    "update_ahead" => q.update_ahead(&g, &d, dim, &penalties, BETA, 0.01, &mut centre, &mut spread),
                    _ => {
                        q.accumulate(&g, by_row, 1.0);
                        q.update_accumulated(&penalties, BETA, 0.01);
                    }
                }
            }
            q.draw_by_row(Key::new(3), RowNoise::Local, &penalties, dim, &mut centre, &mut spread, None);
            (centre, spread)
        });
        for i in 0..dim {
            if gone[i] {
                assert!(pruned.0[i] == 0.0 && pruned.1[i] == 0.0, "{way}, {i}");
            } else {
                assert_eq!((pruned.0[i], pruned.1[i]), (whole.0[i], whole.1[i]), "{way}, {i}");
            }
        }
    }
}
