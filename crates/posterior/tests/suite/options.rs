//! Typed options and tables of settings are one thing: the same rows, the same values, the same fits.

use posterior::artifact::to_bytes;
use posterior::data::{Column, EncodeOptions, Table};
use posterior::inference::{Fit, METHODS, Method, MethodEntry, Observer, Silent, register_method};
use posterior::likelihood::LIKELIHOODS;
use posterior::model::{Choice, MODELS, Model, Recipe};
use posterior::nn::{Activation, NetworkSpec};
use posterior::options::*;
use posterior::posterior::PointPosterior;
use posterior::prior::PRIORS;
use posterior::problem::Problem;
use posterior::rng::Key;
use posterior::settings::{Allowed, Checked, NamedOptions, Options, Setting, Settings, Value};

fn table() -> Table {
    let x: Vec<f64> = (0..40).map(|i| f64::from(i) / 8.0).collect();
    let y = Column::Number(x.iter().map(|x| x.sin()).collect());
    Table::from_columns(vec![("x".into(), Column::Number(x)), ("y".into(), y)]).unwrap()
}

fn fit(recipe: &Recipe) -> posterior::Result<Model> {
    let encode = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
    Model::fit(recipe, &table(), &encode, 3, &mut Silent)
}

fn network() -> NetworkSpec {
    NetworkSpec::parse("6", Activation::Tanh).unwrap()
}

fn rows(table: &[Setting]) -> Vec<String> {
    table.iter().map(|s| format!("{s:?}")).collect()
}

/// Its table is the row's, its defaults are the table's, and values come back from it. The name, to be counted.
fn check<O: NamedOptions + PartialEq>(table: &[(&'static str, &'static [Setting])]) -> &'static str {
    let name = O::NAME;
    let (_, entry) = table.iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("no row {name}"));
    assert_eq!(rows(entry), rows(O::SETTINGS), "{name}");
    let defaults = Settings::resolve(O::SETTINGS, &[], name).unwrap();
    assert_eq!(O::read(&defaults), O::default(), "{name}");
    let own = Checked::new(&O::default(), name).unwrap();
    assert_eq!(*own.settings(), defaults, "{name}");
    // Each value at an end of what it takes, one after the other.
    for row in O::SETTINGS {
        let value = match row.allowed {
            Allowed::Bool => Value::Bool(Value::from(row.default) == Value::Bool(false)),
            Allowed::Int(low, _) => Value::Int(low + 1),
            Allowed::Float(_, high) | Allowed::Above(_, high) => Value::Float(high),
            Allowed::OneOf(words) => Value::Text(words[words.len() - 1].to_owned()),
            _ => Value::Text("text".to_owned()),
        };
        let settings = Settings::resolve(O::SETTINGS, &[(row.name.to_owned(), value)], name).unwrap();
        assert_eq!(Settings::resolve(O::SETTINGS, &O::read(&settings).pairs(), name).unwrap(), settings, "{name}");
    }
    name
}

#[test]
fn every_row_has_typed_options() {
    macro_rules! check_all {
        ($table:expr, $($options:ty),+ $(,)?) => {{
            let table: Vec<(&'static str, &'static [Setting])> = $table.iter().map(|e| (e.name, e.settings)).collect();
            let mut names = vec![$(check::<$options>(&table)),+];
            let mut all: Vec<&str> = table.iter().map(|(n, _)| *n).collect();
            names.sort_unstable();
            all.sort_unstable();
            assert_eq!(names, all);
        }};
    }
    check_all!(
        METHODS,
        Annealing,
        BlackBox,
        Bootstrap,
        Ensemble,
        FullCovariance,
        GaussianDropout,
        Hmc,
        Importance,
        Ivon,
        Laplace,
        LastLayer,
        Linear,
        LowRank,
        Map,
        MaximumLikelihood,
        McDropout,
        Mclmc,
        MeanField,
        Mixture,
        Moments,
        Nuts,
        RandomWalk,
        Sghmc,
        Sgld,
        SparseDropout,
        Swag,
        VariationalDropout,
    );
    use posterior::options::{likelihood as l, prior as p};
    check_all!(LIKELIHOODS, l::Bernoulli, l::Categorical, l::Gaussian, l::Heteroscedastic, l::Poisson, l::StudentT);
    check_all!(PRIORS, p::Laplace, p::LogUniform, p::Normal, p::ScaleMixture);
}

/// What `posterior methods` prints is a golden file of the program: the tables are held against it here, where they are made.
#[test]
fn tables_are_those_of_the_printed_help() {
    let golden: serde_json::Value =
        serde_json::from_str(include_str!("../../../posterior-cli/tests/golden/methods.json")).unwrap();
    let printed = |section: &str, key: &str| {
        let of = |row: &serde_json::Value| (row[key].as_str().unwrap().to_owned(), row["settings"].clone());
        golden[section].as_array().unwrap().iter().map(of).collect::<Vec<_>>()
    };
    let derived = |name: &str, table: &[Setting]| {
        let row = |s: &Setting| serde_json::json!({ "name": s.name, "help": s.help, "default": Value::from(s.default), "takes": s.allowed.to_string() });
        (name.to_owned(), serde_json::Value::Array(table.iter().map(row).collect()))
    };
    let methods = METHODS.iter().map(|m| derived(m.name, m.settings));
    let all = methods.chain(MODELS.iter().map(|m| derived(m.name, m.settings)));
    assert_eq!(printed("rows", "method"), all.collect::<Vec<_>>());
    assert_eq!(
        printed("likelihoods", "likelihood"),
        LIKELIHOODS.iter().map(|l| derived(l.name, l.settings)).collect::<Vec<_>>()
    );
    assert_eq!(printed("priors", "prior"), PRIORS.iter().map(|p| derived(p.name, p.settings)).collect::<Vec<_>>());
}

