//! The draws of one quantity, chain by chain: split in halves, ranked, folded.
//!
//! Rank normalisation: z = Φ⁻¹((r − 3/8)/(S + 1/4)) with r the average rank among all S draws, so that R-hat and ESS exist for
//! quantities without a variance. Folding, |x − median|, turns a difference in spread into one in location.
//! Reference: Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), Bayesian Analysis 16(2). Cost: a sort.

use crate::math::special::normal_quantile;

/// Draws of one number, `chains` × `draws`, chain after chain. All chains are of one length.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    values: Vec<f64>,
    chains: usize,
}

impl Trace {
    /// From the draws of all chains, one chain after another.
    ///
    /// # Panics
    /// If there is no chain, or if the numbers do not divide into chains.
    pub fn new(values: Vec<f64>, chains: usize) -> Trace {
        assert!(chains > 0 && values.len().is_multiple_of(chains), "chains of one length");
        Trace { values, chains }
    }

    /// How many chains.
    pub fn chains(&self) -> usize {
        self.chains
    }

    /// How many draws each chain has.
    pub fn draws(&self) -> usize {
        self.values.len() / self.chains
    }

    /// All draws, chain after chain.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Chain by chain.
    pub fn by_chain(&self) -> impl Iterator<Item = &[f64]> {
        self.values.chunks(self.draws().max(1))
    }

    /// Whether there is something to judge: four draws or more in each chain, all finite.
    pub fn is_usable(&self) -> bool {
        self.draws() >= 4 && self.values.iter().all(|v| v.is_finite())
    }

    /// Each number made another.
    pub fn map(&self, f: impl Fn(f64) -> f64) -> Trace {
        Trace { values: self.values.iter().map(|v| f(*v)).collect(), chains: self.chains }
    }

    /// Each chain becomes two, its first and its second half; of an odd number of draws the middle one is left out.
    pub fn split(&self) -> Trace {
        let half = self.draws() / 2;
        let halves = self.by_chain().flat_map(|c| [&c[..half], &c[c.len() - half..]]);
        Trace { values: halves.flatten().copied().collect(), chains: 2 * self.chains }
    }

    /// z in place of each draw.
    pub fn rank_normalised(&self) -> Trace {
        let count = self.values.len();
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_unstable_by(|a, b| self.values[*a].total_cmp(&self.values[*b]));
        let mut values = vec![0.0; count];
        let mut from = 0;
        while from < count {
            let mut to = from + 1;
            // Equal draws share the mean of their ranks; −0 and 0 are equal.
            while to < count && self.values[order[to]] == self.values[order[from]] {
                to += 1;
            }
            let rank = 0.5 * (from + 1 + to) as f64;
            let z = normal_quantile((rank - 0.375) / (count as f64 + 0.25));
            order[from..to].iter().for_each(|i| values[*i] = z);
            from = to;
        }
        Trace { values, chains: self.chains }
    }

    /// The distance of each draw from the median of all.
    pub fn folded(&self) -> Trace {
        let median = quantiles(&self.sorted(), &[0.5])[0];
        self.map(|v| (v - median).abs())
    }

    /// 1 where a draw is at most `bound`, else 0.
    pub(super) fn at_most(&self, bound: f64) -> Trace {
        self.map(|v| f64::from(u8::from(v <= bound)))
    }

    /// All draws in ascending order.
    pub fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.values.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted
    }

    /// Mean over all draws.
    pub fn mean(&self) -> f64 {
        mean(&self.values)
    }

    /// Standard deviation over all draws, with n − 1.
    pub fn std(&self) -> f64 {
        variance(&self.values).sqrt()
    }
}

/// Quantiles of numbers in ascending order, linear between them (R's type 7); NaN of none.
pub fn quantiles(sorted: &[f64], levels: &[f64]) -> Vec<f64> {
    let n = sorted.len();
    let at = |p: f64| match sorted {
        [] => f64::NAN,
        [one] => *one,
        _ => {
            let place = n as f64 * p + (1.0 - p);
            let below = place.floor().clamp(1.0, (n - 1) as f64);
            let part = (place - below).clamp(0.0, 1.0);
            (1.0 - part) * sorted[below as usize - 1] + part * sorted[below as usize]
        }
    };
    levels.iter().map(|p| at(*p)).collect()
}

pub(super) fn mean(x: &[f64]) -> f64 {
    x.iter().sum::<f64>() / x.len() as f64
}

/// With n − 1.
pub(super) fn variance(x: &[f64]) -> f64 {
    let m = mean(x);
    x.iter().map(|v| (v - m).powi(2)).sum::<f64>() / (x.len() as f64 - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_an_odd_chain_leave_its_middle_out() {
        let trace = Trace::new((0..10).map(f64::from).collect(), 2);
        let split = trace.split();
        assert_eq!((split.chains(), split.values()), (4, &[0.0, 1.0, 3.0, 4.0, 5.0, 6.0, 8.0, 9.0][..]));
    }

    #[test]
    fn ties_share_a_rank_and_order_is_kept() {
        let z = Trace::new(vec![3.0, -1.0, 0.0, -0.0], 1).rank_normalised();
        let z = z.values();
        assert!(z[2] == z[3] && z[1] < z[2] && z[2] < z[0]);
        // Rank 1 of 4: Φ⁻¹(0.625/4.25), and 4 is its mirror image.
        assert!((z[1] - normal_quantile(0.625 / 4.25)).abs() < 1e-15 && (z[0] + z[1]).abs() < 1e-12);
    }

    #[test]
    fn quantiles_lie_between_draws() {
        let q = quantiles(&[1.0, 2.0, 4.0], &[0.0, 0.25, 0.5, 1.0]);
        assert_eq!(q, [1.0, 1.5, 2.0, 4.0]);
        assert!(quantiles(&[], &[0.5])[0].is_nan());
        assert_eq!(quantiles(&[7.0], &[0.9]), [7.0]);
    }
}
