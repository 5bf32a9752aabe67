//! Conformal risk control: act only where the expected cost is at most λ, with λ such that the mean cost of acting stays below a level.
//!
//! Lᵢ(λ) = C[aᵢ, yᵢ] where the expected cost of aᵢ is at most λ, else 0: it grows with λ and is at most B. λ̂ is the largest λ with
//! (Σ Lᵢ(λ) + B)/(n + 1) ≤ α over n rows that the model was not fitted to; then E[L(λ̂)] ≤ α for a further row, whatever the model.
//! Reference: Angelopoulos et al. (2022), Conformal Risk Control. Cost: n log n.

/// Where to act.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Guarantee {
    /// α: mean cost of acting that is promised, over all rows.
    pub level: f64,
    /// λ̂: act where the expected cost is at most this; −∞ where no row may be acted on.
    pub threshold: f64,
    /// Rows it was learned from.
    pub rows: usize,
    /// Fewest rows with which the level could be promised at all: B/α − 1.
    pub rows_needed: usize,
}

/// λ̂ from expected costs of the actions, what they came to cost, and the largest cost B. Costs below 0 count as 0, which keeps the promise.
pub fn risk_control(expected: &[f64], cost: &[f64], most: f64, level: f64) -> Guarantee {
    let n = expected.len().min(cost.len());
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|a, b| expected[*a].total_cmp(&expected[*b]));
    let room = level * (n + 1) as f64 - most.max(0.0);
    let (mut sum, mut threshold) = (0.0, f64::NEG_INFINITY);
    for (k, i) in order.iter().enumerate() {
        sum += cost[*i].max(0.0);
        if sum > room {
            break;
        }
        // Rows of equal expected cost are acted on together; up to the next one nothing changes.
        match order.get(k + 1) {
            Some(next) if expected[*next] <= expected[*i] => {}
            Some(_) => threshold = expected[*i],
            None => threshold = f64::INFINITY,
        }
    }
    if room < 0.0 {
        threshold = f64::NEG_INFINITY;
    }
    let rows_needed = (most.max(0.0) / level - 1.0).ceil().max(1.0) as usize;
    Guarantee { level, threshold, rows: n, rows_needed }
}
