//! The model file: one safetensors file with the posterior's tensors and a JSON manifest. No code, and no training data but the rows
//! that a Gaussian process predicts from.
//!
//! Reading checks everything before it is used: a damaged, foreign or hostile file is an error that says so, never a panic and
//! never an allocation that the file's own length does not justify. Writing goes to a temporary name first and is renamed, so
//! that a half-written file never stands under the name the user gave.

#[cfg_attr(not(feature = "parquet"), path = "without_draws.rs")]
mod draws;
mod temporary;
mod write;

pub use draws::{PLAIN, WrittenDraws, write_draws};
pub use temporary::abandon_writes;
pub use write::{check_writable, overwrites, write_file, write_with};

use crate::data::Encoder;
use crate::error::{Error, ErrorKind, Result};
use crate::fitted::Mixing;
use crate::fitted::{Fitted, Restoring, WideTensor};
use crate::inference::FitSummary;
use crate::memory;
use crate::model::{Model, Plan, Recipe};
use crate::posterior::{Tensor, restore};
use crate::predict::calibration::Calibration;
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensorError, SafeTensors};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// What the manifest's `kind` says.
const KIND: &str = "posterior model";
/// Format written, and the newest that can be read.
const FORMAT: u32 = 1;
/// The manifest's key in the file's metadata.
const MANIFEST: &str = "posterior";

/// Everything of a model but its tensors.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Manifest {
    kind: String,
    format: u32,
    written_by: String,
    recipe: Recipe,
    encoder: Encoder,
    seed: u64,
    rows: usize,
    /// Kind of the posterior over a network's weights; of a model that is no network, its own kind.
    posterior: String,
    /// Parameters of a network and its likelihood; 0 of a model that is no network.
    parameters: usize,
    log_evidence: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    calibration: Option<Calibration>,
    summary: FitSummary,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mixing: Option<Mixing>,
}

/// What can be read before anything else is understood.
#[derive(Deserialize)]
struct Header {
    kind: String,
    format: u32,
    written_by: String,
}

/// The bytes of a model file.
pub fn to_bytes(model: &Model) -> Result<Vec<u8>> {
    let network = model.fitted.as_network();
    let manifest = Manifest {
        kind: KIND.to_owned(),
        format: FORMAT,
        written_by: concat!("posterior ", env!("CARGO_PKG_VERSION")).to_owned(),
        recipe: model.recipe.clone(),
        encoder: model.encoder.clone(),
        seed: model.seed,
        rows: model.rows,
        posterior: network.map_or(model.fitted.kind(), |n| n.posterior.kind()).to_owned(),
        parameters: network.map_or(0, |n| n.posterior.dim()),
        log_evidence: model.fitted.log_evidence(),
        calibration: model.calibration.clone(),
        summary: model.summary.clone(),
        mixing: model.mixing.clone(),
    };
    let internal = |e: String| Error::numerical(format!("the model cannot be written: {e}"), "report this as a bug");
    let json = serde_json::to_string(&manifest).map_err(|e| internal(e.to_string()))?;
    let saved = model.fitted.save()?;
    let narrow = |t: Tensor| (t.name, Dtype::F32, t.data.iter().flat_map(|v| v.to_le_bytes()).collect(), t.shape);
    let wide = |t: WideTensor| (t.name, Dtype::F64, t.data.iter().flat_map(|v| v.to_le_bytes()).collect(), t.shape);
    let packed = saved.packed.into_iter().map(|(name, bytes)| (name, Dtype::U8, bytes.clone(), vec![bytes.len()]));
    let all: Vec<(String, Dtype, Vec<u8>, Vec<usize>)> =
        saved.tensors.into_iter().map(narrow).chain(saved.wide.into_iter().map(wide)).chain(packed).collect();
    let views = all
        .iter()
        .map(|(name, dtype, bytes, shape)| Ok((name.clone(), TensorView::new(*dtype, shape.clone(), bytes)?)))
        .collect::<std::result::Result<Vec<_>, SafeTensorError>>()
        .map_err(|e| internal(e.to_string()))?;
    let metadata = HashMap::from([(MANIFEST.to_owned(), json)]);
    safetensors::serialize(views, Some(metadata)).map_err(|e| internal(e.to_string()))
}

/// Writes a model file.
pub fn save(model: &Model, path: &Path) -> Result<()> {
    write_file(path, &to_bytes(model)?)
}

/// Reads a model file.
pub fn load(path: &Path) -> Result<Model> {
    let bytes = memory::read_file(path)?;
    from_bytes(&bytes, path)
}

