//! Tests of samples: moments with their standard errors, Kolmogorov–Smirnov, χ², correlation.
//!
//! z = (estimate − expected) / standard error is about N(0, 1) when the code is right: |z| < 5 fails by chance once in
//! two million. D = sup |Fₙ(x) − F(x)| has the critical value √(−½ ln(α/2)) / (√n + 0.12 + 0.11/√n).
//!
//! Reference: Stephens (1970), JRSS B 32 (Kolmogorov–Smirnov); Wilson & Hilferty (1931), PNAS 17 (χ²).

/// The chance with which the tests here reject right code.
pub const ALPHA: f64 = 1e-6;

/// The first four moments of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    /// How many numbers.
    pub count: usize,
    /// Mean.
    pub mean: f64,
    /// Variance, over n − 1.
    pub variance: f64,
    /// Third standardised moment; 0 for a normal.
    pub skewness: f64,
    /// Fourth standardised moment minus 3; 0 for a normal.
    pub excess_kurtosis: f64,
}

/// The first four moments. NaN where there are too few numbers.
pub fn moments(samples: &[f64]) -> Moments {
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    let (mut m2, mut m3, mut m4) = (0.0, 0.0, 0.0);
    for x in samples {
        let d = x - mean;
        m2 += d * d;
        m3 += d * d * d;
        m4 += d * d * d * d;
    }
    let v = m2 / n;
    Moments {
        count: samples.len(),
        mean,
        variance: m2 / (n - 1.0),
        skewness: m3 / n / v.powf(1.5),
        excess_kurtosis: m4 / n / (v * v) - 3.0,
    }
}

/// (mean − expected) / standard error of the mean.
pub fn z_mean(samples: &[f64], expected: f64) -> f64 {
    let m = moments(samples);
    (m.mean - expected) / (m.variance / m.count as f64).sqrt()
}

/// (variance − expected) / standard error of the variance, √((m₄ − s⁴)/n). The fourth moment has to exist.
pub fn z_variance(samples: &[f64], expected: f64) -> f64 {
    let m = moments(samples);
    (m.variance - expected) / (m.variance * ((m.excess_kurtosis + 2.0) / m.count as f64).sqrt())
}

/// Pearson's correlation. For independent samples r·√n is about N(0, 1).
///
/// # Panics
/// If the samples have different lengths.
pub fn correlation(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len(), "pairs are correlated");
    let n = a.len() as f64;
    let (ma, mb) = (a.iter().sum::<f64>() / n, b.iter().sum::<f64>() / n);
    let (mut ab, mut aa, mut bb) = (0.0, 0.0, 0.0);
    for (x, y) in a.iter().zip(b) {
        ab += (x - ma) * (y - mb);
        aa += (x - ma) * (x - ma);
        bb += (y - mb) * (y - mb);
    }
    ab / (aa * bb).sqrt()
}

/// sup |Fₙ − F| of samples in ascending order.
pub fn ks_statistic(sorted: &[f64], cdf: impl Fn(f64) -> f64) -> f64 {
    debug_assert!(sorted.is_sorted(), "the samples are in ascending order");
    let n = sorted.len() as f64;
    sorted.iter().enumerate().fold(0.0, |worst: f64, (i, x)| {
        let f = cdf(*x);
        // A NaN of the cdf fails the test.
        if f.is_nan() { f64::INFINITY } else { worst.max(f - i as f64 / n).max((i + 1) as f64 / n - f) }
    })
}

/// What [`ks_statistic`] of n right samples exceeds with chance `alpha`.
pub fn ks_critical(n: usize, alpha: f64) -> f64 {
    let root = (n as f64).sqrt();
    (-0.5 * (0.5 * alpha).ln()).sqrt() / (root + 0.12 + 0.11 / root)
}

/// Sorts the samples and tests them against the cdf at [`ALPHA`].
///
/// # Panics
/// If they do not come from it.
#[track_caller]
pub fn expect_ks(samples: &mut [f64], cdf: impl Fn(f64) -> f64) {
    samples.sort_by(f64::total_cmp);
    let (d, critical) = (ks_statistic(samples, cdf), ks_critical(samples.len(), ALPHA));
    assert!(d < critical, "Kolmogorov–Smirnov: D = {d:.5} > {critical:.5} with n = {}", samples.len());
}

