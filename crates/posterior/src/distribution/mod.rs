//! Probability distributions: exact log-densities, draws, moments, distribution functions and divergences.
//!
//! log p(x) always holds its normalising constant. Scalar distributions implement [`Distribution`], those with a
//! density that can be differentiated also [`Continuous`], those over vectors [`MultiDistribution`]. Constructors check
//! their parameters; nothing after them can fail. Kullback–Leibler divergences are in [`kl`], normals fitted by either
//! direction of it in [`fit`].
//!
//! Reference: Johnson, Kotz & Balakrishnan, Continuous Univariate Distributions (1994).

mod bernoulli;
mod categorical;
pub mod fit;
pub mod kl;
mod laplace;
mod log_uniform;
pub(crate) mod log_uniform_kl;
mod low_rank;
mod multivariate;
mod normal;
mod scale_mixture;
mod student_t;

pub use bernoulli::Bernoulli;
pub use categorical::Categorical;
pub use laplace::Laplace;
pub use log_uniform::LogUniform;
pub use log_uniform_kl::{log_uniform_kl, log_uniform_kl_slope};
pub use low_rank::LowRankNormal;
pub use multivariate::MultivariateNormal;
pub use normal::{DiagonalNormal, Normal};
pub use scale_mixture::ScaleMixture;
pub use student_t::StudentT;

use crate::error::{Error, Result};
use crate::rng::{Key, Stream};

pub(crate) use crate::math::special::HALF_LN_TAU;

/// A distribution of one number.
pub trait Distribution {
    /// log p(x), with its normalising constant; −∞ where there is no mass. For discrete distributions, the log mass.
    fn log_density(&self, x: f64) -> f64;
    /// One draw.
    fn sample(&self, stream: &mut Stream) -> f64;
    /// E X; NaN where it does not exist.
    fn mean(&self) -> f64;
    /// Var X; ∞ where it is, NaN where the mean does not exist.
    fn variance(&self) -> f64;
    /// P[X ≤ x].
    fn cdf(&self, x: f64) -> f64;
}

/// A distribution of one number whose density is differentiable almost everywhere.
pub trait Continuous: Distribution {
    /// d/dx log p(x). At a kink, a value between the two one-sided ones.
    fn d_log_density(&self, x: f64) -> f64;
}

/// A distribution of a vector.
///
/// Slices of another length than [`dim`](MultiDistribution::dim) are a mistake of the caller: the methods panic.
pub trait MultiDistribution {
    /// How many numbers a draw has.
    fn dim(&self) -> usize;
    /// log p(x), with its normalising constant.
    fn log_density(&self, x: &[f64]) -> f64;
    /// One draw into `out`.
    fn sample(&self, stream: &mut Stream, out: &mut [f64]);
    /// One draw into `out` that depends on the key alone; normal distributions fill it in SIMD.
    fn sample_keyed(&self, key: Key, out: &mut [f64]) {
        self.sample(&mut Stream::new(key), out);
    }
}

/// A parameter that has to be positive and finite.
fn positive(what: &str, value: f64) -> Result<f64> {
    if value > 0.0 && value.is_finite() {
        return Ok(value);
    }
    Err(Error::setting(format!("the {what} is {value}"), "it has to be positive and finite"))
}

/// A parameter that has to be finite.
fn finite(what: &str, value: f64) -> Result<f64> {
    if value.is_finite() {
        return Ok(value);
    }
    Err(Error::setting(format!("the {what} is {value}"), "it has to be a finite number"))
}

/// A parameter that has to be a probability.
fn probability(what: &str, value: f64) -> Result<f64> {
    if (0.0..=1.0).contains(&value) {
        return Ok(value);
    }
    Err(Error::setting(format!("the {what} is {value}"), "it has to lie between 0 and 1"))
}

