//! A fitted model that is no network, registered from outside: fitted by name, predicting, saved, loaded, scored, diagnosed and attacked like any other.

use posterior::apply::attack::{Attack, PerturbationBudget, perturb};
use posterior::artifact;
use posterior::data::{Column, Dataset, EncodeOptions, Table, Values};
use posterior::diagnose::Diagnosis;
use posterior::fitted::{
    Estimator, Fitted, Function, How, ModelEntry, ModelFit, NetworkFit, Restoring, Route, Saved, WideTensor,
};
use posterior::inference::{FitSummary, Observer, Silent};
use posterior::likelihood::Likelihood;
use posterior::model::register_model;
use posterior::model::{Choice, Model, Recipe};
use posterior::nn::Shape;
use posterior::predict::{NoiseNode, Outputs, Predictive};
use posterior::prior::Prior;
use posterior::rng::{Key, Stream};
use posterior::score::find;
use posterior::settings::{Allowed, Default as Preset, Setting, Settings, Value};
use posterior::{Error, Result};
use std::path::Path;
use std::sync::{Arc, Once};

/// f is one number for all rows, f ~ N(m, v): the mean of the targets, under a prior N(0, scale²).
#[derive(Debug)]
struct Level {
    mean: f64,
    variance: f64,
    noise: f64,
    evidence: f64,
    input: Shape,
    likelihood: Arc<dyn Likelihood>,
}

/// A number drawn for f.
struct Constant {
    values: Vec<f64>,
    at: usize,
    noise: [f64; 1],
}

impl Function for Constant {
    fn len(&self) -> usize {
        self.values.len()
    }
    fn select(&mut self, s: usize) {
        self.at = s;
    }
    fn noise(&self) -> &[f64] {
        &self.noise
    }
    fn eval(&mut self, _: &[f64], f: &mut [f64]) {
        f.fill(self.values[self.at]);
    }
    fn vjp(&mut self, _: &[f64], _: &[f64], dx: &mut [f64]) {
        dx.fill(0.0);
    }
}

impl Fitted for Level {
    fn kind(&self) -> &str {
        "level"
    }
    fn input(&self) -> Shape {
        self.input
    }
    fn likelihood(&self) -> &Arc<dyn Likelihood> {
        &self.likelihood
    }
    fn predict(&self, x: &Values, how: &How) -> Result<Predictive> {
        if how.route != Route::Own {
            return Err(Error::setting("this model has one route", "leave the route out"));
        }
        let rows = x.len() / self.input.len();
        let noise = vec![NoiseNode { weight: 1.0, values: vec![self.noise] }];
        let (mean, variance) = (vec![self.mean; rows], vec![self.variance; rows]);
        Ok(Predictive::gaussian(self.likelihood.clone(), mean, variance, noise, how.draws, how.scale.clone()))
    }
    fn functions(&self, draws: usize, key: Key, _wide: bool) -> Option<Box<dyn Function + '_>> {
        let mut stream = Stream::new(key);
        let values = (0..draws.max(1)).map(|_| self.mean + self.variance.sqrt() * stream.normal()).collect();
        Some(Box::new(Constant { values, at: 0, noise: [self.noise] }))
    }
    fn log_evidence(&self) -> Option<f64> {
        Some(self.evidence)
    }
    fn to_prior(&self) -> Option<Prior> {
        None
    }
    fn describe(&self) -> String {
        "one level for all rows".to_owned()
    }
    fn parameters(&self) -> usize {
        3
    }
    fn save(&self) -> Result<Saved> {
        let data = vec![self.mean, self.variance, self.noise];
        Ok(Saved { wide: vec![WideTensor { name: "level".into(), shape: vec![3], data }], ..Saved::default() })
    }
    fn as_network(&self) -> Option<&NetworkFit> {
        None
    }
}

#[derive(Debug)]
struct LevelEstimator {
    scale: f64,
}

impl Estimator for LevelEstimator {
    fn fit(
        &self,
        data: Dataset,
        likelihood: Arc<dyn Likelihood>,
        _: Key,
        observer: &mut dyn Observer,
    ) -> Result<ModelFit> {
        observer.warn("the inputs are not looked at");
        let n = data.rows as f64;
        let mean = data.y.iter().sum::<f64>() / n;
        let squares = data.y.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / n;
        let precision = n / squares + self.scale.powi(-2);
        let fitted = Level {
            mean: mean * n / squares / precision,
            variance: 1.0 / precision,
            noise: 0.5 * squares.ln(),
            evidence: -1.25,
            input: data.shape,
            likelihood,
        };
        Ok(ModelFit { fitted: Arc::new(fitted), summary: FitSummary::default() })
    }
}

const SCALE: Setting =
    Setting { name: "scale", help: "of the prior", default: Preset::Float(10.0), allowed: Allowed::Above(0.0, 1e3) };

