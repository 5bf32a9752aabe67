//! What pruning leaves: q(w) = Πᵢ∈K N(wᵢ | mᵢ, σᵢ²) · Πᵢ∉K δ(wᵢ), with K the parameters that are kept.
//!
//! A draw costs |K| normals and as many writes. A model file holds the means, the standard deviations and K: about
//! 9 bytes per kept parameter, 5 without standard deviations, against 8 per parameter of a dense one.

use super::mean_field::scale_and_shift;
use super::positions::Packed;
use super::{Draw, Form, Posterior, Tensor, take};
use crate::error::{Error, Result};
use crate::nn::Mode;
use crate::rng::{BLOCK, Key, Normals};

/// A diagonal Gaussian, or a point, over some of the parameters; the others are exactly 0.
#[derive(Debug, Clone, PartialEq)]
pub struct SparsePosterior {
    dim: usize,
    kept: Vec<u32>,
    mean: Vec<f32>,
    /// One per kept parameter, or none at all: then every draw is the mean.
    std: Option<Vec<f32>>,
}

impl SparsePosterior {
    /// From all means, all standard deviations (none for a point) and the increasing positions of what is kept.
    ///
    /// # Panics
    /// If the lengths differ, or positions are out of range.
    pub fn new(mean: &[f32], std: Option<&[f32]>, kept: Vec<u32>) -> Self {
        assert!(std.is_none_or(|std| std.len() == mean.len()), "a standard deviation for every mean");
        assert!(kept.is_sorted_by(|a, b| a < b), "positions increase");
        let choose = |all: &[f32]| kept.iter().map(|i| all[*i as usize]).collect();
        let (dim, mean, std) = (mean.len(), choose(mean), std.map(choose));
        SparsePosterior { dim, kept, mean, std }
    }

    /// m of the kept parameters.
    pub fn mean(&self) -> &[f32] {
        &self.mean
    }

    /// The positions of what is kept, increasing.
    pub fn kept(&self) -> &[u32] {
        &self.kept
    }

    /// σ of the kept parameters, unless only the means were kept.
    pub fn std(&self) -> Option<&[f32]> {
        self.std.as_deref()
    }

    pub(super) fn restore(
        dim: usize,
        _: Option<f64>,
        tensors: &dyn Fn(&str) -> Option<Vec<f32>>,
    ) -> Result<Box<dyn Posterior>> {
        let damaged = |what: &str| Error::setting(what, "the file is damaged: compress the model again");
        let bytes = |name: &str| {
            let byte = |v: f32| (f32::from(v as u8) == v).then_some(v as u8);
            let numbers = tensors(name)?;
            Some(numbers.into_iter().map(byte).collect::<Option<Vec<u8>>>())
        };
        let packed = match (bytes("gaps"), bytes("bitmap")) {
            (Some(gaps), None) => gaps.map(Packed::Gaps),
            (None, Some(bitmap)) => bitmap.map(Packed::Bitmap),
            _ => return Err(damaged("there is not one tensor of the positions of kept parameters")),
        };
        let kept = packed.ok_or_else(|| damaged("the positions of kept parameters are no bytes"))?.unpack(dim)?;
        let mean = take("mean", kept.len(), tensors)?;
        let std = tensors("std").map(|_| take("std", kept.len(), tensors)).transpose()?;
        if std.iter().flatten().any(|s| *s < 0.0) {
            return Err(damaged("a standard deviation is negative"));
        }
        Ok(Box::new(SparsePosterior { dim, kept, mean, std }))
    }
}

