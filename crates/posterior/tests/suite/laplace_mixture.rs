//! A mixture of Laplace's approximations: exact where members coincide, its predictive by brute force, its evidence, and where members begin.

use crate::linear_model::{DIM, INPUTS, Linear, NOISE};
use posterior::data::{Dataset, Values};
use posterior::exact::LinearRegression;
use posterior::inference::{Fit, Flow, Observer, Progress, Silent, find};
use posterior::likelihood::Outcome;
use posterior::math::MatRef;
use posterior::model::{Choice, Recipe};
use posterior::nn::{Activation, NetworkSpec, Shape};
use posterior::posterior::{BlockGaussian, MixturePosterior, PointPosterior, Posterior};
use posterior::predict::{LinearisedMixture, LinearisedPredictor, Link, NetworkPredictor, Predictor, TargetScale};
use posterior::problem::Problem;
use posterior::rng::{Key, Purpose, Stream, fill_normals};
use posterior::settings::Value;
use std::sync::Arc;

const MEMBERS: usize = 3;

fn text(v: &str) -> Value {
    Value::Text(v.into())
}

fn try_fit(problem: &Problem, settings: &[(&str, Value)], observer: &mut dyn Observer) -> posterior::Result<Fit> {
    let given: Vec<_> = settings.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
    find("laplace").unwrap().configure(&given).unwrap().fit(problem, Key::new(3), observer)
}

fn fit(problem: &Problem, settings: &[(&str, Value)]) -> Fit {
    let mut all = vec![("members", Value::Int(MEMBERS as i64))];
    all.extend(settings.iter().cloned());
    try_fit(problem, &all, &mut Silent).unwrap()
}

fn linearised(problem: &Problem, q: &dyn Posterior, components: usize, link: Link) -> LinearisedMixture {
    let (network, likelihood) = (problem.network().clone(), problem.likelihood().clone());
    LinearisedMixture::new(network, likelihood, q, components, link, TargetScale::default()).unwrap()
}

/// A network of 12 units with several modes; classes or a number with learned noise.
fn toy(classes: bool) -> Problem {
    let mut x = vec![0.0; 2 * 60];
    fill_normals(Key::new(1), &mut x);
    let mut stream = Stream::new(Key::new(2));
    let y = x.chunks(2).map(|r| {
        let f = (1.5f64 * r[0]).sin() + 0.5 * r[1] + 0.2 * stream.normal();
        if classes { f64::from(f > 0.0) + f64::from(f > 0.8) } else { f }
    });
    let (shape, y) = (Shape::Flat(2), y.collect());
    let recipe = Recipe {
        network: NetworkSpec::parse("12", Activation::Tanh).unwrap(),
        likelihood: Choice::named(if classes { "categorical" } else { "gaussian" }),
        ..Recipe::default()
    };
    let (outcome, width) = if classes { (Outcome::Class, 3) } else { (Outcome::Real, 1) };
    let resolved = recipe.resolve_for(shape, outcome, width).unwrap();
    resolved.problem(Dataset::new(Values::F64(x.into()), shape, y, 1)).unwrap()
}

/// Inputs on the data, between and beyond them.
fn inputs() -> Values {
    Values::F64(vec![0.1, -0.3, 1.0, 1.0, -3.0, 2.0, 5.0, -5.0].into())
}

/// A linear model has one mode: every member is the posterior, so the mixture is, and so is its evidence.
#[test]
fn on_a_linear_model_members_coincide_with_the_posterior() {
    let linear = Linear::new(60, 0.4);
    let data = linear.problem.data();
    let features: Vec<f64> = data.x.to::<f64>().chunks(INPUTS).flat_map(|r| [r[0], r[1], r[2], 1.0]).collect();
    let features = MatRef::new(&features, data.rows, DIM);
    let exact = LinearRegression::fit(features, &data.y, None, NOISE * NOISE, &[0.0; DIM], &[1.0 / 0.16; DIM]).unwrap();
    for structure in ["full", "kron"] {
        let settings = [("epochs", Value::Int(200)), ("tune", text("none")), ("structure", text(structure))];
        let q = fit(&linear.problem, &settings).posterior;
        assert_eq!((q.kind(), q.members().len()), ("mixture", MEMBERS));
        let evidence = q.log_evidence().unwrap();
        assert!((evidence - exact.log_evidence()).abs() < 1e-8, "{evidence} for {}", exact.log_evidence());
        for member in q.gaussians() {
            // L-BFGS stops about 1e-8 from the top, and posteriors are in f32.
            assert!(member.mean().iter().zip(exact.mean()).all(|(a, b)| (f64::from(*a) - b).abs() < 2e-7));
        }
        let at = [0.3, -1.0, 2.0];
        let real = linearised(&linear.problem, &*q, 60, Link::Average).predict(&Values::F64(at.to_vec().into())).real();
        let (mean, variance) = exact.predict(&[at[0], at[1], at[2], 1.0]);
        assert!((real.mean[0] - mean).abs() < 1e-6);
        // Eigenvectors in f32, and outputs of the mixture too.
        assert!((real.epistemic[0] + real.aleatoric[0] - variance).abs() < 1e-5 * variance);
        // By draws of the weights: five standard errors of a mean and of a variance of 30 000.
        let predictor = NetworkPredictor {
            network: linear.problem.network().clone(),
            likelihood: linear.problem.likelihood().clone(),
            posterior: q.into(),
            draws: 30_000,
            key: Key::new(1),
            scale: TargetScale::default(),
        };
        let sampled = predictor.predict(&Values::F64(at.to_vec().into())).real();
        let epistemic = variance - NOISE * NOISE;
        assert!((sampled.mean[0] - mean).abs() < 5.0 * (epistemic / 30_000.0).sqrt());
        assert!((sampled.epistemic[0] / epistemic - 1.0).abs() < 5.0 * (2.0f64 / 30_000.0).sqrt());
    }
}

