//! Mini-batches: every epoch in an order of its own, without allocation.

use crate::rng::{Key, Stream};

/// An endless sequence of batches of row numbers, epoch after epoch.
///
/// The order of epoch e depends on `key.step(e)` alone. The last batch of an epoch may be short: the caller scales by
/// N/|B|. If a batch holds all rows there is nothing to shuffle and each batch is 0..N.
///
/// ```
/// use posterior::{data::Batches, rng::Key};
/// let mut batches = Batches::new(5, 2, Key::new(1));
/// let sizes: Vec<usize> = (0..4).map(|_| batches.next().len()).collect();
/// assert_eq!(sizes, [2, 2, 1, 2]);
/// ```
#[derive(Debug, Clone)]
pub struct Batches {
    order: Vec<u32>,
    size: usize,
    key: Key,
    epoch: u64,
    at: usize,
}

impl Batches {
    /// Batches of `batch_size` of `rows` rows; a size of 0 means all rows.
    ///
    /// # Panics
    /// If there are more than 2³² rows.
    pub fn new(rows: usize, batch_size: usize, key: Key) -> Batches {
        let count = u32::try_from(rows).expect("at most 2³² rows");
        let size = if batch_size == 0 { rows } else { batch_size.min(rows) };
        let mut batches = Batches { order: (0..count).collect(), size, key, epoch: 0, at: 0 };
        batches.shuffle();
        batches
    }

    fn shuffle(&mut self) {
        if self.size < self.order.len() {
            // From the identity each time, so that an epoch does not depend on those before it.
            for (i, row) in self.order.iter_mut().enumerate() {
                *row = i as u32;
            }
            Stream::new(self.key.step(self.epoch)).shuffle(&mut self.order);
        }
    }

    /// The next batch; after the last of an epoch comes the first of the next.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend")]
    pub fn next(&mut self) -> &[u32] {
        if self.at >= self.order.len() && !self.order.is_empty() {
            self.epoch += 1;
            self.at = 0;
            self.shuffle();
        }
        let start = self.at;
        self.at = (start + self.size).min(self.order.len());
        &self.order[start..self.at]
    }

    /// How many batches an epoch has.
    pub fn per_epoch(&self) -> usize {
        self.order.len().div_ceil(self.size.max(1))
    }

    /// Number of the epoch that the last batch belongs to, from 0.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Goes to where `steps` batches have been taken: what follows is as if they had been.
    pub fn seek(&mut self, steps: u64) {
        let per_epoch = self.per_epoch().max(1) as u64;
        self.epoch = steps / per_epoch;
        self.at = (steps % per_epoch) as usize * self.size;
        self.shuffle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(batches: &mut Batches) -> Vec<u32> {
        (0..batches.per_epoch()).flat_map(|_| batches.next().to_vec()).collect()
    }

    #[test]
    fn an_epoch_visits_every_row_once_in_an_order_of_its_own() {
        let mut b = Batches::new(103, 10, Key::new(3));
        let (first, second) = (epoch(&mut b), epoch(&mut b));
        assert_eq!((b.per_epoch(), b.epoch()), (11, 1));
        assert_ne!(first, second);
        for mut order in [first, second.clone()] {
            assert_ne!(order, (0..103).collect::<Vec<_>>());
            order.sort_unstable();
            assert_eq!(order, (0..103).collect::<Vec<_>>());
        }
        let mut again = Batches::new(103, 10, Key::new(3));
        again.seek(11);
        assert_eq!(epoch(&mut again), second);
        again.seek(14);
        assert_eq!(again.next(), &second[30..40]);
    }

    #[test]
    fn the_last_batch_is_short_and_a_full_batch_is_not_shuffled() {
        let mut b = Batches::new(5, 2, Key::new(1));
        assert_eq!([b.next().len(), b.next().len(), b.next().len(), b.next().len()], [2, 2, 1, 2]);
        for size in [0, 5, 9] {
            let mut b = Batches::new(5, size, Key::new(1));
            assert_eq!(b.next(), [0, 1, 2, 3, 4]);
            assert_eq!(b.next(), [0, 1, 2, 3, 4]);
        }
        assert!(Batches::new(0, 3, Key::new(1)).next().is_empty());
    }
}
