//! Draws from a proposal with importance weights: q(w) = Σ_s W_s δ(w − w_s).
//!
//! Of all draws those are kept that systematic resampling chose, each with the number of times it was chosen; the log weights of all
//! stay beside them, since they tell whether the kept ones mean anything. Predictions walk evenly over the resampled draws.
//! Memory: 4·P bytes for each draw that was kept. In a model file `w` holds these, `counts` their numbers, `log_weights` all.

use super::{DAMAGED, Draw, Form, Posterior, Tensor};
use crate::error::{Error, Result};
use crate::nn::Mode;
use crate::rng::{Key, Stream};

/// The log weight, from the largest on, that stands for a weight of 0 in a file, where every number is finite.
const ZERO: f32 = -1e30;

/// Draws with weights.
#[derive(Debug, Clone, PartialEq)]
pub struct WeightedPosterior {
    dim: usize,
    /// Kept draws × P.
    w: Vec<f32>,
    /// How often each stands among the resampled, summed up: the last is their number.
    ends: Vec<u32>,
    /// Of all draws of the proposal, less the largest.
    log_weights: Vec<f64>,
    log_evidence: Option<f64>,
}

impl WeightedPosterior {
    /// From kept draws (`counts.len()` × `dim`), how often each was chosen, the log weights of all, and an estimate of log p(D).
    ///
    /// # Panics
    /// If lengths do not agree, or if nothing was chosen.
    pub fn new(dim: usize, w: Vec<f32>, counts: &[u32], log_weights: &[f64], log_evidence: Option<f64>) -> Self {
        assert!(dim > 0 && w.len() == counts.len() * dim && counts.iter().any(|n| *n > 0), "draws and their numbers");
        let largest = log_weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let zero = f64::from(ZERO);
        // As they come back from a file, so that a model says the same before and after it.
        let relative = |l: &f64| f64::from((l - largest).max(zero) as f32);
        let log_weights = log_weights.iter().map(|l| if l.is_nan() { zero } else { relative(l) }).collect();
        let mut sum = 0;
        let ends = counts.iter().map(|n| {
            sum += n;
            sum
        });
        WeightedPosterior { dim, w, ends: ends.collect(), log_weights, log_evidence }
    }

    fn resampled(&self) -> u32 {
        self.ends[self.ends.len() - 1]
    }

    /// Resampled draw i.
    fn copy(&self, i: u32, draw: &mut Draw) {
        let kept = self.ends.partition_point(|end| *end <= i);
        draw.w.copy_from_slice(&self.w[kept * self.dim..(kept + 1) * self.dim]);
        draw.mode = Mode::Plain;
    }

    pub(super) fn restore(
        dim: usize,
        log_evidence: Option<f64>,
        tensors: &dyn Fn(&str) -> Option<Vec<f32>>,
    ) -> Result<Box<dyn Posterior>> {
        let damaged = |what: String| Error::setting(what, DAMAGED);
        let get = |name: &str| tensors(name).ok_or_else(|| damaged(format!("the tensor '{name}' is missing")));
        let (w, counts, log_weights) = (get("w")?, get("counts")?, get("log_weights")?);
        let whole = |v: &f32| (*v >= 1.0 && v.fract() == 0.0 && *v < 16_777_216.0).then_some(*v as u32);
        let counts: Option<Vec<u32>> = counts.iter().map(whole).collect();
        let total = |c: &Vec<u32>| c.iter().map(|n| u64::from(*n)).sum::<u64>();
        let counts = counts.filter(|c| (1..=u64::from(u32::MAX)).contains(&total(c)));
        let counts = counts.ok_or_else(|| damaged("the numbers of its draws make no sense".to_owned()))?;
        if dim == 0 || counts.len().checked_mul(dim) != Some(w.len()) {
            return Err(damaged(format!("the tensor 'w' has {} numbers, not {} draws", w.len(), counts.len())));
        }
        let log_weights: Vec<f64> = log_weights.into_iter().map(f64::from).collect();
        Ok(Box::new(WeightedPosterior::new(dim, w, &counts, &log_weights, log_evidence)))
    }
}