/// A finite vector, at most so many numbers as it should have.
fn finite_vector(what: &str, values: &[f64]) -> Result<()> {
    match values.iter().position(|v| !v.is_finite()) {
        None => Ok(()),
        Some(i) => finite(&format!("{what} at place {}", i + 1), values[i]).map(|_| ()),
    }
}

/// A length that has to fit another one.
fn same_length(what: &str, got: usize, expected: usize) -> Result<()> {
    if got == expected {
        return Ok(());
    }
    Err(Error::setting(format!("the {what} has {got} numbers"), format!("{expected} are needed")))
}

#[cfg(test)]
pub(crate) mod testing {
    //! One suite for every continuous distribution of one number.

    use super::*;
    use crate::rng::Purpose;
    use posterior_testing::{expect_gradient, expect_ks, z_mean, z_variance};

    pub fn draws(d: &dyn Distribution, seed: u64, n: usize) -> Vec<f64> {
        let mut stream = Stream::new(Key::new(seed).purpose(Purpose::Estimate));
        (0..n).map(|_| d.sample(&mut stream)).collect()
    }

    /// ∫ₐᵇ f by Gauss–Legendre with five nodes in each of `pieces` pieces.
    pub fn integrate(f: impl Fn(f64) -> f64, a: f64, b: f64, pieces: usize) -> f64 {
        const NODES: [f64; 5] =
            [-0.906_179_845_938_664, -0.538_469_310_105_683_1, 0.0, 0.538_469_310_105_683_1, 0.906_179_845_938_664];
        const WEIGHTS: [f64; 5] = [
            0.236_926_885_056_189_1,
            0.478_628_670_499_366_5,
            0.568_888_888_888_888_9,
            0.478_628_670_499_366_5,
            0.236_926_885_056_189_1,
        ];
        let h = (b - a) / pieces as f64;
        (0..pieces)
            .map(|k| {
                let middle = a + (k as f64 + 0.5) * h;
                0.5 * h * (0..5).map(|i| WEIGHTS[i] * f(middle + 0.5 * h * NODES[i])).sum::<f64>()
            })
            .sum()
    }

    /// Density against cdf by quadrature between neighbouring `knots` (kinks have to be knots), derivative by finite
    /// differences between them, total mass, draws against cdf (n = 100 000).
    #[track_caller]
    pub fn conforms(d: &dyn Continuous, knots: &[f64], seed: u64) {
        for pair in knots.windows(2) {
            let mass = integrate(|x| d.log_density(x).exp(), pair[0], pair[1], 400);
            let exact = d.cdf(pair[1]) - d.cdf(pair[0]);
            // Quadrature of order 10 with 400 pieces is exact to rounding on the knots used here.
            assert!((mass - exact).abs() < 1e-10, "mass on {pair:?}: {mass} by density, {exact} by cdf");
            for t in [0.1, 0.37, 0.8] {
                let x = pair[0] + t * (pair[1] - pair[0]);
                if (x - pair[0]).min(pair[1] - x) > 2e-3 * x.abs().max(1.0) {
                    expect_gradient(|x| (d.log_density(x[0]), vec![d.d_log_density(x[0])]), &[x], 1e-8);
                }
            }
        }
        assert_eq!((d.cdf(f64::NEG_INFINITY), d.cdf(f64::INFINITY)), (0.0, 1.0));
        assert_eq!(d.log_density(f64::INFINITY), f64::NEG_INFINITY);
        assert!(d.log_density(f64::NAN).is_nan() && d.cdf(f64::NAN).is_nan());
        expect_ks(&mut draws(d, seed, 100_000), |x| d.cdf(x));
    }

    /// Mean and variance of 100 000 draws within five standard errors.
    #[track_caller]
    pub fn moments_agree(d: &dyn Distribution, seed: u64) {
        let x = draws(d, seed, 100_000);
        let (m, v) = (z_mean(&x, d.mean()), z_variance(&x, d.variance()));
        assert!(m.abs() < 5.0 && v.abs() < 5.0, "z of the mean {m:.2}, of the variance {v:.2}");
    }

