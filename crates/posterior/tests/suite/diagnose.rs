//! Diagnostics against ArviZ's numbers (`fixtures/arviz.json`, made by `bench/peers/arviz_fixtures.py`) and against closed forms.

use posterior::diagnose::{
    GeneralisedPareto, Trace, Weights, e_bfmi, ess_bulk, ess_mean, ess_quantile, ess_std, ess_tail, mcse_mean,
    mcse_quantile, mcse_std, r_hat,
};
use posterior::rng::{Key, Stream};
use serde_json::Value;

const FIXTURES: &str = include_str!("fixtures/arviz.json");

/// SplitMix64, as in the script: the same chains bit for bit.
struct Numbers(u64);

impl Numbers {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 * 2f64.powi(-53)
    }

    fn bell(&mut self) -> f64 {
        (0..12).fold(0.0, |sum, _| sum + self.uniform()) - 6.0
    }

    fn ar1(&mut self, draws: usize, phi: f64) -> Vec<f64> {
        let mut x = 0.0;
        (0..draws)
            .map(|_| {
                x = phi * x + self.bell();
                x
            })
            .collect()
    }
}

fn chain(kind: &str, s: &mut Numbers, c: usize, n: usize) -> Vec<f64> {
    let mut each = |f: &mut dyn FnMut(&mut Numbers, usize) -> f64| (0..n).map(|i| f(s, i)).collect();
    match kind {
        "independent" | "short, odd" => each(&mut |s, _| s.bell()),
        "autocorrelated" => s.ar1(n, 0.9),
        "antithetic" => s.ar1(n, -0.6),
        "slow" => s.ar1(n, 0.995),
        "one stuck" if c == 2 => vec![0.25; n],
        "one stuck" => each(&mut |s, _| s.bell()),
        "all stuck" => vec![c as f64; n],
        "constant" => vec![1.5; n],
        "trending" => each(&mut |s, i| 0.05 * i as f64 + s.bell()),
        "shifted" => each(&mut |s, _| s.bell() + if c == 0 { 2.0 } else { 0.0 }),
        "other scale" => each(&mut |s, _| s.bell() * if c == 0 { 4.0 } else { 1.0 }),
        "heavy tails, odd" => each(&mut |s, _| s.bell() / s.bell()),
        "ties, odd" => s.ar1(n, 0.5).iter().map(|v| (2.0 * v).floor()).collect(),
        other => panic!("{other}"),
    }
}

fn log_weight(kind: &str, s: &mut Numbers) -> f64 {
    match kind {
        "light tail" => 0.5 * s.bell(),
        "heavy tail" => 3.0 * s.bell(),
        "bounded" => -s.bell().abs(),
        "few" | "too few" => s.bell(),
        "far" => -800.0 + 40.0 * s.bell(),
        "ties" => (3.0 * s.bell()).floor(),
        other => panic!("{other}"),
    }
}

fn number(v: &Value) -> f64 {
    match v {
        Value::String(text) => text.parse().unwrap(),
        _ => v.as_f64().unwrap(),
    }
}

/// Agreement to 1e-6, relative: autocovariances are summed here and transformed there, which rounds at 1e-12.
fn agree(what: &str, got: f64, expected: f64) {
    // Chains that stand still at different places: infinite, or what rounding makes of it.
    let same = (got.is_nan() && expected.is_nan()) || (got > 1e12 && expected > 1e12);
    let close = (got - expected).abs() <= 1e-6 * expected.abs().max(1e-3);
    assert!(same || close, "{what}: {got}, ArviZ {expected}");
}

