//! Finished fits on disk, one small file each, named by everything their result follows from: the program's version, the data, the
//! split, the recipe, the seed, the draws and the reference. A comparison that is started again takes from there what it has done.

use super::Plan;
use super::cell::Outcome;
use posterior::artifact;
use posterior::model::Model;
use std::path::{Path, PathBuf};

/// The folder, and what all names have in common.
pub struct State {
    folder: PathBuf,
    common: u128,
}

/// FNV-1a in 128 bits: names, not secrets.
fn hash(state: u128, bytes: &[u8]) -> u128 {
    bytes.iter().fold(state, |h, b| (h ^ u128::from(*b)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b))
}

impl State {
    /// Opens the folder, making it if need be.
    pub fn open(folder: &Path, data: &[&Path], description: &str) -> anyhow::Result<State> {
        if folder.exists() && !folder.is_dir() {
            anyhow::bail!(
                "{}: this is a file, not a folder for finished fits; give another with --state",
                folder.display()
            );
        }
        std::fs::create_dir_all(folder).map_err(|e| posterior::Error::io("create", folder, e))?;
        let mut common = hash(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, env!("CARGO_PKG_VERSION").as_bytes());
        for path in data {
            common = hash(common, &posterior::memory::read_file(path)?);
        }
        Ok(State { folder: folder.to_owned(), common: hash(common, description.as_bytes()) })
    }

    fn path(&self, plan: &Plan, method: usize, split: usize, with_reference: bool, ending: &str) -> PathBuf {
        let (m, s) = (&plan.methods[method], &plan.splits[split]);
        let reference = plan.reference.filter(|_| with_reference).map(|r| &plan.methods[r].recipe);
        let text =
            format!("{:?}{:?}{:?}{:?}{}{}{:?}", m.recipe, reference, plan.options, s, plan.seed, plan.draws, m.name);
        let name = hash(self.common, text.as_bytes());
        self.folder.join(format!("{}-{split}-{:016x}.{ending}", m.name, (name >> 64) as u64 ^ name as u64))
    }

    /// What came of a fit before, if it was made and its file is whole.
    pub fn get(&self, plan: &Plan, method: usize, split: usize) -> Option<Outcome> {
        serde_json::from_slice(&std::fs::read(self.path(plan, method, split, true, "json")).ok()?).ok()
    }

    /// Keeps what came of a fit, unless time was up.
    pub fn put(&self, plan: &Plan, method: usize, split: usize, outcome: &Outcome) -> posterior::Result<()> {
        match serde_json::to_vec_pretty(outcome) {
            Ok(bytes) => artifact::write_file(&self.path(plan, method, split, true, "json"), &bytes),
            Err(_) => Ok(()),
        }
    }

    /// The reference's model of a split, if it was fitted before.
    pub fn model(&self, plan: &Plan, method: usize, split: usize) -> Option<Model> {
        let path = self.path(plan, method, split, false, "safetensors");
        path.exists().then(|| artifact::load(&path).ok()).flatten()
    }

    /// Keeps the reference's model of a split.
    pub fn put_model(&self, plan: &Plan, method: usize, split: usize, model: &Model) -> posterior::Result<()> {
        artifact::save(model, &self.path(plan, method, split, false, "safetensors"))
    }
}
