//! What was learnt from the training rows about turning a table into numbers, and the turning itself.
//!
//! A number column becomes (x − mean)/std, a text column one 0/1 number per category, images (x − mean)/std with one
//! mean and one std for all pixels. A column of numbers with gaps in training has an indicator input beside it. What training did not see (a gap, a
//! category) is met by the same rules, and told. An [`Encoder`] goes into the model file; it holds no training row.

use super::cells::{MissingFix, few, kept, label, number, size_text, whole};
use super::dates::moment;
use super::scale::Scale;
use super::schema::{Feature, FeatureKind, Inputs, LabelKind, MISSING, Missing, OTHER, Target, TargetKind};
use super::table::{Column, ReadOptions, Table, show};
use super::{Dataset, Values};
use crate::error::{Error, Result};
use crate::memory;
use crate::nn::Shape;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Pixels of the largest image; more in a model file is damage.
const LARGEST_IMAGE: usize = 1 << 28;
/// Standard deviations from the mean at which a network's arithmetic in single precision would break down.
const FARTHEST: f64 = 1e15;
/// What is left to do about a missing value once a model is fitted: how it takes them was decided then.
const FITTED: MissingFix = MissingFix {
    input: "fill it in, or fit a model that takes missing values (by the mean, or by leaving rows out)",
    target: "a target must be there: fill it in, or leave the row out",
};

/// Turns tables like the training table into data sets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Encoder {
    /// The inputs.
    pub inputs: Inputs,
    /// The target.
    pub target: Target,
    /// Further targets that are predicted with it: real numbers, as it is then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Target>,
    /// What to do with missing values.
    pub missing: Missing,
    /// Columns of the training table that are not used, and so no surprise in another table.
    pub unused: Vec<String>,
    /// The column that holds the weights of training rows; other tables need not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<String>,
}

/// An encoded table.
#[derive(Debug, Clone)]
pub struct Encoded {
    /// The numbers.
    pub data: Dataset,
    /// Which rows of the table they are.
    pub kept_rows: Vec<usize>,
    /// What a user should know.
    pub warnings: Vec<String>,
}

impl Encoder {
    /// Shape of a row's encoded inputs.
    pub fn input_shape(&self) -> Shape {
        match &self.inputs {
            Inputs::Columns(features) => Shape::Flat(features.iter().map(|f| f.kind.width()).sum()),
            Inputs::Images { channels, height, width, .. } => {
                Shape::Image { channels: *channels, height: *height, width: *width }
            }
        }
    }

    /// With these scales for all numbers (pixels too) and for real targets instead of those of the training rows: for a network that was
    /// trained on numbers scaled otherwise, or not at all.
    pub fn with_scales(mut self, inputs: Option<Scale>, target: Option<Scale>) -> Encoder {
        if let Some(scale) = inputs {
            match &mut self.inputs {
                Inputs::Columns(features) => features.iter_mut().for_each(|f| match &mut f.kind {
                    FeatureKind::Standard(own) | FeatureKind::Bool(own) => *own = scale,
                    FeatureKind::OneHot { .. } | FeatureKind::Date(_) | FeatureKind::Indicator => {}
                }),
                Inputs::Images { scale: own, .. } => *own = scale,
            }
        }
        for own in std::iter::once(&mut self.target).chain(&mut self.also) {
            if let (Some(scale), TargetKind::Real(own)) = (target, &mut own.kind) {
                *own = scale;
            }
        }
        self
    }

    /// With the scales of numbers, and of a real target, by weighted means over the rows of a table; every weight is above 0. Images keep theirs.
    pub fn weighted(mut self, table: &Table, weights: &[f64]) -> Result<Encoder> {
        let scale = |column: &Column, is_bool: bool| {
            let of = |r: usize| number(column, r, is_bool).ok().filter(|v| !v.is_nan()).map(|v| (v, weights[r]));
            Scale::weighted((0..weights.len()).filter_map(of))
        };
        if let Inputs::Columns(features) = &mut self.inputs {
            for feature in features {
                let column = table.column(&feature.name)?;
                let is_bool = matches!(feature.kind, FeatureKind::Bool(_));
                if let FeatureKind::Standard(own) | FeatureKind::Bool(own) = &mut feature.kind {
                    *own = scale(column, is_bool).unwrap_or(*own);
                }
            }
        }
        for target in std::iter::once(&mut self.target).chain(&mut self.also) {
            match (&mut target.kind, scale(table.column(&target.name)?, false)) {
                (TargetKind::Real(own), Some(weighted)) => *own = weighted,
                (TargetKind::Count { mean }, Some(weighted)) => *mean = weighted.mean,
                _ => {}
            }
        }
        Ok(self)
    }

