//! Laplace's approximation where it is exact, what the evidence chooses, and what it says of bad input.

use crate::linear_model::{DIM, INPUTS, Linear, NOISE};
use posterior::data::{Dataset, Values};
use posterior::exact::LinearRegression;
use posterior::inference::{
    Fit, Flow, LaplaceApproximation, LaplaceOptions, Observer, Progress, Silent, find, prior_scales,
};
use posterior::likelihood::Outcome;
use posterior::math::MatRef;
use posterior::model::{Choice, Recipe};
use posterior::nn::{Activation, NetworkSpec, Shape};
use posterior::posterior::{BlockGaussian, PointPosterior, Posterior, restore};
use posterior::predict::{LinearisedPredictor, Link, Predictor, TargetScale};
use posterior::problem::Problem;
use posterior::problem::curvature::{Structure, Subset};
use posterior::rng::{Key, Stream, fill_normals};
use posterior::settings::Value;
use std::sync::Arc;

pub const STRUCTURES: [Structure; 3] = [Structure::Full, Structure::Kron, Structure::Diagonal];

pub fn options(structure: Structure) -> LaplaceOptions {
    LaplaceOptions { structure, per_layer: false, separate_bias: false, learn_prior: false, learn_noise: false }
}

pub fn text(v: &str) -> Value {
    Value::Text(v.into())
}

fn configured(settings: &[(&str, Value)]) -> Box<dyn posterior::inference::Method> {
    let given: Vec<_> = settings.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
    find("laplace").unwrap().configure(&given).unwrap()
}

pub fn fit(problem: &Problem, settings: &[(&str, Value)]) -> Fit {
    configured(settings).fit(problem, Key::new(3), &mut Silent).unwrap()
}

/// The posterior with its own type, by way of what would be saved.
fn blocks(q: &dyn Posterior) -> BlockGaussian {
    let tensors = q.tensors();
    let find = |name: &str| tensors.iter().find(|t| t.name == name).map(|t| t.data.clone());
    restore(q.kind(), q.dim(), q.log_evidence(), &find).unwrap().as_blocks().unwrap().clone()
}

/// The exact posterior of the linear model with prior N(0, s²).
fn exact(linear: &Linear, prior_std: f64) -> LinearRegression {
    exact_with(linear, [prior_std; DIM])
}

/// The same with a standard deviation for each weight and, last, the bias.
fn exact_with(linear: &Linear, prior_std: [f64; DIM]) -> LinearRegression {
    let data = linear.problem.data();
    let x = data.x.to::<f64>();
    let features: Vec<f64> = x.chunks(INPUTS).flat_map(|r| [r[0], r[1], r[2], 1.0]).collect();
    let features = MatRef::new(&features, data.rows, DIM);
    let precision = prior_std.map(|s| s.powi(-2));
    LinearRegression::fit(features, &data.y, None, NOISE * NOISE, &[0.0; DIM], &precision).unwrap()
}

#[test]
fn on_a_linear_model_it_is_exact() {
    let linear = Linear::new(60, 0.4);
    let exact = exact(&linear, 0.4);
    let subset = Subset::all(&**linear.problem.network()).unwrap();
    for structure in [Structure::Full, Structure::Kron] {
        let w = exact.mean().to_vec();
        let mut laplace = LaplaceApproximation::new(&linear.problem, w, &subset, options(structure)).unwrap();
        let (evidence, expected) = (laplace.log_evidence(), exact.log_evidence());
        assert!((evidence - expected).abs() < 1e-8, "{structure:?}: {evidence} for {expected}");
        for (got, expected) in laplace.covariance().unwrap().iter().zip(exact.covariance()) {
            assert!((got - expected).abs() < 1e-8, "{structure:?}: {got} for {expected}");
        }
    }
    // The whole method: training, polishing, curvature, what is saved.
    let settings = [("epochs", Value::Int(200)), ("tune", text("none")), ("structure", text("full"))];
    let fitted = fit(&linear.problem, &settings);
    let evidence = fitted.posterior.log_evidence().unwrap();
    assert!((evidence - exact.log_evidence()).abs() < 1e-8, "{evidence} for {}", exact.log_evidence());
    let q = blocks(&*fitted.posterior);
    // L-BFGS stops where the log joint no longer rises in f64, about 1e-8 from the top, and files are in f32.
    assert!(q.mean().iter().zip(exact.mean()).all(|(a, b)| (f64::from(*a) - b).abs() < 2e-7));
    let (network, likelihood) = (linear.problem.network().clone(), linear.problem.likelihood().clone());
    let predictor =
        LinearisedPredictor::new(network, likelihood, &q, 50, Link::Average, TargetScale::default()).unwrap();
    let at = [0.3, -1.0, 2.0];
    let predictive = predictor.predict(&Values::F64(at.to_vec().into()));
    let (mean, variance) = exact.predict(&[at[0], at[1], at[2], 1.0]);
    let real = predictive.real();
    assert!((real.mean[0] - mean).abs() < 1e-6);
    // Eigenvectors in f32, and outputs of the mixture too.
    assert!((real.epistemic[0] + real.aleatoric[0] - variance).abs() < 1e-5 * variance);
}

