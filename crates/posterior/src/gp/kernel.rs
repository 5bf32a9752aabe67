//! A kernel expression bound to the columns of a table: its parameters, their priors, and where each stands in one flat vector of logarithms.
//!
//! In a product of kernels alone the first keeps its variance and the others have variance 1, since only their product matters. A column that is encoded as several numbers
//! (one for each category) has one lengthscale. Lengthscales are in units of the encoded inputs (standard deviations of a number), a period in the units of the column.
//! Priors are weak normals on the logarithms; that of lengthscales has mean √2 + ½ ln D and standard deviation 3: the location of
//! Hvarfner et al. (2024), whose √3 cost half a nat of marginal likelihood on the Boston set, where some columns say nothing.

use super::parse::{Expr, Given, Kind, LeafSpec};
use super::wide::WideActivation;
use crate::data::{FeatureKind, Inputs};
use crate::error::{Error, Result, suggest};
use std::ops::Range;

/// One of the numbers a column is encoded by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Dim {
    /// Which encoded input.
    pub input: usize,
    /// Which of the kernel's columns.
    pub group: usize,
    /// What the encoded input is multiplied by before anything else.
    pub unit: f64,
}

/// A kernel with its columns, and where its parameters stand.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Leaf {
    pub kind: Kind,
    pub dims: Vec<Dim>,
    pub degree: usize,
    pub activation: WideActivation,
    /// One, or one for every column of a linear kernel.
    pub variance: Range<usize>,
    /// None, one, or one for every column.
    pub lengthscale: Range<usize>,
    /// α, the period or the offset; of a wide network σ_w², which σ_b² follows.
    pub extra: Option<usize>,
}

impl Leaf {
    /// Where the lengthscale (of a linear kernel, the variance) of a column stands.
    pub(super) fn scale_of(&self, group: usize) -> usize {
        let range = if self.kind == Kind::Linear { &self.variance } else { &self.lengthscale };
        range.start + if range.len() > 1 { group } else { 0 }
    }
}

/// How kernels are joined, by their numbers.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Leaf(usize),
    Sum(Vec<Node>),
    Product(Vec<Node>),
}

/// What is known of a parameter before data; all in logarithms.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// For people: `lengthscale of age`.
    pub name: String,
    /// Where a fit starts, or where it is held.
    pub start: f64,
    /// Whether it is held.
    pub fixed: bool,
    /// Mean and standard deviation of its normal prior.
    pub prior: (f64, f64),
    /// Whether another start of a fit begins elsewhere.
    pub(super) wanders: bool,
}

/// A kernel expression on the columns of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Kernel {
    spec: Expr,
    pub(super) root: Node,
    pub(super) leaves: Vec<Leaf>,
    parameters: Vec<Parameter>,
    width: usize,
    /// Names and, of numbers, the standard deviations of the columns of every kernel: periods are told in units of the column.
    units: Vec<f64>,
}

/// A column as a kernel sees it.
struct Column {
    name: String,
    dims: Range<usize>,
    /// Standard deviation of a number.
    std: Option<f64>,
    category: bool,
}

fn columns_of(inputs: &Inputs) -> Result<Vec<Column>> {
    let Inputs::Columns(features) = inputs else {
        return Err(Error::setting(
            "kernels act on the columns of a table, and the inputs are images",
            "fit a network, or give the pixels as columns",
        ));
    };
    let mut at = 0;
    let column = |f: &crate::data::Feature| {
        let dims = at..at + f.kind.width();
        at = dims.end;
        let (std, category) = match &f.kind {
            FeatureKind::Standard(scale) => (Some(scale.std), false),
            FeatureKind::Bool(scale) => (Some(scale.std), true),
            FeatureKind::Date(_) => (None, false),
            FeatureKind::OneHot { .. } | FeatureKind::Indicator => (None, true),
        };
        Column { name: f.name.clone(), dims, std, category }
    };
    Ok(features.iter().map(column).collect())
}

impl Kernel {
    /// An expression on the columns of an encoder.
    pub fn new(spec: &Expr, inputs: &Inputs) -> Result<Kernel> {
        let columns = columns_of(inputs)?;
        let width = columns.last().map_or(0, |c| c.dims.end);
        let mut kernel = Kernel {
            spec: spec.clone(),
            root: Node::Sum(Vec::new()),
            leaves: Vec::new(),
            parameters: Vec::new(),
            width,
            units: Vec::new(),
        };
        kernel.root = kernel.bind(spec, &columns, true)?;
        Ok(kernel)
    }

