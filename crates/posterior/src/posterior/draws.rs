//! Equally weighted draws of Markov chains: q(w) = 1/S Σ_s δ(w − w_s).
//!
//! The draws stay apart by chain, with what each chain tells of itself, so that they can be judged later. Predictions with fewer
//! draws than were kept walk over them evenly, chain after chain, and never see one twice. Memory: 4·S·P bytes. In a model file `w` is
//! S × P, chain after chain, and `chains` holds the rest as JSON.

use super::{DAMAGED, Draw, Form, Posterior, Tensor};
use crate::error::{Error, Result};
use crate::nn::Mode;
use crate::rng::{Key, Stream};
use serde::{Deserialize, Serialize};

/// One chain after its warm-up: its kept draws, and how it moved.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chain {
    /// Kept draws × P, in order.
    #[serde(skip)]
    pub w: Vec<f32>,
    /// The log density of each kept draw; of a stochastic-gradient sampler, a mini-batch's estimate of it.
    pub log_density: Vec<f64>,
    /// The energy (potential and kinetic) of each kept draw; empty for samplers without momentum.
    pub energy: Vec<f64>,
    /// Evaluations of the density that led from the last kept draw to each.
    pub gradients: Vec<u32>,
    /// Evaluations of the density in warm-up.
    pub warmup_gradients: u64,
    /// The step size (or scale of the proposals) after warm-up.
    pub step_size: f64,
    /// The mean probability of acceptance after warm-up; 1 for samplers that accept every move.
    pub acceptance: f64,
    /// Transitions after warm-up that diverged: the energy was lost along the way.
    pub divergences: u64,
    /// Points, in warm-up too, where the density was not finite: such moves are rejected.
    pub not_finite: u64,
    /// Transitions after warm-up between two kept draws.
    pub thin: usize,
}

impl Chain {
    /// How many draws were kept.
    pub fn draws(&self) -> usize {
        self.log_density.len()
    }

    /// Draw i.
    pub fn draw(&self, i: usize) -> &[f32] {
        let dim = self.w.len() / self.draws().max(1);
        &self.w[i * dim..(i + 1) * dim]
    }
}

/// Chains side by side. They may differ in length where the sampling was stopped.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chains {
    /// Chain by chain; each has a draw.
    pub chains: Vec<Chain>,
    /// Whether the sampling was stopped before all draws were there.
    pub incomplete: bool,
    /// What went so wrong that the draws are not to be trusted, in one sentence.
    pub fault: Option<String>,
}

impl Chains {
    /// S: the draws of all chains.
    pub fn draws(&self) -> usize {
        self.chains.iter().map(Chain::draws).sum()
    }

    /// The draws that every chain has: what a comparison of chains is over.
    pub fn shortest(&self) -> usize {
        self.chains.iter().map(Chain::draws).min().unwrap_or(0)
    }

    /// Transitions after warm-up that diverged, in all chains.
    pub fn divergences(&self) -> u64 {
        self.chains.iter().map(|c| c.divergences).sum()
    }

    /// Draw s of all, chain after chain.
    pub fn draw(&self, mut s: usize) -> &[f32] {
        for chain in &self.chains {
            if s < chain.draws() {
                return chain.draw(s);
            }
            s -= chain.draws();
        }
        &[]
    }
}

/// Draws of chains as a posterior.
#[derive(Debug, Clone, PartialEq)]
pub struct DrawsPosterior {
    chains: Chains,
    dim: usize,
}

impl DrawsPosterior {
    /// Of chains over `dim` parameters; those without a draw are left out.
    ///
    /// # Panics
    /// If there is no draw at all, or if lengths do not agree.
    pub fn new(mut chains: Chains, dim: usize) -> Self {
        chains.chains.retain(|c| c.draws() > 0);
        let wrong = check(&chains, dim);
        assert!(wrong.is_none(), "{wrong:?}");
        DrawsPosterior { chains, dim }
    }