#[test]
fn chains_agree_with_arviz() {
    let fixtures: Value = serde_json::from_str(FIXTURES).unwrap();
    for case in fixtures["chains"].as_array().unwrap() {
        let (name, chains) = (case["name"].as_str().unwrap(), case["chains"].as_u64().unwrap() as usize);
        let mut numbers = Numbers(case["seed"].as_u64().unwrap());
        let draws = case["draws"].as_u64().unwrap() as usize;
        let values = (0..chains).flat_map(|c| chain(name, &mut numbers, c, draws)).collect();
        let trace = Trace::new(values, chains);
        let got = [
            ("r_hat", r_hat(&trace)),
            ("ess_bulk", ess_bulk(&trace)),
            ("ess_tail", ess_tail(&trace)),
            ("ess_mean", ess_mean(&trace)),
            ("ess_std", ess_std(&trace)),
            ("ess_median", ess_quantile(&trace, 0.5)),
            ("mcse_mean", mcse_mean(&trace)),
            ("mcse_std", mcse_std(&trace)),
            ("mcse_05", mcse_quantile(&trace, 0.05)),
            ("mcse_50", mcse_quantile(&trace, 0.5)),
            ("mcse_95", mcse_quantile(&trace, 0.95)),
        ];
        for (key, value) in got {
            agree(&format!("{name}, {key}"), value, number(&case[key]));
        }
        for (c, (chain, expected)) in trace.by_chain().zip(case["bfmi"].as_array().unwrap()).enumerate() {
            agree(&format!("{name}, bfmi of {c}"), e_bfmi(chain), number(expected));
        }
    }
}

#[test]
fn weights_agree_with_arviz() {
    let fixtures: Value = serde_json::from_str(FIXTURES).unwrap();
    for case in fixtures["weights"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let mut numbers = Numbers(case["seed"].as_u64().unwrap());
        let raw: Vec<f64> = (0..case["count"].as_u64().unwrap()).map(|_| log_weight(name, &mut numbers)).collect();
        let weights = Weights::new(&raw);
        agree(&format!("{name}, k"), weights.k(), number(&case["k"]));
        agree(&format!("{name}, ess"), weights.ess(), 1.0 / number(&case["sum_of_squares"]));
        let largest = weights.smooth().iter().copied().fold(f64::MIN, f64::max);
        agree(&format!("{name}, largest"), largest, number(&case["largest"]));
        for (i, expected) in case["first"].as_array().unwrap().iter().enumerate() {
            agree(&format!("{name}, weight {i}"), weights.smooth()[i], number(expected));
        }
    }
}

#[test]
fn what_cannot_be_judged_is_not_a_number() {
    for values in [vec![1.0, 2.0, 3.0], vec![1.0, f64::NAN, 2.0, 3.0, 4.0], vec![f64::INFINITY, 1.0, 2.0, 3.0]] {
        let trace = Trace::new(values, 1);
        for v in [r_hat(&trace), ess_bulk(&trace), ess_tail(&trace), mcse_mean(&trace), mcse_quantile(&trace, 0.5)] {
            assert!(v.is_nan());
        }
    }
    assert!(e_bfmi(&[1.0]).is_nan() && e_bfmi(&[]).is_nan() && e_bfmi(&[1.0, f64::NAN, 3.0]).is_nan());
    // One chain is judged by its halves: a jump in the middle shows.
    let jump: Vec<f64> = (0..100).map(|i| f64::from(i * 37 % 100) + if i < 50 { 0.0 } else { 500.0 }).collect();
    assert!(r_hat(&Trace::new(jump, 1)) > 1.5);
}

/// x_t = φ x_{t−1} + ε has τ = (1 + φ)/(1 − φ).
#[test]
fn an_autoregression_is_worth_what_theory_says() {
    let mut stream = Stream::new(Key::new(3));
    for phi in [-0.5, 0.0, 0.5, 0.9] {
        let (chains, draws) = (4, 20_000);
        let mut values = Vec::new();
        for _ in 0..chains {
            let mut x = stream.normal() / (1.0f64 - phi * phi).sqrt();
            for _ in 0..draws {
                x = phi * x + stream.normal();
                values.push(x);
            }
        }
        let expected = f64::from(chains * draws) * (1.0 - phi) / (1.0 + phi);
        let trace = Trace::new(values, chains as usize);
        // The estimate of τ is off by some √(2·lags·τ/S): 3 % for φ = 0.9, less for the others; four times that.
        for got in [ess_mean(&trace), ess_bulk(&trace)] {
            assert!((got / expected - 1.0).abs() < 0.12, "φ {phi}: {got} for {expected}");
        }
        assert!(r_hat(&trace) < 1.01);
    }
}

