//! What goes wrong is named: densities that are not finite, chains that stand still or diverge, a user who stops them, too little memory.

use posterior::artifact;
use posterior::data::{Column, Dataset, EncodeOptions, Table, Values};
use posterior::inference::{ChainPlan, ChainProgress, Flow, Observer, Progress, Silent, find, sample};
use posterior::likelihood::Outcome;
use posterior::model::{Choice, Model, Recipe};
use posterior::nn::{Activation, Mode, NetworkSpec, Shape};
use posterior::posterior::Chains;
use posterior::problem::{FnDensity, LogDensity, Problem, Rejection, Rows};
use posterior::rng::Key;
use posterior::settings::Value;
use posterior::{ErrorKind, Result};

const SAMPLERS: [&str; 4] = ["hmc", "nuts", "mclmc", "metropolis"];

fn given(settings: &[(&str, i64)]) -> Vec<(String, Value)> {
    settings.iter().map(|(k, v)| ((*k).to_owned(), Value::Int(*v))).collect()
}

fn on<D: LogDensity>(method: &str, density: &(dyn Fn() -> D + Sync), settings: &[(&str, i64)]) -> Result<Chains> {
    sample(method, &given(settings), density, &|_, _| vec![0.5, 0.5], Key::new(3), &mut Silent)
}

/// A standard normal where x > 0; not a number elsewhere.
#[test]
fn a_density_that_is_not_finite_somewhere_rejects_the_move_and_is_counted() {
    let half = || {
        FnDensity::new(2, |w: &[f64], g: &mut [f64]| {
            g.copy_from_slice(&[-w[0], -w[1]]);
            if w[0] > 0.0 { -0.5 * (w[0] * w[0] + w[1] * w[1]) } else { f64::NAN }
        })
    };
    for method in SAMPLERS {
        let chains = on(method, &half, &[("draws", 500), ("warmup", 500), ("thin", 2)]).unwrap();
        let all: Vec<f64> = (0..chains.draws()).map(|s| f64::from(chains.draw(s)[0])).collect();
        assert!(all.iter().all(|x| *x > 0.0), "{method}");
        assert!(chains.chains.iter().map(|c| c.not_finite).sum::<u64>() > 0, "{method} counts");
        // Mean of the half normal √(2/π) = 0.798; 2000 draws, correlated: a crude look that it still moves.
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        assert!((0.6..1.0).contains(&mean), "{method}: {mean}");
    }
}

#[test]
fn a_density_that_is_finite_nowhere_stops_with_a_sentence() {
    let never = || FnDensity::new(2, |_: &[f64], _: &mut [f64]| f64::NAN);
    for method in SAMPLERS {
        let e = on(method, &never, &[("draws", 10)]).unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::Numerical { .. }), "{e}");
        let e = e.to_string();
        assert!(
            e.contains("found no start in 20 attempts: the log density is NaN") && e.contains("w = (0.5000, 0.5000)"),
            "{e}"
        );
    }
}

/// After some evaluations the density gives up.
struct Fatal(u32);

impl LogDensity for Fatal {
    fn dim(&self) -> usize {
        2
    }
    fn value_and_gradient(&mut self, w: &[f64], g: &mut [f64]) -> std::result::Result<f64, Rejection> {
        self.0 += 1;
        g.copy_from_slice(&[-w[0], -w[1]]);
        if self.0 > 100 {
            Err(Rejection::Fatal("the simulator is gone".into()))
        } else {
            Ok(-0.5 * (w[0] * w[0] + w[1] * w[1]))
        }
    }
}

#[test]
fn a_density_that_gives_up_stops_the_chains() {
    for method in SAMPLERS {
        let e = on(method, &|| Fatal(0), &[("draws", 1000)]).unwrap_err().to_string();
        assert!(e.contains("the simulator is gone"), "{method}: {e}");
    }
}