    pub(super) fn restore(
        dim: usize,
        _: Option<f64>,
        tensors: &dyn Fn(&str) -> Option<Vec<f32>>,
    ) -> Result<Box<dyn Posterior>> {
        let damaged = |what: String| Error::setting(what, DAMAGED);
        let missing = |name: &str| damaged(format!("the tensor '{name}' is missing"));
        let json: Vec<u8> = tensors("chains").ok_or_else(|| missing("chains"))?.iter().map(|b| *b as u8).collect();
        let mut chains: Chains = serde_json::from_slice(&json)
            .map_err(|e| damaged(format!("what the file tells of its chains is damaged ({e})")))?;
        let w = tensors("w").ok_or_else(|| missing("w"))?;
        let mut rest = &w[..];
        for chain in &mut chains.chains {
            let count = chain.draws().checked_mul(dim).filter(|n| *n <= rest.len());
            let count = count.ok_or_else(|| damaged(format!("the tensor 'w' has {} numbers: too few", w.len())))?;
            let (own, others) = rest.split_at(count);
            (chain.w, rest) = (own.to_vec(), others);
        }
        if !rest.is_empty() {
            return Err(damaged(format!("the tensor 'w' has {} numbers: too many", w.len())));
        }
        match check(&chains, dim) {
            Some(what) => Err(damaged(what.to_owned())),
            None => Ok(Box::new(DrawsPosterior { chains, dim })),
        }
    }
}

/// What is wrong with chains over `dim` parameters.
fn check(chains: &Chains, dim: usize) -> Option<&'static str> {
    let each = |f: &dyn Fn(&Chain, usize) -> bool| chains.chains.iter().all(|c| f(c, c.draws()));
    let finite = |c: &Chain| c.log_density.iter().chain(&c.energy).all(|v| v.is_finite());
    if chains.chains.is_empty() || dim == 0 || !each(&|_, n| n > 0) {
        Some("a chain has no draw")
    } else if !each(&|c, n| c.w.len() == n * dim && c.gradients.len() == n) {
        Some("a chain's draws and its statistics differ in number")
    } else if !each(&|c, n| c.energy.is_empty() || c.energy.len() == n) {
        Some("a chain's energies and its draws differ in number")
    } else if !each(&|c, _| finite(c) && c.step_size.is_finite() && c.acceptance.is_finite()) {
        Some("a chain's statistics are not finite")
    } else {
        None
    }
}

