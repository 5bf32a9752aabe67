//! Fixed functions of the inputs, nothing to learn: what makes a linear model bend.
//!
//! Polynomials: products Π h_p(xᵢ) of total degree 1 to d, with h_p = He_p/√p! the Hermite polynomials, which are uncorrelated and of variance 1
//! under x ~ N(0, 1): they span the same functions as powers do, without being nearly the same column. h_{p+1} = (x h_p − √p h_{p−1})/√(p+1), h_p′ = √p h_{p−1}.
//! Waves: √2 cos 2π(ω·x + b). Fourier features are the harmonics of a period, sine and cosine of each input by itself; random ones have
//! 2πω ~ N(0, 1/ℓ²) and b uniform, so that with weights of variance s²/count the prior of f is that of a Gaussian process with the kernel
//! s² exp(−½|x − x′|²/ℓ²), but for an error of 1/√count. References: Abramowitz & Stegun 22.2; Rahimi & Recht (2007), NeurIPS.
//! Cost: a product or two per factor of a term; inputs + one cosine per wave.

use super::node::{Node, NodeOps, NodeSpace, Pass, Shape};
use crate::error::{Error, Result};
use crate::math::{MatRef, Real};
use crate::rng::{Key, Purpose, Stream, fill_normals};
use crate::simd_fn;
use std::f64::consts::{SQRT_2, TAU};

/// More features than this are a slip of the hand.
const MOST: usize = 1 << 16;
/// Higher degrees lose all their digits in single precision.
const HIGHEST_DEGREE: usize = 30;

/// Fixed features of a row.
#[derive(Debug, Clone)]
pub struct Features {
    name: String,
    input: Shape,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    /// Terms, each a range of factors (input, power); no term at all is one feature that is 0.
    Polynomial { degree: usize, ends: Vec<usize>, factors: Vec<(usize, usize)> },
    /// ω as `inputs × count`, and b, both in turns.
    Waves { turns: Vec<f64>, phase: Vec<f64> },
}

/// How many terms of degree 1 to d in n inputs: n + d choose d, less 1; none if there are too many.
fn terms(inputs: usize, degree: usize) -> Option<usize> {
    let mut count: usize = 1;
    for k in 1..=degree {
        count = count.checked_mul(inputs + k)? / k;
        if count > MOST {
            return None;
        }
    }
    Some(count - 1)
}

fn too_many(what: String, fix: &str) -> Error {
    Error::setting(format!("{what} are more than {MOST} features"), fix)
}

impl Features {
    /// Polynomials of total degree up to `degree`. Degree 0 is one feature that is 0: what is left is the bias.
    pub fn polynomial(input: Shape, degree: usize) -> Result<Features> {
        let inputs = input.len();
        if degree > HIGHEST_DEGREE {
            let what = format!("a polynomial's degree cannot be {degree}");
            return Err(Error::setting(what, format!("it takes a whole number from 0 to {HIGHEST_DEGREE}")));
        }
        let what = || format!("polynomials of degree {degree} in {inputs} inputs");
        terms(inputs, degree).ok_or_else(|| too_many(what(), "lower the degree, or leave columns out"))?;
        let (mut ends, mut factors) = (Vec::new(), Vec::new());
        for total in 1..=degree {
            let mut powers = vec![0; inputs];
            push_terms(&mut powers, 0, total, &mut ends, &mut factors);
        }
        let kind = Kind::Polynomial { degree, ends, factors };
        Ok(Features { name: format!("polynomial of degree {degree}"), input, kind })
    }

    /// Sine and cosine of 2π j x/period, j = 1 … `frequencies`, for every input.
    pub fn fourier(input: Shape, frequencies: usize, period: f64) -> Result<Features> {
        let (inputs, name) = (input.len(), format!("fourier {frequencies}"));
        positive("period", period)?;
        let count = inputs.checked_mul(2 * frequencies.min(MOST + 1)).filter(|n| (1..=MOST).contains(n));
        let count = count.ok_or_else(|| {
            let what = format!("{frequencies} frequencies of {inputs} inputs");
            if frequencies == 0 { Error::setting(what, "give at least one") } else { too_many(what, "use fewer") }
        })?;
        let (mut turns, mut phase) = (vec![0.0; inputs * count], vec![0.0; count]);
        for k in 0..count {
            let (input, wave) = (k / (2 * frequencies), k % (2 * frequencies));
            turns[input * count + k] = (wave / 2 + 1) as f64 / period;
            // cos 2π(u − ¼) = sin 2πu
            phase[k] = if wave % 2 == 0 { -0.25 } else { 0.0 };
        }
        Ok(Features { name, input, kind: Kind::Waves { turns, phase } })
    }

    /// Random waves of a Gaussian process with the given length scale.
    pub fn random(input: Shape, count: usize, length_scale: f64, seed: u64) -> Result<Features> {
        positive("length_scale", length_scale)?;
        if !(1..=MOST).contains(&count) {
            let what = format!("random features cannot be {count}");
            return Err(Error::setting(what, format!("give a whole number from 1 to {MOST}")));
        }
        let key = Key::new(seed).purpose(Purpose::Features);
        let mut turns = vec![0.0; input.len() * count];
        fill_normals(key, &mut turns);
        turns.iter_mut().for_each(|t| *t /= TAU * length_scale);
        let mut stream = Stream::new(key);
        let phase = (0..count).map(|_| stream.uniform()).collect();
        Ok(Features { name: format!("random features {count}"), input, kind: Kind::Waves { turns, phase } })
    }