/// Reads a model from the bytes of a file; `path` is for messages.
pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<Model> {
    const AGAIN: &str = "copy the file again, or fit the model again";
    let damaged = |what: String| Error::artifact(path, what, AGAIN);
    let foreign = |what: &str| Error::artifact(path, what, "give a file that 'posterior fit' has written");
    if bytes.is_empty() {
        return Err(foreign("the file is empty"));
    }
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|e| match e {
        SafeTensorError::MetadataIncompleteBuffer | SafeTensorError::InvalidHeaderLength => {
            damaged("the model file is cut short or damaged".to_owned())
        }
        _ => foreign("this is not a model file"),
    })?;
    let json = metadata
        .metadata()
        .as_ref()
        .and_then(|m| m.get(MANIFEST))
        .ok_or_else(|| foreign("this safetensors file holds no model of posterior"))?;
    let header: Header = serde_json::from_str(json).map_err(|e| damaged(format!("the manifest is damaged ({e})")))?;
    if header.kind != KIND {
        return Err(foreign(&format!("this file holds a '{}', not a model", header.kind)));
    }
    if header.format > FORMAT {
        return Err(Error::artifact(
            path,
            format!(
                "the file has format {}, written by {}; this program reads up to {FORMAT}",
                header.format, header.written_by
            ),
            "use a newer version of posterior",
        ));
    }
    let manifest: Manifest =
        serde_json::from_str(json).map_err(|e| damaged(format!("the manifest is damaged ({e})")))?;
    let in_file = |e: Error| match e.kind() {
        ErrorKind::Memory { .. } => e.in_file(path),
        _ => damaged(e.to_string()),
    };
    manifest.encoder.check().map_err(in_file)?;
    manifest.calibration.as_ref().map_or(Ok(()), Calibration::check).map_err(in_file)?;
    let plan = manifest.recipe.plan(&manifest.encoder).map_err(in_file)?;
    let file = SafeTensors::deserialize(bytes).map_err(|e| damaged(format!("the tensors are damaged ({e})")))?;
    check_finite(&file).map_err(damaged)?;
    let fitted: Arc<dyn Fitted> = match &plan {
        Plan::Network(resolved) => {
            let dim = resolved.prior.len();
            if dim != manifest.parameters {
                return Err(damaged(format!(
                    "the manifest speaks of {} parameters, its network has {dim}",
                    manifest.parameters
                )));
            }
            let tensor = |name: &str| narrow(&file.tensor(name).ok()?);
            let posterior = restore(&manifest.posterior, dim, manifest.log_evidence, &tensor).map_err(in_file)?;
            Arc::new(resolved.fitted(posterior.into()))
        }
        Plan::Model(model) => {
            let restoring = Restoring {
                settings: &model.settings,
                likelihood: model.likelihood.clone(),
                input: manifest.encoder.input_shape(),
                inputs: &manifest.encoder.inputs,
                log_evidence: manifest.log_evidence,
                tensors: &|name| wide(&file.tensor(name).ok()?),
            };
            (model.entry.restore)(&restoring).map_err(in_file)?
        }
    };
    Ok(Model {
        recipe: plan.into_recipe(),
        encoder: manifest.encoder,
        seed: manifest.seed,
        rows: manifest.rows,
        calibration: manifest.calibration,
        summary: manifest.summary,
        mixing: manifest.mixing,
        fitted,
    })
}

/// The numbers of a tensor in single precision; bytes as numbers from 0 to 255.
fn narrow(view: &TensorView<'_>) -> Option<Vec<f32>> {
    let data = view.data();
    match view.dtype() {
        Dtype::F32 => Some(data.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()),
        Dtype::U8 => Some(data.iter().map(|b| f32::from(*b)).collect()),
        _ => None,
    }
}

/// The numbers of a tensor of any kind that is written, in double precision.
fn wide(view: &TensorView<'_>) -> Option<Vec<f64>> {
    match view.dtype() {
        Dtype::F64 => Some(view.data().as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect()),
        _ => Some(narrow(view)?.into_iter().map(f64::from).collect()),
    }
}

/// Whether every tensor holds finite numbers of a kind that is written; else what is wrong.
fn check_finite(file: &SafeTensors<'_>) -> std::result::Result<(), String> {
    for (name, view) in file.iter() {
        let data = view.data();
        let finite = match view.dtype() {
            Dtype::F32 => data.as_chunks().0.iter().all(|b| f32::from_le_bytes(*b).is_finite()),
            Dtype::F64 => data.as_chunks().0.iter().all(|b| f64::from_le_bytes(*b).is_finite()),
            Dtype::U8 => true,
            _ => false,
        };
        if !finite {
            return Err(format!("the tensor '{name}' holds something that is not a finite number"));
        }
    }
    Ok(())
}
