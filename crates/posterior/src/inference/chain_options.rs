//! Options that samplers share: how many chains, how long, and how much memory for their draws.

/// Length and number of chains: `chain_fields!(draws, warmup, thin)` with the defaults of these.
macro_rules! chain_fields {
    ({ $($head:tt)* } ($draws:expr, $warmup:expr, $thin:expr) $($rest:tt)*) => {
        $crate::options! { $($head)*
            /// independent chains, run in parallel
            chains: usize = 4 => Int(1, 1000),
            /// draws that each chain keeps after its warm-up
            draws: usize = $draws => Int(1, 100_000_000),
            /// transitions of each chain that are thrown away, in which step size and scales are adapted
            warmup: usize = $warmup => Int(0, 100_000_000),
            /// transitions from one kept draw to the next
            thin: usize = $thin => Int(1, 100_000_000),
            $($rest)*
        }
    };
}
pub(super) use chain_fields;

/// Memory for draws.
macro_rules! memory_field {
    ({ $($head:tt)* } $($rest:tt)*) => {
        $crate::options! { $($head)*
            /// memory for draws, also while they are written, in MiB; what does not fit is thinned
            memory_mib: usize = 2048 => Int(1, 1 << 30),
            $($rest)*
        }
    };
}
pub(super) use memory_field;

/// Options that have a part [`ChainOptions`].
macro_rules! has_chains {
    ($options:ty) => {
        impl From<&$options> for $crate::inference::chain_options::ChainOptions {
            fn from(o: &$options) -> Self {
                $crate::inference::chain_options::ChainOptions {
                    chains: o.chains,
                    draws: o.draws,
                    warmup: o.warmup,
                    thin: o.thin,
                    memory_mib: o.memory_mib,
                }
            }
        }
    };
}
pub(super) use has_chains;

crate::options! {
    /// How many chains, how long, and how much memory for them: options that samplers share.
    pub struct ChainOptions {
        ..chain_fields!(500, 500, 1),
        ..memory_field!,
    }
}
