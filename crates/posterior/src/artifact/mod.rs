//! The model file: one safetensors file with the posterior's tensors and a JSON manifest. No training data, no code.
//!
//! Reading checks everything before it is used: a damaged, foreign or hostile file is an error that says so, never a panic and
//! never an allocation that the file's own length does not justify. Writing goes to a temporary name first and is renamed, so
//! that a half-written file never stands under the name the user gave.

mod draws;
mod write;

pub use draws::{PLAIN, WrittenDraws, write_draws};
pub use write::write_file;

use crate::apply::calibrate::Calibration;
use crate::data::Encoder;
use crate::diagnose::Mixing;
use crate::error::{Error, Result};
use crate::inference::FitSummary;
use crate::model::{Model, Recipe};
use crate::posterior::{Tensor, restore};
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensorError, SafeTensors};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::Path;

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
    posterior: String,
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
    let manifest = Manifest {
        kind: KIND.to_owned(),
        format: FORMAT,
        written_by: concat!("posterior ", env!("CARGO_PKG_VERSION")).to_owned(),
        recipe: model.recipe.clone(),
        encoder: model.encoder.clone(),
        seed: model.seed,
        rows: model.rows,
        posterior: model.posterior.kind().to_owned(),
        parameters: model.posterior.dim(),
        log_evidence: model.posterior.log_evidence(),
        calibration: model.calibration.clone(),
        summary: model.summary.clone(),
        mixing: model.mixing.clone(),
    };
    let internal = |e: String| Error::numerical(format!("the model cannot be written: {e}"), "report this as a bug");
    let json = serde_json::to_string(&manifest).map_err(|e| internal(e.to_string()))?;
    let as_bytes = |t: &Tensor| t.data.iter().flat_map(|v| v.to_le_bytes()).collect();
    let numbers = model.posterior.tensors();
    let numbers = numbers.into_iter().map(|t| (t.name.clone(), Dtype::F32, as_bytes(&t), t.shape));
    let packed = model.posterior.packed().into_iter();
    let packed = packed.map(|(name, bytes)| (name.to_owned(), Dtype::U8, bytes.clone(), vec![bytes.len()]));
    let all: Vec<(String, Dtype, Vec<u8>, Vec<usize>)> = numbers.chain(packed).collect();
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
    let bytes = std::fs::read(path).map_err(|e| Error::io("read", path, e))?;
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
    let in_file = |e: Error| damaged(e.to_string());
    manifest.encoder.check().map_err(in_file)?;
    manifest.calibration.as_ref().map_or(Ok(()), Calibration::check).map_err(in_file)?;
    let resolved = manifest.recipe.resolve(&manifest.encoder).map_err(in_file)?;
    let dim = resolved.prior.len();
    if dim != manifest.parameters {
        return Err(damaged(format!(
            "the manifest speaks of {} parameters, its network has {dim}",
            manifest.parameters
        )));
    }
    let file = SafeTensors::deserialize(bytes).map_err(|e| damaged(format!("the tensors are damaged ({e})")))?;
    let tensor = |name: &str| {
        let view = file.tensor(name).ok()?;
        match view.dtype() {
            Dtype::F32 => Some(view.data().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect::<Vec<f32>>()),
            Dtype::U8 => Some(view.data().iter().map(|b| f32::from(*b)).collect()),
            _ => None,
        }
    };
    for name in file.names() {
        if tensor(name).is_none_or(|t| t.iter().any(|v| !v.is_finite())) {
            return Err(damaged(format!("the tensor '{name}' holds something that is not a finite number")));
        }
    }
    let posterior = restore(&manifest.posterior, dim, manifest.log_evidence, &tensor).map_err(in_file)?;
    Ok(Model {
        recipe: resolved.recipe,
        encoder: manifest.encoder,
        seed: manifest.seed,
        rows: manifest.rows,
        calibration: manifest.calibration,
        summary: manifest.summary,
        mixing: manifest.mixing,
        network: resolved.network,
        likelihood: resolved.likelihood,
        posterior: posterior.into(),
    })
}
