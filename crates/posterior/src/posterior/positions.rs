//! Increasing positions in 0..dim as few bytes: a bitmap, or gaps between neighbours.
//!
//! Bitmap: bit i of byte ⌊i/8⌋, lowest first; dim/8 bytes. Gaps: a byte below 255 passes over so many positions and takes
//! the next one, 255 passes over 255 and takes none; about one byte per position where at least one in a hundred is
//! taken. Fewer than 255 are left at the end. Either form walks through all of 0..dim, so that n bytes never speak for more
//! than 255 (n + 1) parameters and a short file cannot make its reader allocate much.

use crate::error::{Error, Result};

/// In a byte of gaps: pass over this many, take none.
const FAR: u32 = 255;

/// Positions as they stand in a model file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Packed {
    Bitmap(Vec<u8>),
    Gaps(Vec<u8>),
}

impl Packed {
    /// Increasing positions below `dim`, in the shorter of the two forms.
    pub(super) fn new(positions: &[u32], dim: usize) -> Packed {
        let (gaps, bits) = (gaps(positions, dim), dim.div_ceil(8));
        if gaps.len() < bits {
            return Packed::Gaps(gaps);
        }
        let mut bitmap = vec![0; bits];
        positions.iter().for_each(|p| bitmap[*p as usize / 8] |= 1 << (p % 8));
        Packed::Bitmap(bitmap)
    }

    /// The positions again, checked to be increasing and below `dim`.
    pub(super) fn unpack(&self, dim: usize) -> Result<Vec<u32>> {
        let damaged = |what: String| Err(Error::setting(what, "the file is damaged: compress the model again"));
        match self {
            Packed::Bitmap(bytes) => {
                let set = |i: u32| bytes[i as usize / 8] >> (i % 8) & 1 == 1;
                let expected = dim.div_ceil(8);
                if bytes.len() != expected {
                    return damaged(format!("the bitmap has {} bytes, not {expected}", bytes.len()));
                }
                if (dim as u32..8 * expected as u32).any(set) {
                    return damaged("the bitmap keeps parameters that the network does not have".to_owned());
                }
                Ok((0..dim as u32).filter(|i| set(*i)).collect())
            }
            Packed::Gaps(bytes) => {
                let (mut next, mut positions) = (0usize, Vec::with_capacity(bytes.len()));
                for gap in bytes {
                    next += usize::from(*gap);
                    if u32::from(*gap) < FAR {
                        positions.push(next as u32);
                        next += 1;
                    }
                    if next > dim {
                        return damaged(format!("the gaps pass over more than the network's {dim} parameters"));
                    }
                }
                if dim - next >= FAR as usize {
                    return damaged(format!("the gaps end after {next} of {dim} parameters"));
                }
                Ok(positions)
            }
        }
    }
}

fn gaps(positions: &[u32], dim: usize) -> Vec<u8> {
    let (mut next, mut bytes) = (0, Vec::with_capacity(positions.len()));
    for &position in positions {
        let gap = position - next;
        bytes.resize(bytes.len() + (gap / FAR) as usize, FAR as u8);
        bytes.push((gap % FAR) as u8);
        next = position + 1;
    }
    bytes.resize(bytes.len() + (dim as u32 - next) as usize / FAR as usize, FAR as u8);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Key, Stream};

    /// Each position with probability `density`.
    fn some(dim: usize, density: f64, seed: u64) -> Vec<u32> {
        let mut stream = Stream::new(Key::new(seed));
        (0..dim as u32).filter(|_| stream.uniform() < density).collect()
    }

    #[test]
    fn both_forms_come_back_and_the_shorter_is_taken() {
        for dim in [0, 1, 7, 8, 9, 254, 255, 256, 509, 510, 511, 5000] {
            for (seed, density) in [0.0, 0.001, 0.01, 0.1, 0.5, 0.9, 1.0].into_iter().enumerate() {
                let positions = some(dim, density, seed as u64);
                let packed = Packed::new(&positions, dim);
                assert_eq!(packed.unpack(dim).unwrap(), positions, "{dim} at {density}");
                let by_gaps = Packed::Gaps(gaps(&positions, dim));
                assert_eq!(by_gaps.unpack(dim).unwrap(), positions, "{dim} at {density}, by gaps");
                let (Packed::Bitmap(bytes) | Packed::Gaps(bytes)) = packed;
                assert_eq!(bytes.len(), gaps(&positions, dim).len().min(dim.div_ceil(8)));
            }
        }
        // A gap of exactly 255, of 254, and one at the end.
        for positions in [vec![255], vec![254], vec![0, 256], vec![0, 1, 999]] {
            assert_eq!(Packed::Gaps(gaps(&positions, 1000)).unpack(1000).unwrap(), positions);
        }
    }

    #[test]
    fn one_in_twenty_costs_a_byte_each() {
        let positions = some(100_000, 0.05, 3);
        let Packed::Gaps(bytes) = Packed::new(&positions, 100_000) else { panic!("gaps are shorter") };
        // A gap of 255 or more has probability 0.95²⁵⁵ = 2e-6: none is expected among 5000.
        assert!(bytes.len() <= positions.len() + 2, "{} bytes for {}", bytes.len(), positions.len());
    }

    #[test]
    fn damage_is_an_error() {
        let refused = |packed: Packed, dim: usize, part: &str| {
            let e = packed.unpack(dim).unwrap_err().to_string();
            assert!(e.contains(part), "{e}");
        };
        refused(Packed::Bitmap(vec![0; 2]), 8, "2 bytes, not 1");
        refused(Packed::Bitmap(vec![]), 8, "0 bytes, not 1");
        refused(Packed::Bitmap(vec![0b1000]), 3, "does not have");
        refused(Packed::Gaps(vec![3]), 3, "more than the network's 3");
        refused(Packed::Gaps(vec![255, 255, 0]), 510, "more than the network's 510");
        refused(Packed::Gaps(vec![]), 255, "end after 0 of 255");
        refused(Packed::Gaps(vec![0]), 1 << 30, "end after 1");
    }

    proptest::proptest! {
        /// Whatever the bytes: an error, or increasing positions in range.
        #[test]
        fn any_bytes_are_safe(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..40), dim in 0usize..4000) {
            for packed in [Packed::Gaps(bytes.clone()), Packed::Bitmap(bytes)] {
                if let Ok(positions) = packed.unpack(dim) {
                    assert!(positions.is_sorted_by(|a, b| a < b) && positions.iter().all(|p| (*p as usize) < dim));
                }
            }
        }
    }
}