const LEVEL: ModelEntry = ModelEntry {
    name: "level",
    summary: "one level for all rows",
    gives: "a normal for the level",
    settings: &[SCALE],
    real_likelihood: "gaussian",
    build: |settings: &Settings, _| Ok(Box::new(LevelEstimator { scale: settings.float("scale")? })),
    restore: |r: &Restoring<'_>| {
        let level = r.tensor("level", 3)?;
        Ok(Arc::new(Level {
            mean: level[0],
            variance: level[1],
            noise: level[2],
            evidence: r.log_evidence.unwrap_or(f64::NAN),
            input: r.input,
            likelihood: r.likelihood.clone(),
        }))
    },
};

fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| register_model(LEVEL).unwrap());
}

fn table() -> Table {
    let mut stream = Stream::new(Key::new(4));
    let x: Vec<f64> = (0..40).map(|_| stream.normal()).collect();
    let y = x.iter().map(|_| 30.0 + 5.0 * stream.normal()).collect();
    Table::from_columns([("x", x), ("y", y)].map(|(n, v)| (n.to_owned(), Column::Number(v))).into()).unwrap()
}

fn fit(method: Choice) -> Result<Model> {
    register();
    let recipe = Recipe { method, ..Recipe::default() };
    let options = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
    Model::fit(&recipe, &table(), &options, 1, &mut Silent)
}

#[test]
fn a_model_without_a_network_goes_the_whole_way() {
    let model = fit(Choice::named("level").with("scale", Value::Float(2.0))).unwrap();
    assert_eq!(model.recipe.method.settings["scale"], Value::Float(2.0));
    let rows = model.encoder.encode(&table(), true).unwrap().data;
    let p = model.predict(&rows.x, &model.how(50)).unwrap();
    assert!(matches!(p.outputs(), Outputs::Gaussian(_)), "a closed form stays one");
    // Standardised targets have variance 1 and mean 0: μ ~ N(0, 1/(n + ¼)), in the user's units times the standard deviation.
    let (real, unit) = (p.real(), model.encoder.target_scale().1);
    let epistemic = unit / (40.0f64 + 0.25).sqrt();
    assert!((real.std(3).1 - epistemic).abs() < 1e-10 && (real.std(3).2 - unit).abs() < 1e-9, "{:?}", real.std(3));

    let bytes = artifact::to_bytes(&model).unwrap();
    let back = artifact::from_bytes(&bytes, Path::new("m")).unwrap();
    assert_eq!((back.fitted.kind(), back.fitted.log_evidence(), &back.recipe), ("level", Some(-1.25), &model.recipe));
    let again = back.predict(&rows.x, &back.how(50)).unwrap();
    assert_eq!(again.outputs(), p.outputs());

    let scored = back.score(&rows, &back.how(50)).unwrap();
    let rmse = find("rmse").unwrap().score(&scored).unwrap();
    assert!((rmse - unit).abs() < 1e-2 * unit, "{rmse}");
    let encoded = back.encoder.encode(&table(), true).unwrap();
    let verdict = Diagnosis::new(&back, Some(&encoded), 100, Key::new(2)).unwrap().verdict;
    assert!(verdict.is_yes(), "{}", verdict.sentence());
    // Where nothing depends on the inputs an attack stays where it is.
    let reach = PerturbationBudget::new(&back.encoder, &rows);
    let moved = perturb(&*back.fitted, &rows, &reach, Attack::Fgsm, 0.5, 10, Key::new(1)).unwrap();
    assert_eq!(moved.to::<f32>(), rows.x.to::<f32>());
    let refused = back.network("draws of weights are written").unwrap_err().to_string();
    assert!(refused.contains("a model of kind 'level' has no weights"), "{refused}");
}

#[test]
fn names_and_settings_of_registered_models_are_checked() {
    let message = |r: Result<Model>| r.err().map(|e| e.to_string()).unwrap_or_default();
    assert!(message(fit(Choice::named("levle"))).contains("did you mean 'level'?"));
    assert!(message(fit(Choice::named("level").with("scala", Value::Float(1.0)))).contains("did you mean 'scale'?"));
    assert!(message(fit(Choice::named("level").with("scale", Value::Float(-1.0)))).contains("'scale' cannot be '-1'"));
    register();
    assert!(register_model(LEVEL).unwrap_err().to_string().contains("there is a method 'level' already"));
    let taken = ModelEntry { name: "mean-field", ..LEVEL };
    assert!(register_model(taken).unwrap_err().to_string().contains("there is a method 'mean-field' already"));
}

/// A file whose tensor is missing or short is an error that says so.
#[test]
fn damaged_files_of_registered_models_are_told() {
    let model = fit(Choice::named("level")).unwrap();
    let bytes = artifact::to_bytes(&model).unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert!(text.contains("\"F64\""), "double precision is kept");
    let renamed: Vec<u8> = {
        let at = bytes.windows(9).position(|w| w == b"\"level\":{").unwrap();
        let mut bytes = bytes.clone();
        bytes[at + 1] = b'x';
        bytes
    };
    let error = artifact::from_bytes(&renamed, Path::new("m")).unwrap_err().to_string();
    assert!(error.contains("the tensor 'level' is missing"), "{error}");
}
