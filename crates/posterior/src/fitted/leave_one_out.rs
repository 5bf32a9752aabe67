//! Predictions of rows from all others, where a model has them in closed form.

use crate::math::special::HALF_LN_TAU;

/// Left out one row at a time, in the units in which targets were fitted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LeaveOneOut {
    /// yᵢ minus its predictive mean.
    pub residual: Vec<f64>,
    /// Predictive standard deviation of yᵢ.
    pub std: Vec<f64>,
}

impl LeaveOneOut {
    /// The mean and standard deviation of a mixture of equal weights.
    pub(crate) fn joined(parts: &[LeaveOneOut]) -> LeaveOneOut {
        let (rows, count) = (parts.first().map_or(0, |p| p.residual.len()), parts.len() as f64);
        let mean = |of: &dyn Fn(&LeaveOneOut) -> f64| parts.iter().map(of).sum::<f64>() / count;
        let mut out = LeaveOneOut::default();
        for i in 0..rows {
            let residual = mean(&|p| p.residual[i]);
            let square = mean(&|p| p.std[i].powi(2) + (p.residual[i] - residual).powi(2));
            out.residual.push(residual);
            out.std.push(square.sqrt());
        }
        out
    }

    /// log p(yᵢ | the other rows) of every row.
    pub fn log_density(&self) -> Vec<f64> {
        let one = |(r, s): (&f64, &f64)| -0.5 * (r / s).powi(2) - s.ln() - HALF_LN_TAU;
        self.residual.iter().zip(&self.std).map(one).collect()
    }
}