    /// What is predicted, in the order of the outcomes of a row.
    pub fn targets(&self) -> impl ExactSizeIterator<Item = &Target> + Clone {
        (0..self.also.len() + 1).map(|t| if t == 0 { &self.target } else { &self.also[t - 1] })
    }

    /// How the target is encoded; where there are several, all are real numbers.
    pub fn target_kind(&self) -> &TargetKind {
        &self.target.kind
    }

    /// Names of the classes; empty unless the target is a class.
    pub fn class_names(&self) -> &[String] {
        match &self.target.kind {
            TargetKind::Class { names, .. } => names,
            _ => &[],
        }
    }

    /// Names of the encoded inputs of a table: `age`, `colour=red` …; empty for images.
    pub fn feature_names(&self) -> Vec<String> {
        let Inputs::Columns(features) = &self.inputs else { return Vec::new() };
        let names = |f: &Feature| match &f.kind {
            FeatureKind::OneHot { categories } => categories.iter().map(|c| format!("{}={c}", f.name)).collect(),
            FeatureKind::Date(parts) => parts.names(&f.name),
            FeatureKind::Indicator => vec![format!("{}={MISSING}", f.name)],
            _ => vec![f.name.clone()],
        };
        features.iter().flat_map(names).collect()
    }

    /// Encoded targets back in the user's units; a class stays its number.
    pub fn decode_target(&self, y: &[f64]) -> Vec<f64> {
        let scales = self.target_scales();
        y.iter().zip(scales.iter().cycle()).map(|(v, (mean, std))| mean + std * v).collect()
    }

    /// [`Encoder::target_scales`] of the first target.
    pub fn target_scale(&self) -> (f64, f64) {
        scale_of(&self.target)
    }

    /// Mean and standard deviation that take each standardised target back to the user's units; (0, 1) unless it is real.
    pub fn target_scales(&self) -> Vec<(f64, f64)> {
        self.targets().map(scale_of).collect()
    }

    /// How to read another file so that its columns are of the kinds they were in training.
    pub fn read_options(&self) -> ReadOptions {
        let mut options = ReadOptions { optional: true, ..ReadOptions::default() };
        if let Inputs::Columns(features) = &self.inputs {
            for f in features {
                match f.kind {
                    FeatureKind::Standard(_) => options.numeric.push(f.name.clone()),
                    FeatureKind::OneHot { .. } | FeatureKind::Date(_) => options.text.push(f.name.clone()),
                    FeatureKind::Bool(_) | FeatureKind::Indicator => {}
                }
            }
            match &self.target.kind {
                TargetKind::Real(_) | TargetKind::Count { .. } => options.numeric.push(self.target.name.clone()),
                TargetKind::Class { kind: LabelKind::Text, .. } => options.text.push(self.target.name.clone()),
                TargetKind::Class { .. } => {}
            }
            options.numeric.extend(self.also.iter().map(|t| t.name.clone()));
        }
        options
    }