    /// Every mean, variance and product of two coordinates of 20 000 draws within five standard errors.
    #[track_caller]
    pub fn draws_agree(d: &dyn MultiDistribution, mean: &[f64], covariance: &[f64], keyed: bool) {
        let (n, m) = (d.dim(), 20_000);
        let mut stream = Stream::new(Key::new(70));
        let mut x = vec![vec![0.0; m]; n];
        let mut out = vec![0.0; n];
        for k in 0..m {
            if keyed {
                d.sample_keyed(Key::new(71).step(k as u64), &mut out)
            } else {
                d.sample(&mut stream, &mut out)
            }
            (0..n).for_each(|i| x[i][k] = out[i]);
        }
        for i in 0..n {
            let z = (z_mean(&x[i], mean[i]), z_variance(&x[i], covariance[i * n + i]));
            assert!(z.0.abs() < 5.0 && z.1.abs() < 5.0, "coordinate {i}: {z:?}");
            for j in 0..i {
                let product: Vec<f64> = (0..m).map(|k| (x[i][k] - mean[i]) * (x[j][k] - mean[j])).collect();
                let z = z_mean(&product, covariance[i * n + j]);
                assert!(z.abs() < 5.0, "product of {i} and {j}: {z}");
            }
        }
    }

    /// −∫ p ln p over the knots.
    pub fn entropy_by_quadrature(d: &dyn Distribution, knots: &[f64]) -> f64 {
        let f = |x: f64| {
            let l = d.log_density(x);
            -l * l.exp()
        };
        knots.windows(2).map(|p| integrate(f, p[0], p[1], 2000)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_parameters_are_one_sentence() {
        let e = Normal::new(0.0, -1.0).unwrap_err().to_string();
        assert_eq!(e, "the standard deviation is -1; it has to be positive and finite");
        let bad = [
            Normal::new(f64::NAN, 1.0).err(),
            Normal::new(0.0, 0.0).err(),
            DiagonalNormal::new(vec![0.0], vec![1.0, 1.0]).err(),
            DiagonalNormal::new(vec![0.0], vec![f64::NAN]).err(),
            MultivariateNormal::new(vec![0.0], &[1.0, 2.0]).err(),
            MultivariateNormal::new(vec![0.0; 2], &[1.0, 2.0, 2.0, 1.0]).err(),
            LowRankNormal::new(vec![0.0], vec![-1.0], vec![1.0], 1).err(),
            LowRankNormal::new(vec![0.0], vec![1.0], vec![1.0], 2).err(),
            Categorical::from_probabilities(&[0.5, 0.6]).err(),
            Categorical::from_probabilities(&[1.5, -0.5]).err(),
            Categorical::from_probabilities(&[]).err(),
            Categorical::from_logits(&[f64::NEG_INFINITY]).err(),
            Categorical::from_logits(&[f64::NAN, 0.0]).err(),
            Categorical::from_logits(&[f64::INFINITY, 0.0]).err(),
            Bernoulli::new(1.1).err(),
            Bernoulli::from_logit(f64::NAN).err(),
            Laplace::new(0.0, f64::INFINITY).err(),
            StudentT::new(0.0, 0.0, 1.0).err(),
            StudentT::new(3.0, 0.0, f64::NAN).err(),
            ScaleMixture::new(-0.1, 1.0, 1.0).err(),
            ScaleMixture::new(0.5, 1.0, 0.0).err(),
            LogUniform::new(1.0, 1.0).err(),
            LogUniform::new(0.0, 1.0).err(),
        ];
        for (i, e) in bad.into_iter().enumerate() {
            let message = e.unwrap_or_else(|| panic!("case {i} was accepted")).to_string();
            assert!(message.matches("; ").count() == 1 && !message.ends_with('.'), "{message}");
        }
    }
}
