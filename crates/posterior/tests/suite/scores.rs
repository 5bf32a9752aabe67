//! Scores against scikit-learn, torchmetrics and SciPy (numbers computed once, kept here), standard errors against closed forms.

use posterior::likelihood::{Likelihood, Outcome, find};
use posterior::predict::{Predictive, TargetScale};
use posterior::rng::{Key, Stream};
use posterior::score::{LEVELS, METRICS, Roc, Scored, pit_histogram, rate, reliability, risk_coverage_curve};
use posterior::settings::Settings;
use std::sync::Arc;

fn likelihood(name: &str, width: usize) -> Arc<dyn Likelihood> {
    let entry = find(name).unwrap();
    (entry.build)(&Settings::resolve(entry.settings, &[], name).unwrap(), width).unwrap()
}

/// Made-up numbers between −`half` and `half` that any language can repeat: (k mod p)/p.
fn spread(k: usize, p: usize, half: f64) -> f64 {
    (k % p) as f64 / p as f64 * 2.0 * half - half
}

fn three_classes() -> (Predictive, Vec<f64>) {
    let f: Vec<f32> = (0..60usize)
        .flat_map(|n| (0..3).map(move |c| spread(n * 137 + c * 101 + n * n * c * 13, 997, 3.0) as f32))
        .collect();
    let largest = |n: usize| (0..3).max_by(|a, b| f[3 * n + a].total_cmp(&f[3 * n + b])).unwrap();
    let y = (0..60).map(|n| if n % 3 > 0 { largest(n) } else { n / 3 % 3 } as f64).collect();
    (Predictive::new(likelihood("categorical", 3), f, vec![], 1, 60, TargetScale::default()), y)
}

fn five_normals() -> (Predictive, Vec<f64>) {
    let f = (0..5usize).flat_map(|s| (0..40usize).map(move |n| spread(n * 29 + s * 61 + n * s * 7, 89, 2.0) as f32));
    let noise = (0..5).map(|s| -1.0 + 0.25 * s as f32).collect();
    let y = (0..40usize).map(|n| 10.0 + 3.0 * spread(n * 17 + n * n * 5, 83, 2.0)).collect();
    let scale = TargetScale { targets: vec![(10.0, 3.0)] };
    (Predictive::new(likelihood("gaussian", 1), f.collect(), noise, 5, 40, scale), y)
}

/// Every number to 1e-6: single-precision outputs are the same on both sides, quantiles are solved to 1e-9 of their spread, and
/// torchmetrics adds up in single precision.
fn check(scored: &Scored, expected: &[(&str, f64)]) {
    let mut names: Vec<&str> = METRICS.iter().filter(|m| m.score(scored).is_some()).map(|m| m.name).collect();
    for (name, value) in expected {
        let got = posterior::score::find(name).unwrap().score(scored).unwrap();
        assert!((got - value).abs() < 1e-6, "{name}: {got}, expected {value}");
        names.retain(|n| n != name);
    }
    assert!(names.is_empty(), "not checked: {names:?}");
}

#[test]
fn classes() {
    let (predictive, y) = three_classes();
    check(
        &Scored::new(&predictive, &y, Outcome::Class),
        &[
            ("log_likelihood", -0.7983369674333782),
            ("accuracy", 0.7666666666666667),
            ("brier", 0.4398277947486923),
            ("auroc", 0.8394982809177183),
            ("ece", 0.18699727952480316),
            ("ece_equal_mass", 0.1843463760105148),
            ("ece_classwise", 0.15785919301057064),
            ("risk_coverage_area", 0.16690407374794172),
        ],
    );
}

#[test]
fn two_classes() {
    let f: Vec<f32> = (0..60usize).map(|n| spread(n * 137 + n * n * 13, 997, 3.0) as f32).collect();
    let y: Vec<f64> =
        f.iter().enumerate().map(|(n, f)| if n % 4 > 0 { usize::from(*f > 0.0) } else { n / 4 % 2 } as f64).collect();
    let predictive = Predictive::new(likelihood("bernoulli", 2), f, vec![], 1, 60, TargetScale::default());
    let scored = Scored::new(&predictive, &y, Outcome::Class);
    for (name, value) in
        [("log_likelihood", -0.443809094011136), ("auroc", 0.8765294771968855), ("brier", 0.2769200125050771)]
    {
        let got = posterior::score::find(name).unwrap().score(&scored).unwrap();
        assert!((got - value).abs() < 1e-6, "{name}: {got}");
    }
}