impl Posterior for DrawsPosterior {
    fn kind(&self) -> &'static str {
        "draws"
    }
    fn dim(&self) -> usize {
        self.dim
    }
    fn form(&self) -> Form<'_> {
        Form::Draws(&self.chains)
    }
    fn draw_into(&self, key: Key, draw: &mut Draw) {
        let s = Stream::new(key).below(self.chains.draws() as u64);
        draw.w.copy_from_slice(self.chains.draw(s as usize));
        draw.mode = Mode::Plain;
    }
    fn draw_of_into(&self, s: usize, of: usize, _: Key, draw: &mut Draw) {
        // The middle of the s-th of so many equal parts: no draw twice while there are as many.
        let kept = self.chains.draws() as u128;
        let at = (2 * s as u128 + 1) * kept / (2 * of.max(1) as u128);
        draw.w.copy_from_slice(self.chains.draw(at.min(kept - 1) as usize));
        draw.mode = Mode::Plain;
    }
    fn log_density(&self, _: &[f32]) -> Option<f64> {
        None
    }
    fn tensors(&self) -> Vec<Tensor> {
        let data: Vec<f32> = self.chains.chains.iter().flat_map(|c| c.w.iter().copied()).collect();
        vec![Tensor { name: "w".into(), shape: vec![self.chains.draws(), self.dim], data }]
    }
    fn packed(&self) -> Vec<(String, Vec<u8>)> {
        // Every number in it is finite and every key a word: it can be written.
        vec![("chains".to_owned(), serde_json::to_vec(&self.chains).unwrap_or_default())]
    }
    fn log_evidence(&self) -> Option<f64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two chains of 3 and 5 draws of 2 parameters; the first parameter numbers the draws.
    fn example() -> DrawsPosterior {
        let chain = |from: usize, n: usize| Chain {
            w: (from..from + n).flat_map(|i| [i as f32, -0.5]).collect(),
            log_density: (0..n).map(|i| -1.0 / (i as f64 + 3.0)).collect(),
            energy: (0..n).map(|i| 0.1 * i as f64).collect(),
            gradients: vec![7; n],
            step_size: 0.1,
            acceptance: 0.8,
            thin: 1,
            ..Chain::default()
        };
        let empty = Chain { thin: 1, ..Chain::default() };
        let chains = Chains { chains: vec![chain(0, 3), empty, chain(3, 5)], incomplete: true, fault: None };
        DrawsPosterior::new(chains, 2)
    }

    fn walk(posterior: &DrawsPosterior, of: usize) -> Vec<usize> {
        let mut draw = posterior.draw(Key::new(0));
        let mut at = |s| {
            posterior.draw_of_into(s, of, Key::new(9), &mut draw);
            draw.w[0] as usize
        };
        (0..of).map(&mut at).collect()
    }

    #[test]
    fn predictions_walk_evenly_over_all_draws() {
        let posterior = example();
        assert_eq!((&posterior as &dyn Posterior).distinct(), Some(8));
        assert_eq!(walk(&posterior, 8), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(walk(&posterior, 4), [1, 3, 5, 7]);
        assert_eq!(walk(&posterior, 1), [4]);
        for of in 1..8 {
            assert!(walk(&posterior, of).is_sorted_by(|a, b| a < b), "{of}");
        }
    }

    #[test]
    fn draws_by_key_reach_every_draw() {
        let posterior = example();
        let mut seen = [0; 8];
        (0..800).for_each(|k| seen[posterior.draw(Key::new(k)).w[0] as usize] += 1);
        // Counts of 100 have a standard deviation of 9.4; 5 of them.
        assert!(seen.iter().all(|n| (53..147).contains(n)), "{seen:?}");
    }

    #[test]
    fn comes_back_from_its_tensors_and_damage_is_an_error() {
        let posterior = example();
        let (w, json) = (posterior.tensors()[0].data.clone(), posterior.packed()[0].1.clone());
        let back = |w: &[f32], json: &[u8], dim: usize| {
            let bytes: Vec<f32> = json.iter().map(|b| f32::from(*b)).collect();
            DrawsPosterior::restore(dim, None, &|name| match name {
                "w" => Some(w.to_vec()),
                "chains" => Some(bytes.clone()),
                _ => None,
            })
        };
        let same = back(&w, &json, 2).unwrap();
        assert_eq!((same.chains().unwrap(), same.dim()), (&posterior.chains, 2));
        assert!(same.chains().unwrap().incomplete);
        assert_eq!((same.chains().unwrap().draws(), same.chains().unwrap().shortest()), (8, 3));
        let refused = |w: &[f32], json: &[u8], dim: usize, part: &str| {
            let e = back(w, json, dim).unwrap_err().to_string();
            assert!(e.contains(part), "{e}");
        };
        refused(&w[1..], &json, 2, "too few");
        refused(&[&w[..], &[0.0]].concat(), &json, 2, "too many");
        refused(&w, &json, usize::MAX, "too few");
        refused(&w, &json[1..], 2, "damaged");
        refused(&[], b"{\"chains\":[],\"incomplete\":false,\"fault\":null}", 2, "no draw");
        let text = String::from_utf8(json.clone()).unwrap();
        refused(&w, text.replacen("[7,7,7]", "[7,7]", 1).as_bytes(), 2, "differ in number");
        refused(&w, text.replacen("\"step_size\":0.1", "\"step_size\":null", 1).as_bytes(), 2, "damaged");
    }
}
