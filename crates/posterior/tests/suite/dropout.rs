//! Dropout as Bayes against closed forms: variances of a linear unit, optima of linear models, what is pruned.

use posterior::data::{Dataset, Values};
use posterior::distribution::{log_uniform_kl, log_uniform_kl_slope};
use posterior::inference::{Fit, Silent};
use posterior::likelihood::Outcome;
use posterior::math::{MatRef, Threads};
use posterior::model::{Choice, Recipe};
use posterior::nn::{Activation, Mode, NetworkSpec, Pass, Shape};
use posterior::problem::Problem;
use posterior::rng::{Key, Stream, fill_normals};
use posterior::settings::Value;
use posterior_testing::statistics::{ks_critical, z_mean, z_variance};

const NOISE: f64 = 0.5;
const PRIOR: f64 = 2.0;
const ROWS: usize = 200;
const INPUTS: usize = 5;

/// y = x·w + noise; the last two of the inputs, which are correlated, do nothing; noise known; a bias held at 0 by its prior.
fn linear(network: &str, prior: f64) -> (Problem, Vec<f64>, Vec<f64>) {
    let inputs = INPUTS;
    let mut stream = Stream::new(Key::new(1));
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for _ in 0..ROWS {
        let shared = stream.normal();
        let row: Vec<f64> = (0..inputs).map(|_| 0.6 * shared + 0.8 * stream.normal()).collect();
        let f: f64 = row[..inputs - 2].iter().enumerate().map(|(i, v)| v * (1.0 - 0.6 * i as f64)).sum();
        y.push(f + NOISE * stream.normal());
        x.extend(row);
    }
    let recipe = Recipe {
        network: NetworkSpec::parse(network, Activation::Tanh).unwrap(),
        likelihood: Choice::named("gaussian")
            .with("noise", Value::Text("fixed".into()))
            .with("noise_std", Value::Float(NOISE)),
        prior: Choice::named("normal")
            .with("weight_std", Value::Float(prior))
            .with("bias_std", Value::Float(1e-3))
            .with("scaling", Value::Text("none".into())),
        ..Recipe::default()
    };
    let shape = Shape::Flat(inputs);
    let resolved = recipe.resolve_for(shape, Outcome::Real, 1).unwrap();
    let data = Dataset::new(Values::F64(x.clone().into()), shape, y.clone(), 1);
    (resolved.problem(data).unwrap(), x, y)
}

fn fit(problem: &Problem, method: &str, settings: &[(&str, Value)]) -> posterior::Result<Fit> {
    let mut given: Vec<(String, Value)> =
        vec![("batch_size".into(), Value::Int(100)), ("learning_rate".into(), Value::Float(0.02))];
    given.extend(settings.iter().map(|(k, v)| ((*k).to_owned(), v.clone())));
    posterior::inference::find(method)?.configure(&given)?.fit(problem, Key::new(3), &mut Silent)
}

fn tensor(fit: &Fit, name: &str) -> Vec<f64> {
    let tensors = fit.posterior.tensors();
    tensors.iter().find(|t| t.name == name).unwrap().data.iter().map(|v| f64::from(*v)).collect()
}

/// argmin (1/2σ²)[‖y − Xθ‖² + α Σᵢ θᵢ² Σₙ xₙᵢ²] + ½ λ‖θ‖²: what noise of variance αθ² on the weights makes of least squares.
fn ridge(x: &[f64], y: &[f64], inputs: usize, alpha: f64, lambda: f64) -> Vec<f64> {
    let mut a = vec![vec![0.0; inputs + 1]; inputs];
    for n in 0..ROWS {
        for i in 0..inputs {
            for j in 0..inputs {
                let more = if i == j { 1.0 + alpha } else { 1.0 };
                a[i][j] += more * x[n * inputs + i] * x[n * inputs + j] / (NOISE * NOISE);
            }
            a[i][inputs] += x[n * inputs + i] * y[n] / (NOISE * NOISE);
        }
    }
    (0..inputs).for_each(|i| a[i][i] += lambda);
    for i in 0..inputs {
        for j in (0..inputs).filter(|j| *j != i) {
            let factor = a[j][i] / a[i][i];
            (0..=inputs).for_each(|k| a[j][k] -= factor * a[i][k]);
        }
    }
    (0..inputs).map(|i| a[i][inputs] / a[i][i]).collect()
}

