//! Inputs at which predictions are judged: rows of a file, or made up in the space the network sees, for a model file holds none.

use crate::data::{Encoder, FeatureKind, Inputs, Values};
use crate::rng::{Key, Purpose, Stream};

/// Made-up rows that look like encoded ones: standard normal numbers, and one category of each text column.
pub fn reference_inputs(encoder: &Encoder, rows: usize, key: Key) -> Values {
    let mut stream = Stream::new(key.purpose(Purpose::Data));
    let mut x = Vec::with_capacity(rows * encoder.input_shape().len());
    for _ in 0..rows {
        match &encoder.inputs {
            Inputs::Images { .. } => x.extend((0..encoder.input_shape().len()).map(|_| stream.normal())),
            Inputs::Columns(features) => {
                for feature in features {
                    match &feature.kind {
                        FeatureKind::OneHot { categories } => {
                            let chosen = stream.below(categories.len().max(1) as u64) as usize;
                            x.extend((0..categories.len()).map(|c| f64::from(u8::from(c == chosen))));
                        }
                        _ => x.push(stream.normal()),
                    }
                }
            }
        }
    }
    Values::F64(x.into())
}

/// The numbers of at most `most` rows of `rows`, evenly.
pub(super) fn evenly(rows: usize, most: usize) -> Vec<usize> {
    let count = rows.min(most);
    (0..count).map(|i| (2 * i + 1) * rows / (2 * count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_spread_evenly_and_none_is_taken_twice() {
        assert_eq!(evenly(3, 10), [0, 1, 2]);
        assert_eq!(evenly(10, 5), [1, 3, 5, 7, 9]);
        for (rows, most) in [(1, 1), (7, 5), (1000, 100), (0, 3)] {
            let chosen = evenly(rows, most);
            assert!(chosen.len() == rows.min(most) && chosen.is_sorted_by(|a, b| a < b));
            assert!(chosen.iter().all(|r| *r < rows));
        }
    }
}