    /// Checks an encoder that came from a file: scales one can divide by, sizes that fit, names that differ.
    pub fn check(&self) -> Result<()> {
        let distinct = |names: &[String]| {
            let set: std::collections::HashSet<&String> = names.iter().collect();
            !names.is_empty() && set.len() == names.len()
        };
        let inputs = match &self.inputs {
            Inputs::Columns(features) => {
                let is_indicator = |f: &Feature| f.kind == FeatureKind::Indicator;
                let names: HashSet<(&str, bool)> =
                    features.iter().map(|f| (f.name.as_str(), is_indicator(f))).collect();
                !features.is_empty()
                    && names.len() == features.len()
                    && features.iter().all(|f| match &f.kind {
                        FeatureKind::Standard(s) | FeatureKind::Bool(s) => s.is_valid(),
                        FeatureKind::OneHot { categories } => distinct(categories),
                        FeatureKind::Date(parts) => parts.is_valid(),
                        FeatureKind::Indicator => true,
                    })
            }
            Inputs::Images { channels, height, width, scale } => {
                let size = channels.checked_mul(*height).and_then(|n| n.checked_mul(*width));
                scale.is_valid() && size.is_some_and(|n| n > 0 && n <= LARGEST_IMAGE)
            }
        };
        let target = match &self.target.kind {
            TargetKind::Real(s) => s.is_valid(),
            TargetKind::Count { mean } => mean.is_finite() && *mean > 0.0,
            TargetKind::Class { names, .. } => names.len() > 1 && distinct(names),
        };
        let names: Vec<String> = self.targets().map(|t| t.name.clone()).collect();
        let real = |t: &Target| matches!(&t.kind, TargetKind::Real(s) if s.is_valid());
        let several = self.also.is_empty() || (distinct(&names) && self.targets().all(real));
        if inputs && target && several {
            return Ok(());
        }
        Err(Error::data("the description of the columns contradicts itself", "fit the model again"))
    }

    /// Encodes a table, with its targets if they are wanted.
    pub fn encode(&self, table: &Table, with_target: bool) -> Result<Encoded> {
        self.check()?;
        let mut warnings = table.notes().to_vec();
        let used: Vec<(&str, &Column)> = match &self.inputs {
            Inputs::Columns(features) => {
                if table.images().is_some() {
                    let fix = "give a table";
                    return Err(table.locate(Error::data("these are images and the model was trained on a table", fix)));
                }
                let found = features.iter().map(|f| table.column(&f.name).map(|c| (f.name.as_str(), c)));
                found.collect::<Result<_>>()?
            }
            Inputs::Images { .. } => Vec::new(),
        };
        let targets = match with_target {
            true => self.targets().map(|t| Ok((t, table.column(&t.name)?))).collect::<Result<Vec<_>>>()?,
            false => Vec::new(),
        };
        let mut known: HashSet<&str> = used.iter().map(|(name, _)| *name).collect();
        known.extend(self.unused.iter().map(String::as_str).chain(self.targets().map(|t| t.name.as_str())));
        let extra = table.column_names().filter(|n| !known.contains(n));
        let extra: Vec<String> = extra.map(|n| format!("'{}'", show(n))).collect();
        if !extra.is_empty() {
            let (shown, more) = (extra[..extra.len().min(5)].join(", "), if extra.len() > 5 { ", …" } else { "" });
            warnings.push(format!("columns that the model does not know are ignored: {shown}{more}"));
        }
        let wanted: Vec<(&str, &Column)> = targets.iter().map(|(t, c)| (t.name.as_str(), *c)).collect();
        let kept_rows = kept(table, &used, &wanted, self.missing, &FITTED, &mut warnings)?;
        if kept_rows.is_empty() {
            return Err(table.locate(Error::data("no row is complete", "fill in the missing values")));
        }
        let each = if matches!(self.inputs, Inputs::Columns(_)) { size_of::<f64>() } else { size_of::<f32>() };
        let (rows, width) = (kept_rows.len(), self.input_shape().len());
        let what = format!("the encoded table of {rows} rows and {width} inputs");
        let fix = "give fewer rows, or leave out text columns with many different values";
        memory::request(memory::product(&[rows, width, each]), what, fix).map_err(|e| table.locate(e))?;
        let mut y = vec![0.0; rows * targets.len()];
        for (i, (target, column)) in targets.iter().enumerate() {
            encode_target(target, table, column, &kept_rows, y.iter_mut().skip(i).step_by(targets.len()))?;
        }
        let x = match &self.inputs {
            Inputs::Columns(features) => {
                Values::F64(self.encode_columns(table, features, &used, &kept_rows, &mut warnings)?)
            }
            Inputs::Images { scale, .. } => self.encode_images(table, scale, &kept_rows)?,
        };
        let mut data = Dataset::new(x, self.input_shape(), y, targets.len());
        if let Some(name) = self.weights.as_ref().filter(|n| with_target && table.get(n).is_some()) {
            let all = row_weights(table, name)?;
            data.weights = Some(kept_rows.iter().map(|r| all[*r]).collect());
        }
        Ok(Encoded { data, kept_rows, warnings })
    }