/// Finite at the start alone: no move can be accepted, every path is lost.
fn spike() -> impl LogDensity {
    FnDensity::new(2, |w: &[f64], g: &mut [f64]| {
        g.copy_from_slice(&[-1.0, 1.0]);
        if w == [0.5, 0.5] { 0.0 } else { f64::INFINITY }
    })
}

#[test]
fn chains_that_never_move_are_named_and_kept() {
    let settings = [("chains", 2), ("draws", 20), ("warmup", 0), ("thin", 1)];
    let diverged = "every transition of chains 1, 2 diverged";
    let words = ["no move of chains 1, 2 was accepted", diverged, diverged, diverged];
    for (method, words) in ["metropolis", "hmc", "nuts", "mclmc"].into_iter().zip(words) {
        let chains = on(method, &spike, &settings).unwrap();
        assert_eq!((chains.draws(), chains.incomplete), (40, false), "{method}: the draws are kept");
        let fault = chains.fault.unwrap();
        assert!(fault.contains(words), "{method}: {fault}");
    }
}

/// In warm-up the step size shrinks until a step does not change the numbers any more.
#[test]
fn a_step_size_that_collapses_is_named() {
    let chains = on("hmc", &spike, &[("chains", 2), ("draws", 20), ("warmup", 50)]).unwrap();
    let fault = chains.fault.unwrap();
    assert!(fault.contains("the step size of chains 1, 2 collapsed"), "{fault}");
}

#[test]
fn a_start_of_another_length_and_methods_that_do_not_sample_are_refused() {
    let normal = || {
        FnDensity::new(3, |w: &[f64], g: &mut [f64]| {
            g.fill(0.0);
            -w[0]
        })
    };
    let e = on("nuts", &normal, &[]).unwrap_err().to_string();
    assert!(e.contains("the start of chain") && e.contains("has 2 numbers, the density takes 3"), "{e}");
    let e = on("map", &normal, &[]).unwrap_err().to_string();
    assert!(e.contains("the method 'map' does not sample a density; choose one of: ") && e.contains("nuts"), "{e}");
}

/// Stops after so many turns, or so many of chains that have a draw.
struct Stopping {
    turns: usize,
    with_draws: bool,
    chains: Vec<ChainProgress>,
}

impl Observer for Stopping {
    fn progress(&mut self, p: &Progress) -> Flow {
        assert!(p.step <= p.steps);
        if self.turns == 0 { Flow::Stop } else { Flow::Continue }
    }
    fn chain(&mut self, p: &ChainProgress) -> Flow {
        if p.draws > 0 || !self.with_draws {
            self.turns = self.turns.saturating_sub(1);
        }
        self.chains.push(*p);
        Flow::Continue
    }
    fn warn(&mut self, _: &str) {}
}

fn table() -> Table {
    let x: Vec<f64> = (0..40).map(|i| f64::from(i) / 10.0).collect();
    let y = x.iter().map(|v| v.sin()).collect();
    Table::from_columns(vec![("x".into(), Column::Number(x)), ("y".into(), Column::Number(y))]).unwrap()
}

fn fit(method: Choice, observer: &mut dyn Observer) -> Result<Model> {
    let recipe = Recipe { network: NetworkSpec::parse("4", Activation::Tanh)?, method, ..Recipe::default() };
    let options = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
    Model::fit(&recipe, &table(), &options, 1, observer)
}

