//! The mini-batches of a training: numbers of rows in memory, or rows read from a source, which can fail.

use crate::data::{Batch, Batches};
use crate::error::Result;
use crate::problem::{Problem, Rows, check_classes};
use crate::rng::Key;

/// Batches of a problem's rows, epoch after epoch.
pub(super) struct Feed<'p> {
    problem: &'p Problem,
    batches: Batches,
    /// What was read, of rows that are not in memory.
    read: Batch,
}

impl<'p> Feed<'p> {
    /// Of `batch_size` rows, in an order that follows from the key.
    pub fn new(problem: &'p Problem, batch_size: usize, key: Key) -> Self {
        Feed { problem, batches: Batches::new(problem.data().rows, batch_size, key), read: Batch::default() }
    }

    pub fn per_epoch(&self) -> usize {
        self.batches.per_epoch()
    }

    /// Goes to where `steps` batches have been taken.
    pub fn seek(&mut self, steps: u64) {
        self.batches.seek(steps);
    }

    /// The next batch.
    pub fn next(&mut self) -> Result<Rows<'_>> {
        let batch = self.batches.next();
        if self.problem.source().is_some() {
            return gather(self.problem, batch, &mut self.read);
        }
        Ok(if batch.len() == self.problem.data().rows { Rows::All } else { Rows::Batch(batch) })
    }
}

/// Rows by number: as they are in memory, or read into a batch.
pub(super) fn gather<'b>(problem: &Problem, rows: &'b [u32], read: &'b mut Batch) -> Result<Rows<'b>> {
    let Some(source) = problem.source() else { return Ok(Rows::Batch(rows)) };
    source.gather(rows, read)?;
    let data = problem.data();
    read.check(rows, data.shape.len(), data.targets, data.rows)?;
    check_classes(&**problem.likelihood(), read.y(), |i| rows[i / data.targets.max(1)] as usize)?;
    Ok(Rows::Read(read))
}