    fn encode_images(&self, table: &Table, scale: &Scale, rows: &[usize]) -> Result<Values> {
        let shape = self.input_shape();
        let wrong = |what: String| {
            let fix = format!("the model was trained on images of {}", size_text(shape));
            Err(table.locate(Error::data(what, fix)))
        };
        let Some(images) = table.images() else { return wrong("this is a table".to_owned()) };
        if images.shape != shape {
            return wrong(format!("the images are {}", size_text(images.shape)));
        }
        let (mean, factor, n) = (scale.mean as f32, (1.0 / scale.std) as f32, shape.len());
        let pixels = rows.iter().flat_map(|r| &images.pixels[r * n..(r + 1) * n]);
        Ok(Values::F32(pixels.map(|p| (p - mean) * factor).collect()))
    }

    fn encode_columns(
        &self,
        table: &Table,
        features: &[Feature],
        columns: &[(&str, &Column)],
        rows: &[usize],
        warnings: &mut Vec<String>,
    ) -> Result<Arc<[f64]>> {
        let width = self.input_shape().len();
        // Made where it stays: a `Vec` would be copied into the `Arc`.
        let mut shared: Arc<[f64]> = std::iter::repeat_n(0.0, rows.len() * width).collect();
        let x = Arc::make_mut(&mut shared);
        let mut at = 0;
        let indicated: HashSet<&str> =
            features.iter().filter(|f| f.kind == FeatureKind::Indicator).map(|f| f.name.as_str()).collect();
        for (feature, (name, column)) in features.iter().zip(columns) {
            let mut surprises = Surprises::default();
            match &feature.kind {
                FeatureKind::Standard(scale) | FeatureKind::Bool(scale) => {
                    let is_bool = matches!(feature.kind, FeatureKind::Bool(_));
                    for (i, &row) in rows.iter().enumerate() {
                        let value = match number(column, row, is_bool) {
                            Err(_) if is_bool && self.missing == Missing::Auto => {
                                surprises.unseen(&column.text(row).unwrap_or_default());
                                f64::NAN
                            }
                            value => value.map_err(|e| e.at(table.place(row, name)))?,
                        };
                        surprises.gaps += usize::from(column.is_missing(row) && !indicated.contains(name));
                        let z = if value.is_nan() { 0.0 } else { scale.apply(value) };
                        if z.abs() > FARTHEST {
                            let what = format!("the number {value:e} is far outside what the model was fitted to");
                            return Err(Error::data(what, "correct the cell").at(table.place(row, name)));
                        }
                        x[i * width + at] = z;
                    }
                }
                FeatureKind::OneHot { categories } => {
                    let index: HashMap<&str, usize> = categories.iter().map(String::as_str).zip(0..).collect();
                    for (i, &row) in rows.iter().enumerate() {
                        let text = column.text(row);
                        let known = index.get(text.as_deref().unwrap_or(MISSING)).copied();
                        match &text {
                            Some(text) if known.is_none() => surprises.unseen(text),
                            None if known.is_none() => surprises.gaps += 1,
                            _ => {}
                        }
                        if let Some(category) = known.or_else(|| index.get(OTHER).copied()) {
                            x[i * width + at + category] = 1.0;
                        }
                    }
                }
                FeatureKind::Date(parts) => {
                    for (i, &row) in rows.iter().enumerate() {
                        let Some(text) = column.text(row) else {
                            surprises.gaps += usize::from(!indicated.contains(name));
                            continue;
                        };
                        let place = i * width + at;
                        match moment(&text, parts.order) {
                            Some(t) => parts.encode(t, &mut x[place..place + parts.width()]),
                            None if self.missing == Missing::Auto => surprises.unseen(&text),
                            None => {
                                let what = format!("'{}' is no date like those of training", show(&text));
                                return Err(Error::data(what, "correct the cell").at(table.place(row, name)));
                            }
                        }
                    }
                }
                FeatureKind::Indicator => {
                    for (i, &row) in rows.iter().enumerate() {
                        x[i * width + at] = f64::from(u8::from(column.is_missing(row)));
                    }
                }
            }
            warnings.extend(surprises.told(feature));
            at += feature.kind.width();
        }
        Ok(shared)
    }
}

