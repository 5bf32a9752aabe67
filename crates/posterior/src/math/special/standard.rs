//! Standard symmetric distributions, the normal and Student's t, fast enough for millions of evaluations: distribution function and density of
//! the components of a location–scale mixture, in SIMD.
//!
//! With t = |z| and k(t) = (1 + t²/ν)^{−(ν−1)/2} (e^{−t²/2} for the normal), the tail is P(Z > t) = k(t)·g(t)/(t + a), and g is smooth and bounded for every ν
//! up to the normal: a polynomial in 1/(t + a), interpolated at Chebyshev points from the exact tail once per ν (Schonfelder 1978, Math. Comp. 32, for erfc).
//! ν = 4 needs no polynomial: with c = 4/(4 + t²) and s = t√c/2, P(Z > t) = c²(2 + s)/(4(1 + s)²). Relative error of the smaller tail: below 1e-12 for
//! probabilities down to 1e-280, tested against 40-digit values. One exponential, one division and a polynomial of degree 23 for the normal; a logarithm, two more
//! divisions and degree 33 for Student's t; three divisions and a root at ν = 4.

use super::{beta_inc_pair, ln_gamma, normal_cdf};
use crate::math::Real;
use crate::simd_fn;
use std::f64::consts::PI;
use std::sync::LazyLock;

/// ln of 1/k(t) at the largest t: below, a tail counts as 0.
const DEEPEST: f64 = 650.0;
/// The largest t whatever ν: its square is far from overflow.
const FARTHEST: f64 = 1e100;

/// The interpolant of g, highest power first, as a polynomial in x = offset + slope/(t + shift), −1 ≤ x ≤ 1.
#[derive(Debug, Clone)]
struct Tail<const N: usize> {
    coefficients: [f64; N],
    shift: f64,
    offset: f64,
    slope: f64,
    farthest: f64,
}

impl<const N: usize> Tail<N> {
    /// `g` at any t up to `farthest`.
    fn new(shift: f64, farthest: f64, g: impl Fn(f64) -> f64) -> Tail<N> {
        // x = 1 at t = 0, x = −1 at the farthest t, linear in q = 1/(t + shift).
        let (first, last) = (1.0 / shift, 1.0 / (farthest + shift));
        let (middle, half) = (0.5 * (first + last), 0.5 * (first - last));
        let angle = |j: usize| PI * (2 * j + 1) as f64 / (2 * N) as f64;
        let value = |j: usize| g((1.0 / (middle + half * angle(j).cos()) - shift).clamp(0.0, farthest));
        let values: Vec<f64> = (0..N).map(value).collect();
        let chebyshev: Vec<f64> = (0..N)
            .map(|k| {
                let sum: f64 = values.iter().enumerate().map(|(j, v)| v * (k as f64 * angle(j)).cos()).sum();
                sum * if k == 0 { 1.0 } else { 2.0 } / N as f64
            })
            .collect();
        // Powers of x from Chebyshev polynomials, T_{k+1} = 2x T_k − T_{k−1}. The coefficients fall at least as fast as 2.4⁻ᵏ, and those of T_k grow as 2.4ᵏ.
        let (mut before, mut now, mut powers) = ([0.0; N], [0.0; N], [0.0; N]);
        now[0] = 1.0;
        for (k, c) in chebyshev.iter().enumerate() {
            powers.iter_mut().zip(&now).for_each(|(p, t)| *p += c * t);
            let mut next = [0.0; N];
            for i in 0..N {
                next[i] = if i > 0 { now[i - 1] * if k == 0 { 1.0 } else { 2.0 } } else { 0.0 } - before[i];
            }
            (before, now) = (now, next);
        }
        powers.reverse();
        Tail { coefficients: powers, shift, offset: -middle / half, slope: 1.0 / half, farthest }
    }

    /// g(t)/(t + shift)
    #[inline(always)]
    fn at<const F: bool>(&self, t: f64) -> f64 {
        let q = 1.0 / (t + self.shift);
        let x = Real::mul_add::<F>(self.slope, q, self.offset);
        let mut g = self.coefficients[0];
        for c in &self.coefficients[1..] {
            g = Real::mul_add::<F>(g, x, *c);
        }
        g * q
    }
}

/// Distribution function and density at z, and r(z) in (ln density)′ = −r z.
#[derive(Clone, Copy)]
struct At {
    cdf: f64,
    density: f64,
    pull: f64,
}