fn normal_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x / std::f64::consts::SQRT_2)
}

/// Mean, both variances and quantiles of the mixture against those of 1/S Σ N(m_k, v_k + σ_k²), m_k and v_k of each member by itself.
#[test]
fn moments_and_quantiles_are_those_of_the_mixture() {
    let problem = toy(false);
    // Of the last layer, so that features differ between members.
    let q = fit(&problem, &[("epochs", Value::Int(300)), ("subset", text("last-layer"))]).posterior;
    let members: Vec<(Vec<f64>, Vec<f64>, f64)> = q
        .gaussians()
        .into_iter()
        .map(|m| {
            let (network, likelihood) = (problem.network().clone(), problem.likelihood().clone());
            let alone = LinearisedPredictor::new(network, likelihood, m, 9, Link::Average, TargetScale::default());
            let (mean, variance) = alone.unwrap().moments(&inputs());
            (mean, variance, (2.0 * f64::from(m.mean()[problem.dim() - 1])).exp())
        })
        .collect();
    let components = 600;
    let predictive = linearised(&problem, &*q, components, Link::Average).predict(&inputs());
    assert_eq!((predictive.draws(), predictive.rows()), (MEMBERS, 4));
    let (real, levels) = (predictive.real(), [0.05, 0.5, 0.95]);
    let bounds = predictive.quantiles(&levels);
    let mut apart = 0.0_f64;
    for n in 0..4 {
        let average = |f: &dyn Fn(usize) -> f64| (0..MEMBERS).map(f).sum::<f64>() / MEMBERS as f64;
        let mean = average(&|k| members[k].0[n]);
        let between = average(&|k| (members[k].0[n] - mean).powi(2));
        let within = average(&|k| members[k].1[n]);
        apart = apart.max(between / within);
        let size = mean.abs() + 1.0;
        // Rounding.
        assert!((real.mean[n] - mean).abs() < 1e-13 * size, "{n}: {} for {mean}", real.mean[n]);
        let epistemic = real.epistemic[n];
        assert!((epistemic / (within + between) - 1.0).abs() < 1e-12, "{n}: {epistemic} for {within} + {between}");
        assert!((real.aleatoric[n] / average(&|k| members[k].2) - 1.0).abs() < 1e-12);
        for (level, bound) in levels.iter().zip(&bounds[n * 3..]) {
            let at = average(&|k| normal_cdf((bound - members[k].0[n]) / (members[k].1[n] + members[k].2).sqrt()));
            // The search ends at 1e-13 of the spread.
            assert!((at - level).abs() < 1e-12, "{n}: {at} for {level}");
        }
    }
    // Members differ: by a hundred times what the tolerance of the variance would let pass.
    assert!(apart > 1e-3, "{apart}");
}

/// A closed form does not depend on how many components were asked for.
#[test]
fn few_components_are_as_good_as_many() {
    let problem = toy(false);
    let q = fit(&problem, &[("epochs", Value::Int(50))]).posterior;
    let few = linearised(&problem, &*q, 1, Link::Average).predict(&inputs());
    let many = linearised(&problem, &*q, 300, Link::Average).predict(&inputs());
    assert_eq!((few.draws(), few.outputs()), (MEMBERS, many.outputs()));
}

