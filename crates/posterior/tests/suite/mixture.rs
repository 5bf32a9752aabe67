//! Mixtures of posteriors: their draws, density and bound, what is on disk, and members that are fitted side by side.

use crate::linear_model::{Linear, fit};
use posterior::ErrorKind;
use posterior::inference::{Flow, Observer, Progress, Silent, find};
use posterior::posterior::{
    MeanFieldPosterior, MixturePosterior, PointPosterior, Posterior, SparsePosterior, Tensor, restore,
};
use posterior::rng::{Key, Purpose};
use posterior::settings::Value;
use posterior_testing::statistics::{chi_square, chi_square_critical, expect_ks};

fn as_dyn(mixture: &MixturePosterior) -> &dyn Posterior {
    mixture
}

fn points(count: usize) -> MixturePosterior {
    let point = |k: usize| Box::new(PointPosterior::new(vec![k as f32, 1.0])) as Box<dyn Posterior>;
    MixturePosterior::new((0..count).map(point).collect(), None)
}

/// N(0, 1) × N(5, 4) and N(3, ¼) × N(5, 4), each with chance ½.
fn gaussians() -> MixturePosterior {
    let member = |m: f32, s: f32| Box::new(MeanFieldPosterior::new(vec![m, 5.0], vec![s, 2.0], None)) as Box<_>;
    MixturePosterior::new(vec![member(0.0, 1.0), member(3.0, 0.5)], Some(-7.5))
}

fn normal_cdf(x: f64, mean: f64, std: f64) -> f64 {
    0.5 * libm::erfc(-(x - mean) / (std * std::f64::consts::SQRT_2))
}

#[test]
fn draws_come_from_all_members_alike() {
    const DRAWS: u64 = 70_000;
    let mixture = points(7);
    let mut counts = [0u64; 7];
    let key = Key::new(1).purpose(Purpose::Draw);
    (0..DRAWS).for_each(|s| counts[mixture.draw(key.step(s)).w[0] as usize] += 1);
    let chi = chi_square(&counts, &[DRAWS as f64 / 7.0; 7]);
    assert!(chi < chi_square_critical(6), "{counts:?}");
    // Which member, and where in it, are independent: the draws have the mixture's distribution.
    let mixture = gaussians();
    let draws: Vec<Vec<f32>> = (0..20_000).map(|s| mixture.draw(key.step(s)).w).collect();
    let mut first: Vec<f64> = draws.iter().map(|w| f64::from(w[0])).collect();
    expect_ks(&mut first, |x| 0.5 * (normal_cdf(x, 0.0, 1.0) + normal_cdf(x, 3.0, 0.5)));
    let mut second: Vec<f64> = draws.iter().map(|w| f64::from(w[1])).collect();
    expect_ks(&mut second, |x| normal_cdf(x, 5.0, 2.0));
}

#[test]
fn the_density_is_the_mean_of_the_members() {
    let mixture = gaussians();
    for w in [[0.0f32, 5.0], [3.0, 4.0], [1.7, 9.0]] {
        let density = |m: &dyn Posterior| m.log_density(&w).unwrap().exp();
        let mean = as_dyn(&mixture).members().iter().map(|m| density(&**m)).sum::<f64>() / 2.0;
        assert!((density(&mixture) / mean - 1.0).abs() < 1e-12); // rounding of exp and ln
    }
    // Where every exp is 0: the nearer member's density, less ln 2.
    let far = [100.0f32, 5.0];
    let near = as_dyn(&mixture).members()[0].log_density(&far).unwrap();
    assert!((mixture.log_density(&far).unwrap() - (near - 2f64.ln())).abs() < 1e-9);
    assert_eq!(points(2).log_density(&[0.0, 0.0]), None);
    assert!(as_dyn(&points(1)).is_point() && !as_dyn(&points(2)).is_point());
    assert!(as_dyn(&gaussians()).diagonal().is_none());
}

fn lookup(tensors: &[Tensor]) -> impl Fn(&str) -> Option<Vec<f32>> {
    move |name| tensors.iter().find(|t| t.name == name).map(|t| t.data.clone())
}