/// Draws of the law itself: k is known. Its estimate has the variance (1 + k)²/n, and is drawn to ½ by 10/(n + 10).
#[test]
fn the_shape_of_a_pareto_law_is_found() {
    let mut stream = Stream::new(Key::new(5));
    let n = 4000;
    for k in [-0.3, 0.0, 0.3, 0.7, 1.2] {
        let law = GeneralisedPareto { k, sigma: 2.5 };
        let mut x: Vec<f64> = (0..n).map(|_| law.quantile(stream.uniform())).collect();
        x.sort_by(f64::total_cmp);
        let fit = GeneralisedPareto::fit(&x);
        let error = (1.0 + k) / f64::from(n).sqrt();
        assert!((fit.k - k).abs() < 5.0 * error + 0.003, "{fit:?} for {k}");
        // Var(σ̂)/σ² = 2(1 + k)/n.
        assert!(
            (fit.sigma / 2.5 - 1.0).abs() < 5.0 * (2.0 * (1.0 + k) / f64::from(n)).sqrt() + 0.005,
            "{fit:?} for {k}"
        );
    }
}

/// p = N(0, I), q = N(0, s²I), both in d dimensions and p times e⁷: the mean weight is e⁷, and for s > 1 weights are bounded.
#[test]
fn weights_know_their_mean_and_whether_they_have_one() {
    let weights = |s: f64, dim: usize, draws: usize| {
        let mut stream = Stream::new(Key::new(11));
        let log_weight = |_| {
            let square: f64 = (0..dim).map(|_| stream.normal().powi(2)).sum();
            7.0 + dim as f64 * s.ln() + 0.5 * square * (1.0 - s * s)
        };
        Weights::new(&(0..draws).map(log_weight).collect::<Vec<_>>())
    };
    let wide = weights(1.5, 2, 20_000);
    assert!(wide.k() < 0.5 && wide.is_reliable() && wide.verdict().contains("can be relied on"), "{}", wide.verdict());
    assert!((wide.log_mean() - 7.0).abs() < 5.0 * wide.log_mean_error());
    // E[w²]/E[w]² = (s²/√(2s² − 1))ᵈ for each dimension: draws are worth S over that.
    let expected = 20_000.0 / (1.5f64.powi(2) / (2.0 * 1.5f64.powi(2) - 1.0).sqrt()).powi(2);
    assert!((wide.ess() / expected - 1.0).abs() < 0.05, "{} for {expected}", wide.ess());
    // Too narrow: P(w > t) falls like t^(−1/(1 − s²)), so that k = 1 − s² in the far tail, plus what the dimension adds.
    let narrow = weights(0.3, 10, 20_000);
    assert!(narrow.k() > 0.7 && !narrow.is_reliable() && narrow.verdict().contains("k = "), "{}", narrow.verdict());
    assert!(narrow.ess() < 100.0);
    let equal = Weights::new(&[-3.0; 100]);
    assert!(equal.is_reliable() && equal.verdict().contains("equal") && (equal.ess() - 100.0).abs() < 1e-9);
    assert!((equal.log_mean() + 3.0).abs() < 1e-12 && equal.log_mean_error() < 1e-6);
    let one = Weights::new(&[&[0.0][..], &[f64::NEG_INFINITY; 99]].concat());
    assert!(!one.is_reliable() && one.verdict().contains("99 of 100 weights are 0"), "{}", one.verdict());
    assert!(Weights::new(&[f64::NAN; 30]).ess() > 0.0 && !Weights::new(&[f64::NAN; 30]).is_reliable());
}

#[test]
fn resampling_gives_each_draw_its_share() {
    let weights = Weights::new(&[0.1f64.ln(), 0.45f64.ln(), f64::NEG_INFINITY, 0.25f64.ln(), 0.2f64.ln()]);
    for uniform in [0.0, 0.3, 0.999_999] {
        for count in [1, 7, 100] {
            let counts = weights.resampled(count, uniform);
            assert_eq!(counts.iter().sum::<u32>() as usize, count);
            for (n, w) in counts.iter().zip(weights.smooth()) {
                // Systematic resampling: never further than 1 from the share.
                assert!((f64::from(*n) - w.exp() * count as f64).abs() <= 1.0 + 1e-9, "{counts:?}");
            }
            assert_eq!(counts[2], 0);
        }
    }
}