/// Weights and bias with priors of different widths: both structures keep them apart.
#[test]
fn the_bias_has_a_prior_of_its_own() {
    let prior = Choice::named("normal").with("weight_std", Value::Float(0.4)).with("bias_std", Value::Float(3.0));
    let linear = Linear::with_prior(20, prior.with("scaling", text("none")));
    let exact = exact_with(&linear, [0.4, 0.4, 0.4, 3.0]);
    let subset = Subset::all(&**linear.problem.network()).unwrap();
    for structure in [Structure::Full, Structure::Kron] {
        let w = exact.mean().to_vec();
        let mut laplace = LaplaceApproximation::new(&linear.problem, w, &subset, options(structure)).unwrap();
        let (evidence, expected) = (laplace.log_evidence(), exact.log_evidence());
        assert!((evidence - expected).abs() < 1e-8, "{structure:?}: {evidence} for {expected}");
        for (got, expected) in laplace.covariance().unwrap().iter().zip(exact.covariance()) {
            assert!((got - expected).abs() < 1e-8, "{structure:?}: {got} for {expected}");
        }
    }
}

/// The prior's scale and the noise of a linear model by evidence: nothing around them has a higher exact evidence.
#[test]
fn the_evidence_chooses_what_exact_evidence_chooses() {
    let linear = Linear::new(60, 3.0);
    let w = exact(&linear, 3.0).mean().to_vec();
    let subset = Subset::all(&**linear.problem.network()).unwrap();
    let learned = LaplaceOptions { learn_prior: true, ..options(Structure::Full) };
    // At a fixed w: the maximum over δ of the evidence there.
    let mut at = LaplaceApproximation::new(&linear.problem, w, &subset, learned).unwrap();
    let (top, best) = (at.log_evidence(), at.prior_factors()[0]);
    assert!(best > 0.0 && best != 1.0);
    for factor in [0.9, 1.1] {
        at.set_prior_factor(best * factor);
        assert!(at.log_evidence() < top);
    }
    // In turns with the training it goes to the maximum of the exact evidence.
    let settings = [("epochs", Value::Int(1000)), ("online", Value::Int(20)), ("structure", text("full"))];
    let fitted = fit(&linear.problem, &settings);
    let evidence = fitted.posterior.log_evidence().unwrap();
    let of = |ln: f64| exact(&linear, ln.exp()).log_evidence();
    let exact_top = (-300..300).map(|i| of(f64::from(i) * 0.01)).fold(f64::NEG_INFINITY, f64::max);
    // Rounds approach it geometrically; the grid is 1 % wide.
    assert!((evidence - exact_top).abs() < 1e-3, "{evidence} for {exact_top}");
}

pub fn toy(network: &str, likelihood: &str, rows: usize) -> Problem {
    let class = ["categorical", "bernoulli"].contains(&likelihood);
    let width = if likelihood == "categorical" {
        3
    } else if class {
        2
    } else {
        1
    };
    let mut x = vec![0.0; rows * 2];
    fill_normals(Key::new(1), &mut x);
    let mut stream = Stream::new(Key::new(2));
    let y = x.chunks(2).map(|r| {
        let f = (1.5f64 * r[0]).sin() + 0.5 * r[1] + 0.2 * stream.normal();
        if class { f64::from(f > 0.0) + f64::from(width == 3 && f > 0.8) } else { f }
    });
    let (shape, y) = (Shape::Flat(2), y.collect());
    let recipe = Recipe {
        network: NetworkSpec::parse(network, Activation::Tanh).unwrap(),
        likelihood: Choice::named(likelihood),
        ..Recipe::default()
    };
    let outcome = if class { Outcome::Class } else { Outcome::Real };
    let resolved = recipe.resolve_for(shape, outcome, width).unwrap();
    resolved.problem(Dataset::new(Values::F64(x.into()), shape, y, 1)).unwrap()
}

pub fn wide(w: &[f32]) -> Vec<f64> {
    w.iter().map(|v| f64::from(*v)).collect()
}

/// Every likelihood, structure and way to choose gives a finite evidence, a file that comes back, and draws near the linearisation.
#[test]
fn all_settings_work_on_all_likelihoods() {
    let settings = [
        [("structure", text("full")), ("prior_precision", text("layer"))],
        [("structure", text("kron")), ("prior_precision", text("layer"))],
        [("structure", text("diag")), ("tune", text("validation"))],
        [("subset", text("last-layer")), ("online", Value::Int(3))],
        [("structure", text("kron")), ("kron_bias", text("separate"))],
    ];
    for likelihood in ["gaussian", "heteroscedastic", "student-t", "categorical", "bernoulli"] {
        let problem = toy("6", likelihood, 80);
        for given in &settings {
            let given: Vec<_> = given.iter().cloned().chain([("epochs", Value::Int(60))]).collect();
            let fitted = fit(&problem, &given);
            let evidence = fitted.posterior.log_evidence().unwrap();
            assert!(evidence.is_finite(), "{likelihood} {given:?}");
            let q = blocks(&*fitted.posterior);
            assert_eq!(q.tensors(), fitted.posterior.tensors());
            assert_eq!(q.draw(Key::new(1)).w, fitted.posterior.draw(Key::new(1)).w);
        }
    }
}

