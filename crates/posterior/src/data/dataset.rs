//! Rows ready for a network: encoded, standardised inputs, and targets.

use crate::math::Real;
use crate::nn::Shape;
use crate::rng::Hash;
use std::any::Any;
use std::sync::Arc;

/// Numbers kept once and handed out in the precision asked for.
#[derive(Debug, Clone)]
pub enum Values {
    /// Single precision: images.
    F32(Arc<[f32]>),
    /// Double precision: tables.
    F64(Arc<[f64]>),
}

impl Values {
    /// How many numbers.
    pub fn len(&self) -> usize {
        match self {
            Values::F32(v) => v.len(),
            Values::F64(v) => v.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// In precision `R`: shared if it is kept so, else converted.
    pub fn to<R: Real>(&self) -> Arc<[R]> {
        fn same<A: Any, B: Any>(v: &A) -> Option<&B> {
            (v as &dyn Any).downcast_ref::<B>()
        }
        match self {
            Values::F32(v) => match same::<_, Arc<[R]>>(v) {
                Some(shared) => shared.clone(),
                None => v.iter().map(|x| R::of(f64::from(*x))).collect(),
            },
            Values::F64(v) => match same::<_, Arc<[R]>>(v) {
                Some(shared) => shared.clone(),
                None => v.iter().map(|x| R::of(*x)).collect(),
            },
        }
    }

    /// Some numbers that follow on each other.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn range(&self, range: std::ops::Range<usize>) -> Values {
        match self {
            Values::F32(v) => Values::F32(v[range].into()),
            Values::F64(v) => Values::F64(v[range].into()),
        }
    }

    /// The rows numbered `rows`, each `width` numbers long.
    pub fn rows(&self, rows: &[usize], width: usize) -> Values {
        fn gather<T: Copy>(v: &[T], rows: &[usize], width: usize) -> Arc<[T]> {
            rows.iter().flat_map(|&r| v[r * width..(r + 1) * width].iter().copied()).collect()
        }
        match self {
            Values::F32(v) => Values::F32(gather(v, rows, width)),
            Values::F64(v) => Values::F64(gather(v, rows, width)),
        }
    }
}

/// Inputs and targets of N rows.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// `rows × shape.len()` inputs, row after row.
    pub x: Values,
    /// `rows × targets` outcomes, row after row; a class is its number.
    pub y: Arc<[f64]>,
    /// N.
    pub rows: usize,
    /// Shape of one row's inputs.
    pub shape: Shape,
    /// Outcomes per row (0 where there are none, as in data to predict).
    pub targets: usize,
    /// Weight of each row in the log-likelihood; none means 1 each.
    pub weights: Option<Arc<[f64]>>,
}

impl Dataset {
    /// A data set from plain numbers.
    ///
    /// # Panics
    /// If the lengths do not agree.
    pub fn new(x: Values, shape: Shape, y: Vec<f64>, targets: usize) -> Dataset {
        let rows = x.len() / shape.len().max(1);
        assert_eq!(x.len(), rows * shape.len(), "inputs are rows × {}", shape.len());
        assert_eq!(y.len(), rows * targets, "{rows} rows of {targets} targets");
        Dataset { x, y: y.into(), rows, shape, targets, weights: None }
    }

    /// Tells one data set from another: a hash of everything in it.
    pub fn fingerprint(&self) -> String {
        let mut hash = Hash::new();
        hash.bytes(format!("{:?} {} {}", self.shape, self.rows, self.targets).as_bytes());
        match &self.x {
            Values::F32(x) => x.iter().for_each(|v| hash.word(u64::from(v.to_bits()))),
            Values::F64(x) => x.iter().for_each(|v| hash.word(v.to_bits())),
        }
        hash.bytes(b"y");
        self.y.iter().for_each(|v| hash.word(v.to_bits()));
        hash.bytes(b"weights");
        self.weights.iter().flat_map(|w| w.iter()).for_each(|v| hash.word(v.to_bits()));
        hash.to_string()
    }

    /// The rows numbered `rows`, in this order.
    pub fn select(&self, rows: &[usize]) -> Dataset {
        let y = rows.iter().flat_map(|&r| self.y[r * self.targets..(r + 1) * self.targets].iter().copied()).collect();
        Dataset {
            x: self.x.rows(rows, self.shape.len()),
            y,
            rows: rows.len(),
            shape: self.shape,
            targets: self.targets,
            weights: self.weights.as_ref().map(|w| rows.iter().map(|&r| w[r]).collect()),
        }
    }
}