/// Adam wanders by about the learning rate's last values; one standard error of a weight is 0.04 here, and the (1−π) of the L2 term, or α
/// itself, left out would move weights by several hundredths.
const CLOSE: f64 = 0.012;

fn expect_close(what: &str, found: &[f64], expected: &[f64]) {
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() < CLOSE, "{what}: {found:?} for {expected:?}");
    }
}

#[test]
fn mc_dropout_finds_the_optimum_of_its_objective_both_ways() {
    let rate = 0.3;
    // A strong prior, so that its weight of 1/(1−π) on θ² is seen.
    for (way, prior) in [("activations", PRIOR), ("weights", PRIOR), ("activations", 0.05), ("weights", 0.05)] {
        let (problem, x, y) = linear("linear", prior);
        let settings =
            [("epochs", Value::Int(6000)), ("input_rate", Value::Float(rate)), ("on", Value::Text(way.into()))];
        let fit = fit(&problem, "mc-dropout", &settings).unwrap();
        let expected = ridge(&x, &y, 5, rate / (1.0 - rate), 1.0 / (prior * prior * (1.0 - rate)));
        expect_close(way, &tensor(&fit, "mean"), &expected);
    }
}

/// Outputs at one input: by masks on activations in training, and by draws of the posterior.
fn both_ways(network: &str, rates: (f64, f64)) -> (Vec<f64>, Vec<f64>, Vec<f64>, Vec<f64>) {
    const DRAWS: usize = 20_000;
    let (problem, ..) = linear(network, PRIOR);
    let fit = fit(
        &problem,
        "mc-dropout",
        &[("epochs", Value::Int(300)), ("input_rate", Value::Float(rates.0)), ("rate", Value::Float(rates.1))],
    )
    .unwrap();
    let w: Vec<f32> = tensor(&fit, "mean").iter().map(|v| *v as f32).collect();
    let x = [0.7f32, -1.2, 0.4, 2.0, 0.9];
    let repeated: Vec<f32> = (0..100).flat_map(|_| x).collect();
    let dropping = problem.with_dropout(rates.0, rates.1).unwrap();
    let network: &dyn posterior::nn::Network<f32> = &**dropping.network();
    let mut ws = network.workspace(100);
    let mut activations = Vec::new();
    for batch in 0..DRAWS / 100 {
        let mode = Mode::Train(Key::new(50).derive(batch as u64));
        let pass = Pass { mode, layer: 0, first_row: 0, threads: Threads::One };
        let f = network.forward(w[..].into(), MatRef::new(&repeated, 100, 5), &pass, &mut ws);
        activations.extend(f.data.iter().map(|v| f64::from(*v)));
    }
    let plain: &dyn posterior::nn::Network<f32> = &**problem.network();
    let mut ws = plain.workspace(1);
    let weights = (0..DRAWS)
        .map(|s| {
            let draw = fit.posterior.draw(Key::new(51).derive(s as u64));
            let pass = Pass { mode: draw.mode, layer: 0, first_row: 0, threads: Threads::One };
            f64::from(plain.forward(draw.w[..].into(), MatRef::new(&x, 1, 5), &pass, &mut ws).data[0])
        })
        .collect();
    (activations, weights, w.iter().map(|v| f64::from(*v)).collect(), x.iter().map(|v| f64::from(*v)).collect())
}