#[test]
fn class_probabilities_are_the_mean_of_the_members() {
    let problem = toy(true);
    let q = fit(&problem, &[("epochs", Value::Int(100)), ("structure", text("kron"))]).posterior;
    let alone = |m: &BlockGaussian, link| {
        let (network, likelihood) = (problem.network().clone(), problem.likelihood().clone());
        LinearisedPredictor::new(network, likelihood, m, 200, link, TargetScale::default()).unwrap()
    };
    let members = q.gaussians();
    // Probit: one component each.
    let probit = linearised(&problem, &*q, 600, Link::Probit).predict(&inputs());
    assert_eq!(probit.draws(), MEMBERS);
    let each: Vec<Vec<f64>> = members.iter().map(|m| alone(m, Link::Probit).probit(&inputs())).collect();
    let classes = probit.classes();
    for n in 0..4 {
        for (c, p) in classes.row(n).iter().enumerate() {
            let mean = each.iter().map(|e| e[n * 3 + c]).sum::<f64>() / MEMBERS as f64;
            assert!((p - mean).abs() < 1e-6, "{n} {c}: {p} for {mean}"); // outputs in f32
        }
    }
    // Averaged: against 100 000 draws of the outputs from each member's Gaussian.
    let averaged = linearised(&problem, &*q, 3000, Link::Average).predict(&inputs()).classes();
    let draws = 100_000;
    let mut sums = [[0.0; 3]; 4];
    let mut stream = Stream::new(Key::new(9));
    for m in &members {
        let (mean, v) = alone(m, Link::Average).moments(&inputs());
        for n in 0..4 {
            let (mean, v) = (&mean[n * 3..], &v[n * 9..]);
            let l11 = v[0].sqrt();
            let (l21, l31) = (v[3] / l11, v[6] / l11);
            let l22 = (v[4] - l21 * l21).max(0.0).sqrt();
            let l32 = if l22 > 0.0 { (v[7] - l31 * l21) / l22 } else { 0.0 };
            let l33 = (v[8] - l31 * l31 - l32 * l32).max(0.0).sqrt();
            for _ in 0..draws {
                let z = [stream.normal(), stream.normal(), stream.normal()];
                let f = [
                    mean[0] + l11 * z[0],
                    mean[1] + l21 * z[0] + l22 * z[1],
                    mean[2] + l31 * z[0] + l32 * z[1] + l33 * z[2],
                ];
                let top = f.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let e = f.map(|f| (f - top).exp());
                let total: f64 = e.iter().sum();
                (0..3).for_each(|c| sums[n][c] += e[c] / total / (draws * MEMBERS) as f64);
            }
        }
    }
    for (n, sums) in sums.iter().enumerate() {
        for (p, sum) in averaged.row(n).iter().zip(sums) {
            // Five standard errors of 300 000 draws of a number in [0, 1] are 0.0046; 1000 even points of three dimensions are nearer.
            assert!((p - sum).abs() < 0.01, "{n}: {p} for {sum}");
        }
    }
}

/// Member k is the fit of its own key, neither the others nor their number matter; the evidence is the log of the mean.
#[test]
fn the_evidence_is_the_log_of_the_mean_of_the_members() {
    let problem = toy(false);
    let given = [("epochs", Value::Int(200))];
    let q = fit(&problem, &given).posterior;
    let key = Key::new(3).purpose(Purpose::Member);
    let given: Vec<_> = given.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
    let method = find("laplace").unwrap().configure(&given).unwrap();
    let alone: Vec<Box<dyn Posterior>> =
        (0..MEMBERS as u64).map(|k| method.fit(&problem, key.derive(k), &mut Silent).unwrap().posterior).collect();
    for (a, b) in q.members().iter().zip(&alone) {
        assert_eq!(a.tensors(), b.tensors());
    }
    assert!(alone[0].tensors() != alone[1].tensors());
    let evidences: Vec<f64> = alone.iter().map(|m| m.log_evidence().unwrap()).collect();
    let top = evidences.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mean = evidences.iter().map(|e| (e - top).exp()).sum::<f64>() / MEMBERS as f64;
    assert!((q.log_evidence().unwrap() - (top + mean.ln())).abs() < 1e-10);
}

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
fn what_all_members_say_is_told_once() {
    let mut listener = Listener::default();
    let given = [("members", Value::Int(4)), ("epochs", Value::Int(2)), ("polish", Value::Int(0))];
    try_fit(&toy(false), &given, &mut listener).unwrap();
    let told = listener.0.iter().filter(|m| m.starts_with("the fit has not converged")).count();
    assert_eq!(told, 1, "{:?}", listener.0);
}

#[test]
fn an_ensemble_to_start_from_has_a_mode_for_each_member() {
    let problem = toy(true);
    let points: Vec<Vec<f32>> = (0..3).map(|k| problem.initial(Key::new(k))).collect();
    let ensemble = || {
        let members = points.iter().map(|w| Box::new(PointPosterior::new(w.clone())) as Box<dyn Posterior>);
        Arc::new(MixturePosterior::new(members.collect(), None))
    };
    let started = problem.clone().with_start(ensemble()).unwrap();
    let q = fit(&started, &[]).posterior;
    assert!(q.gaussians().iter().zip(&points).all(|(m, w)| m.mean() == w));
    let refuse = |problem: &Problem, members: i64| {
        try_fit(problem, &[("members", Value::Int(members))], &mut Silent).unwrap_err().to_string()
    };
    assert_eq!(refuse(&started, 4), "the start has 3 members, and members is 4; use members=3");
    assert_eq!(
        refuse(&started, 1),
        "a posterior of kind 'mixture' has no point to start from; use members=3 for a Gaussian at each of its members"
    );
    let one = problem.with_start(Arc::new(PointPosterior::new(points[0].clone()))).unwrap();
    assert_eq!(
        refuse(&one, 2),
        "2 members that begin at one start would all be the same; leave members out, or start from an ensemble of as many"
    );
}