#[test]
fn real_numbers() {
    let (predictive, y) = five_normals();
    check(
        &Scored::new(&predictive, &y, Outcome::Real),
        &[
            ("log_likelihood", -2.8369627509812774),
            ("rmse", 3.670189329054348),
            ("mae", 3.1219250040614686),
            ("crps", 2.193991745752346),
            ("coverage_50", 0.475),
            ("coverage_80", 0.775),
            ("coverage_90", 0.875),
            ("coverage_95", 0.925),
            ("width_50", 5.471714293793745),
            ("width_80", 9.371355549688445),
            ("width_90", 11.459287436064596),
            ("width_95", 13.229574915810712),
            ("pit_deviation", 0.07879234929969403),
            ("risk_coverage_area", 3.4756209040150337),
        ],
    );
}

/// Heavy tails by quadrature, counts by sums; SciPy's numbers.
#[test]
fn crps_of_other_likelihoods() {
    let scale = TargetScale { targets: vec![(10.0, 3.0)] };
    let f = vec![spread(3 * 29, 89, 2.0) as f32];
    let t = Predictive::new(likelihood("student-t", 1), f, vec![-1.0], 1, 1, scale);
    let got = t.crps(&[10.0 + 3.0 * spread(3 * 17 + 45, 83, 2.0)])[0];
    assert!((got - 9.041153429633553).abs() < 1e-6, "{got}");
    let rates = vec![2.5f32.ln(), 7.0f32.ln()];
    let counts = Predictive::new(likelihood("poisson", 1), rates, vec![], 2, 1, TargetScale::default());
    // The logarithms of the rates are single precision.
    assert!((counts.crps(&[4.0])[0] - 0.787940053644496).abs() < 1e-6, "{:?}", counts.crps(&[4.0]));
    let (before, at) = counts.pit(&[4.0])[0];
    assert!((at - before - 0.5 * (0.133601886 + 0.091226192)).abs() < 1e-6, "P(y = 4) under both rates");
}

/// More draws than pairs are visited for: quadrature must agree with the closed form of the same mixture.
#[test]
fn crps_of_many_draws() {
    let (few, y) = five_normals();
    let f: Vec<f32> =
        (0..40).flat_map(|_| (0..5).flat_map(|s| few.draw(s).unwrap().to_vec()).collect::<Vec<_>>()).collect();
    let noise = (0..200).map(|s| -1.0 + 0.25 * (s % 5) as f32).collect();
    let scale = TargetScale { targets: vec![(10.0, 3.0)] };
    let many = Predictive::new(likelihood("gaussian", 1), f, noise, 200, 40, scale);
    for (a, b) in many.crps(&y).iter().zip(few.crps(&y)) {
        assert!((a - b).abs() < 1e-6, "{a} {b}");
    }
}

#[test]
fn thresholds_with_ties() {
    let positives = [1.0, 2.0, 2.0, 3.0, 5.0, 5.0, 6.0, 7.0];
    let negatives = [0.0, 0.0, 1.0, 2.0, 2.0, 4.0, 5.0, 1.0, 0.0, 3.0];
    let roc = Roc::new(&positives, &negatives);
    assert!((roc.auroc().unwrap() - 0.78125).abs() < 1e-12);
    assert!((roc.average_precision().unwrap() - 0.740625).abs() < 1e-12);
    assert_eq!((roc.false_positives_at(0.95), roc.false_positives_at(0.75)), (Some(0.7), Some(0.5)));
    assert_eq!((roc.true_positives_at(0.05), roc.true_positives_at(0.2)), (Some(0.25), Some(0.5)));
    assert_eq!(Roc::new(&[1.0; 5], &[1.0; 3]).auroc(), Some(0.5));
    assert_eq!((Roc::new(&[], &[1.0]).auroc(), Roc::new(&[1.0], &[]).auroc()), (None, None));
    assert_eq!(Roc::new(&[2.0], &[1.0]).curve(), [(0.0, 0.0), (0.0, 1.0), (1.0, 1.0)]);
}

