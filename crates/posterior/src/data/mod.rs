//! From a user's file to rows a network can learn from: table → encoded, standardised data set; the transforms are kept.

mod dataset;

pub use dataset::{Dataset, Values};