#[test]
fn regression_learns_the_noise() {
    let problem = toy("6", "gaussian", 400);
    let fitted = fit(&problem, &[("epochs", Value::Int(300))]);
    let noise = blocks(&*fitted.posterior).mean().last().unwrap().exp();
    // 400 rows tell a standard deviation of 0.2 to 1/√800 = 3.5 %; some of f is not learnt.
    assert!((noise - 0.2).abs() < 0.03, "{noise}");
}

/// Keeps what it is told.
#[derive(Default)]
struct Listener(Vec<String>);

impl Observer for Listener {
    fn progress(&mut self, _: &Progress) -> Flow {
        Flow::Continue
    }
    fn warn(&mut self, message: &str) {
        self.0.push(message.to_owned());
    }
}

#[test]
fn what_is_no_mode_is_warned_about() {
    let problem = toy("6", "gaussian", 80);
    let told = |polish: i64| {
        let mut listener = Listener::default();
        let given = [("epochs", Value::Int(2)), ("polish", Value::Int(polish))];
        configured(&given).fit(&problem, Key::new(3), &mut listener).unwrap();
        listener.0.iter().any(|m| m.starts_with("the fit has not converged: the gradient of the log joint has norm"))
    };
    assert!(told(0) && !told(2000));
}

#[test]
fn a_start_is_taken_as_it_is() {
    let problem = toy("6", "bernoulli", 80);
    let w: Vec<f32> = problem.initial(Key::new(8)).iter().map(|v| v + 0.1).collect();
    let started = problem.clone().with_start(Arc::new(PointPosterior::new(w.clone()))).unwrap();
    let q = blocks(&*fit(&started, &[]).posterior);
    assert_eq!(q.mean(), w);
    assert!(
        problem
            .with_start(Arc::new(PointPosterior::new(vec![0.0; 3])))
            .unwrap_err()
            .to_string()
            .contains("a start of 3 parameters")
    );
}

#[test]
fn too_large_and_unsuitable_problems_get_one_sentence() {
    let refuse = |network: &str, prior: &str, given: &[(&str, Value)]| {
        let recipe = Recipe {
            network: NetworkSpec::parse(network, Activation::Tanh).unwrap(),
            prior: Choice::named(prior),
            ..Recipe::default()
        };
        let resolved = recipe.resolve_for(Shape::Flat(2), Outcome::Real, 1).unwrap();
        let data = Dataset::new(Values::F64(vec![0.0; 10].into()), Shape::Flat(2), vec![0.0; 5], 1);
        let problem = resolved.problem(data).unwrap();
        configured(given).fit(&problem, Key::new(1), &mut Silent).unwrap_err().to_string()
    };
    let message = refuse("150,150", "normal", &[("structure", text("full"))]);
    assert!(
        message.contains("laplace with structure=full on 23251 parameters needs 17299488032 bytes (16.1 GiB)"),
        "{message}"
    );
    assert!(message.contains("use structure=kron (") && message.contains("or subset=last-layer"), "{message}");
    let message = refuse("30000", "normal", &[("structure", text("kron"))]);
    assert!(message.contains("use structure=diag ("), "{message}");
    let message = refuse("5", "laplace", &[("epochs", Value::Int(1))]);
    assert_eq!(message, "laplace needs a normal prior, and this one is 'laplace'; choose the prior 'normal'");
}

/// On a linear model the evidence is exact: the widths found do not depend on where they began, and none nearby is more likely.
#[test]
fn the_width_of_a_prior_by_evidence() {
    let widths = [0.2, 0.6].map(|std| {
        let scales = prior_scales(&Linear::new(60, std).problem, Key::new(5)).unwrap();
        assert_eq!(scales.iter().map(|(layer, _)| *layer).collect::<Vec<_>>(), [0]);
        std * scales[0].1
    });
    // Rounds approach the top in proportion, and the evidence is flat there.
    assert!((widths[0] / widths[1] - 1.0).abs() < 0.02, "{widths:?}");
    let linear = Linear::new(60, 0.4);
    let evidence = |factor: f64| exact(&linear, factor * widths[0]).log_evidence();
    assert!(evidence(1.0) > evidence(0.8) && evidence(1.0) > evidence(1.25), "{widths:?}");
    // Nothing but noise: not narrower than half of what it was.
    let data = linear.problem.data();
    let noise: Vec<f64> = (0..data.rows).map(|i| if i % 2 == 0 { 0.5 } else { -0.5 }).collect();
    let problem = linear.problem.with_data(Dataset::new(data.x.clone(), data.shape, noise, 1)).unwrap();
    assert_eq!(prior_scales(&problem, Key::new(5)).unwrap(), [(0, 0.5)]);
}