/// The bootstrap of a mean has a closed form, std/√N; 200 resamples know it to 5 %, so five standard errors are 25 %.
#[test]
fn bootstrap_of_means() {
    let (predictive, y) = five_normals();
    let scored = Scored::new(&predictive, &y, Outcome::Real);
    let rated = rate(&scored, Key::new(3));
    let se = |name: &str| rated.iter().find(|r| r.metric.name == name).unwrap().standard_error.unwrap();
    assert!((se("log_likelihood") / 0.13984299096981986 - 1.0).abs() < 0.25, "{}", se("log_likelihood"));
    let p = 0.775f64;
    assert!((se("coverage_80") / (p * (1.0 - p) / 40.0).sqrt() - 1.0).abs() < 0.25, "{}", se("coverage_80"));
    assert!(rated.iter().all(|r| r.value.as_ref().is_ok_and(|v| v.is_finite())));
    let again = rate(&scored, Key::new(3));
    assert!(rated.iter().zip(&again).all(|(a, b)| a.standard_error == b.standard_error), "keyed");
}

/// Outcomes drawn from the predictive itself: the calibration errors are within their own noise, and they fall as 1/√N.
#[test]
fn a_calibrated_simulator() {
    const ROWS: usize = 20_000;
    let mut stream = Stream::new(Key::new(11));
    let f: Vec<f32> = (0..3 * ROWS).map(|_| 1.5 * stream.normal() as f32).collect();
    let l = likelihood("categorical", 3);
    let mut y = vec![0.0; ROWS];
    for n in 0..ROWS {
        let row: Vec<f64> = f[3 * n..3 * n + 3].iter().map(|v| f64::from(*v)).collect();
        l.sample(&row, &[], &mut stream, &mut y[n..n + 1]);
    }
    let predictive = Predictive::new(l, f, vec![], 1, ROWS, TargetScale::default());
    let scored = Scored::new(&predictive, &y, Outcome::Class);
    let score = |name: &str| posterior::score::find(name).unwrap().score(&scored).unwrap();
    // E Σ_b |gap_b|/N ≤ Σ_b √(Σ_b p(1−p))/N ≤ √(15 · N/4)/N by Jensen and Cauchy–Schwarz: 0.0137 here; each class has its own.
    let bound = (15.0 / 4.0 / ROWS as f64).sqrt();
    for name in ["ece", "ece_equal_mass", "ece_classwise"] {
        assert!(score(name) < bound, "{name}: {} above {bound}", score(name));
    }
    for bin in reliability(&scored).unwrap().iter().filter(|b| b.rows > 0) {
        let error = (0.25 / bin.rows as f64).sqrt();
        assert!((bin.accuracy - bin.confidence).abs() < 5.0 * error, "{bin:?}");
    }
    // Confidence that is too high by a factor of two in the logits is seen.
    let sharp: Vec<f32> = predictive.draw(0).unwrap().iter().map(|v| 2.0 * v).collect();
    let sharp = Predictive::new(likelihood("categorical", 3), sharp, vec![], 1, ROWS, TargetScale::default());
    let scored = Scored::new(&sharp, &y, Outcome::Class);
    for name in ["ece", "ece_equal_mass", "ece_classwise"] {
        assert!(posterior::score::find(name).unwrap().score(&scored).unwrap() > 3.0 * bound, "{name}");
    }
}

#[test]
fn a_calibrated_regression_has_flat_transforms() {
    for name in ["gaussian", "poisson"] {
        const ROWS: usize = 4000;
        let l = likelihood(name, 1);
        let count = l.outcome() == Outcome::Count;
        let mut stream = Stream::new(Key::new(5));
        let f: Vec<f32> = (0..ROWS).map(|_| stream.normal() as f32 + if count { 1.0 } else { 0.0 }).collect();
        let noise: Vec<f32> = l.blocks().iter().map(|_| -0.5).collect();
        let wide: Vec<f64> = noise.iter().map(|v| f64::from(*v)).collect();
        let mut y = vec![0.0; ROWS];
        for n in 0..ROWS {
            l.sample(&[f64::from(f[n])], &wide, &mut stream, &mut y[n..n + 1]);
        }
        let outcome = l.outcome();
        let predictive = Predictive::new(l, f, noise, 1, ROWS, TargetScale::default());
        let scored = Scored::new(&predictive, &y, outcome);
        let score = |name: &str| posterior::score::find(name).unwrap().score(&scored).unwrap();
        // Kolmogorov: P(√N D > 1.95) = 0.001; the smoothed transform of counts has a smaller spread.
        assert!(score("pit_deviation") < 1.95 / (ROWS as f64).sqrt(), "{name}: {}", score("pit_deviation"));
        for part in pit_histogram(&scored, 10).unwrap() {
            assert!((part - 0.1).abs() < 5.0 * (0.09 / ROWS as f64).sqrt(), "{name}: {part}");
        }
        if !count {
            for (level, p) in LEVELS.iter().enumerate() {
                let inside = (0..y.len()).filter(|n| scored.is_inside(*n, level)).count();
                let error = (p * (1.0 - p) / ROWS as f64).sqrt();
                assert!((inside as f64 / ROWS as f64 - p).abs() < 5.0 * error, "{p}: {inside}");
            }
        }
    }
}

