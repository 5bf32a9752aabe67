//! A fitted model: predictions for rows of a frame, block by block, with the interpreter's lock released and signals heard in between.

use crate::error::{of_panic, to_python};
use crate::frame::{Frame, View, column};
use crate::outcomes::outcomes;
use crate::recipe::{encoding, recipe};
use crate::run::{pool, work};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1};
use posterior::apply::detect::uncertainty_scores;
use posterior::artifact;
use posterior::data::{Column, LabelKind, TargetKind};
use posterior::diagnose::Diagnosis;
use posterior::fitted::{BLOCK, How, Route};
use posterior::likelihood::Outcome;
use posterior::model as core;
use posterior::predict::Predictive;
use posterior::predict::calibration::Calibration;
use posterior::problem::full_layout;
use posterior::rng::{Key, Purpose};
use posterior::score::{Needs, ScoreBuilder, rate};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use serde_json::json;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Something fitted.
#[pyclass(frozen, module = "posterior._posterior")]
pub struct Model(Arc<core::Model>);

/// Rows of numbers, `width` each.
struct Part {
    width: usize,
    values: Vec<f64>,
}

impl Part {
    fn new(width: usize, values: Vec<f64>) -> Part {
        Part { width, values }
    }
}

/// Names of columns, inputs, and outcomes by their kind.
type Known<'py> = (Vec<String>, Bound<'py, PyAny>, (String, Bound<'py, PyAny>));

/// Draws × P, (name, shape) of the blocks, and how many chains.
type Weights<'py> = (Bound<'py, PyArray2<f32>>, Vec<(String, Vec<usize>)>, usize);

/// Fewest and most rows of a block.
const ROWS: (usize, usize) = (256, 65_536);

impl Model {
    pub fn new(model: core::Model) -> Model {
        Model(Arc::new(model))
    }

    pub fn inner(&self) -> &core::Model {
        &self.0
    }

    fn how(&self, draws: usize, seed: Option<u64>, route: Route) -> How {
        let mut how = self.0.how(draws).by(route);
        if let Some(seed) = seed {
            how.key = Key::new(seed);
        }
        how
    }

    /// What `of` makes of the predictive distributions of all rows, as arrays of rows × width; rows that are left out for missing values are NaN.
    fn blocks<'py>(
        &self,
        py: Python<'py>,
        view: View<'_>,
        jobs: usize,
        how: &How,
        of: impl Fn(Range<usize>, Predictive, &[usize]) -> Vec<Part> + Sync,
    ) -> PyResult<Vec<Bound<'py, PyArray2<f64>>>> {
        let (rows, outputs) = (view.rows(), self.0.likelihood().outputs());
        let each = (BLOCK / (how.draws * outputs).max(1)).clamp(ROWS.0, ROWS.1);
        let pool = pool(jobs)?;
        let mut arrays: Vec<Bound<'py, PyArray2<f64>>> = Vec::new();
        let mut from = 0;
        while from < rows {
            let block = from..(from + each).min(rows);
            py.check_signals()?;
            let (kept, parts) = py
                .detach(|| catch_unwind(AssertUnwindSafe(|| pool.install(|| self.block(view, &block, how, &of)))))
                .map_err(of_panic)?
                .map_err(to_python)?;
            if arrays.is_empty() {
                arrays.extend(parts.iter().map(|p| PyArray2::zeros(py, [rows, p.width], false)));
            }
            for (array, part) in arrays.iter().zip(&parts) {
                // Nobody else has seen the array yet.
                let mut array = array.readwrite();
                let mut array = array.as_array_mut();
                if kept.len() < block.len() {
                    array.slice_mut(numpy::ndarray::s![block.clone(), ..]).fill(f64::NAN);
                }
                for (i, &row) in kept.iter().enumerate() {
                    for c in 0..part.width {
                        array[[block.start + row, c]] = part.values[i * part.width + c];
                    }
                }
            }
            from = block.end;
        }
        Ok(arrays)
    }

    fn block(
        &self,
        view: View<'_>,
        block: &Range<usize>,
        how: &How,
        of: &(impl Fn(Range<usize>, Predictive, &[usize]) -> Vec<Part> + Sync),
    ) -> posterior::Result<(Vec<usize>, Vec<Part>)> {
        let encoded = self.0.encoder.encode(&view.table(block.clone(), None)?, false)?;
        let raw = self.0.fitted.predict(&encoded.data.x, how)?;
        let parts = of(block.clone(), raw, &encoded.kept_rows);
        Ok((encoded.kept_rows, parts))
    }

    /// All rows with their outcomes, encoded.
    fn with_outcomes(
        &self,
        frame: &Frame<'_>,
        y: (String, Bound<'_, PyAny>),
    ) -> PyResult<(posterior::data::Encoded, Vec<f64>)> {
        let table = frame.table((self.0.encoder.target.name.clone(), column(&y.0, &y.1)?))?;
        let encoded = self.0.encoder.encode(&table, true).map_err(to_python)?;
        let y = self.0.encoder.decode_target(&encoded.data.y);
        Ok((encoded, y))
    }
}

