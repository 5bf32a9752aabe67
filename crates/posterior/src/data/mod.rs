//! From a user's file to rows a network can learn from: table → encoded, standardised data set; the transforms are kept.

mod batches;
mod cells;
mod csv;
mod dataset;
mod decode;
mod encode;
mod fit;
mod formula;
mod idx;
mod npy;
mod npy_rows;
mod parquet;
mod parquet_footer;
mod scale;
mod schema;
mod source;
mod split;
mod table;

pub use batches::Batches;
pub use dataset::{Dataset, Values};
pub use encode::{Encoded, Encoder};
pub use fit::{EncodeOptions, Fitted, Task};
pub use formula::guarded;
pub use idx::label_file;
pub use npy_rows::NpyRows;
pub use scale::Scale;
pub use schema::{Feature, FeatureKind, Inputs, LabelKind, Missing, Target, TargetKind};
pub(crate) use source::Inputs as BatchInputs;
pub use source::{Batch, Source};
pub use split::{Split, folds, split};
pub use table::{Column, Images, ReadOptions, Table};