/// The area is the mean of the curve, and rows of equal doubt count on average, whatever their order.
#[test]
fn risk_and_coverage() {
    let (predictive, y) = three_classes();
    let scored = Scored::new(&predictive, &y, Outcome::Class);
    let curve = risk_coverage_curve(&scored, 60).unwrap();
    let area = curve.iter().map(|c| c.1).sum::<f64>() / 60.0;
    assert!((area - 0.16690407374794172).abs() < 1e-9 && curve.len() == 60);
    assert_eq!(curve.last().unwrap().0, 1.0);
    assert_eq!(risk_coverage_curve(&scored, 10).unwrap().len(), 10);
    let flat = Predictive::new(likelihood("categorical", 3), vec![0.0; 12], vec![], 1, 4, TargetScale::default());
    for y in [[0.0, 0.0, 1.0, 2.0], [2.0, 1.0, 0.0, 0.0]] {
        let scored = Scored::new(&flat, &y, Outcome::Class);
        let area = posterior::score::find("risk_coverage_area").unwrap().score(&scored).unwrap();
        assert!((area - 0.5).abs() < 1e-12, "half of the rows are wrong and none is surer than another: {area}");
    }
}

/// Twenty rows in fifteen bins of 4/3 rows each: ten that are 60 % sure and right, ten that are 90 % sure and half of them wrong. The
/// eighth bin holds two thirds of a row of either kind, whose gaps of 0.4 cancel; fourteen bins do not.
#[test]
fn bins_of_equal_mass_share_equal_rows() {
    let logit = |p: f64| (p / (1.0 - p)).ln() as f32;
    let f = (0..20).map(|n| if n < 10 { logit(0.6) } else { logit(0.9) }).collect();
    let y: Vec<f64> = (0..20).map(|n| if n < 10 || n % 2 == 0 { 1.0 } else { 0.0 }).collect();
    let predictive = Predictive::new(likelihood("bernoulli", 2), f, vec![], 1, 20, TargetScale::default());
    let scored = Scored::new(&predictive, &y, Outcome::Class);
    let got = posterior::score::find("ece_equal_mass").unwrap().score(&scored).unwrap();
    assert!((got - 0.4 * 14.0 / 15.0).abs() < 1e-6, "{got}");
}

#[test]
fn an_area_under_a_curve_needs_every_class() {
    let (predictive, _) = three_classes();
    let y = vec![1.0; 60];
    let rated = rate(&Scored::new(&predictive, &y, Outcome::Class), Key::new(1));
    let auroc = rated.iter().find(|r| r.metric.name == "auroc").unwrap();
    assert_eq!(auroc.value, Err("it needs rows of every class, and these hold 1 of 3".to_owned()));
    assert_eq!(auroc.standard_error, None);
    assert!(rated.iter().filter(|r| r.metric.name != "auroc").all(|r| r.value.is_ok()));
}

#[test]
fn total_is_aleatoric_plus_epistemic() {
    let (predictive, _) = five_normals();
    let real = predictive.real();
    for n in 0..40 {
        let (total, epistemic, aleatoric) = real.std(n);
        assert!((total.powi(2) - epistemic.powi(2) - aleatoric.powi(2)).abs() < 1e-12 * total.powi(2));
        assert!(epistemic >= 0.0);
    }
    let mut stream = Stream::new(Key::new(2));
    for spread in [1e-4f32, 1.0, 30.0] {
        let f: Vec<f32> = (0..7 * 50 * 3).map(|_| spread * stream.normal() as f32).collect();
        let classes = Predictive::new(likelihood("categorical", 3), f, vec![], 7, 50, TargetScale::default()).classes();
        for n in 0..50 {
            let (epistemic, apart) = (classes.mutual_information(n), classes.total[n] - classes.aleatoric[n]);
            assert!(epistemic >= 0.0 && (epistemic - apart).abs() < 1e-12, "{epistemic} {apart}");
        }
    }
}
