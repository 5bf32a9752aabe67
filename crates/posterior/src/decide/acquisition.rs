//! How good a point would be to try, as a function of the mean μ and standard deviation σ of f there; everything is maximised.
//!
//! u = (μ − f⁺)/σ, h(u) = φ(u) + uΦ(u):  EI = σh(u);  log EI = ln σ + ln h(u), whose gradient never vanishes (Ament et al. 2023);  PI as ln Φ(u);  UCB = μ + βσ.
//! Below −1, h(u) = φ(u)(1 − |u|Φ(u)/φ(u)), below −30 by its asymptotic series; h′ = Φ. Cost: constant.

use crate::math::special::{HALF_LN_TAU, normal_cdf, normal_log_cdf};

crate::word_enum! {
    /// What a point is ranked by.
    pub enum Acquisition {
        /// Logarithm of the expected improvement.
        LogEi = "logei",
        /// Upper confidence bound.
        Ucb = "ucb",
        /// Expected improvement.
        Ei = "ei",
        /// The best point of a function drawn from the posterior.
        Thompson = "thompson",
        /// Probability of improvement, in logarithms.
        Pi = "pi",
    }
}

/// β of the upper confidence bound.
const BETA: f64 = 2.0;
/// Where the asymptotic series takes over: its first term left out is below 2e-11 of the sum there.
const FAR: f64 = -30.0;

/// ln h(u).
pub fn log_h(u: f64) -> f64 {
    let log_density = -0.5 * u * u - HALF_LN_TAU;
    if u > -1.0 {
        (log_density.exp() + u * normal_cdf(u)).ln()
    } else if u > FAR {
        // Φ/φ grows slowly, so that nothing underflows.
        log_density + (u * (normal_log_cdf(u) - log_density).exp()).ln_1p()
    } else {
        let v = 1.0 / (u * u);
        log_density + v.ln() + (v * (-3.0 + v * (15.0 + v * (-105.0 + v * 945.0)))).ln_1p()
    }
}

/// E[max(f − f⁺, 0)] for f ~ N(μ, σ²).
pub fn expected_improvement(mean: f64, std: f64, best: f64) -> f64 {
    if std <= 0.0 { (mean - best).max(0.0) } else { log_expected_improvement(mean, std, best).exp() }
}

/// Its logarithm.
pub fn log_expected_improvement(mean: f64, std: f64, best: f64) -> f64 {
    std.ln() + log_h((mean - best) / std)
}

impl Acquisition {
    /// Its value, and its derivatives in μ and σ. Thompson is none of a single point, and counts as the mean.
    pub fn at(self, mean: f64, std: f64, best: f64) -> (f64, f64, f64) {
        let std = std.max(1e-100);
        let u = (mean - best) / std;
        match self {
            Acquisition::LogEi => {
                // ln Φ − ln h: their ratio is finite where both underflow.
                let ratio = (normal_log_cdf(u) - log_h(u)).exp();
                (std.ln() + log_h(u), ratio / std, (1.0 - ratio * u) / std)
            }
            Acquisition::Ei => {
                let density = (-0.5 * u * u - HALF_LN_TAU).exp();
                (std * log_h(u).exp(), normal_cdf(u), density)
            }
            Acquisition::Pi => {
                let log = normal_log_cdf(u);
                let ratio = (-0.5 * u * u - HALF_LN_TAU - log).exp();
                (log, ratio / std, -ratio * u / std)
            }
            Acquisition::Ucb => (mean + BETA * std, 1.0, BETA),
            Acquisition::Thompson => (mean, 1.0, 0.0),
        }
    }
}