#[test]
fn tensors_bring_it_back_and_damage_is_an_error() {
    let mixture = gaussians();
    let tensors = mixture.tensors();
    let back = restore("mixture", 2, Some(-7.5), &lookup(&tensors)).unwrap();
    assert_eq!((back.tensors(), back.log_evidence()), (tensors.clone(), Some(-7.5)));
    assert_eq!(back.draw(Key::new(9)).w, mixture.draw(Key::new(9)).w);
    // Members of different kinds.
    let mixed = MixturePosterior::new(
        vec![Box::new(PointPosterior::new(vec![1.0])), Box::new(MeanFieldPosterior::new(vec![2.0], vec![3.0], None))],
        None,
    );
    assert_eq!(restore("mixture", 1, None, &lookup(&mixed.tensors())).unwrap().tensors(), mixed.tensors());

    let message = |change: &dyn Fn(&mut Vec<Tensor>)| {
        let mut damaged = tensors.clone();
        change(&mut damaged);
        restore("mixture", 2, None, &lookup(&damaged)).unwrap_err().to_string()
    };
    let at = |name: &str| tensors.iter().position(|t| t.name == name).unwrap();
    for missing in ["members", "0.mean-field", "1.mean-field", "0.mean", "1.std"] {
        assert!(message(&|t| drop(t.remove(at(missing)))).contains("missing"), "{missing}");
    }
    for count in [0.0, -1.0, 1.5, 3.0, 1e9, f32::INFINITY, f32::NAN] {
        assert!(message(&|t| t[at("members")].data = vec![count]).contains("member"), "{count}");
    }
    assert!(message(&|t| t[at("members")].data = vec![]).contains("has 0 numbers"));
    assert!(message(&|t| t[at("1.mean")].data.truncate(1)).contains("has 1 numbers, not 2"));
    assert!(message(&|t| t[at("0.std")].data[0] = -1.0).contains("negative"));
    // A mixture among the members, as only a made-up file has it.
    assert!(
        message(&|t| t[at("1.mean-field")].name = "1.mixture".into()).contains("member 1 of the mixture is missing")
    );
}

#[test]
fn the_bound_is_the_mean_of_the_members_and_the_trace_too() {
    let linear = Linear::new(60, 2.0);
    let common = [("epochs", Value::Int(300)), ("batch_size", Value::Int(20))];
    let mut settings = common.to_vec();
    settings.push(("members", Value::Int(3)));
    let mixture = fit(&linear.problem, "mixture", &settings);
    // Each member is the mean-field fit of its own key: neither the others nor their number matter.
    let pairs: Vec<(String, Value)> = common.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
    let alone = find("mean-field").unwrap().configure(&pairs).unwrap();
    let key = Key::new(3).purpose(Purpose::Member);
    let fits: Vec<_> = (0..3).map(|k| alone.fit(&linear.problem, key.derive(k), &mut Silent).unwrap()).collect();
    let tensors = mixture.posterior.tensors();
    for (k, fit) in fits.iter().enumerate() {
        for t in fit.posterior.tensors() {
            assert_eq!(lookup(&tensors)(&format!("{k}.{}", t.name)).unwrap(), t.data, "member {k}");
        }
    }
    assert_ne!(fits[0].posterior.tensors(), fits[1].posterior.tensors());
    let mean = |f: &dyn Fn(usize) -> f64| (f(0) + f(1) + f(2)) / 3.0;
    let close = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-12, "{a} for {b}"); // order of sums
    close(mixture.posterior.log_evidence().unwrap(), mean(&|k| fits[k].posterior.log_evidence().unwrap()));
    let summary = &mixture.summary;
    assert_eq!(summary.trace.len(), fits[0].summary.trace.len());
    for (r, record) in summary.trace.iter().enumerate() {
        assert_eq!(record.epoch, fits[1].summary.trace[r].epoch);
        close(record.objective, mean(&|k| fits[k].summary.trace[r].objective));
        close(record.nll, mean(&|k| fits[k].summary.trace[r].nll));
        close(record.penalty, mean(&|k| fits[k].summary.trace[r].penalty));
    }
    assert_eq!((summary.steps, summary.epochs), (3 * 900, 300));
}