    /// Reads an expression and binds it.
    pub fn parse(text: &str, inputs: &Inputs) -> Result<Kernel> {
        Kernel::new(&Expr::parse(text)?, inputs)
    }

    fn bind(&mut self, expr: &Expr, columns: &[Column], scaled: bool) -> Result<Node> {
        Ok(match expr {
            Expr::Leaf(leaf) => {
                self.add(leaf, columns, scaled)?;
                Node::Leaf(self.leaves.len() - 1)
            }
            Expr::Sum(parts) => Node::Sum(parts.iter().map(|p| self.bind(p, columns, scaled)).collect::<Result<_>>()?),
            Expr::Product(parts) => {
                // Kernels of sums keep their variances, which say how the parts of a sum compare.
                let sums = parts.iter().any(|p| !matches!(p, Expr::Leaf(_)));
                let bound = |(i, part): (usize, &Expr)| {
                    let own = scaled && (!matches!(part, Expr::Leaf(_)) || !sums && i == 0);
                    self.bind(part, columns, own)
                };
                Node::Product(parts.iter().enumerate().map(bound).collect::<Result<_>>()?)
            }
        })
    }

    fn add(&mut self, spec: &LeafSpec, columns: &[Column], scaled: bool) -> Result<()> {
        let entry = spec.kind.entry();
        let wrong = |what: String, fix: String| {
            let place = format!("the kernel '{}' at character {}", entry.name, spec.position);
            Err(Error::setting(format!("{place}: {what}"), fix))
        };
        let hamming = spec.kind == Kind::Hamming;
        let mut used: Vec<&Column> = Vec::new();
        for name in &spec.columns {
            let Some(column) = columns.iter().find(|c| c.name == *name) else {
                let known: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
                return wrong(format!("there is no input column '{name}'"), suggest(name, known));
            };
            if hamming && !column.category {
                let what = format!("the column '{name}' holds numbers, and it compares text or true/false");
                return wrong(what, "use rbf or matern52 for numbers".to_owned());
            }
            used.push(column);
        }
        let blind = matches!(spec.kind, Kind::Constant | Kind::White);
        if used.is_empty() && !blind {
            used = columns.iter().filter(|c| !hamming || c.category).collect();
            if used.is_empty() {
                return wrong("no column holds text or true/false".to_owned(), "use rbf or matern52".to_owned());
            }
        }
        let (mut dims, groups) = (Vec::new(), used.len());
        for (group, column) in used.iter().enumerate() {
            // Two different categories are √2 apart in the encoding, and 1 under the kernel; true and false are 1/std apart.
            let unit = match (hamming, column.std) {
                (true, Some(std)) => std * std::f64::consts::SQRT_2,
                _ => 1.0,
            };
            dims.extend(column.dims.clone().map(|input| Dim { input, group, unit }));
        }
        let unit = match (spec.kind, used.as_slice()) {
            (Kind::Periodic, [one]) => one.std.unwrap_or(1.0),
            _ => 1.0,
        };
        let size = dims.len().max(1) as f64;
        let linear = spec.kind == Kind::Linear;
        let mut ranges = Vec::new();
        for name in entry.parameters {
            let per_column = spec.ard && (*name == "lengthscale" || linear);
            let count = if per_column { groups } else { 1 };
            let (start, prior) = match *name {
                "lengthscale" if hamming => (0.0, (0.0, 1.5)),
                "lengthscale" if spec.kind == Kind::Periodic => (0.0, (0.0, 1.5)),
                "lengthscale" => (0.5 * size.ln(), (std::f64::consts::SQRT_2 + 0.5 * size.ln(), 3.0)),
                "period" => (0.0, (0.0, 1.5)),
                // A relu network of this weight variance keeps the size of its inputs.
                "weight_variance" => (2.0_f64.ln(), (2.0_f64.ln(), 1.0)),
                "bias_variance" => (0.1_f64.ln(), (0.1_f64.ln(), 1.5)),
                "variance" if linear => (-size.ln(), (-size.ln(), 2.0)),
                "variance" if spec.kind == Kind::White => (-4.0, (-4.0, 3.0)),
                "variance" => (0.0, (0.0, 2.0)),
                _ => (0.0, (0.0, 1.5)),
            };
            let given = spec.given.iter().find(|g| g.name == *name);
            if let Some(given) = given.filter(|g| g.values.len() != 1 && g.values.len() != count) {
                let what = format!("there are {} values of {name} for {count}", given.values.len());
                return wrong(what, "give one, or with 'ard' one for every column".to_owned());
            }
            // The output of a network has the scale of its weights.
            let redundant = *name == "variance" && (spec.kind.is_wide() || !(scaled || linear && spec.ard));
            let from = self.parameters.len();
            for i in 0..count {
                let own = if *name == "period" { unit } else { 1.0 };
                let value = given.map(|g| (g.values[if g.values.len() == 1 { 0 } else { i }] / own).ln());
                let label = if count > 1 || groups == 1 && !blind {
                    format!("{name} of {}", used[i].name)
                } else {
                    format!("{name} of {}", entry.name)
                };
                self.parameters.push(Parameter {
                    name: label,
                    start: value.unwrap_or(if redundant { 0.0 } else { start }),
                    fixed: given.is_some_and(|g| g.fixed) || redundant && given.is_none(),
                    // A value to start from says what to expect, where it is written.
                    prior: (if *name == "period" { value.unwrap_or(prior.0) } else { prior.0 }, prior.1),
                    wanders: given.is_none(),
                });
            }
            ranges.push((*name, from..self.parameters.len()));
        }
        let range = |name: &str| ranges.iter().find(|r| r.0 == name).map_or(0..0, |r| r.1.clone());
        let extra = ["alpha", "period", "offset", "weight_variance"]
            .iter()
            .map(|n| range(n))
            .find(|r| !r.is_empty())
            .map(|r| r.start);
        self.leaves.push(Leaf {
            kind: spec.kind,
            dims,
            degree: spec.degree,
            activation: spec.activation,
            variance: range("variance"),
            lengthscale: range("lengthscale"),
            extra,
        });
        self.units.push(unit);
        Ok(())
    }

