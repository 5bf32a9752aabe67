//! What is said of Parquet files by a build without the feature `parquet`.

use super::table::Table;
use crate::error::{Error, Result};
use std::path::Path;

pub(super) fn read(_: &Path) -> Result<Table> {
    let fix = "build it with the cargo feature 'parquet', or write the data as CSV";
    Err(Error::data("this build of posterior does not read Parquet", fix))
}
