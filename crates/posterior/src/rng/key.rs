//! Keys of random streams: (seed, purpose, step, block) → 128 bits, so that no stream depends on which thread uses it.

/// What random numbers are for. Two purposes never share a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u64)]
#[non_exhaustive]
pub enum Purpose {
    /// Initial values of parameters.
    Init = 1,
    /// Order of rows in mini-batches.
    Batches = 2,
    /// Weights drawn from a variational family while training.
    Weights = 3,
    /// Dropout masks while training.
    Mask = 4,
    /// Draws from a posterior, or from a prior.
    Draw = 5,
    /// Outcomes drawn from a likelihood.
    Outcome = 7,
    /// Splits of a data set.
    Split = 8,
    /// Made-up data.
    Data = 9,
    /// Proposals, momenta and noise of a Markov chain.
    Chain = 10,
    /// Monte Carlo estimates that are reported only.
    Estimate = 11,
    /// Members of a mixture or an ensemble.
    Member = 12,
    /// Random weights of rows.
    RowWeights = 20,
    /// Fixed random features.
    Features = 21,
}

/// A key: where in the tree of random streams we are. Copy it, derive from it; it has no state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(pub(crate) [u64; 2]);

/// Stafford's variant 13 of the 64-bit finaliser of MurmurHash3 (as in SplitMix64).
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Key {
    /// The root of everything that follows from a seed.
    pub fn new(seed: u64) -> Key {
        Key([0x243F_6A88_85A3_08D3, 0x1319_8A2E_0370_7344]).derive(seed)
    }

    /// A child. Different numbers give unrelated children; a child is unrelated to its parent.
    pub fn derive(self, n: u64) -> Key {
        let [a, b] = self.0;
        let c = mix(a ^ mix(n.wrapping_add(0x9E37_79B9_7F4A_7C15)));
        let d = mix(b.wrapping_add(c).rotate_left(23) ^ n.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        Key([c ^ d.rotate_left(32), mix(d.wrapping_add(a))])
    }

    /// The child for a purpose.
    pub fn purpose(self, purpose: Purpose) -> Key {
        self.derive(purpose as u64)
    }

    /// The child for a step, a chain, a member, a draw …
    pub fn step(self, step: u64) -> Key {
        self.derive(step)
    }

    /// The child for a block of numbers.
    pub fn block(self, block: u64) -> Key {
        self.derive(block)
    }
}
