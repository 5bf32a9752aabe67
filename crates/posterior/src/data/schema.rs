//! How each column of the training table is encoded: what the model file keeps of it.

use super::dates::DateParts;
use super::scale::Scale;
use serde::{Deserialize, Serialize};

/// The category of a missing text.
pub(super) const MISSING: &str = "(missing)";
/// The category that rare categories share in training, and unseen ones join later.
pub(super) const OTHER: &str = "(other)";

/// What to do with missing values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// Put the training mean in place of a number and tell the model by a further input, 1 where the value is missing; a missing text is a category of
    /// its own; rows without a target are left out.
    #[default]
    Auto,
    /// Refuse them, naming the first.
    Error,
    /// Put the training mean in place of a number; a missing text is a category of its own.
    Mean,
    /// Leave their rows out.
    Drop,
}

/// How the inputs of a row are encoded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Inputs {
    /// Columns of a table, in the order in which they are laid out.
    Columns(Vec<Feature>),
    /// Images.
    Images {
        /// Channels.
        channels: usize,
        /// Rows of pixels.
        height: usize,
        /// Columns of pixels.
        width: usize,
        /// Of all pixels.
        scale: Scale,
    },
}

/// A column that serves as input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Feature {
    /// Name of the column.
    pub name: String,
    /// How it is encoded.
    pub kind: FeatureKind,
}

/// How a column is encoded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FeatureKind {
    /// A number, standardised.
    Standard(Scale),
    /// Yes or no as 1 or 0, standardised.
    Bool(Scale),
    /// Text: one 0/1 number per category.
    OneHot {
        /// The categories, sorted. A text that is none of them counts as `(other)`, or, where no category was rare enough in training to make up that
        /// one, as none: all its numbers are 0.
        categories: Vec<String>,
    },
    /// A date, as elapsed time, year, season, weekday and hour.
    Date(DateParts),
    /// 1 where the column has no value, 0 elsewhere: beside columns of numbers that had gaps in training.
    Indicator,
}

/// What is to be predicted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// Name of the column.
    pub name: String,
    /// How it is encoded.
    pub kind: TargetKind,
}

/// How a target is encoded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// A number, standardised.
    Real(Scale),
    /// A count 0, 1, 2 …, as it is.
    Count {
        /// Mean of the counts the encoder was fitted to, which a likelihood may start from.
        mean: f64,
    },
    /// A class, by its number.
    Class {
        /// Names of the classes: numbers in their order, text by letters, false before true.
        names: Vec<String>,
        /// What the labels were.
        kind: LabelKind,
    },
}

/// What class labels are in the user's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LabelKind {
    /// Numbers.
    Number,
    /// Text.
    Text,
    /// Yes or no.
    Bool,
}

impl FeatureKind {
    /// How many numbers it becomes.
    pub fn width(&self) -> usize {
        match self {
            FeatureKind::OneHot { categories } => categories.len(),
            FeatureKind::Date(parts) => parts.width(),
            _ => 1,
        }
    }
}