    /// Its parameters, in the order of [`Kernel::start`].
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// The logarithms of all parameters where a fit starts.
    pub fn start(&self) -> Vec<f64> {
        self.parameters.iter().map(|p| p.start).collect()
    }

    /// Hidden layers of the first wide network.
    pub(super) fn depth(&self) -> usize {
        self.leaves.iter().find(|l| l.kind.is_wide()).map_or(0, |l| l.degree)
    }

    /// Whether functions can be drawn from its prior: of wide networks there are none at hand.
    pub(super) fn has_functions(&self) -> bool {
        !self.leaves.iter().any(|l| l.kind.is_wide())
    }

    /// Encoded inputs of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Columns of numbers and categories that any of its kernels looks at.
    pub fn inputs_used(&self) -> usize {
        let mut used: Vec<usize> = self.leaves.iter().flat_map(|l| l.dims.iter().map(|d| d.input)).collect();
        used.sort_unstable();
        used.dedup();
        used.len()
    }

    /// The expression with every parameter held at these logarithms, rounded to so many significant digits (0 keeps all).
    pub fn at(&self, log: &[f64], digits: usize) -> Expr {
        let mut expr = self.spec.clone();
        for (i, leaf) in expr.leaves_mut().into_iter().enumerate() {
            let own = &self.leaves[i];
            let mut from = own.variance.start;
            let names = leaf.kind.entry().parameters;
            leaf.given = names
                .iter()
                .map(|name| {
                    let count = match *name {
                        "variance" => own.variance.len(),
                        "lengthscale" => own.lengthscale.len(),
                        _ => 1,
                    };
                    let unit = if *name == "period" { self.units[i] } else { 1.0 };
                    let values = log[from..from + count].iter().map(|v| rounded(v.exp() * unit, digits)).collect();
                    from += count;
                    Given { name: (*name).to_owned(), values, fixed: true }
                })
                .collect();
        }
        expr
    }
}

fn rounded(value: f64, digits: usize) -> f64 {
    if digits == 0 {
        return value;
    }
    format!("{value:.*e}", digits - 1).parse().unwrap_or(value)
}
