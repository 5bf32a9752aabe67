//! Quantiles and CRPS of every likelihood at outputs and noise of any size: an answer in a bounded number of steps, which is right or says that it is beyond
//! what can be told.

use posterior::likelihood::{LIKELIHOODS, Likelihood, LikelihoodGradient, LikelihoodOps, Outcome, find};
use posterior::math::special::Standard;
use posterior::predict::{Predictive, TargetScale};
use posterior::rng::Stream;
use posterior::settings::Settings;
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A likelihood that counts how often its distribution function is asked for.
#[derive(Debug)]
struct Counting {
    inner: Arc<dyn Likelihood>,
    calls: Arc<AtomicUsize>,
}

macro_rules! ops {
    ($($R:ty),*) => {$(
        impl LikelihoodOps<$R> for Counting {
            fn log_prob(
                &self,
                f: &[$R],
                y: &[$R],
                noise: &[$R],
                weights: Option<&[$R]>,
                scale: f64,
                gradient: Option<LikelihoodGradient<'_, $R>>,
            ) -> f64 {
                LikelihoodOps::<$R>::log_prob(&*self.inner, f, y, noise, weights, scale, gradient)
            }
        }
    )*};
}
ops!(f32, f64);

impl Likelihood for Counting {
    fn name(&self) -> &'static str {
        self.inner.name()
    }
    fn settings(&self) -> &Settings {
        self.inner.settings()
    }
    fn outcome(&self) -> Outcome {
        self.inner.outcome()
    }
    fn targets(&self) -> usize {
        self.inner.targets()
    }
    fn outputs(&self) -> usize {
        self.inner.outputs()
    }
    fn classes(&self) -> usize {
        self.inner.classes()
    }
    fn standard(&self) -> Option<&Standard> {
        self.inner.standard()
    }
    fn log_prob_row(&self, f: &[f64], y: &[f64], noise: &[f64]) -> f64 {
        self.inner.log_prob_row(f, y, noise)
    }
    fn hessian_row(&self, f: &[f64], y: &[f64], noise: &[f64], out: &mut [f64]) {
        self.inner.hessian_row(f, y, noise, out);
    }
    fn moments(&self, f: &[f64], noise: &[f64], mean: &mut [f64], variance: &mut [f64]) {
        self.inner.moments(f, noise, mean, variance);
    }
    fn cdf(&self, target: usize, value: f64, f: &[f64], noise: &[f64]) -> f64 {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.inner.cdf(target, value, f, noise)
    }
    fn smooth_cdf(&self, target: usize, value: f64, f: &[f64], noise: &[f64]) -> f64 {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.inner.smooth_cdf(target, value, f, noise)
    }
    fn probabilities(&self, f: &[f64], out: &mut [f64]) {
        self.inner.probabilities(f, out);
    }
    fn sample(&self, f: &[f64], noise: &[f64], stream: &mut Stream, y: &mut [f64]) {
        self.inner.sample(f, noise, stream, y);
    }
}

fn likelihood(name: &str) -> Arc<dyn Likelihood> {
    let entry = find(name).unwrap();
    let width = match entry.outcome {
        Outcome::Class => 2,
        _ => 1,
    };
    (entry.build)(&Settings::resolve(entry.settings, &[], name).unwrap(), width).unwrap()
}

/// All of f32: ordinary numbers, powers of ten from the subnormal ones to the largest, and the ends.
fn any_size() -> impl Strategy<Value = f32> {
    let size = prop_oneof![
        3 => -4.0..4.0f32,
        3 => (-45.0..38.5f32).prop_map(|e| 10f32.powf(e).min(f32::MAX)),
        1 => prop_oneof![Just(0.0), Just(f32::MAX), Just(f32::from_bits(1)), Just(1e30), Just(700.0), Just(36.5)],
    ];
    (size, any::<bool>()).prop_map(|(v, negative)| if negative { -v } else { v })
}