#[pymethods]
impl Model {
    /// Reads a model file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Model> {
        py.detach(|| artifact::load(&path)).map(Model::new).map_err(to_python)
    }

    /// Writes a model file, the same as the program's.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| artifact::save(&self.0, &path)).map_err(to_python)
    }

    /// The bytes of a model file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| artifact::to_bytes(&self.0)).map_err(to_python)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// A model from the bytes of its file.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: Vec<u8>) -> PyResult<Model> {
        py.detach(|| artifact::from_bytes(&bytes, Path::new("the pickled model"))).map(Model::new).map_err(to_python)
    }

    /// What it is, as JSON.
    fn describe(&self) -> String {
        let model = &*self.0;
        let (kind, classes, labels) = match model.encoder.target_kind() {
            TargetKind::Real(_) => ("regression", &[][..], ""),
            TargetKind::Count { .. } => ("count", &[][..], ""),
            TargetKind::Class { names, kind } => (
                "classification",
                &names[..],
                match kind {
                    LabelKind::Number => "number",
                    LabelKind::Text => "text",
                    LabelKind::Bool => "bool",
                },
            ),
        };
        let last = model.summary.trace.last();
        json!({
            "recipe": model.recipe,
            "target": model.encoder.target.name,
            "missing": model.encoder.missing,
            "features": match &model.encoder.inputs {
                posterior::data::Inputs::Columns(all) => all.iter().map(|f| f.name.clone()).collect(),
                posterior::data::Inputs::Images { .. } => Vec::new(),
            },
            "unused": model.encoder.unused,
            "inputs": model.encoder.feature_names(),
            "kind": kind,
            "classes": classes,
            "labels": labels,
            "targets": model.likelihood().targets(),
            "seed": model.seed,
            "rows": model.rows,
            "network": model.fitted.describe(),
            "parameters": model.fitted.parameters(),
            "log_evidence": model.fitted.log_evidence(),
            "steps": model.summary.steps,
            "epochs": model.summary.epochs,
            "stopped_early": model.summary.stopped_early,
            "seconds": model.summary.seconds,
            "objective": last.map(|e| e.objective),
            "incomplete": model.chains().is_some_and(|c| c.incomplete),
            "temperature": model.calibration.as_ref().and_then(|c| c.temperature),
            "calibrated": model.calibration.is_some(),
        })
        .to_string()
    }

    /// Real and count outcomes: mean, epistemic and aleatoric variance. Classes: probabilities, entropy, mean entropy of the draws, mean KL to the draws.
    #[pyo3(signature = (names, x, draws, jobs=0, seed=None))]
    fn predict<'py>(
        &self,
        py: Python<'py>,
        names: Vec<String>,
        x: &Bound<'py, PyAny>,
        draws: usize,
        jobs: usize,
        seed: Option<u64>,
    ) -> PyResult<Vec<Bound<'py, PyArray2<f64>>>> {
        let frame = Frame::new(names, x)?;
        let targets = self.0.likelihood().targets();
        let class = self.0.likelihood().outcome() == Outcome::Class;
        self.blocks(py, frame.view(), jobs, &self.how(draws, seed, Route::Own), |_, raw, _| {
            let predictive = self.0.calibrated(raw);
            if class {
                let c = predictive.classes();
                return vec![
                    Part::new(c.classes, c.probabilities),
                    Part::new(1, c.total),
                    Part::new(1, c.aleatoric),
                    Part::new(1, c.disagreement),
                ];
            }
            let real = predictive.real();
            vec![Part::new(targets, real.mean), Part::new(targets, real.epistemic), Part::new(targets, real.aleatoric)]
        })
    }

    /// Quantiles, rows × (targets × levels).
    #[pyo3(signature = (names, x, levels, draws, jobs=0, seed=None))]
    fn quantiles<'py>(
        &self,
        py: Python<'py>,
        names: Vec<String>,
        x: &Bound<'py, PyAny>,
        levels: Vec<f64>,
        draws: usize,
        jobs: usize,
        seed: Option<u64>,
    ) -> PyResult<Vec<Bound<'py, PyArray2<f64>>>> {
        let frame = Frame::new(names, x)?;
        let width = self.0.likelihood().targets() * levels.len();
        self.blocks(py, frame.view(), jobs, &self.how(draws, seed, Route::Own), |_, raw, _| {
            vec![Part::new(width, self.0.calibrated(raw).quantiles(&levels))]
        })
    }

    /// Conformal intervals (low, high) of real and count outcomes, or sets of classes as 0 and 1, at a level; none where the model is not calibrated, or its
    /// rows are too few for the level.
    #[pyo3(signature = (names, x, level, draws, jobs=0, seed=None))]
    fn conformal<'py>(
        &self,
        py: Python<'py>,
        names: Vec<String>,
        x: &Bound<'py, PyAny>,
        level: f64,
        draws: usize,
        jobs: usize,
        seed: Option<u64>,
    ) -> PyResult<Option<Bound<'py, PyArray2<f64>>>> {
        let Some(threshold) = self.0.calibration.as_ref().and_then(|c| c.threshold(level)) else { return Ok(None) };
        let frame = Frame::new(names, x)?;
        let outcome = self.0.likelihood().outcome();
        let arrays = self.blocks(py, frame.view(), jobs, &self.how(draws, seed, Route::Own), |_, raw, kept| {
            if outcome == Outcome::Class {
                let c = raw.classes();
                let mut sets = vec![0.0; kept.len() * c.classes];
                for n in 0..kept.len() {
                    Calibration::set(threshold, &c, n).into_iter().for_each(|k| sets[n * c.classes + k] = 1.0);
                }
                return vec![Part::new(c.classes, sets)];
            }
            let real = raw.real();
            let interval = |n| <[f64; 2]>::from(Calibration::interval(threshold, &real, n, outcome));
            vec![Part::new(2, (0..kept.len()).flat_map(interval).collect())]
        })?;
        Ok(arrays.into_iter().next())
    }

    /// Outcomes drawn from the predictive distribution, rows × (samples × targets).
    #[pyo3(signature = (names, x, samples, seed, jobs=0))]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        names: Vec<String>,
        x: &Bound<'py, PyAny>,
        samples: usize,
        seed: u64,
        jobs: usize,
    ) -> PyResult<Vec<Bound<'py, PyArray2<f64>>>> {
        let frame = Frame::new(names, x)?;
        let how = self.how(samples, Some(seed), Route::Own);
        let targets = self.0.likelihood().targets();
        let key = Key::new(seed).purpose(Purpose::Outcome);
        self.blocks(py, frame.view(), jobs, &how, |block, raw, kept| {
            let predictive = self.0.calibrated(raw);
            let rows: Vec<u64> = kept.iter().map(|r| (block.start + r) as u64).collect();
            vec![Part::new(samples * targets, outcomes(&self.0, &predictive, &rows, samples, key))]
        })
    }

    /// log p(y | x, D) of every row.
    #[pyo3(signature = (names, x, y, draws, jobs=0, seed=None))]
    fn log_prob<'py>(
        &self,
        py: Python<'py>,
        names: Vec<String>,
        x: &Bound<'py, PyAny>,
        y: (String, Bound<'py, PyAny>),
        draws: usize,
        jobs: usize,
        seed: Option<u64>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let frame = Frame::new(names, x)?;
        let (encoded, y) = self.with_outcomes(&frame, y)?;
        let (how, pool, targets) = (self.how(draws, seed, Route::Own), pool(jobs)?, self.0.likelihood().targets());
        let found = py.detach(|| {
            let mut all = vec![f64::NAN; frame_rows(&encoded)];
            let work = || {
                self.0.predict_blocks(&encoded.data.x, &how, |part, raw| {
                    let y = &y[part.start * targets..part.end * targets];
                    let values = self.0.calibrated(raw).log_likelihood(y);
                    encoded.kept_rows[part].iter().zip(values).for_each(|(r, v)| all[*r] = v);
                    Ok(())
                })
            };
            catch_unwind(AssertUnwindSafe(|| pool.install(work))).map(|done| done.map(|()| all))
        });
        let rows = frame.view().rows();
        let mut all = found.map_err(of_panic)?.map_err(to_python)?;
        all.resize(rows, f64::NAN);
        Ok(PyArray1::from_vec(py, all))
    }

    /// Every metric of the outcomes with its bootstrap standard error, as JSON.
    #[pyo3(signature = (names, x, y, draws, jobs=0, seed=None))]
    fn evaluate(
        &self,
        py: Python<'_>,
        names: Vec<String>,
        x: &Bound<'_, PyAny>,
        y: (String, Bound<'_, PyAny>),
        draws: usize,
        jobs: usize,
        seed: Option<u64>,
    ) -> PyResult<String> {
        let frame = Frame::new(names, x)?;
        let (encoded, y) = self.with_outcomes(&frame, y)?;
        let (model, how) = (self.0.clone(), self.how(draws, seed, Route::Own));
        let rated = work(py, jobs, None, move |_| {
            let targets = model.likelihood().targets().max(1);
            let mut builder = ScoreBuilder::new(model.likelihood().outcome(), Needs::all());
            model.predict_blocks(&encoded.data.x, &how, |part, raw| {
                builder.push(&model.calibrated(raw), &y[part.start * targets..part.end * targets]);
                Ok(())
            })?;
            Ok(rate(&builder.finish(), Key::new(model.seed)))
        })?;
        let one = |r: &posterior::score::Rated| {
            json!({
                "name": r.metric.name,
                "value": r.value.as_ref().ok(),
                "standard_error": r.standard_error,
                "larger_is_better": r.metric.larger_is_better,
                "summary": r.metric.summary,
            })
        };
        Ok(rated.value.iter().map(one).collect::<serde_json::Value>().to_string())
    }

    /// The same model with a temperature and conformal scores from rows that the fit has not seen.
    #[pyo3(signature = (names, x, y, draws, jobs=0))]
    fn calibrate(
        &self,
        py: Python<'_>,
        names: Vec<String>,
        x: &Bound<'_, PyAny>,
        y: (String, Bound<'_, PyAny>),
        draws: usize,
        jobs: usize,
    ) -> PyResult<Model> {
        let frame = Frame::new(names, x)?;
        let (encoded, y) = self.with_outcomes(&frame, y)?;
        let (model, how) = (self.0.clone(), self.how(draws, None, Route::Own));
        let done = work(py, jobs, None, move |_| {
            let predictive = model.fitted.predict(&encoded.data.x, &how)?;
            let calibration = Calibration::fit(&predictive, &y, model.likelihood().outcome())?;
            Ok(core::Model { calibration: Some(calibration), ..(*model).clone() })
        })?;
        Ok(Model::new(done.value))
    }

    /// Every measure of uncertainty that the outcomes have, by name.
    #[pyo3(signature = (names, x, draws, jobs=0, seed=None))]
    fn uncertainty_scores<'py>(
        &self,
        py: Python<'py>,
        names: Vec<String>,
        x: &Bound<'py, PyAny>,
        draws: usize,
        jobs: usize,
        seed: Option<u64>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let frame = Frame::new(names, x)?;
        let outcome = self.0.likelihood().outcome();
        let known = std::sync::Mutex::new(Vec::new());
        let arrays = self.blocks(py, frame.view(), jobs, &self.how(draws, seed, Route::Own), |_, raw, _| {
            let scores = uncertainty_scores(&self.0.calibrated(raw), outcome);
            let mut known = known.lock().unwrap_or_else(|e| e.into_inner());
            *known = scores.iter().map(|s| s.measure).collect();
            scores.into_iter().map(|s| Part::new(1, s.values)).collect()
        })?;
        let dict = PyDict::new(py);
        for (name, array) in known.into_inner().unwrap_or_else(|e| e.into_inner()).into_iter().zip(arrays) {
            dict.set_item(name, array)?;
        }
        Ok(dict)
    }

    /// Whether the posterior may be believed, as JSON; chains need no rows.
    #[pyo3(signature = (rows=None, draws=1000, jobs=0))]
    fn diagnose(&self, py: Python<'_>, rows: Option<Known<'_>>, draws: usize, jobs: usize) -> PyResult<String> {
        let encoded = match rows {
            Some((names, x, y)) => Some(self.with_outcomes(&Frame::new(names, &x)?, y)?.0),
            None => None,
        };
        let model = self.0.clone();
        let found =
            work(py, jobs, None, move |_| Diagnosis::new(&model, encoded.as_ref(), draws, Key::new(model.seed)))?.value;
        let group = |g: &posterior::convergence::GroupReport| json!({"name": g.name, "r_hat": g.r_hat, "ess_bulk": g.ess_bulk, "ess_tail": g.ess_tail});
        let chains = found.chains.as_ref().map(|c| {
            json!({
                "chains": c.chains,
                "draws": c.draws,
                "predictions": group(&c.predictions),
                "log_density": group(&c.log_density),
                "weights": c.weights.iter().map(group).collect::<Vec<_>>(),
                "divergences": c.divergences.0,
                "acceptance": c.acceptance,
                "e_bfmi": c.e_bfmi,
            })
        });
        Ok(json!({
            "trust": found.verdict.trust,
            "reason": found.verdict.reason,
            "advice": found.verdict.advice,
            "sentence": found.verdict.sentence(),
            "pareto_k": found.weights.as_ref().map(|w| w.k()).filter(|k| k.is_finite()),
            "chains": chains,
        })
        .to_string())
    }

    /// Draws of all parameters, (draws × P), with (name, shape) of their blocks; a chain's draws are those that it kept.
    #[pyo3(signature = (count=None, seed=None))]
    fn draws<'py>(&self, py: Python<'py>, count: Option<usize>, seed: Option<u64>) -> PyResult<Weights<'py>> {
        let fit = self.0.network("draws are sets of weights").map_err(to_python)?;
        let layout = full_layout(&*fit.network, &*fit.likelihood);
        let dim = fit.posterior.dim();
        let blocks = layout.blocks().iter().map(|b| (b.name.clone(), b.shape.clone())).collect();
        let (values, chains): (Vec<f32>, usize) = match (fit.posterior.chains(), count) {
            (Some(chains), None) => {
                let shortest = chains.shortest();
                let all = chains.chains.iter().flat_map(|c| c.w[..shortest * dim].iter().copied()).collect();
                (all, chains.chains.len())
            }
            (_, count) => {
                let count = count.unwrap_or(100);
                let key = Key::new(seed.unwrap_or(self.0.seed)).purpose(Purpose::Draw);
                let mut all = Vec::with_capacity(count * dim);
                let mut draw = fit.posterior.draw(key);
                for s in 0..count {
                    fit.posterior.draw_of_into(s, count, key.derive(s as u64), &mut draw);
                    all.extend_from_slice(&draw.w);
                }
                (all, 1)
            }
        };
        let rows = values.len() / dim.max(1);
        let array = PyArray1::from_vec(py, values).reshape([rows, dim])?;
        Ok((array, blocks, chains))
    }
}