/// The same bytes of the model file but for the seconds that the fit took.
fn same_file(typed: impl Into<Choice>, named: Choice) {
    let bytes = |method: Choice| {
        let mut model = fit(&Recipe::new(network()).method(method)).unwrap();
        model.summary.seconds = 0.0;
        to_bytes(&model).unwrap()
    };
    let typed = typed.into();
    let name = typed.name.clone();
    assert!(bytes(typed) == bytes(named), "{name:?}");
}

#[test]
fn typed_options_and_names_give_the_same_model_file() {
    let int = |c: Choice, key: &str, v: i64| c.with(key, Value::Int(v));
    let word = |c: Choice, key: &str, v: &str| c.with(key, Value::Text(v.into()));
    let named = int(Choice::named("mean-field"), "epochs", 3);
    let named = word(named, "estimator", "flipout").with("initial_std", Value::Float(0.2));
    let typed = MeanField { epochs: 3, estimator: EstimatorChoice::Flipout, initial_std: 0.2, ..Default::default() };
    same_file(typed, named);

    let named = int(int(int(Choice::named("hmc"), "chains", 2), "draws", 5), "warmup", 10);
    let typed = Hmc { chains: 2, draws: 5, warmup: 10, start: TemperedStart::Prior, ..Default::default() };
    same_file(typed, word(named, "start", "prior"));

    let named = word(int(int(Choice::named("swag"), "epochs", 3), "swag_epochs", 4), "schedule", "constant");
    same_file(Swag { epochs: 3, swag_epochs: 4, schedule: Decay::Constant, ..Default::default() }, named);

    let named = int(int(Choice::named("ensemble"), "epochs", 3), "members", 2).with("anchored", Value::Bool(true));
    let recipe = |method: Choice| Recipe::new(network()).method(method).likelihood("gaussian");
    let bytes = |method: Choice| {
        let mut model = fit(&recipe(method)).unwrap();
        model.summary.seconds = 0.0;
        to_bytes(&model).unwrap()
    };
    let typed = Ensemble { epochs: 3, members: 2, anchored: true, ..Default::default() };
    assert!(bytes(typed.into()) == bytes(named));
}

#[test]
fn a_value_out_of_range_is_one_clear_error() {
    let message = |method: Choice| fit(&Recipe::new(network()).method(method)).unwrap_err().to_string();
    let base = MeanField { epochs: 1, ..Default::default() };
    assert_eq!(
        message(MeanField { batch_size: 0, ..base }.into()),
        "the setting 'batch_size' cannot be '0'; it takes a whole number of at least 1 (default 128)"
    );
    for wrong in [
        MeanField { epochs: usize::MAX, ..base },
        MeanField { samples: 0, ..base },
        MeanField { learning_rate: 0.0, ..base },
        MeanField { learning_rate: f64::NAN, ..base },
        MeanField { initial_std: f64::INFINITY, ..base },
        MeanField { warmup: -1.0, ..base },
    ] {
        let message = message(wrong.into());
        assert!(message.contains("cannot be") && message.contains("it takes") && !message.contains('\n'), "{message}");
    }
    let prior = posterior::options::prior::Normal { weight_std: -1.0, ..Default::default() };
    let error = fit(&Recipe::new(network()).method(base).prior(prior)).unwrap_err().to_string();
    assert!(error.contains("'weight_std' cannot be '-1'"), "{error}");
}

posterior::options! {
    /// Every weight the same number.
    pub struct Same: "same-number" {
        /// the number
        number: f64 = 0.5 => Float(-10.0, 10.0),
    }
}

#[derive(Debug)]
struct SameNumber {
    options: Checked<Same>,
}

impl Method for SameNumber {
    fn name(&self) -> &'static str {
        Same::NAME
    }
    fn settings(&self) -> &Settings {
        self.options.settings()
    }
    fn fit(&self, problem: &Problem, _: Key, _: &mut dyn Observer) -> posterior::Result<Fit> {
        let w = vec![self.options.number as f32; problem.dim()];
        Ok(Fit { posterior: Box::new(PointPosterior::new(w)), summary: Default::default() })
    }
}

/// A method of another crate declares its options with the same macro, or writes its table by hand.
#[test]
fn methods_of_other_crates_have_typed_options_too() {
    register_method(MethodEntry {
        name: Same::NAME,
        summary: "every weight the same number",
        gives: "one point",
        settings: Same::SETTINGS,
        build: |settings| Box::new(SameNumber { options: settings.into() }),
    })
    .unwrap();
    const BY_HAND: &[Setting] = &[Setting {
        name: "number",
        help: "the number",
        default: posterior::settings::Default::Float(0.5),
        allowed: Allowed::Float(-10.0, 10.0),
    }];
    assert_eq!(rows(BY_HAND), rows(Same::SETTINGS));
    register_method(MethodEntry {
        name: "same-number-by-hand",
        summary: "every weight the same number",
        gives: "one point",
        settings: BY_HAND,
        build: |settings| Box::new(SameNumber { options: settings.into() }),
    })
    .unwrap();
    let weights = |method: Choice| {
        let model = fit(&Recipe::new(network()).method(method)).unwrap();
        model.network("they are looked at").unwrap().posterior.centre().unwrap()
    };
    assert!(weights(Same { number: 2.0 }.into()).iter().all(|w| *w == 2.0));
    let by_hand = Choice::named("same-number-by-hand").with("number", Value::Int(2));
    assert!(weights(by_hand).iter().all(|w| *w == 2.0));
}