/// Evaluations of S distribution functions that a quantile may take, and a score: 400 intervals halved from the first ones, 15 points each.
const QUANTILE_STEPS: usize = 300;
const SCORE_STEPS: usize = 40_000;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn any_outputs_and_noise(
        f in prop::collection::vec((any_size(), any_size()), 1..6),
        noise in prop::collection::vec(any_size(), 6),
        level in prop_oneof![0.001..0.999f64, Just(0.025), Just(0.975)],
        y in prop_oneof![Just(0.0), Just(3.0), Just(1e6), Just(1e17)],
    ) {
        for entry in LIKELIHOODS {
            let l = likelihood(entry.name);
            let (draws, outputs) = (f.len(), l.outputs());
            let values: Vec<f32> = f.iter().flat_map(|(a, b)| [*a, *b].into_iter().take(outputs)).collect();
            let noises = draws * l.blocks().iter().map(|b| b.len()).sum::<usize>();
            let calls = Arc::new(AtomicUsize::new(0));
            let counting = Arc::new(Counting { inner: l.clone(), calls: calls.clone() });
            let p = Predictive::new(counting, values, noise[..noises].to_vec(), draws, 1, TargetScale::default());
            let q = p.quantiles(&[level])[0];
            prop_assert!(calls.swap(0, Ordering::Relaxed) <= QUANTILE_STEPS * draws, "{}", entry.name);
            if entry.outcome == Outcome::Class {
                continue;
            }
            let score = p.crps(&[y])[0];
            prop_assert!(calls.swap(0, Ordering::Relaxed) <= SCORE_STEPS * draws, "{}", entry.name);
            let what = format!("{} at {level}: {q}, score {score}", entry.name);
            if entry.outcome == Outcome::Count {
                prop_assert!(q >= 0.0 && score >= 0.0, "{what}");
                let (before, at) = if q.is_finite() {
                    (p.cdf(0, 0, if q < 1e15 { q - 1.0 } else { q * (1.0 - 1e-15) }), p.cdf(0, 0, q))
                } else {
                    (p.cdf(0, 0, 1e300), 1.0)
                };
                prop_assert!(before < level + 1e-9 && at > level - 1e-9, "{what}: {before} {at}");
            } else if noise[..noises].iter().any(|v| *v > 100.0) {
                prop_assert!(q.is_nan() == score.is_nan(), "{what}"); // e^230 is 1e100, where scales are not told any more
            } else {
                prop_assert!(q.is_finite() && score >= 0.0 && score.is_finite(), "{what}");
                let near = 1e-13 * q.abs() + 1e-98; // scales below 1e-100 count as that
                let (below, above) = (p.cdf(0, 0, q - near), p.cdf(0, 0, q + near));
                prop_assert!(below < level + 1e-9 && above > level - 1e-9, "{what}: {below} {above}");
            }
        }
    }
}

fn counts(log_rates: Vec<f32>) -> Predictive {
    let draws = log_rates.len();
    Predictive::new(likelihood("poisson"), log_rates, vec![], draws, 1, TargetScale::default())
}

/// Rates beyond 2⁵³, where one more is no other number: a count of rate λ is normal to 1/√λ of its σ.
#[test]
fn counts_of_high_rate() {
    for log_rate in [20.0f32, 36.0, 45.0, 80.0, 600.0] {
        let rate = f64::from(log_rate).exp();
        let p = counts(vec![log_rate]);
        let q = p.quantiles(&[0.05, 0.5, 0.95]);
        for (q, z) in q.iter().zip([-1.6448536269514722, 0.0, 1.6448536269514722]) {
            let room = 1.0 + 1e-15 * rate;
            assert!((q - rate - z * rate.sqrt()).abs() <= room, "{log_rate}: {q}");
        }
        // At y = λ the score of a normal is σ (√2 − 1)/√π.
        let score = p.crps(&[rate.round()])[0] / rate.sqrt();
        if log_rate < 70.0 {
            assert!((score - (2f64.sqrt() - 1.0) / std::f64::consts::PI.sqrt()).abs() < 1e-6, "{log_rate}: {score}");
        }
        assert!(score.is_finite());
    }
    let beyond = counts(vec![1e30]);
    assert_eq!(beyond.quantiles(&[0.05, 0.95]), [f64::INFINITY; 2]);
    assert_eq!(beyond.crps(&[3.0]), [f64::INFINITY]);
    // Half at 1 and half at e⁵⁰: the score at 1 is a quarter of the distance, to the σ of either.
    let apart = counts(vec![0.0, 50.0]);
    assert!((apart.crps(&[1.0])[0] / (0.25 * 50f64.exp()) - 1.0).abs() < 1e-9);
    assert_eq!(apart.quantiles(&[0.25]), [1.0]);
}

/// Every count added up by hand: rates on both sides of where the score turns from a sum to an integral.
#[test]
fn scores_of_counts_by_hand() {
    for (rates, y) in [(vec![3000.0f32], 2950.0), (vec![2.0, 2000.0, 2100.0], 2048.0), (vec![1.5, 40.0, 5000.0], 3.0)] {
        let p = counts(rates.iter().map(|r| r.ln()).collect());
        let cdf = |k: f64| p.cdf(0, 0, k);
        let exact: f64 = (0..8000).map(f64::from).map(|k| (cdf(k) - if k >= y { 1.0 } else { 0.0 }).powi(2)).sum();
        let got = p.crps(&[y])[0];
        assert!((got / exact - 1.0).abs() < 1e-7, "{rates:?}: {got} {exact}"); // the next term of Euler & Maclaurin
    }
}