#[test]
fn a_user_who_stops_gets_what_was_drawn_in_a_valid_file() {
    for method in ["hmc", "nuts", "mclmc", "metropolis", "sgld", "sghmc"] {
        let choice = Choice::named(method)
            .with("warmup", Value::Int(20))
            .with("draws", Value::Int(1_000_000))
            .with("thin", Value::Int(1));
        let mut observer = Stopping { turns: 3, with_draws: true, chains: Vec::new() };
        let model = fit(choice, &mut observer).unwrap();
        let chains = model.chains().unwrap();
        assert!(chains.incomplete && chains.draws() > 0 && model.summary.stopped_early, "{method}");
        let bytes = artifact::to_bytes(&model).unwrap();
        let back = artifact::from_bytes(&bytes, "model".as_ref()).unwrap();
        assert!(back.chains().unwrap().incomplete, "{method}");
        let rows = back.encoder.encode(&table(), false).unwrap();
        assert!(
            back.predict(&rows.data.x, &back.how(10)).unwrap().real().mean.iter().all(|m| m.is_finite()),
            "{method}"
        );
        let last = observer.chains.last().unwrap();
        assert!(last.chains == 4 && last.of == 1_000_020 && last.step_size > 0.0, "{method}: {last:?}");
    }
    // Before there is a draw there is nothing to keep.
    let choice = Choice::named("hmc").with("warmup", Value::Int(1_000_000));
    let e = fit(choice, &mut Stopping { turns: 2, with_draws: false, chains: Vec::new() }).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::Interrupted));
}

#[test]
fn draws_stay_within_the_budget_of_memory() {
    let plan = ChainPlan { chains: 4, warmup: 10, draws: 1000, thin: 2 };
    // 4 chains × 1000 draws × 500 000 parameters are 7.5 GiB, three times over while they are written.
    let (thinned, told) = plan.within(500_000, 2048).unwrap();
    let bytes = 3 * 4 * thinned.chains * thinned.draws * 500_000;
    assert!(bytes <= 2048 << 20 && bytes > 1536 << 20, "{thinned:?}");
    // 2000 transitions were asked for.
    assert_eq!((thinned.draws, thinned.thin), (83, 24));
    assert!(told.unwrap().contains("one in 12 is kept, 83 a chain (memory_mib = 2048)"));
    assert_eq!(plan.within(100, 2048).unwrap(), (plan, None));
    let e = plan.within(500_000, 1).unwrap_err().to_string();
    assert!(e.contains("memory_mib to 23 or more"), "{e}");
    // Through a method: told to the observer, and kept.
    struct Told(Vec<String>);
    impl Observer for Told {
        fn progress(&mut self, _: &Progress) -> Flow {
            Flow::Continue
        }
        fn warn(&mut self, message: &str) {
            self.0.push(message.to_owned());
        }
    }
    let choice = Choice::named("sgld").with("warmup", Value::Int(10)).with("thin", Value::Int(1));
    let choice = choice.with("draws", Value::Int(5000)).with("memory_mib", Value::Int(1));
    let mut told = Told(Vec::new());
    let model = fit(choice, &mut told).unwrap();
    // 13 parameters and the noise: 1 MiB / (3 · 4 · 14 · 4) = 1560, one in four of 5000.
    assert_eq!(model.chains().unwrap().shortest(), 1250);
    assert!(told.0.iter().any(|t| t.contains("one in 4 is kept, 1250 a chain")), "{:?}", told.0);
}

fn problem() -> Problem {
    let x: Vec<f64> = (0..20).map(|i| f64::from(i) / 10.0 - 1.0).collect();
    let y = x.iter().map(|v| 2.0 * v).collect();
    let recipe = Recipe { network: NetworkSpec::parse("linear", Activation::Tanh).unwrap(), ..Recipe::default() };
    let resolved = recipe.resolve_for(Shape::Flat(1), Outcome::Real, 1).unwrap();
    resolved.problem(Dataset::new(Values::F64(x.into()), Shape::Flat(1), y, 1)).unwrap()
}

#[test]
fn a_fitted_model_is_a_start() {
    let problem = problem();
    let map = find("map").unwrap().configure(&given(&[("epochs", 500)])).unwrap();
    let fitted = map.fit(&problem, Key::new(1), &mut Silent).unwrap().posterior;
    let hmc = find("hmc").unwrap().configure(&given(&[("warmup", 0), ("draws", 1), ("chains", 2)])).unwrap();
    let start = fitted.draw(Key::new(0)).w;
    let from = hmc.fit(&problem.with_start(fitted.into()).unwrap(), Key::new(2), &mut Silent).unwrap();
    // One transition from the mode, with a path of ten steps at the most, stays near it.
    let near =
        from.posterior.chains().unwrap().draw(0).iter().zip(&start).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(near < 1.5, "{near}");
}

