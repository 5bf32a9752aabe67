//! What is done with fitted models, or to choose one: detection by uncertainty, selection by evidence, weights trained elsewhere.

use crate::error::to_python;
use crate::frame::{Frame, column};
use crate::model::Model;
use crate::recipe::{encoding, recipe};
use crate::run::work;
use numpy::PyReadonlyArray1;
use posterior::apply::detect::UncertaintyScore;
use posterior::apply::select::SelectOptions;
use posterior::data::Scale;
use posterior::model::{ImportOptions, import};
use pyo3::prelude::*;
use serde_json::json;
use std::path::Path;

/// How well a measure of uncertainty tells other rows from known ones, as JSON; null where one of the sets is empty.
#[pyfunction]
pub fn detect(known: PyReadonlyArray1<'_, f64>, other: PyReadonlyArray1<'_, f64>) -> String {
    let score =
        |values: &PyReadonlyArray1<'_, f64>| UncertaintyScore { measure: "", values: values.as_array().to_vec() };
    let found = posterior::apply::detect::detect(&score(&known), &score(&other));
    let found = found.map(|d| {
        json!({
            "auroc": d.auroc,
            "aupr_out": d.aupr_out,
            "aupr_in": d.aupr_in,
            "fpr95": d.fpr95,
            "tpr_at_fpr5": d.tpr_at_fpr5,
            "constant": d.constant,
        })
    });
    json!(found).to_string()
}

/// Models of one table in the order of `asked`, by their evidence, as JSON.
#[pyfunction]
#[pyo3(signature = (names, x, target, y, asked, task, missing, held_out, prior_weights, draws, seed, jobs=0))]
pub fn select(
    py: Python<'_>,
    names: Vec<String>,
    x: &Bound<'_, PyAny>,
    target: String,
    y: (String, Bound<'_, PyAny>),
    asked: Vec<String>,
    task: &str,
    missing: &str,
    held_out: f64,
    prior_weights: Vec<f64>,
    draws: usize,
    seed: u64,
    jobs: usize,
) -> PyResult<(String, Vec<String>)> {
    let recipes = asked.iter().map(|a| recipe(a)).collect::<posterior::Result<Vec<_>>>().map_err(to_python)?;
    let encode = encoding(target.clone(), task, missing).map_err(to_python)?;
    let table = Frame::new(names, x)?.table((target, column(&y.0, &y.1)?))?;
    let options = SelectOptions { prior_weights, held_out, draws, seed };
    let done = work(py, jobs, None, move |watch| {
        posterior::apply::select::select(&recipes, &table, &encode, &options, watch)
    })?;
    let one = |j: &posterior::apply::select::Judged| {
        json!({
            "recipe": j.recipe,
            "parameters": j.parameters,
            "log_evidence": j.log_evidence,
            "evidence": j.evidence,
            "log_joint": j.log_joint,
            "probability": j.probability,
            "held_out_log_likelihood": j.held_out_log_likelihood,
        })
    };
    Ok((done.value.iter().map(one).collect::<serde_json::Value>().to_string(), done.warnings))
}

/// A model with weights trained elsewhere: the bytes of a safetensors file with a state dict, and rows that give the target and the noise. Inputs and a real
/// target are taken as they are.
#[pyfunction]
#[pyo3(signature = (names, x, target, y, asked, task, state, modules, jobs=0))]
pub fn import_weights(
    py: Python<'_>,
    names: Vec<String>,
    x: &Bound<'_, PyAny>,
    target: String,
    y: (String, Bound<'_, PyAny>),
    asked: &str,
    task: &str,
    state: Vec<u8>,
    modules: Vec<String>,
    jobs: usize,
) -> PyResult<Model> {
    let recipe = recipe(asked).map_err(to_python)?;
    let options = encoding(target.clone(), task, "error").map_err(to_python)?;
    let table = Frame::new(names, x)?.table((target, column(&y.0, &y.1)?))?;
    let as_it_is = Some(Scale { mean: 0.0, std: 1.0 });
    let how = ImportOptions { modules, input_scale: as_it_is, target_scale: as_it_is };
    let done = work(py, jobs, None, move |watch| {
        import(&state, Path::new("the state dict"), &recipe, &table, &options, &how, watch)
    })?;
    Ok(Model::new(done.value))
}