#[test]
fn on_a_linear_unit_the_variance_is_that_of_theory_both_ways() {
    let rate = 0.3;
    let (activations, weights, w, x) = both_ways("linear", (rate, 0.0));
    let mean: f64 = w.iter().zip(&x).map(|(w, x)| w * x).sum::<f64>() + w[5];
    let variance: f64 = rate / (1.0 - rate) * w.iter().zip(&x).map(|(w, x)| (w * x).powi(2)).sum::<f64>();
    for samples in [activations, weights] {
        let z = (z_mean(&samples, mean), z_variance(&samples, variance));
        assert!(z.0.abs() < 4.0 && z.1.abs() < 4.0, "{z:?}");
    }
}

#[test]
fn both_ways_agree_in_distribution() {
    let (mut a, mut b, ..) = both_ways("20,20", (0.1, 0.4));
    a.sort_by(f64::total_cmp);
    b.sort_by(f64::total_cmp);
    // Two-sample Kolmogorov–Smirnov: the critical value of one sample of half the size.
    let below = |s: &[f64], v: f64| s.partition_point(|u| *u <= v) as f64 / s.len() as f64;
    let distance = a.iter().map(|v| (below(&a, *v) - below(&b, *v)).abs()).fold(0.0, f64::max);
    assert!(distance < ks_critical(a.len() / 2, 1e-4), "{distance}");
}

#[test]
fn a_draw_is_a_function() {
    let (problem, ..) = linear("8", PRIOR);
    let fit = fit(&problem, "mc-dropout", &[("epochs", Value::Int(5)), ("rate", Value::Float(0.5))]).unwrap();
    let (a, b) = (fit.posterior.draw(Key::new(1)), fit.posterior.draw(Key::new(1)));
    assert!(a.w == b.w && a.mode == b.mode);
    // Whole units are there or not: the rows of the second layer's weights.
    let zeros: usize = (0..200)
        .map(|s| {
            let w = fit.posterior.draw(Key::new(2).derive(s)).w;
            w[48..56].iter().filter(|w| **w == 0.0).count()
        })
        .sum();
    // 1600 coins: 800 ± 20.
    assert!((zeros as f64 - 800.0).abs() < 100.0, "{zeros}");
}

#[test]
fn gaussian_dropout_finds_the_optimum_of_its_objective() {
    let (problem, x, y) = linear("linear", PRIOR);
    let rate = 0.3;
    let fit = fit(&problem, "gaussian-dropout", &[("epochs", Value::Int(6000)), ("rate", Value::Float(rate))]).unwrap();
    let alpha = rate / (1.0 - rate);
    let (mean, std) = (tensor(&fit, "mean"), tensor(&fit, "std"));
    expect_close("gaussian dropout", &mean, &ridge(&x, &y, 5, alpha, 0.0));
    for (m, s) in mean[..5].iter().zip(&std) {
        assert!((s / m.abs() - alpha.sqrt()).abs() < 1e-5);
    }
    assert_eq!(std[5], 0.0, "a bias is a point");
}

#[test]
fn variational_dropout_ends_where_its_objective_is_flat() {
    let (problem, x, y) = linear("linear", PRIOR);
    let square = |i: usize| (0..ROWS).map(|n| x[n * 5 + i].powi(2)).sum::<f64>();
    for per in ["layer", "unit"] {
        let settings = [("epochs", Value::Int(8000)), ("per", Value::Text(per.into()))];
        let fit = fit(&problem, "variational-dropout", &settings).unwrap();
        let (mean, std) = (tensor(&fit, "mean"), tensor(&fit, "std"));
        let groups: Vec<Vec<usize>> =
            if per == "layer" { vec![(0..5).collect()] } else { (0..5).map(|i| vec![i]).collect() };
        for group in groups {
            let log_alpha = 2.0 * (std[group[0]] / mean[group[0]].abs()).ln();
            if group == [3] || group == [4] {
                // Inputs that do nothing: α grows for ever.
                assert!(log_alpha > 2.0, "{log_alpha}");
                continue;
            }
            // ELBO(ln α) = −(α/2σ²) Σ θᵢ² Σₙ xₙᵢ² − |group|·KL(ln α), with θ as found: its slope must be small beside its parts.
            let pull: f64 =
                group.iter().map(|i| log_alpha.exp() * mean[*i].powi(2) * square(*i) / (2.0 * NOISE * NOISE)).sum();
            let push = -(group.len() as f64) * log_uniform_kl_slope(log_alpha);
            assert!((pull / push - 1.0).abs() < 0.15, "{per} {group:?}: {pull} against {push} at ln α = {log_alpha}");
        }
        // Given the αs, the means are those of the ridge.
        let alphas: Vec<f64> = (0..5).map(|i| (std[i] / mean[i]).powi(2)).collect();
        if per == "layer" {
            expect_close(per, &mean, &ridge(&x, &y, 5, alphas[0], 0.0));
        }
    }
    assert!(log_uniform_kl(30.0).abs() < 1e-9);
}

