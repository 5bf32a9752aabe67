//! What is said of files of draws, which are Parquet, by a build without the feature `parquet`.

use crate::error::{Error, Result};
use crate::model::Model;
use crate::rng::Key;
use std::path::Path;

/// The most parameters that have a column each.
pub const PLAIN: usize = 0;

/// What was written; nothing, in this build.
#[derive(Debug, Clone, PartialEq)]
pub struct WrittenDraws {
    /// Chains; 1 for a posterior without.
    pub chains: usize,
    /// Rows.
    pub draws: usize,
    /// Names of the columns.
    pub columns: Vec<String>,
}

/// An error: draws are written as Parquet.
pub fn write_draws(_: &Model, _: usize, _: Key, path: &Path) -> Result<WrittenDraws> {
    let fix = "build it with the cargo feature 'parquet'";
    Err(Error::artifact(path, "this build of posterior does not write Parquet", fix))
}