#[test]
fn members_that_stop_at_different_epochs_have_one_trace() {
    let linear = Linear::new(60, 2.0);
    let settings = [
        ("epochs", Value::Int(3000)),
        ("patience", Value::Int(5)),
        ("members", Value::Int(4)),
        ("kl_warmup", Value::Float(0.0)),
    ];
    let fit = fit(&linear.problem, "mixture", &settings);
    let trace = &fit.summary.trace;
    assert!(fit.summary.stopped_early && trace.windows(2).all(|w| w[0].epoch < w[1].epoch));
    // The last record is what is returned: the mean of the members' ends, which is the bound.
    let bound = fit.posterior.log_evidence().unwrap();
    assert!((trace.last().unwrap().objective / bound - 1.0).abs() < 1e-12);
}

#[test]
fn one_two_and_four_threads_agree() {
    let linear = Linear::new(60, 2.0);
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let settings = [("epochs", Value::Int(50)), ("members", Value::Int(5))];
        let fit = pool.install(|| fit(&linear.problem, "mixture", &settings));
        (fit.posterior.tensors(), fit.posterior.log_evidence(), fit.summary.trace)
    };
    let one = run(1);
    assert!(one == run(2) && one == run(4));
}

/// Sees that progress goes forward; stops at a step.
struct Watch {
    stop_at: u64,
    seen: Vec<Progress>,
}

impl Observer for Watch {
    fn progress(&mut self, p: &Progress) -> Flow {
        self.seen.push(*p);
        if p.step >= self.stop_at { Flow::Stop } else { Flow::Continue }
    }
    fn warn(&mut self, _: &str) {}
}

#[test]
fn progress_is_of_all_members_and_a_stop_stops_them_all() {
    let linear = Linear::new(60, 2.0);
    let pairs = [("epochs", 100), ("batch_size", 20), ("members", 4)].map(|(k, v)| (k.to_owned(), Value::Int(v)));
    let method = find("mixture").unwrap().configure(&pairs).unwrap();
    let watch = |stop_at| {
        let mut watch = Watch { stop_at, seen: Vec::new() };
        let result = method.fit(&linear.problem, Key::new(5), &mut watch);
        (result, watch.seen)
    };
    let (result, seen) = watch(u64::MAX);
    assert!(result.is_ok() && seen.windows(2).all(|w| w[0].step <= w[1].step && w[0].epoch <= w[1].epoch));
    assert!(seen.iter().all(|p| (p.steps, p.epochs) == (1200, 400)));
    assert_eq!(seen.last().map(|p| (p.step, p.epoch)), Some((1200, 400)));
    let (result, seen) = watch(500);
    assert!(matches!(result.unwrap_err().kind(), ErrorKind::Interrupted));
    assert_eq!(seen.iter().filter(|p| p.step >= 500).count(), 1, "nobody is asked again after a stop");
}

/// Bytes that members keep beside their tensors come back with the mixture: positions of sparse members, in both ways to write them.
#[test]
fn bytes_of_members_are_kept() {
    let dim = 300;
    let (mean, std): (Vec<f32>, Vec<f32>) = (0..dim).map(|i| ((i as f32).sin(), 0.2 + (i % 3) as f32)).unzip();
    let member = |step: usize| -> Box<dyn Posterior> {
        Box::new(SparsePosterior::new(&mean, Some(&std), (1..dim as u32).step_by(step).collect()))
    };
    let mixture = MixturePosterior::new(vec![member(2), member(50)], Some(-3.0));
    let numbers = mixture.tensors().into_iter().map(|t| (t.name, t.data));
    let packed = mixture.packed().into_iter().map(|(name, b)| (name, b.into_iter().map(f32::from).collect()));
    let all: Vec<(String, Vec<f32>)> = numbers.chain(packed).collect();
    let find = |name: &str| all.iter().find(|(n, _)| n == name).map(|(_, data)| data.clone());
    let back = restore("mixture", dim, Some(-3.0), &find).unwrap();
    for s in 0..4 {
        let (mut a, mut b) = (mixture.draw(Key::new(1)), back.draw(Key::new(1)));
        mixture.draw_of_into(s, 4, Key::new(s as u64), &mut a);
        back.draw_of_into(s, 4, Key::new(s as u64), &mut b);
        assert_eq!(a.w, b.w);
    }
}