trait Shape {
    fn at<const F: bool>(&self, z: f64) -> At;
}

#[inline(always)]
fn from_tail(tail: f64, z: f64) -> f64 {
    if z < 0.0 { tail } else { 1.0 - tail }
}

/// The normal distribution.
#[derive(Debug, Clone)]
struct Normal(Tail<24>);

impl Shape for Normal {
    #[inline(always)]
    fn at<const F: bool>(&self, z: f64) -> At {
        let t = Real::min(Real::abs(z), self.0.farthest);
        let k = Real::exp::<F>(-0.5 * t * t);
        let density = if Real::abs(z) > t { 0.0 } else { k * 0.398_942_280_401_432_68 };
        At { cdf: from_tail(k * self.0.at::<F>(t), z), density, pull: 1.0 }
    }
}

/// Student's t with four degrees of freedom.
#[derive(Debug, Clone)]
struct Four;

impl Shape for Four {
    #[inline(always)]
    fn at<const F: bool>(&self, z: f64) -> At {
        let t = Real::min(Real::abs(z), 1e70);
        let c = 4.0 / Real::mul_add::<F>(t, t, 4.0);
        let root = Real::sqrt(c);
        let s = 0.5 * t * root;
        let square = c * c;
        let tail = 0.25 * square * (2.0 + s) / ((1.0 + s) * (1.0 + s));
        At { cdf: from_tail(tail, z), density: 0.375 * square * root, pull: 1.25 * c }
    }
}

/// Student's t.
#[derive(Debug, Clone)]
struct Student {
    tail: Tail<34>,
    inverse_degrees: f64,
    /// (ν − 1)/2
    half: f64,
    /// The density at 0.
    peak: f64,
}

impl Shape for Student {
    #[inline(always)]
    fn at<const F: bool>(&self, z: f64) -> At {
        let t = Real::min(Real::abs(z), self.tail.farthest);
        let square = t * t;
        // ln(1 + x), with the digits that 1 + x loses put back.
        let x = square * self.inverse_degrees;
        let u = 1.0 + x;
        let c = 1.0 / u;
        let log = u.ln_positive::<F>() - ((u - 1.0) - x) * c;
        let k = Real::exp::<F>(-self.half * log);
        At {
            cdf: from_tail(k * self.tail.at::<F>(t), z),
            density: if Real::abs(z) > t { 0.0 } else { self.peak * k * c },
            pull: (1.0 + self.inverse_degrees) * c,
        }
    }
}

/// ln of the density of Student's t at 0: ln Γ((ν+1)/2) − ln Γ(ν/2) − ½ ln πν.
pub(crate) fn ln_student_constant(degrees: f64) -> f64 {
    let a = 0.5 * degrees;
    let ratio = if a > 100.0 {
        // The two lnΓ agree in their leading digits; the next term of the series, 1/640a⁵, is below 2e-13.
        0.5 * a.ln() - (0.125 - 1.0 / (192.0 * a * a)) / a
    } else {
        ln_gamma(a + 0.5) - ln_gamma(a)
    };
    ratio - 0.5 * (PI * degrees).ln()
}

/// P(T > t) of Student's t for t ≥ 0: ½ I_{ν/(ν+t²)}(ν/2, ½).
pub(crate) fn student_tail(t: f64, degrees: f64) -> f64 {
    let square = t * t;
    if degrees > 1e6 {
        // A sharper normal approximation (Hill 1970); the beta function below has lost its digits here.
        let a = degrees - 0.5;
        let s = a * (square / degrees).ln_1p();
        return normal_cdf(-s.sqrt() * (1.0 + (s + 3.0) / (48.0 * a * a)));
    }
    if square.is_infinite() {
        return 0.0;
    }
    let both = degrees + square;
    0.5 * beta_inc_pair(0.5 * degrees, 0.5, degrees / both, square / both)
}

#[derive(Debug, Clone)]
enum Kind {
    Normal(Box<Normal>),
    Four(Four),
    Student(Box<Student>),
}

/// A standard symmetric distribution, the normal or Student's t, ready for many evaluations.
#[derive(Debug, Clone)]
pub struct Standard {
    kind: Kind,
    /// ν; infinite for the normal.
    degrees: f64,
}