/// Pearson's χ² = Σ (count − expected)² / expected.
///
/// # Panics
/// If there are not as many expectations as counts.
pub fn chi_square(counts: &[u64], expected: &[f64]) -> f64 {
    assert_eq!(counts.len(), expected.len(), "one expectation per cell");
    counts.iter().zip(expected).map(|(c, e)| (*c as f64 - e).powi(2) / e).sum()
}

/// What χ² with `degrees` degrees of freedom exceeds with chance [`ALPHA`] (Wilson–Hilferty: 4.5 % too
/// large at 5 degrees, 1 % at 23).
pub fn chi_square_critical(degrees: usize) -> f64 {
    const Z: f64 = 4.753_424; // upper 1e-6 quantile of N(0, 1)
    let k = degrees as f64;
    k * (1.0 - 2.0 / (9.0 * k) + Z * (2.0 / (9.0 * k)).sqrt()).powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uniforms on (0, 1) by SplitMix64.
    fn uniforms(seed: u64, n: usize) -> Vec<f64> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            ((z ^ (z >> 31)) >> 12) as f64 / (1u64 << 52) as f64
        };
        (0..n).map(|_| next()).collect()
    }

    #[test]
    fn moments_of_four_numbers() {
        // By hand: mean 2, Σd² = 1+1+1+9, Σd³ = −3+27 = 24, Σd⁴ = 84.
        let m = moments(&[1.0, 1.0, 1.0, 5.0]);
        assert_eq!((m.count, m.mean, m.variance), (4, 2.0, 4.0));
        assert!((m.skewness - 6.0 / 27f64.sqrt()).abs() < 1e-15);
        assert!((m.excess_kurtosis - (21.0 / 9.0 - 3.0)).abs() < 1e-15);
    }

    #[test]
    fn right_uniforms_pass_and_planted_errors_fail() {
        let mut u = uniforms(1, 100_000);
        assert!(z_mean(&u, 0.5).abs() < 5.0 && z_mean(&u, 0.51).abs() > 5.0);
        assert!(z_variance(&u, 1.0 / 12.0).abs() < 5.0 && z_variance(&u, 1.05 / 12.0).abs() > 5.0);
        expect_ks(&mut u, |x| x);
        // The cdf x^1.05 lies at most 0.018 away; the critical value is 0.0085.
        assert!(ks_statistic(&u, |x| x.powf(1.05)) > ks_critical(u.len(), ALPHA));
        assert_eq!(ks_statistic(&u, |_| f64::NAN), f64::INFINITY);
    }

    #[test]
    #[should_panic(expected = "Kolmogorov")]
    fn squares_are_not_uniform() {
        let mut u: Vec<f64> = uniforms(2, 1000).iter().map(|x| x * x).collect();
        expect_ks(&mut u, |x| x);
    }

    #[test]
    fn correlation_sees_a_shared_part() {
        let (a, b) = (uniforms(3, 100_000), uniforms(4, 100_000));
        let root = (a.len() as f64).sqrt();
        assert!(correlation(&a, &b).abs() * root < 5.0);
        // 3 % of a in b: r ≈ 0.03, r√n ≈ 9.5.
        let c: Vec<f64> = a.iter().zip(&b).map(|(x, y)| 0.03 * x + y).collect();
        assert!(correlation(&a, &c).abs() * root > 5.0);
        assert!((correlation(&a, &a) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn chi_square_sees_a_loaded_die() {
        let roll = |loaded: f64| {
            let mut counts = [0u64; 6];
            for x in uniforms(5, 60_000) {
                let face = if x < loaded { 5 } else { ((x - loaded) / (1.0 - loaded) * 6.0) as usize };
                counts[face] += 1;
            }
            chi_square(&counts, &[10_000.0; 6])
        };
        assert!(roll(0.0) < chi_square_critical(5));
        assert!(roll(0.02) > chi_square_critical(5));
        // Exact quantiles by mpmath; the approximation errs on the side of passing.
        for (degrees, exact, error) in [(5, 35.888, 0.05), (23, 70.550, 0.012)] {
            let ratio = chi_square_critical(degrees) / exact;
            assert!((1.0..1.0 + error).contains(&ratio), "{degrees}: {ratio}");
        }
    }
}