impl WeightedPosterior {
    /// How many draws are of use: 1 where all are the same, else the number of resampled ones.
    pub fn distinct(&self) -> usize {
        if self.ends.len() == 1 { 1 } else { self.resampled() as usize }
    }

    /// Of all draws of the proposal, less the largest.
    pub fn log_weights(&self) -> &[f64] {
        &self.log_weights
    }
}

impl Posterior for WeightedPosterior {
    fn kind(&self) -> &'static str {
        "weighted"
    }
    fn dim(&self) -> usize {
        self.dim
    }
    fn form(&self) -> Form<'_> {
        Form::Weighted(self)
    }
    fn draw_into(&self, key: Key, draw: &mut Draw) {
        self.copy(Stream::new(key).below(u64::from(self.resampled())) as u32, draw);
    }
    fn draw_of_into(&self, s: usize, of: usize, _: Key, draw: &mut Draw) {
        let all = u128::from(self.resampled());
        let at = (2 * s as u128 + 1) * all / (2 * of.max(1) as u128);
        self.copy(at.min(all - 1) as u32, draw);
    }
    fn log_density(&self, _: &[f32]) -> Option<f64> {
        None
    }
    fn log_evidence(&self) -> Option<f64> {
        self.log_evidence
    }
    fn tensors(&self) -> Vec<Tensor> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        let counts: Vec<f32> = self.ends.iter().zip(starts).map(|(end, start)| (end - start) as f32).collect();
        let log_weights: Vec<f32> = self.log_weights.iter().map(|l| *l as f32).collect();
        let tensor = |name: &str, shape, data| Tensor { name: name.into(), shape, data };
        vec![
            tensor("w", vec![self.ends.len(), self.dim], self.w.clone()),
            tensor("counts", vec![counts.len()], counts),
            tensor("log_weights", vec![log_weights.len()], log_weights),
        ]
    }
    fn packed(&self) -> Vec<(String, Vec<u8>)> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> WeightedPosterior {
        let weights = [-3.0, f64::NEG_INFINITY, -1.0, f64::NAN];
        WeightedPosterior::new(2, vec![0.0, 0.5, 1.0, 0.5, 2.0, 0.5], &[1, 4, 3], &weights, Some(-7.5))
    }

    #[test]
    fn draws_come_as_often_as_they_were_chosen() {
        let posterior = example();
        let mut draw = posterior.draw(Key::new(0));
        let mut walk = |of: usize| -> Vec<f32> {
            let at = |s| {
                posterior.draw_of_into(s, of, Key::new(0), &mut draw);
                draw.w[0]
            };
            (0..of).map(at).collect()
        };
        assert_eq!(walk(8), [0.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0]);
        assert_eq!(walk(2), [1.0, 2.0]);
        let ones = (0..800).filter(|k| posterior.draw(Key::new(*k)).w[0] == 1.0).count();
        // Binomial with ½: a standard deviation of 14; 5 of them.
        assert!((330..470).contains(&ones), "{ones}");
    }

    #[test]
    fn comes_back_from_its_tensors_and_damage_is_an_error() {
        let posterior = example();
        assert_eq!(posterior.log_weights()[..3], [-2.0, f64::from(ZERO), 0.0]);
        let back = |change: fn(&mut Tensor)| {
            let tensors: Vec<Tensor> = posterior
                .tensors()
                .into_iter()
                .map(|mut t| {
                    change(&mut t);
                    t
                })
                .collect();
            let find = |name: &str| tensors.iter().find(|t| t.name == name).map(|t| t.data.clone());
            WeightedPosterior::restore(2, Some(-7.5), &find)
        };
        let same = back(|_| ()).unwrap();
        assert_eq!((same.tensors(), same.log_weights()), (posterior.tensors(), Some(posterior.log_weights())));
        for change in [
            (|t: &mut Tensor| {
                if t.name == "w" {
                    t.data.truncate(5)
                }
            }) as fn(&mut Tensor),
            |t| {
                if t.name == "counts" {
                    t.data[0] = 0.5
                }
            },
            |t| {
                if t.name == "counts" {
                    t.data.clear()
                }
            },
            |t| {
                if t.name == "counts" {
                    t.name.clear()
                }
            },
        ] {
            assert!(back(change).unwrap_err().to_string().contains("damaged"));
        }
    }
}