/// The weights of all rows of a table by a column of it, which must be there for each: 0 or more, and not all 0.
pub fn row_weights(table: &Table, name: &str) -> Result<Vec<f64>> {
    let column = table.column(name)?;
    let weight = |row: usize| {
        let weight = number(column, row, false).map_err(|e| e.at(table.place(row, name)))?;
        if weight >= 0.0 {
            return Ok(weight);
        }
        let what = if weight.is_nan() { "the weight is missing".to_owned() } else { format!("the weight is {weight}") };
        Err(Error::data(what, "give every row a weight of 0 or more").at(table.place(row, name)))
    };
    let weights = (0..table.rows()).map(weight).collect::<Result<Vec<f64>>>()?;
    match weights.iter().any(|w| *w > 0.0) {
        true => Ok(weights),
        false => Err(table.locate(Error::data("all weights are 0", "give some rows weight")).in_column(&show(name))),
    }
}

/// What a column holds that it did not hold in training.
#[derive(Default)]
struct Surprises {
    /// Rows without a value, where none was without in training.
    gaps: usize,
    /// Rows with an unseen category, and the first of those.
    unseen: usize,
    example: String,
}

impl Surprises {
    fn unseen(&mut self, text: &str) {
        if self.unseen == 0 {
            self.example = show(text);
        }
        self.unseen += 1;
    }

    fn told(&self, feature: &Feature) -> Vec<String> {
        let (name, mut told) = (show(&feature.name), Vec::new());
        let rows = |n: usize| if n == 1 { "1 row has".to_owned() } else { format!("{n} rows have") };
        let taken = match &feature.kind {
            FeatureKind::OneHot { categories } if categories.iter().any(|c| c == OTHER) => "it counts as '(other)'",
            FeatureKind::OneHot { .. } => "it counts as none of the known ones",
            _ => "the training mean is taken",
        };
        if self.gaps > 0 {
            told.push(format!("column '{name}': {} no value, which training never met; {taken}", rows(self.gaps)));
        }
        if self.unseen > 0 {
            let what = format!("a value that training never met, such as '{}'", self.example);
            told.push(format!("column '{name}': {} {what}; {taken}", rows(self.unseen)));
        }
        told
    }
}

/// Mean and standard deviation of a real target; (0, 1) of others.
fn scale_of(target: &Target) -> (f64, f64) {
    match &target.kind {
        TargetKind::Real(s) => (s.mean, s.std),
        _ => (0.0, 1.0),
    }
}

fn encode_target<'y>(
    target: &Target,
    table: &Table,
    column: &Column,
    rows: &[usize],
    out: impl Iterator<Item = &'y mut f64>,
) -> Result<()> {
    let class = match &target.kind {
        TargetKind::Class { names, kind } => {
            Some((names, *kind, names.iter().map(String::as_str).zip(0..).collect::<HashMap<&str, u32>>()))
        }
        _ => None,
    };
    let value = |row: usize| match (&target.kind, &class) {
        (TargetKind::Real(scale), _) => number(column, row, false).map(|v| scale.apply(v)),
        (_, Some((names, kind, index))) => {
            let label = label(column, row, *kind);
            index.get(label.as_str()).map(|c| f64::from(*c)).ok_or_else(|| {
                let what = format!("the class '{}' was not seen in training", show(&label));
                Error::data(what, format!("the known ones are {}", few(names)))
            })
        }
        _ => number(column, row, false).and_then(|v| whole(v, "correct the cell")),
    };
    for (to, &row) in out.zip(rows) {
        *to = value(row).map_err(|e| e.at(table.place(row, &target.name)))?;
    }
    Ok(())
}
