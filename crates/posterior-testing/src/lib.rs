//! Gradient checks and statistical tests.