static NORMAL: LazyLock<Standard> = LazyLock::new(|| {
    let farthest = (2.0 * DEEPEST).sqrt();
    let g = |t: f64| normal_cdf(-t) * (t + 4.0) * (0.5 * t * t).exp();
    Standard { kind: Kind::Normal(Box::new(Normal(Tail::new(4.0, farthest, g)))), degrees: f64::INFINITY }
});

impl Standard {
    /// N(0, 1).
    pub(crate) fn normal() -> &'static Standard {
        &NORMAL
    }

    /// Student's t with ν > 2.
    pub(crate) fn student(degrees: f64) -> Standard {
        if degrees == 4.0 {
            return Standard { kind: Kind::Four(Four), degrees };
        }
        let half = 0.5 * (degrees - 1.0);
        let farthest = (degrees * (DEEPEST / half).exp_m1()).sqrt().min(FARTHEST);
        // Where the interpolant converges fastest, found by trying 1 … 5 at several ν.
        let shift = match degrees {
            v if v < 3.5 => 2.0,
            v if v < 20.0 => 3.0,
            _ => 4.0,
        };
        let g = |t: f64| student_tail(t, degrees) * (t + shift) * (half * (t * t / degrees).ln_1p()).exp();
        let student = Student {
            tail: Tail::new(shift, farthest, g),
            inverse_degrees: 1.0 / degrees,
            half,
            peak: ln_student_constant(degrees).exp(),
        };
        Standard { kind: Kind::Student(Box::new(student)), degrees }
    }

    /// ν/(ν − 2), or 1.
    pub(crate) fn variance(&self) -> f64 {
        if self.degrees.is_infinite() { 1.0 } else { self.degrees / (self.degrees - 2.0) }
    }

    /// ν; infinite for the normal.
    pub(crate) fn degrees(&self) -> f64 {
        self.degrees
    }

    /// Distribution function and density at one place.
    pub(crate) fn at(&self, z: f64) -> (f64, f64) {
        let at = match &self.kind {
            Kind::Normal(normal) => normal.at::<false>(z),
            Kind::Four(four) => four.at::<false>(z),
            Kind::Student(student) => student.at::<false>(z),
        };
        (at.cdf, at.density)
    }

    /// Sums over the components of a mixture, at y; of its mirror image at −y where `sign` is −1, so that the upper tail is as exact as the lower one.
    pub(crate) fn sums(&self, parts: Parts<'_>, y: f64, sign: f64, scratch: &mut Scratch) -> Sums {
        let terms = scratch.of(parts.mean.len());
        match &self.kind {
            Kind::Normal(normal) => normal_terms(normal, parts, y, sign, terms),
            Kind::Four(four) => four_terms(four, parts, y, sign, terms),
            Kind::Student(student) => student_terms(student, parts, y, sign, terms),
        }
    }

    /// Σᵢ wᵢ E|mᵢ + σᵢ Z − y|, with E|Z − z| = z (2 F(z) − 1) + 2 (ν + z²)/(ν − 1) density(z).
    pub(crate) fn mean_distance(&self, parts: Parts<'_>, y: f64, scratch: &mut Scratch) -> f64 {
        let terms = scratch.of(parts.mean.len());
        let inverse = 1.0 / self.degrees;
        let per_density = [2.0 / (1.0 - inverse), inverse];
        match &self.kind {
            Kind::Normal(normal) => normal_distances(normal, parts, y, per_density, terms),
            Kind::Four(four) => four_distances(four, parts, y, per_density, terms),
            Kind::Student(student) => student_distances(student, parts, y, per_density, terms),
        }
    }

    /// Σᵢ wᵢ P(mᵢ + σᵢ Z ≤ y).
    pub(crate) fn cdf(&self, parts: Parts<'_>, y: f64, scratch: &mut Scratch) -> f64 {
        let terms = scratch.of(parts.mean.len());
        match &self.kind {
            Kind::Normal(normal) => normal_cdfs(normal, parts, y, terms),
            Kind::Four(four) => four_cdfs(four, parts, y, terms),
            Kind::Student(student) => student_cdfs(student, parts, y, terms),
        }
    }
}

/// The components of a mixture, mᵢ + σᵢ Z with weight wᵢ: slices of one length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub mean: &'a [f64],
    /// 1/σᵢ
    pub inverse: &'a [f64],
    pub weight: &'a [f64],
}

