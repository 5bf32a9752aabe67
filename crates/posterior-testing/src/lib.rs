//! Gradient checks, statistical tests and a conformance suite, for the tests of `posterior` and of whoever implements its traits.
//!
//! [`gradient`] and [`statistics`] take functions and slices. [`conformance`] takes what is registered or implements a trait of `posterior`, and
//! panics with a sentence where it breaks a rule that the library relies on.

pub mod conformance;
pub mod gradient;
pub mod statistics;

pub use gradient::{check_gradient, expect_gradient};
pub use statistics::{
    Moments, chi_square, chi_square_critical, correlation, expect_ks, ks_critical, ks_statistic, moments, z_mean,
    z_variance,
};