    fn count(&self) -> usize {
        match &self.kind {
            Kind::Polynomial { ends, .. } => ends.len().max(1),
            Kind::Waves { phase, .. } => phase.len(),
        }
    }
}

fn positive(what: &str, value: f64) -> Result<()> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(Error::setting(format!("the {what} of features cannot be {value}"), "it takes a number above 0"))
}

/// All terms whose powers from input `from` on add up to `left`, lower inputs with higher powers first.
fn push_terms(
    powers: &mut [usize],
    from: usize,
    left: usize,
    ends: &mut Vec<usize>,
    factors: &mut Vec<(usize, usize)>,
) {
    if left == 0 {
        factors.extend(powers.iter().enumerate().filter(|(_, p)| **p > 0).map(|(i, p)| (i, *p)));
        ends.push(factors.len());
        return;
    }
    for i in from..powers.len() {
        for power in (1..=left).rev() {
            powers[i] = power;
            push_terms(powers, i + 1, left - power, ends, factors);
        }
        powers[i] = 0;
    }
}

/// h_0 … h_degree of every input, `inputs × (degree + 1)`.
fn hermite<R: Real>(x: &[R], degree: usize, table: &mut [R]) {
    for (x, h) in x.iter().zip(table.chunks_exact_mut(degree + 1)) {
        h[0] = R::ONE;
        for p in 0..degree {
            let before = if p > 0 { R::of((p as f64).sqrt()) * h[p - 1] } else { R::ZERO };
            h[p + 1] = (*x * h[p] - before) * R::of(1.0 / ((p + 1) as f64).sqrt());
        }
    }
}

simd_fn! {
    /// √2 cos 2π(ωx + b) of one row; with `delta`, it is multiplied by d/d(ωx) = −2π√2 sin 2π(ωx + b) instead.
    fn waves<R>(x: &[R], turns: &[f64], phase: &[f64], out: &mut [R], delta: bool) {
        let n = phase.len();
        let mut from = 0;
        while from < n {
            // A strip at a time, so that the sums stay in registers and nothing is allocated.
            let strip = (n - from).min(16);
            let mut at = [R::ZERO; 16];
            for k in 0..strip {
                at[k] = R::of(phase[from + k]);
            }
            for (i, x) in x.iter().enumerate() {
                let turns = &turns[i * n + from..i * n + from + strip];
                for k in 0..strip {
                    at[k] = x.mul_add::<F>(R::of(turns[k]), at[k]);
                }
            }
            let out = &mut out[from..from + strip];
            for k in 0..strip {
                let (sin, cos) = at[k].sin_cos_turn::<F>();
                out[k] = if delta { out[k] * R::of(-TAU * SQRT_2) * sin } else { R::of(SQRT_2) * cos };
            }
            from += strip;
        }
    }
}

impl<R: Real> NodeOps<R> for Features {
    fn space(&self, rows: usize) -> NodeSpace<R> {
        let mut space = NodeSpace::with_output(rows * self.count());
        if let Kind::Polynomial { degree, .. } = self.kind {
            space.scratch.push(vec![R::ZERO; self.input.len() * (degree + 1)]);
        }
        space
    }

