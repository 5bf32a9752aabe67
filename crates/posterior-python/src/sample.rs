//! Samplers on a density that is a Python callable: `logp_and_grad(w) -> (value, gradient)`.

use crate::run::work;
use numpy::{PyArray1, PyArray3, PyArrayMethods, PyReadonlyArray1};
use posterior::convergence::Quality;
use posterior::diagnose::Trace;
use posterior::inference::sample as run;
use posterior::problem::{LogDensity, Rejection};
use posterior::rng::{Key, Purpose, Stream};
use posterior::settings::Value;
use pyo3::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The callable, and the exception that it has raised.
struct Callable {
    call: Py<PyAny>,
    dim: usize,
    raised: Arc<Mutex<Option<PyErr>>>,
}

impl LogDensity for Callable {
    fn dim(&self) -> usize {
        self.dim
    }

    fn value_and_gradient(&mut self, w: &[f64], gradient: &mut [f64]) -> Result<f64, Rejection> {
        let found = Python::attach(|py| -> PyResult<f64> {
            let answer = self.call.bind(py).call1((PyArray1::from_slice(py, w),))?;
            let (value, d): (f64, Bound<'_, PyAny>) = answer.extract()?;
            let numpy = py.import("numpy")?;
            let d = numpy.call_method1("ascontiguousarray", (d, "float64"))?;
            let d: PyReadonlyArray1<'_, f64> = d.extract()?;
            if d.len()? != self.dim {
                let what = format!("the gradient has {} numbers, not {}", d.len()?, self.dim);
                return Err(pyo3::exceptions::PyValueError::new_err(what));
            }
            gradient.iter_mut().zip(d.as_array()).for_each(|(g, d)| *g = *d);
            Ok(value)
        });
        match found {
            Err(error) => {
                self.raised.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(error);
                Err(Rejection::Fatal("the density raised an exception".to_owned()))
            }
            Ok(value) if value.is_finite() && gradient.iter().all(|g| g.is_finite()) => Ok(value),
            Ok(value) => {
                Err(Rejection::Recoverable(format!("the log density is {value}, or its gradient is not finite")))
            }
        }
    }
}

/// Draws (chains × draws × dim), and how good they are, as JSON.
#[pyfunction]
#[pyo3(signature = (logp_and_grad, dim, method, settings, seed, jobs=0, start=None, progress=None))]
pub fn sample<'py>(
    py: Python<'py>,
    logp_and_grad: Py<PyAny>,
    dim: usize,
    method: String,
    settings: &str,
    seed: u64,
    jobs: usize,
    start: Option<Vec<f64>>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<(Bound<'py, PyArray3<f64>>, String, Vec<String>)> {
    let settings: BTreeMap<String, Value> = serde_json::from_str(settings)
        .map_err(|e| pyo3::exceptions::PyValueError::new_err(format!("the settings cannot be read ({e})")))?;
    let settings: Vec<(String, Value)> = settings.into_iter().collect();
    let raised = Arc::new(Mutex::new(None));
    let (own, call) = (raised.clone(), Arc::new(logp_and_grad));
    let result = work(py, jobs, progress, move |watch| {
        let density = || Callable { call: Python::attach(|py| call.clone_ref(py)), dim, raised: own.clone() };
        let begin = |chain: usize, attempt: usize| {
            let mut stream =
                Stream::new(Key::new(seed).purpose(Purpose::Init).derive(chain as u64).step(attempt as u64));
            // Uniform on (-2, 2), as Stan begins, around the start where there is one.
            (0..dim).map(|i| start.as_ref().map_or(0.0, |s| s[i]) + 4.0 * stream.uniform() - 2.0).collect()
        };
        run(&method, &settings, &density, &begin, Key::new(seed), watch)
    });
    if let Some(error) = raised.lock().unwrap_or_else(|e| e.into_inner()).take() {
        return Err(error);
    }
    let done = result?;
    let chains = done.value;
    let draws = chains.shortest();
    let count = chains.chains.len();
    let mut values = Vec::with_capacity(count * draws * dim);
    for chain in &chains.chains {
        values.extend(chain.w[..draws * dim].iter().map(|v| f64::from(*v)));
    }
    let quality = |p: usize| {
        let q = Quality::of(&Trace::new(values.iter().skip(p).step_by(dim).copied().collect(), count));
        json!({"mean": q.mean, "std": q.std, "r_hat": q.r_hat, "ess_bulk": q.ess_bulk, "ess_tail": q.ess_tail, "mcse_mean": q.mcse_mean})
    };
    let report = json!({
        "parameters": (0..dim).map(quality).collect::<Vec<_>>(),
        "divergences": chains.divergences(),
        "step_size": chains.chains.iter().map(|c| c.step_size).collect::<Vec<_>>(),
        "acceptance": chains.chains.iter().map(|c| c.acceptance).collect::<Vec<_>>(),
        "log_density": chains.chains.iter().map(|c| c.log_density[..draws].to_vec()).collect::<Vec<_>>(),
        "incomplete": chains.incomplete,
        "fault": chains.fault,
    });
    let array = PyArray1::from_vec(py, values).reshape([count, draws, dim])?;
    Ok((array, report.to_string(), done.warnings))
}
