//! A checkpoint as bytes: one safetensors file, an array `unit/name` for each part of a unit's state, and a JSON manifest with the fingerprint of the fit.
//!
//! The manifest holds a hash of all arrays: a file that is damaged anywhere is refused, and so is one of another version of the program, whose arithmetic
//! may differ in the last bit.

use super::checkpoint::{Checkpoint, Fingerprint};
use crate::error::{Error, Result};
use crate::rng::Hash;
use crate::snapshot::{Array, Snapshot};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

/// The manifest's key in the file's metadata, as in model files.
const MANIFEST: &str = "posterior";
const KIND: &str = "posterior checkpoint";
const FORMAT: u32 = 1;
const WRITTEN_BY: &str = concat!("posterior ", env!("CARGO_PKG_VERSION"));

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    kind: String,
    format: u32,
    written_by: String,
    finished: bool,
    fingerprint: Option<Fingerprint>,
    /// Of the fingerprint and all arrays with their names.
    hash: String,
}

/// What can be read before anything else is understood.
#[derive(Deserialize)]
struct Header {
    kind: String,
    format: u32,
    written_by: String,
}

fn bytes_of(array: &Array) -> (Dtype, usize, Vec<u8>) {
    match array {
        Array::F32(v) => (Dtype::F32, v.len(), v.iter().flat_map(|x| x.to_le_bytes()).collect()),
        Array::F64(v) => (Dtype::F64, v.len(), v.iter().flat_map(|x| x.to_le_bytes()).collect()),
        Array::U64(v) => (Dtype::U64, v.len(), v.iter().flat_map(|x| x.to_le_bytes()).collect()),
    }
}

fn array_of(view: &TensorView<'_>) -> Option<Array> {
    let data = view.data();
    match view.dtype() {
        Dtype::F32 => Some(Array::F32(data.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect())),
        Dtype::F64 => Some(Array::F64(data.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect())),
        Dtype::U64 => Some(Array::U64(data.as_chunks().0.iter().map(|b| u64::from_le_bytes(*b)).collect())),
        _ => None,
    }
}

/// Of the fingerprint, and of arrays in the order of their names.
fn hash<'a>(fingerprint: &Option<Fingerprint>, arrays: impl Iterator<Item = (&'a str, &'a [u8])>) -> String {
    let mut hash = Hash::new();
    hash.bytes(serde_json::to_string(fingerprint).unwrap_or_default().as_bytes());
    for (name, bytes) in arrays {
        hash.bytes(name.as_bytes());
        hash.bytes(bytes);
    }
    hash.to_string()
}

impl Checkpoint {
    /// The bytes of a checkpoint file.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let internal =
            |e: String| Error::numerical(format!("the checkpoint cannot be written: {e}"), "report this as a bug");
        let (fingerprint, finished, units) = self.contents();
        let arrays: BTreeMap<String, (Dtype, usize, Vec<u8>)> = units
            .iter()
            .flat_map(|(unit, snapshot)| snapshot.arrays().map(move |(n, a)| (format!("{unit}/{n}"), bytes_of(a))))
            .collect();
        let manifest = Manifest {
            kind: KIND.to_owned(),
            format: FORMAT,
            written_by: WRITTEN_BY.to_owned(),
            finished,
            hash: hash(&fingerprint, arrays.iter().map(|(name, (_, _, bytes))| (name.as_str(), &bytes[..]))),
            fingerprint,
        };
        let json = serde_json::to_string(&manifest).map_err(|e| internal(e.to_string()))?;
        let views = arrays
            .iter()
            .map(|(name, (dtype, len, bytes))| Ok((name.as_str(), TensorView::new(*dtype, vec![*len], bytes)?)))
            .collect::<std::result::Result<Vec<_>, safetensors::SafeTensorError>>()
            .map_err(|e| internal(e.to_string()))?;
        safetensors::serialize(views, Some(HashMap::from([(MANIFEST.to_owned(), json)])))
            .map_err(|e| internal(e.to_string()))
    }

    /// Reads a checkpoint from the bytes of a file; `path` is for messages.
    pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<Checkpoint> {
        let damaged = |what: String| {
            Error::artifact(path, format!("the checkpoint is cut short or damaged ({what})"), "begin the fit anew")
        };
        let foreign = |what: &str| Error::artifact(path, what, "give a file that a fit has written as its checkpoint");
        if bytes.is_empty() {
            return Err(foreign("the file is empty"));
        }
        let file = match SafeTensors::deserialize(bytes) {
            Ok(file) => file,
            // A checkpoint all the same, where its manifest can still be read.
            Err(e) if text_of(bytes).contains(KIND) => return Err(damaged(e.to_string())),
            Err(_) => return Err(foreign("this is not a checkpoint")),
        };
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|e| damaged(e.to_string()))?;
        let json = metadata.metadata().as_ref().and_then(|m| m.get(MANIFEST));
        let json = json.ok_or_else(|| foreign("this safetensors file holds no checkpoint of posterior"))?;
        let header: Header = serde_json::from_str(json).map_err(|e| damaged(format!("manifest: {e}")))?;
        if header.kind != KIND {
            return Err(foreign(&format!("this file holds a '{}', not a checkpoint", header.kind)));
        }
        if header.format != FORMAT || header.written_by != WRITTEN_BY {
            return Err(Error::artifact(
                path,
                format!(
                    "the checkpoint has format {}, written by {}, and this is {WRITTEN_BY}",
                    header.format, header.written_by
                ),
                "resume with the version that wrote it, or begin the fit anew",
            ));
        }
        let manifest: Manifest = serde_json::from_str(json).map_err(|e| damaged(format!("manifest: {e}")))?;
        let views: BTreeMap<String, TensorView<'_>> = file.tensors().into_iter().collect();
        let found = hash(&manifest.fingerprint, views.iter().map(|(name, view)| (name.as_str(), view.data())));
        if found != manifest.hash {
            return Err(damaged("its contents are not what was written".to_owned()));
        }
        let mut units: BTreeMap<String, Snapshot> = BTreeMap::new();
        for (name, view) in &views {
            let (unit, part) = name.split_once('/').ok_or_else(|| damaged(format!("an array is called '{name}'")))?;
            let array = array_of(view).ok_or_else(|| damaged(format!("'{name}' is of an unknown type")))?;
            units.entry(unit.to_owned()).or_default().insert(part, array);
        }
        let units = units.into_iter().map(|(name, snapshot)| (name, Arc::new(snapshot))).collect();
        Ok(Checkpoint::restored(Some(path.to_owned()), manifest.fingerprint, manifest.finished, units))
    }

    /// Reads a checkpoint file.
    pub fn read(path: &Path) -> Result<Checkpoint> {
        let bytes = std::fs::read(path).map_err(|e| Error::io("read", path, e))?;
        Checkpoint::from_bytes(&bytes, path)
    }
}

/// The beginning of a file as text, as far as it is text.
fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(&bytes[..bytes.len().min(1 << 16)])
}
