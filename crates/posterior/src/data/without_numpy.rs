//! What is said of NPY and NPZ files by a build without the feature `numpy`.

use super::table::{Column, Images, Table};
use crate::error::{Error, Result};

fn missing<T>() -> Result<T> {
    let fix = "build it with the cargo feature 'numpy', or write the data as CSV";
    Err(Error::data("this build of posterior does not read or write NPY and NPZ", fix))
}

pub(super) fn read_npy(_: &[u8]) -> Result<Table> {
    missing()
}

pub(super) fn read_npz(_: &[u8]) -> Result<Table> {
    missing()
}

pub(super) fn write_npz(_: &Images, _: Option<(&str, &Column)>) -> Result<Vec<u8>> {
    missing()
}