#[test]
fn sparse_dropout_removes_what_does_nothing_and_keeps_the_rest() {
    let (problem, x, y) = linear("linear", PRIOR);
    let exact = ridge(&x, &y, 5, 0.0, 0.0);
    // Without a warm-up and with means that start at 0 everything is above the threshold at first: nothing may go before it has learned.
    for (removal, kl_warmup, start) in [("end", 0.3, "random"), ("training", 0.3, "random"), ("training", 0.0, "zero")]
    {
        let settings = [
            ("epochs", Value::Int(8000)),
            ("removal", Value::Text(removal.into())),
            ("kl_warmup", Value::Float(kl_warmup)),
            ("initial_mean", Value::Text(start.into())),
        ];
        let fit = fit(&problem, "sparse-dropout", &settings).unwrap();
        let (mean, std) = (tensor(&fit, "mean"), tensor(&fit, "std"));
        assert!(mean[3] == 0.0 && mean[4] == 0.0 && std[3] == 0.0 && std[4] == 0.0, "{removal}: {mean:?}");
        for i in 0..3 {
            // Least squares of five columns instead of three, and a little shrinkage: about two standard errors of 0.04.
            assert!((mean[i] - exact[i]).abs() < 0.1, "{removal}: {mean:?} {exact:?}");
            let square = (0..ROWS).map(|n| x[n * 5 + i].powi(2)).sum::<f64>() / (NOISE * NOISE);
            // dELBO/dσ = 0 for small α: σ²·Σx²/σ_y² = 1 (KL falls as −½ ln α there).
            assert!((std[i] * std[i] * square - 1.0).abs() < 0.15, "{removal}: {}", std[i] * std[i] * square);
        }
    }
}

#[test]
fn slips_get_one_sentence() {
    let (problem, ..) = linear("linear", PRIOR);
    for (method, key, value) in [
        ("mc-dropout", "rate", Value::Float(1.0)),
        ("mc-dropout", "rate", Value::Float(f64::NAN)),
        ("gaussian-dropout", "rate", Value::Float(1.5)),
        ("variational-dropout", "initial_alpha", Value::Float(0.0)),
        ("sparse-dropout", "threshold", Value::Float(f64::NAN)),
        ("sparse-dropout", "initial_std", Value::Float(0.0)),
        ("mean-field", "initial_std", Value::Float(-1.0)),
    ] {
        let message = fit(&problem, method, &[(key, value)]).unwrap_err().to_string();
        assert!(message.contains(key) && message.contains("from"), "{message}");
    }
    let mut x = vec![0.0f64; 20];
    fill_normals(Key::new(9), &mut x);
    let recipe = Recipe { prior: Choice::named("laplace"), ..Recipe::default() };
    let shape = Shape::Flat(1);
    let data = Dataset::new(Values::F64(x.clone().into()), shape, x, 1);
    let problem = recipe.resolve_for(shape, Outcome::Real, 1).unwrap().problem(data).unwrap();
    let message = fit(&problem, "mc-dropout", &[]).unwrap_err().to_string();
    assert!(message.contains("laplace") && message.contains("normal"), "{message}");
}