/// Room for one term per component.
#[derive(Debug, Default)]
pub(crate) struct Scratch(Vec<f64>);

impl Scratch {
    fn of(&mut self, n: usize) -> &mut [f64] {
        if self.0.len() < 4 * n {
            self.0.resize(4 * n, 0.0);
        }
        &mut self.0[..4 * n]
    }
}

/// What a search for a quantile needs to know of the mixture at a place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sums {
    /// F
    pub cdf: f64,
    /// F′
    pub density: f64,
    /// F″
    pub slope: f64,
    /// At least |F‴|
    pub curvature: f64,
}

/// Eight lanes, so that sums are SIMD code in an order that no machine changes.
#[inline(always)]
fn total(terms: &[f64]) -> f64 {
    let mut lanes = [0.0; 8];
    let (chunks, rest) = terms.as_chunks::<8>();
    for chunk in chunks {
        for l in 0..8 {
            lanes[l] += chunk[l];
        }
    }
    lanes.iter().sum::<f64>() + rest.iter().sum::<f64>()
}

#[inline(always)]
fn sums<S: Shape, const F: bool>(shape: &S, parts: Parts<'_>, y: f64, sign: f64, terms: &mut [f64]) -> Sums {
    let n = parts.mean.len();
    let (cdfs, rest) = terms.split_at_mut(n);
    let (densities, rest) = rest.split_at_mut(n);
    let (slopes, curvatures) = rest.split_at_mut(n);
    let (inverse, weight, curvatures) = (&parts.inverse[..n], &parts.weight[..n], &mut curvatures[..n]);
    for i in 0..n {
        // Within the square root of the largest number, so that 0 · z² is 0.
        let z = Real::max(Real::min(sign * (y - parts.mean[i]) * inverse[i], FARTHEST), -FARTHEST);
        let At { cdf, density, pull } = shape.at::<F>(z);
        let (weighted, pulled) = (weight[i] * density * inverse[i], pull * z);
        cdfs[i] = weight[i] * cdf;
        densities[i] = weighted;
        slopes[i] = -weighted * pulled * inverse[i];
        // |density″| ≤ density (r + 2 (r z)²) for both distributions.
        curvatures[i] = weighted * (inverse[i] * inverse[i]) * (pull + 2.0 * pulled * pulled);
    }
    Sums { cdf: total(cdfs), density: total(densities), slope: total(slopes), curvature: total(curvatures) }
}

#[inline(always)]
fn cdfs<S: Shape, const F: bool>(shape: &S, parts: Parts<'_>, y: f64, terms: &mut [f64]) -> f64 {
    let n = parts.mean.len();
    let (inverse, weight, terms) = (&parts.inverse[..n], &parts.weight[..n], &mut terms[..n]);
    for i in 0..n {
        terms[i] = weight[i] * shape.at::<F>((y - parts.mean[i]) * inverse[i]).cdf;
    }
    total(terms)
}

#[inline(always)]
fn distances<S: Shape, const F: bool>(
    shape: &S,
    parts: Parts<'_>,
    y: f64,
    per_density: [f64; 2],
    terms: &mut [f64],
) -> f64 {
    let n = parts.mean.len();
    let (inverse, weight, terms) = (&parts.inverse[..n], &parts.weight[..n], &mut terms[..n]);
    for i in 0..n {
        let gap = y - parts.mean[i];
        let z = Real::max(Real::min(gap * inverse[i], FARTHEST), -FARTHEST);
        let at = shape.at::<F>(z);
        let near = per_density[0] * at.density * Real::mul_add::<F>(z * z, per_density[1], 1.0) / inverse[i];
        terms[i] = weight[i] * Real::mul_add::<F>(gap, 2.0 * at.cdf - 1.0, near);
    }
    total(terms)
}

