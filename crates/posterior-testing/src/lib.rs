//! Gradient checks and statistical tests, for the tests of `posterior` and of whoever implements its traits.
//!
//! No dependency on `posterior`: functions and slices go in, so the same helpers serve every crate.

pub mod gradient;
pub mod statistics;

pub use gradient::{check_gradient, expect_gradient};
pub use statistics::{
    Moments, chi_square, chi_square_critical, correlation, expect_ks, ks_critical, ks_statistic, moments, z_mean,
    z_variance,
};