impl Posterior for SparsePosterior {
    fn kind(&self) -> &'static str {
        "sparse"
    }
    fn dim(&self) -> usize {
        self.dim
    }
    fn form(&self) -> Form<'_> {
        Form::Sparse(self)
    }
    fn draw_into(&self, key: Key, draw: &mut Draw) {
        draw.mode = Mode::Plain;
        draw.w.fill(0.0);
        let mut values = [0.0; BLOCK];
        for (b, (kept, mean)) in self.kept.chunks(BLOCK).zip(self.mean.chunks(BLOCK)).enumerate() {
            let values = &mut values[..kept.len()];
            match &self.std {
                None => values.copy_from_slice(mean),
                Some(std) => {
                    f32::fill_block(key.block(b as u64), values);
                    scale_and_shift(mean, &std[b * BLOCK..], values);
                }
            }
            for (at, value) in kept.iter().zip(values) {
                draw.w[*at as usize] = *value;
            }
        }
    }
    /// None: there is no density where parameters have no freedom.
    fn log_density(&self, _w: &[f32]) -> Option<f64> {
        None
    }
    fn tensors(&self) -> Vec<Tensor> {
        let tensor =
            |name: &str, data: &[f32]| Tensor { name: name.into(), shape: vec![data.len()], data: data.into() };
        let std = self.std.iter().map(|std| tensor("std", std));
        std::iter::once(tensor("mean", &self.mean)).chain(std).collect()
    }
    fn packed(&self) -> Vec<(String, Vec<u8>)> {
        vec![match Packed::new(&self.kept, self.dim) {
            Packed::Bitmap(bytes) => ("bitmap".to_owned(), bytes),
            Packed::Gaps(bytes) => ("gaps".to_owned(), bytes),
        }]
    }
    fn log_evidence(&self) -> Option<f64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::posterior::{MeanFieldPosterior, restore};
    use posterior_testing::{z_mean, z_variance};

    const DIM: usize = 3 * BLOCK + 17;

    fn numbers() -> (Vec<f32>, Vec<f32>) {
        (0..DIM).map(|i| ((i as f32 * 0.7).sin(), 0.1 + (i % 5) as f32 * 0.1)).unzip()
    }

    /// Some positions: every `step`-th.
    fn every(step: usize) -> Vec<u32> {
        (1..DIM as u32).step_by(step).collect()
    }

    #[test]
    fn pruned_parameters_are_zero_and_kept_ones_have_their_moments() {
        let (mean, std) = numbers();
        let kept = every(2);
        let q = SparsePosterior::new(&mean, Some(&std), kept.clone());
        let draws: Vec<Vec<f32>> = (0..4000).map(|s| q.draw(Key::new(4).step(s)).w).collect();
        let is_kept: Vec<bool> = (0..DIM as u32).map(|i| kept.binary_search(&i).is_ok()).collect();
        assert!(draws.iter().all(|w| (0..DIM).all(|i| is_kept[i] || w[i].to_bits() == 0)));
        // The first, the last of a block, the first of the next one, the last: each within five standard errors.
        for k in [0, 1, BLOCK - 1, BLOCK, kept.len() - 1] {
            let i = kept[k] as usize;
            let column: Vec<f64> = draws.iter().map(|w| f64::from(w[i])).collect();
            let z = (z_mean(&column, mean[i].into()), z_variance(&column, f64::from(std[i]).powi(2)));
            assert!(z.0.abs() < 5.0 && z.1.abs() < 5.0, "parameter {i}: {z:?}");
        }
        let q: &dyn Posterior = &q;
        assert_eq!((q.log_density(&mean), q.diagonal(), q.is_point()), (None, None, false));
    }

    #[test]
    fn with_nothing_pruned_it_is_the_mean_field_posterior() {
        let (mean, std) = numbers();
        let q = SparsePosterior::new(&mean, Some(&std), (0..DIM as u32).collect());
        let dense = MeanFieldPosterior::new(mean, std, None);
        assert_eq!(q.draw(Key::new(3)).w, dense.draw(Key::new(3)).w);
    }

    #[test]
    fn with_means_alone_every_draw_is_the_same() {
        let (mean, _) = numbers();
        let q = SparsePosterior::new(&mean, None, every(3));
        assert!((&q as &dyn Posterior).is_point() && q.std().is_none());
        let w = q.draw(Key::new(1)).w;
        assert_eq!(w, q.draw(Key::new(2)).w);
        assert!((0..DIM).all(|i| w[i] == if i % 3 == 1 { mean[i] } else { 0.0 }));
    }

    /// As a model file would hand it back, with one tensor replaced.
    fn again(q: &SparsePosterior, change: impl Fn(&str, Vec<f32>) -> Option<Vec<f32>>) -> Result<Box<dyn Posterior>> {
        let numbers = q.tensors().into_iter().map(|t| (t.name, t.data));
        let packed = q.packed().into_iter().map(|(n, b)| (n.to_owned(), b.into_iter().map(f32::from).collect()));
        let all: Vec<(String, Vec<f32>)> = numbers.chain(packed).collect();
        let find = |name: &str| all.iter().find(|(n, _)| n == name).and_then(|(n, data)| change(n, data.clone()));
        restore("sparse", DIM, None, &find)
    }

    #[test]
    fn it_comes_back_and_damage_is_told() {
        let (mean, std) = numbers();
        for (kept, std) in [(every(2), Some(&std[..])), (every(50), Some(&std)), (every(50), None), (vec![], None)] {
            let q = SparsePosterior::new(&mean, std, kept);
            let back = again(&q, |_, data| Some(data)).unwrap();
            assert_eq!((back.tensors(), back.packed(), back.kept()), (q.tensors(), q.packed(), Some(q.kept())));
            assert_eq!(back.draw(Key::new(9)).w, q.draw(Key::new(9)).w);
        }
        let q = SparsePosterior::new(&mean, Some(&std), every(50));
        let refused = |tensor: &str, part: &str, change: fn(Vec<f32>) -> Option<Vec<f32>>| {
            let e = again(&q, |name, data| if name == tensor { change(data) } else { Some(data) }).unwrap_err();
            assert!(e.to_string().contains(part), "{e}");
        };
        refused("mean", "'mean' has", |d| Some(d[1..].to_vec()));
        refused("std", "'std' has", |d| Some(d[1..].to_vec()));
        refused("std", "negative", |d| Some(d.iter().map(|v| -v).collect()));
        refused("gaps", "not one tensor", |_| None);
        refused("gaps", "no bytes", |d| Some(d.iter().map(|v| v + 0.5).collect()));
        refused("gaps", "no bytes", |d| Some(d.iter().map(|v| v - 300.0).collect()));
        refused("gaps", "more than", |d| Some([d, vec![254.0; 99]].concat()));
    }
}