    fn forward(&self, x: &[MatRef<'_, R>], _pass: &Pass, space: &mut NodeSpace<R>) {
        let x = x[0];
        for (row, out) in space.out.chunks_exact_mut(self.count()).take(x.rows).enumerate() {
            match &self.kind {
                Kind::Polynomial { degree, ends, factors } => {
                    let table = &mut space.scratch[0];
                    hermite(x.row(row), *degree, table);
                    if ends.is_empty() {
                        out.fill(R::ZERO);
                    }
                    let mut start = 0;
                    for (out, end) in out.iter_mut().zip(ends) {
                        let term = factors[start..*end].iter();
                        *out = term.fold(R::ONE, |product, (i, p)| product * table[i * (degree + 1) + p]);
                        start = *end;
                    }
                }
                Kind::Waves { turns, phase } => waves(x.row(row), turns, phase, out, false),
            }
        }
    }

    fn vjp(&self, _input: usize, x: &[MatRef<'_, R>], _pass: &Pass, space: &mut NodeSpace<R>, dx: &mut [R]) {
        let x = x[0];
        let (count, inputs) = (self.count(), self.input.len());
        let rows = space.delta.chunks_exact_mut(count).zip(dx.chunks_exact_mut(inputs)).take(x.rows).enumerate();
        for (row, (delta, dx)) in rows {
            dx.fill(R::ZERO);
            match &self.kind {
                Kind::Polynomial { degree, ends, factors } => {
                    let table = &mut space.scratch[0];
                    hermite(x.row(row), *degree, table);
                    let at = |i: usize, p: usize| table[i * (degree + 1) + p];
                    let mut start = 0;
                    for (delta, end) in delta.iter().zip(ends) {
                        let term = &factors[start..*end];
                        for (own, (i, p)) in term.iter().enumerate() {
                            let others = term.iter().enumerate().filter(|(other, _)| *other != own);
                            let slope = R::of((*p as f64).sqrt()) * at(*i, *p - 1);
                            dx[*i] += *delta * others.fold(slope, |product, (_, (i, p))| product * at(*i, *p));
                        }
                        start = *end;
                    }
                }
                Kind::Waves { turns, phase } => {
                    waves(x.row(row), turns, phase, delta, true);
                    for (dx, turns) in dx.iter_mut().zip(turns.chunks_exact(count)) {
                        *dx = delta.iter().zip(turns).fold(R::ZERO, |sum, (d, t)| sum + *d * R::of(*t));
                    }
                }
            }
        }
    }
}

impl Node for Features {
    fn describe(&self) -> String {
        self.name.clone()
    }
    fn inputs(&self) -> Vec<Shape> {
        vec![self.input]
    }
    fn output(&self) -> Shape {
        Shape::Flat(self.count())
    }
    fn is_random(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::Threads;
    use crate::nn::Mode;

    fn apply(layer: &Features, x: &[f64]) -> Vec<f64> {
        let rows = x.len() / layer.input.len();
        let pass = Pass { mode: Mode::Plain, layer: 0, first_row: 0, threads: Threads::One };
        let mut space: NodeSpace<f64> = layer.space(rows);
        layer.forward(&[MatRef::new(x, rows, layer.input.len())], &pass, &mut space);
        space.out
    }

    #[test]
    fn polynomials_are_the_products_of_hermite_polynomials() {
        let h: [fn(f64) -> f64; 4] =
            [|_| 1.0, |x| x, |x| (x * x - 1.0) / 2f64.sqrt(), |x| (x.powi(3) - 3.0 * x) / 6f64.sqrt()];
        let (x, y) = (0.7, -1.9);
        let out = apply(&Features::polynomial(Shape::Flat(2), 3).unwrap(), &[x, y]);
        let expected = [(1, 0), (0, 1), (2, 0), (1, 1), (0, 2), (3, 0), (2, 1), (1, 2), (0, 3)];
        assert_eq!(out.len(), expected.len());
        for (out, (p, q)) in out.iter().zip(expected) {
            assert!((out - h[p](x) * h[q](y)).abs() < 1e-12, "{p} {q}"); // rounding
        }
        assert_eq!(terms(2, 3), Some(9));
        assert_eq!(terms(3, 0), Some(0));
        assert_eq!(apply(&Features::polynomial(Shape::Flat(2), 0).unwrap(), &[x, y]), [0.0]);
    }

    #[test]
    fn waves_are_harmonics_or_approach_the_kernel() {
        let out = apply(&Features::fourier(Shape::Flat(1), 2, 5.0).unwrap(), &[-11.3]);
        for (k, out) in out.iter().enumerate() {
            let angle = TAU * (k / 2 + 1) as f64 * -11.3 / 5.0;
            let expected = SQRT_2 * if k % 2 == 0 { angle.sin() } else { angle.cos() };
            assert!((out - expected).abs() < 1e-13, "{k}: {out} {expected}"); // a few roundings of some turns
        }
        // The product of two rows' features over their number is the kernel; 1 is the largest std of a summand, 5 errors.
        let (count, scale) = (20_000, 1.7);
        let layer = Features::random(Shape::Flat(3), count, scale, 1).unwrap();
        let (a, b) = ([0.3, -1.0, 0.5], [1.0, 0.4, -0.2]);
        let (fa, fb) = (apply(&layer, &a), apply(&layer, &b));
        let mean = fa.iter().zip(&fb).map(|(a, b)| a * b).sum::<f64>() / count as f64;
        let distance: f64 = a.iter().zip(&b).map(|(a, b)| (a - b).powi(2)).sum();
        let kernel = (-0.5 * distance / (scale * scale)).exp();
        assert!((mean - kernel).abs() < 5.0 / (count as f64).sqrt(), "{mean} for {kernel}");
    }

    #[test]
    fn what_cannot_be_is_said_so() {
        let message = |f: Result<Features>| f.unwrap_err().to_string();
        assert!(message(Features::polynomial(Shape::Flat(100), 5)).contains("lower the degree"));
        assert!(message(Features::polynomial(Shape::Flat(1), 31)).contains("from 0 to 30"));
        assert!(message(Features::fourier(Shape::Flat(1), 0, 1.0)).contains("give at least one"));
        assert!(message(Features::fourier(Shape::Flat(1), usize::MAX, 1.0)).contains("use fewer"));
        assert!(message(Features::fourier(Shape::Flat(1), 3, 0.0)).contains("period"));
        assert!(message(Features::random(Shape::Flat(1), 0, 1.0, 0)).contains("from 1 to"));
        assert!(message(Features::random(Shape::Flat(1), 9, f64::NAN, 0)).contains("length_scale"));
    }
}