#[test]
fn data_are_weighed_and_the_prior_is_not() {
    let problem = problem();
    let (w, beta) = (vec![0.3; problem.dim()], 0.25);
    let mut density = problem.density::<f64>(usize::MAX);
    let (mut data, mut both, mut got) = (w.clone(), w.clone(), w.clone());
    let log_likelihood = density.log_likelihood(&w, Rows::All, Mode::Plain, Some(&mut data));
    let log_joint = density.value_and_gradient(&w, &mut both).unwrap();
    assert!(density.temper(beta));
    let value = density.value_and_gradient(&w, &mut got).unwrap();
    // Sums of 20 rows: rounding.
    assert!((value - (log_joint - (1.0 - beta) * log_likelihood)).abs() < 1e-12 * log_joint.abs());
    for ((got, both), data) in got.iter().zip(&both).zip(&data) {
        assert!((got - (both - (1.0 - beta) * data)).abs() < 1e-12 * both.abs().max(1.0), "{got}");
    }
    let (start, key) = (find("map").unwrap().configure(&given(&[("epochs", 1)])).unwrap(), Key::new(1));
    let start = start.fit(&problem, key, &mut Silent).unwrap().posterior;
    let started = problem.with_start(start.into()).unwrap();
    assert!(!started.density::<f64>(usize::MAX).temper(beta), "it would leave its start");
    assert!(!spike().temper(beta), "a density that knows no data");
}

/// Whatever a chain of hmc was warmed up on, what it tells of its draws is the log joint.
#[test]
fn chains_that_were_tempered_end_on_the_posterior_itself() {
    let problem = problem();
    for warmup in [1, 2, 3, 10, 100] {
        let hmc = find("hmc").unwrap().configure(&given(&[("warmup", warmup), ("draws", 5), ("chains", 2)])).unwrap();
        let fit = hmc.fit(&problem, Key::new(2), &mut Silent).unwrap();
        let mut density = problem.density::<f64>(usize::MAX);
        for chain in &fit.posterior.chains().unwrap().chains {
            for (i, told) in chain.log_density.iter().enumerate() {
                let w: Vec<f64> = chain.draw(i).iter().map(|v| f64::from(*v)).collect();
                // Draws are kept in f32, and a chain that is not warm yet lies on a slope: 1e-7 of w times the gradient.
                let mut gradient = w.clone();
                let value = density.value_and_gradient(&w, &mut gradient).unwrap();
                let rounding: f64 = w.iter().zip(&gradient).map(|(w, g)| (w * g).abs()).sum::<f64>() * 1e-7;
                assert!((value - told).abs() < 2.0 * rounding + 1e-6, "warm-up {warmup}: {told} for {value}");
            }
        }
    }
}

#[test]
fn annealing_finds_the_mode() {
    // Two peaks, the lower one nearer to the start, in a wide bowl; the higher one's top is where −(x − 6) − x/10 = 0.
    let density = || {
        FnDensity::new(2, |w: &[f64], g: &mut [f64]| {
            g.fill(0.0);
            let at = |c: f64, height: f64| height * (-0.5 * ((w[0] - c).powi(2) + w[1].powi(2))).exp();
            (at(0.5, 1.0) + at(6.0, 50.0) + 1e-30).ln() - 0.05 * (w[0] * w[0] + w[1] * w[1])
        })
    };
    let chains = on("annealing", &density, &[("steps", 20_000)]).unwrap();
    assert_eq!((chains.draws(), chains.fault.as_deref()), (4, None));
    for c in &chains.chains {
        // The last temperature of 1/100 leaves a spread of 0.1, of which the highest point is kept.
        assert!((c.draw(0)[0] - 6.0 / 1.1).abs() < 0.15 && c.draw(0)[1].abs() < 0.15, "{:?}", c.draw(0));
    }
}
