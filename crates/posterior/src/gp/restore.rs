//! A Gaussian process from a model file, whose numbers are checked.

use super::exact::{self, Exact};
use super::factor::Lower;
use super::fitted::{GpFit, Member};
use super::kernel::Kernel;
use super::laplace::{self, Laplace};
use super::nearest::Nearest;
use super::sparse::Sparse;
use crate::error::{Error, Result};
use crate::fitted::LeaveOneOut;
use crate::fitted::{Fitted, Restoring};
use crate::memory;
use std::sync::Arc;

/// Logarithms of parameters beyond this are damage.
const LARGEST: f64 = 60.0;
/// Processes of a mixture beyond this are damage.
const MOST_MEMBERS: usize = 1000;

/// Encoded numbers beyond this are damage: no table gives them, and kernels of them overflow.
const FARTHEST: f64 = 1e15;

/// Encoded numbers as a table can give them.
fn encoded(data: Vec<f64>) -> Result<Vec<f64>> {
    match data.iter().all(|v| v.abs() <= FARTHEST) {
        true => Ok(data),
        false => Err(damaged("a row lies too far away")),
    }
}

fn damaged(what: &str) -> Error {
    Error::setting(what, "the file is damaged: fit the model again")
}

/// A factor of n rows with a positive diagonal.
fn factor(data: &[f64], n: usize) -> Result<Lower> {
    Lower::from_flat(n, data)
        .filter(|l| (0..n).all(|i| l.diagonal(i) > 0.0))
        .ok_or_else(|| damaged("the factor of the covariance is not one"))
}

pub(super) fn restore(r: &Restoring<'_>, name: &'static str, kernel: Arc<Kernel>) -> Result<Arc<dyn Fitted>> {
    let take = |name: &str| (r.tensors)(name).ok_or_else(|| damaged(&format!("the tensor '{name}' is missing")));
    let (width, count) = (r.input.len(), kernel.parameters().len() + 1);
    let logs = take("log_parameters")?;
    let members = logs.len() / count;
    if width != kernel.width() || members == 0 || members > MOST_MEMBERS || logs.len() != members * count {
        return Err(damaged("the parameters do not suit the kernel"));
    }
    if logs.iter().any(|v| v.abs() > LARGEST) {
        return Err(damaged("a parameter is outside of its range"));
    }
    let log = logs[..count].to_vec();
    let mut leave_one_out = LeaveOneOut::default();
    let members = if let Some(z) = (r.tensors)("inducing") {
        let z = encoded(z)?;
        let m = z.len() / width.max(1);
        if m == 0 || z.len() != m * width || members > 1 {
            return Err(damaged("the inducing rows do not suit the inputs"));
        }
        let weights = r.tensor("weights", m)?;
        let (root, inner) = (factor(&take("root")?, m)?, factor(&take("inner")?, m)?);
        vec![Member::Sparse(Sparse::with_factors(kernel, log, z.into(), weights, root, inner))]
    } else {
        let y = encoded(take("y")?)?;
        let n = y.len();
        let x: Arc<[f64]> = encoded(r.tensor("x", n.saturating_mul(width))?)?.into();
        let y: Arc<[f64]> = y.into();
        if n == 0 {
            return Err(damaged("there are no rows"));
        }
        if let Some(a) = (r.tensors)("mode") {
            let outputs = r.likelihood.outputs();
            if members > 1 || Some(a.len()) != n.checked_mul(outputs) {
                return Err(damaged("the mode does not suit the rows"));
            }
            memory::request(laplace::bytes(n, outputs), format!("a Gaussian process of {n} rows"), "fit fewer rows")?;
            let member = Laplace::at_mode(kernel, &*r.likelihood, log, x, y, a)
                .map_err(|_| damaged("the curvature at the mode cannot be factored"))?;
            vec![Member::Laplace(member)]
        } else if let Some(neighbours) = (r.tensors)("neighbours") {
            let most = neighbours.first().copied().unwrap_or(0.0);
            if !(1.0..=1e6).contains(&most) || members > 1 {
                return Err(damaged("the number of neighbours is outside of its range"));
            }
            vec![Member::Nearest(Nearest { kernel, log, x, y, count: most as usize })]
        } else {
            leave_one_out = LeaveOneOut { residual: r.tensor("loo_residual", n)?, std: r.tensor("loo_std", n)? };
            if leave_one_out.std.iter().any(|s| *s <= 0.0) {
                return Err(damaged("a standard deviation is not positive"));
            }
            let exact = if members == 1 {
                let jitter = r.tensor("jitter", 1)?[0];
                if jitter < 0.0 {
                    return Err(damaged("the jitter is negative"));
                }
                vec![Exact::with_factor(kernel, log, x, y, factor(&take("factor")?, n)?, jitter)]
            } else {
                let bytes = exact::bytes(n).saturating_mul(members as u128);
                memory::request(bytes, format!("{members} covariances of {n} rows"), "fit fewer rows")?;
                let one = |log: &[f64]| Exact::new(kernel.clone(), log.to_vec(), x.clone(), y.clone());
                logs.chunks(count).map(one).collect::<Result<Vec<_>>>()?
            };
            if !exact.iter().all(|m| m.alpha.iter().all(|a| a.is_finite())) {
                return Err(damaged("the covariance cannot be solved for"));
            }
            exact.into_iter().map(Member::Exact).collect()
        }
    };
    let log_evidence = r.log_evidence.filter(|e| e.is_finite()).ok_or_else(|| damaged("the evidence is missing"))?;
    Ok(Arc::new(GpFit { name, likelihood: r.likelihood.clone(), input: r.input, members, leave_one_out, log_evidence }))
}