simd_fn! {
    wider fn normal_terms(shape: &Normal, parts: Parts<'_>, y: f64, sign: f64, terms: &mut [f64]) -> Sums {
        sums::<Normal, F>(shape, parts, y, sign, terms)
    }
}
simd_fn! {
    wider fn four_terms(shape: &Four, parts: Parts<'_>, y: f64, sign: f64, terms: &mut [f64]) -> Sums {
        sums::<Four, F>(shape, parts, y, sign, terms)
    }
}
simd_fn! {
    wider fn student_terms(shape: &Student, parts: Parts<'_>, y: f64, sign: f64, terms: &mut [f64]) -> Sums {
        sums::<Student, F>(shape, parts, y, sign, terms)
    }
}
simd_fn! {
    wider fn normal_cdfs(shape: &Normal, parts: Parts<'_>, y: f64, terms: &mut [f64]) -> f64 {
        cdfs::<Normal, F>(shape, parts, y, terms)
    }
}
simd_fn! {
    wider fn four_cdfs(shape: &Four, parts: Parts<'_>, y: f64, terms: &mut [f64]) -> f64 {
        cdfs::<Four, F>(shape, parts, y, terms)
    }
}
simd_fn! {
    wider fn student_cdfs(shape: &Student, parts: Parts<'_>, y: f64, terms: &mut [f64]) -> f64 {
        cdfs::<Student, F>(shape, parts, y, terms)
    }
}
simd_fn! {
    wider fn normal_distances(shape: &Normal, parts: Parts<'_>, y: f64, per_density: [f64; 2], terms: &mut [f64]) -> f64 {
        distances::<Normal, F>(shape, parts, y, per_density, terms)
    }
}
simd_fn! {
    wider fn four_distances(shape: &Four, parts: Parts<'_>, y: f64, per_density: [f64; 2], terms: &mut [f64]) -> f64 {
        distances::<Four, F>(shape, parts, y, per_density, terms)
    }
}
simd_fn! {
    wider fn student_distances(shape: &Student, parts: Parts<'_>, y: f64, per_density: [f64; 2], terms: &mut [f64]) -> f64 {
        distances::<Student, F>(shape, parts, y, per_density, terms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standard(degrees: f64) -> Standard {
        if degrees.is_infinite() { Standard::normal().clone() } else { Standard::student(degrees) }
    }

    /// ν, t, P(Z > t): mpmath 1.3 with 60 digits, `betainc(nu/2, 0.5, 0, nu/(nu + t*t), regularized=True)/2` and `erfc(t/sqrt(2))/2`.
    const TAILS: &[(f64, f64, f64)] = &[
        (f64::INFINITY, 0.0, 0.5),
        (f64::INFINITY, 0.1, 0.460172162722971016),
        (f64::INFINITY, 0.9, 0.184060125346759483),
        (f64::INFINITY, 2.5, 0.00620966532577613517),
        (f64::INFINITY, 7.0, 1.279812543885835e-12),
        (f64::INFINITY, 30.0, 4.90671392714818706e-198),
        (2.01, 0.0, 0.5),
        (2.01, 0.1, 0.464712610192284476),
        (2.01, 0.9, 0.231349263426827044),
        (2.01, 2.5, 0.0644976878584254629),
        (2.01, 7.0, 0.00977180774856161032),
        (2.01, 30.0, 0.000539597745672265222),
        (2.01, 1000.0, 4.69693045742613652e-7),
        (2.5, 0.0, 0.5),
        (2.5, 0.1, 0.463903272031244788),
        (2.5, 0.9, 0.223131976856420899),
        (2.5, 2.5, 0.0522849815390776936),
        (2.5, 7.0, 0.005286184763795705),
        (2.5, 30.0, 0.000145532354578697713),
        (2.5, 1000.0, 2.27474639483074519e-8),
        (3.0, 0.0, 0.5),
        (3.0, 0.1, 0.463326174400402912),
        (3.0, 0.9, 0.217225516209018533),
        (3.0, 2.5, 0.0438533235040327736),
        (3.0, 7.0, 0.00299312784885354945),
        (3.0, 30.0, 0.0000406764021358197973),
        (3.0, 1000.0, 1.10265382128829635e-9),
        (4.0, 0.0, 0.5),
        (4.0, 0.1, 0.462577920469726641),
        (4.0, 0.9, 0.209502759604042245),
        (4.0, 2.5, 0.0333832724059940725),
        (4.0, 7.0, 0.0010960649033464695),
        (4.0, 30.0, 3.67642804883066106e-6),
        (4.0, 1000.0, 2.9999800001049995e-12),
        (7.5, 0.0, 0.5),
        (7.5, 0.1, 0.46148266603389509),
        (7.5, 0.9, 0.198048762430722111),
        (7.5, 2.5, 0.0194101291368127786),
        (7.5, 7.0, 0.0000766273537958968161),
        (7.5, 30.0, 2.18736670505182103e-9),
        (7.5, 1000.0, 8.51949365193728912e-21),
        (30.0, 0.0, 0.5),
        (30.0, 0.1, 0.460504805895135576),
        (30.0, 0.9, 0.187644143386884035),
        (30.0, 2.5, 0.00905782453403334705),
        (30.0, 7.0, 4.43497933361032158e-8),
        (30.0, 30.0, 3.12589581530444398e-24),
        (30.0, 1000.0, 1.03600174155586654e-69),
        (1000.0, 0.0, 0.5),
        (1000.0, 0.1, 0.460182184511802063),
        (1000.0, 0.9, 0.184168463492101279),
        (1000.0, 2.5, 0.0062892839005453984),
        (1000.0, 7.0, 2.34375128338571142e-12),
        (1000.0, 30.0, 7.68734372202174111e-142),
    ];

    /// The bound of the head; above the median the distribution function is 1 − tail, and rounded.
    #[test]
    fn tails_of_known_value() {
        for (degrees, t, tail) in TAILS {
            let s = standard(*degrees);
            let (below, above) = (s.at(-t).0, s.at(*t).0);
            if *t > 0.0 {
                assert!((below / tail - 1.0).abs() < 1e-12, "{degrees} {t}: {below:e} {tail:e}");
            }
            assert!((above - (1.0 - tail)).abs() < 1e-12 * tail + 2e-16, "{degrees} {t}: {above}");
        }
    }

    /// Every ν of a fine grid against the incomplete beta function, whose own error is 2e-14 to 1e-12 (growing with ν and in the far tail), down to 1e-250.
    #[test]
    fn tails_of_every_degree() {
        for i in 0..120 {
            let degrees = 2.0 + 1e-9 * 10f64.powf(f64::from(i) * 0.17);
            let s = standard(degrees);
            for j in 0..200 {
                let t = 10f64.powf(-2.0 + f64::from(j) * 0.03);
                let exact = student_tail(t, degrees);
                if exact < 1e-250 {
                    break;
                }
                let got = s.at(-t).0;
                assert!((got / exact - 1.0).abs() < 3e-12, "{degrees} {t}: {got:e} {exact:e}");
            }
        }
    }

    /// The density is the derivative of the distribution function, and so on; by central differences, so to 1e-7 of the size of the terms.
    #[test]
    fn sums_are_derivatives() {
        let (mean, inverse) = ([0.0, 0.3, -1.0], [1.0, 2.0, 0.5]);
        let weight = [0.5, 0.2, 0.3];
        let parts = Parts { mean: &mean, inverse: &inverse, weight: &weight };
        for degrees in [2.2, 4.0, 9.0, 1e7, f64::INFINITY] {
            let (s, mut scratch) = (standard(degrees), Scratch::default());
            for y in [-6.0, -1.1, 0.2, 0.9, 4.0] {
                for sign in [1.0, -1.0] {
                    let mut at = |h: f64| s.sums(parts, sign * (y + h), sign, &mut scratch);
                    let (low, here, high) = (at(-1e-5), at(0.0), at(1e-5));
                    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-7, "{degrees} {y}: {a} {b}");
                    close((high.cdf - low.cdf) / 2e-5, here.density);
                    close((high.density - low.density) / 2e-5, here.slope);
                    assert!(((high.slope - low.slope) / 2e-5).abs() <= here.curvature + 1e-7);
                }
            }
        }
    }

    /// Places and scales beyond all reason: no number is lost.
    #[test]
    fn nothing_overflows() {
        for degrees in [2.0 + 1e-12, 4.0, 1e12, f64::INFINITY] {
            let (s, mut scratch) = (standard(degrees), Scratch::default());
            for (mean, inverse) in [(1e100, 1e100), (-1e100, 1e-100), (0.0, 1e100), (3e38, 1.0)] {
                let parts = Parts { mean: &[mean], inverse: &[inverse], weight: &[1.0] };
                for y in [-1e100, -1e-300, 0.0, 1.0, 1e100] {
                    let at = s.sums(parts, y, 1.0, &mut scratch);
                    assert!((0.0..=1.0).contains(&at.cdf), "{degrees} {mean} {inverse} {y}: {at:?}");
                    assert!(at.density.is_finite() && at.slope.is_finite(), "{degrees} {mean} {inverse} {y}: {at:?}");
                }
            }
            assert!(s.at(f64::NAN).0.is_nan());
        }
    }
}
