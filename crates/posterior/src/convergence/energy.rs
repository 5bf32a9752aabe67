//! E-BFMI: Σ(E_t − E_{t−1})²/(n − 1) over the variance of the energy, of one chain.
//!
//! Small where drawing a new momentum changes the energy by little beside its own spread, so that a Hamiltonian sampler walks slowly
//! through the tails. Below 0.3 they were not explored. Reference: Betancourt (2016), arXiv:1604.00695.

use super::trace::variance;

/// Of the energies of one chain; NaN where they are all the same, fewer than two, or not finite.
pub fn e_bfmi(energy: &[f64]) -> f64 {
    if energy.len() < 2 || energy.iter().any(|e| !e.is_finite()) || energy.iter().all(|e| *e == energy[0]) {
        return f64::NAN;
    }
    let squares: f64 = energy.windows(2).map(|e| (e[1] - e[0]).powi(2)).sum();
    squares / (energy.len() - 1) as f64 / variance(energy)
}