/// One more than the last row that was kept.
fn frame_rows(encoded: &posterior::data::Encoded) -> usize {
    encoded.kept_rows.last().map_or(0, |r| r + 1)
}

/// Fits: the model, what the user should know, and the exception of a signal that cut it short.
#[pyfunction]
#[pyo3(signature = (names, x, target, y, asked, task, missing, seed, jobs=0, weights=None, progress=None, start=None))]
pub fn fit(
    py: Python<'_>,
    names: Vec<String>,
    x: &Bound<'_, PyAny>,
    target: String,
    y: (String, Bound<'_, PyAny>),
    asked: &str,
    task: &str,
    missing: &str,
    seed: u64,
    jobs: usize,
    weights: Option<PyReadonlyArray1<'_, f64>>,
    progress: Option<&Bound<'_, PyAny>>,
    start: Option<&Model>,
) -> PyResult<(Model, Vec<String>, Option<Py<PyAny>>)> {
    let recipe = recipe(asked).map_err(to_python)?;
    let options = encoding(target.clone(), task, missing).map_err(to_python)?;
    let y: Column = column(&y.0, &y.1)?;
    let table = Frame::new(names, x)?.table((target, y))?;
    let weights: Option<Vec<f64>> = weights.map(|w| w.as_array().to_vec());
    let start = start.map(|m| m.0.clone());
    let done = work(py, jobs, progress, move |watch| match (start, weights) {
        (Some(start), _) => core::Model::fit_from(&start, &recipe, &table, seed, watch),
        (None, Some(weights)) => core::Model::fit_weighted(&recipe, &table, &options, &weights, seed, watch),
        (None, None) => core::Model::fit(&recipe, &table, &options, seed, watch),
    })?;
    let interrupted = done.interrupted.map(|e| e.into_value(py).into_any());
    let mut model = done.value;
    // A model file follows from data, recipe and seed alone.
    model.summary.seconds = 0.0;
    Ok((Model::new(model), done.warnings, interrupted))
}
