//! From a user's file to rows a network can learn from: table → encoded, standardised data set; the transforms are kept.

mod batches;
mod cells;
mod check;
mod csv;
mod dataset;
mod dates;
mod decode;
mod encode;
mod fit;
mod formula;
mod idx;
mod json_lines;
#[cfg_attr(not(feature = "numpy"), path = "without_numpy.rs")]
mod npy;
#[cfg(feature = "numpy")]
mod npy_rows;
mod numerals;
#[cfg_attr(not(feature = "parquet"), path = "without_parquet.rs")]
mod parquet;
#[cfg(feature = "parquet")]
mod parquet_footer;
mod recognise;
mod scale;
mod schema;
mod source;
mod split;
mod table;
mod text;

pub use batches::Batches;
pub use check::{ColumnCheck, TableCheck};
pub use dataset::{Dataset, Values};
pub use dates::{DateOrder, DateParts};
pub use encode::{Encoded, Encoder, row_weights};
pub use fit::{EncodeOptions, Fitted, Task};
pub use formula::guarded;
pub use idx::label_file;
#[cfg(feature = "numpy")]
pub use npy_rows::NpyRows;
pub use scale::Scale;
pub use schema::{Feature, FeatureKind, Inputs, LabelKind, Missing, Target, TargetKind};
pub(crate) use source::Inputs as BatchInputs;
pub use source::{Batch, Source};
pub use split::{Split, folds, folds_in_time, folds_of_groups, split};
pub use table::{Column, Images, ReadOptions, Table};

// The words of a build without the features, compiled beside what they stand for.
#[cfg(test)]
mod without_numpy;
#[cfg(test)]
mod without_parquet;

#[cfg(test)]
mod tests {
    use super::{table, without_numpy, without_parquet};

    #[test]
    fn formats_that_are_not_built_are_one_sentence() {
        let images = table::Images { shape: crate::nn::Shape::Flat(1), pixels: vec![0.0] };
        let refused = [
            without_numpy::read_npy(b"").map(drop),
            without_numpy::read_npz(b"").map(drop),
            without_numpy::write_npz(&images, None).map(drop),
        ];
        for refused in refused {
            assert!(refused.unwrap_err().to_string().contains("build it with the cargo feature 'numpy'"));
        }
        let refused = without_parquet::read("x".as_ref()).unwrap_err().to_string();
        assert!(refused.contains("build it with the cargo feature 'parquet'"));
        let refused = crate::inference::not_built("nuts").to_string();
        assert!(refused.contains("method 'nuts'; build it with the cargo feature 'nuts'"), "{refused}");
    }
}
