//! Long tables are predicted block by block: memory does not grow with the number of rows.
//!
//! A block holds about [`BLOCK`] outputs, draws × rows × outputs of them; what is wanted of it is taken before the next one is made. A draw is a function, so
//! blocks agree with one prediction of all rows.

use super::{Fitted, How};
use crate::data::Values;
use crate::error::Result;
use crate::memory::Budget;
use crate::predict::Predictive;
use std::ops::Range;

/// Outputs of a block in memory at once, about: 16 MB in single precision.
pub const BLOCK: usize = 1 << 22;
/// Rows of a block at least and at most: passes over fewer are not worth their set-up, more would be no faster.
const ROWS: (usize, usize) = (16, 1 << 16);

/// Predicts all rows of `x`, handing over each block with the numbers of its rows.
pub fn predict_blocks(
    fitted: &dyn Fitted,
    x: &Values,
    how: &How,
    mut take: impl FnMut(Range<usize>, Predictive) -> Result<()>,
) -> Result<()> {
    let width = fitted.input().len().max(1);
    let rows = x.len() / width;
    // At most an eighth of what is left, in numbers of four bytes.
    let numbers = BLOCK.min((Budget::current().left() / 32) as usize);
    let block = (numbers / (how.draws * fitted.likelihood().outputs() * fitted.likelihood().sites()).max(1))
        .clamp(ROWS.0, ROWS.1);
    if rows <= block {
        return take(0..rows, fitted.predict(x, how)?);
    }
    for from in (0..rows).step_by(block) {
        let part = from..rows.min(from + block);
        take(part.clone(), fitted.predict(&x.range(part.start * width..part.end * width), how)?)?;
    }
    Ok(())
}
