//! Finished fits on disk, one small file each, named by everything their result follows from: the data, the split, the recipe with the settings
//! it resolves to, the seed, the draws, the reference, the scores there are, and [`CELLS`]. A comparison that is started again takes from there what
//! it has done, also with a newer program.

use super::Plan;
use super::cell::Outcome;
use posterior::artifact;
use posterior::model::Model;
use posterior::score::METRICS;
use std::path::{Path, PathBuf};

/// The folder, and what all names have in common.
pub struct State {
    folder: PathBuf,
    common: u128,
}

/// Number of the algorithms behind a cell, and of its format. To be raised by whoever changes what a method, a split or a score computes from
/// the same settings, so that older cells are not taken for new ones; new settings and new scores change the names by themselves.
const CELLS: u32 = 1;

/// What all names of a comparison have in common.
fn common(cells: u32, scores: &[&str], data: &[Vec<u8>], description: &str) -> u128 {
    let start = hash(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, &cells.to_le_bytes());
    let start = hash(start, scores.join(",").as_bytes());
    hash(data.iter().fold(start, |h, bytes| hash(h, bytes)), description.as_bytes())
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
        let data = data.iter().map(|path| posterior::memory::read_file(path)).collect::<posterior::Result<Vec<_>>>()?;
        let scores: Vec<&str> = METRICS.iter().map(|m| m.name).collect();
        Ok(State { folder: folder.to_owned(), common: common(CELLS, &scores, &data, description) })
    }

    fn path(&self, plan: &Plan, method: usize, split: usize, with_reference: bool, ending: &str) -> PathBuf {
        let (m, s) = (&plan.methods[method], &plan.splits[split]);
        let reference = plan.reference.filter(|_| with_reference).map(|r| &plan.methods[r].identity);
        // As it was before there could be several targets: cells of one target keep their names.
        let options = format!("{:?}", plan.options).replace("also: [], ", "");
        let options = options.replace(", inputs: [], weights: None", "");
        let text = format!("{}{:?}{options}{:?}{}{}{:?}", m.identity, reference, s, plan.seed, plan.draws, m.name);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The name of a cell: the same in every version of the program, and another where something that it follows from is.
    #[test]
    fn names_follow_from_what_can_change_a_cell() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("d.csv");
        std::fs::write(&data, "x,y\n1,2\n").unwrap();
        let opened = State::open(&folder.path().join("s"), &[&data], "[]").unwrap().common;
        let scores: Vec<&str> = METRICS.iter().map(|m| m.name).collect();
        let bytes = [b"x,y\n1,2\n".to_vec()];
        assert_eq!(opened, common(CELLS, &scores, &bytes, "[]"));
        assert_eq!(common(1, &["rmse"], &bytes, "[]"), PINNED);
        let others = [
            common(2, &["rmse"], &bytes, "[]"),
            common(1, &["rmse", "crps"], &bytes, "[]"),
            common(1, &["rmse"], &[b"x,y\n1,3\n".to_vec()], "[]"),
            common(1, &["rmse"], &bytes, "[\"x\"]"),
        ];
        assert!(others.iter().all(|o| *o != PINNED));
    }

    /// FNV-1a of the bytes 1 0 0 0, "rmse", the file and "[]", worked out apart.
    const PINNED: u128 = 0x8998_b1fb_e5b2_c10c_dab9_042c_6d75_bd77;
}
