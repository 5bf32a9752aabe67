//! Importance sampling on a linear model whose evidence and moments are known, and where it must fail.

use crate::linear_model::{DIM, INPUTS, Linear, NOISE, fit};
use posterior::diagnose::Weights;
use posterior::exact::LinearRegression;
use posterior::inference::{Flow, Observer, Progress};
use posterior::math::MatRef;
use posterior::math::linalg::Eigen;
use posterior::posterior::{Posterior, restore};
use posterior::problem::Problem;
use posterior::rng::Key;
use posterior::settings::Value;

fn exact(problem: &Problem, prior_std: f64) -> LinearRegression {
    let data = problem.data();
    let features: Vec<f64> = data.x.to::<f64>().chunks(INPUTS).flat_map(|r| [r, &[1.0]].concat()).collect();
    let precision = [prior_std.powi(-2); DIM];
    let features = MatRef::new(&features, data.rows, DIM);
    LinearRegression::fit(features, &data.y, None, NOISE * NOISE, &[0.0; DIM], &precision).unwrap()
}

fn text(v: &str) -> Value {
    Value::Text(v.into())
}

/// Moments of the resampled draws against the exact posterior, in standard deviations, with what chance allows.
fn check_moments(posterior: &dyn Posterior, exact: &LinearRegression, worth: f64) {
    let count = posterior.distinct().unwrap();
    let mut draw = posterior.draw(Key::new(0));
    let mut all = Vec::new();
    for s in 0..count {
        posterior.draw_of_into(s, count, Key::new(0), &mut draw);
        all.push(draw.w.clone());
    }
    let covariance = exact.covariance();
    for i in 0..DIM {
        let std = covariance[i * DIM + i].sqrt();
        let mean = all.iter().map(|w| f64::from(w[i])).sum::<f64>() / count as f64;
        let square = all.iter().map(|w| (f64::from(w[i]) - mean).powi(2)).sum::<f64>() / count as f64;
        let z = (mean - exact.mean()[i]) / std * worth.sqrt();
        assert!(z.abs() < 5.0, "mean {i}: z {z}");
        let z = (square / (std * std) - 1.0) * (worth / 2.0).sqrt();
        assert!(z.abs() < 5.0, "variance {i}: z {z}");
    }
}

#[test]
fn the_evidence_of_a_linear_model_is_found() {
    let prior_std = 1.0;
    let linear = Linear::new(4, prior_std);
    let exact = exact(&linear.problem, prior_std);
    let draws = |n| ("draws", Value::Int(n));
    for (proposal, settings) in
        [("prior", vec![draws(40_000)]), ("full-covariance", vec![draws(4000), ("epochs", Value::Int(3000))])]
    {
        let mut settings = settings;
        settings.extend([
            ("proposal", text(proposal)),
            ("kept", Value::Int(4000)),
            ("learning_rate", Value::Float(0.01)),
        ]);
        let fit = fit(&linear.problem, "importance", &settings);
        let weights = Weights::new(fit.posterior.log_weights().unwrap());
        assert!(weights.is_reliable(), "{proposal}: {}", weights.verdict());
        let (found, error) = (fit.posterior.log_evidence().unwrap(), weights.log_mean_error());
        // Five standard errors, themselves estimated; weights with k below 0.7 have few surprises left.
        assert!((found - exact.log_evidence()).abs() < 5.0 * error, "{proposal}: {found} for {}", exact.log_evidence());
        assert!(error < 0.05, "{proposal}: ± {error}");
        check_moments(&*fit.posterior, &exact, weights.ess().min(4000.0));
        let back = restore("weighted", DIM, Some(found), &|name| {
            fit.posterior.tensors().into_iter().find(|t| t.name == name).map(|t| t.data)
        });
        assert_eq!(back.unwrap().tensors(), fit.posterior.tensors());
    }
}

/// The best independent normals for a precision Λ have variances 1/Λᵢᵢ; in their units Λ is R, with ones on its diagonal, and weights are
/// exp(½ zᵀ(I − R)z): their tail falls like t^(−1/k) with k = 1 − λ_min(R), times powers of ln t.
#[test]
fn mean_field_weights_have_the_tail_that_correlations_give_them() {
    let linear = Linear::new(4, 1.0);
    let precision = linear.precision(1.0);
    let scaled = |i: usize, j: usize| precision[i][j] / (precision[i][i] * precision[j][j]).sqrt();
    let r: Vec<f64> = (0..DIM * DIM).map(|k| scaled(k / DIM, k % DIM)).collect();
    let least = Eigen::new(&r, DIM).unwrap().values()[0];
    let settings = [
        ("proposal", text("mean-field")),
        ("draws", Value::Int(20_000)),
        ("epochs", Value::Int(3000)),
        ("learning_rate", Value::Float(0.01)),
    ];
    let weights = Weights::new(fit(&linear.problem, "importance", &settings).posterior.log_weights().unwrap());
    // The tail of 424 weights estimates k with an error of (1 + k)/√424 = 0.09; the powers of ln t move it by as much again.
    assert!((weights.k() - (1.0 - least)).abs() < 0.25, "k {} for {}", weights.k(), 1.0 - least);
}

/// What a fit says.
#[derive(Default)]
struct Heard(Vec<String>);

impl Observer for Heard {
    fn progress(&mut self, _: &Progress) -> Flow {
        Flow::Continue
    }
    fn warn(&mut self, message: &str) {
        self.0.push(message.to_owned());
    }
}

/// The posterior of 20 rows has some 0.1 for the prior's 3 in each of four directions: one draw of the prior carries all.
#[test]
fn a_proposal_far_from_the_posterior_is_said_to_be_one() {
    let linear = Linear::new(20, 3.0);
    let given = [("proposal".to_owned(), text("prior")), ("draws".to_owned(), Value::Int(2000))];
    let method = posterior::inference::find("importance").unwrap().configure(&given).unwrap();
    let mut heard = Heard::default();
    let fit = method.fit(&linear.problem, Key::new(3), &mut heard).unwrap();
    let weights = Weights::new(fit.posterior.log_weights().unwrap());
    assert!(weights.k() > 1.0 && !weights.is_reliable(), "k {}", weights.k());
    assert!(heard.0[0].contains("these weights mean nothing") && heard.0[0].contains("k = "), "{:?}", heard.0);
    // And it is far off, as it says.
    let (found, exact) = (fit.posterior.log_evidence().unwrap(), exact(&linear.problem, 3.0).log_evidence());
    assert!((found - exact).abs() > 3.0 * weights.log_mean_error(), "{found} for {exact}");
}

#[test]
fn proposals_that_cannot_be_are_refused() {
    let linear = Linear::new(12, 1.0);
    let refuse = |proposal: &str| {
        let given = [("proposal".to_owned(), text(proposal))];
        posterior::inference::find("importance").unwrap().configure(&given).unwrap_err().to_string()
    };
    assert!(refuse("map").contains("prior, mean-field"));
    let stop = |_: &Problem| {
        struct Stop;
        impl Observer for Stop {
            fn progress(&mut self, _: &Progress) -> Flow {
                Flow::Stop
            }
            fn warn(&mut self, _: &str) {}
        }
        let given = [("proposal".to_owned(), text("prior"))];
        let method = posterior::inference::find("importance").unwrap().configure(&given).unwrap();
        method.fit(&linear.problem, Key::new(3), &mut Stop).unwrap_err().to_string()
    };
    assert!(stop(&linear.problem).contains("stopped"));
}
