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
use crate::memory;
use crate::rng::{Key, Purpose, Stream, fill_normals};
use crate::simd_fn;
use std::f64::consts::{SQRT_2, TAU};
use std::sync::OnceLock;

/// More features than this are most likely mistyped.
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

/// A recipe of a few bytes can ask for much here: tables are made when a pass first needs them, with rows that they are for.
#[derive(Debug, Clone)]
enum Kind {
    /// Degree 0 is one feature that is 0.
    Polynomial {
        degree: usize,
        count: usize,
        terms: OnceLock<Terms>,
    },
    /// Sine and cosine of the harmonics of a period, input by input.
    Harmonics {
        frequencies: usize,
        period: f64,
    },
    Random {
        count: usize,
        length_scale: f64,
        key: Key,
        waves: OnceLock<Waves>,
    },
}

/// Terms, each a range of factors (input, power).
#[derive(Debug, Clone, Default)]
struct Terms {
    ends: Vec<usize>,
    factors: Vec<(usize, usize)>,
}

/// ω as `inputs × count`, and b, both in turns.
#[derive(Debug, Clone)]
struct Waves {
    turns: Vec<f64>,
    phase: Vec<f64>,
}

/// How many terms of degree 1 to d in n inputs: n + d choose d, less 1; none if there are too many.
fn count_terms(inputs: usize, degree: usize) -> Option<usize> {
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
        let count = count_terms(inputs, degree);
        let count = count.ok_or_else(|| too_many(what(), "lower the degree, or leave columns out"))?.max(1);
        let kind = Kind::Polynomial { degree, count, terms: OnceLock::new() };
        Ok(Features { name: format!("polynomial of degree {degree}"), input, kind })
    }

    /// Sine and cosine of 2π j x/period, j = 1 … `frequencies`, for every input.
    pub fn fourier(input: Shape, frequencies: usize, period: f64) -> Result<Features> {
        let (inputs, name) = (input.len(), format!("fourier {frequencies}"));
        positive("period", period)?;
        let count = inputs.checked_mul(2 * frequencies.min(MOST + 1)).filter(|n| (1..=MOST).contains(n));
        count.ok_or_else(|| {
            let what = format!("{frequencies} frequencies of {inputs} inputs");
            if frequencies == 0 { Error::setting(what, "give at least one") } else { too_many(what, "use fewer") }
        })?;
        Ok(Features { name, input, kind: Kind::Harmonics { frequencies, period } })
    }

    /// Random waves of a Gaussian process with the given length scale.
    pub fn random(input: Shape, count: usize, length_scale: f64, seed: u64) -> Result<Features> {
        positive("length_scale", length_scale)?;
        if !(1..=MOST).contains(&count) {
            let what = format!("random features cannot be {count}");
            return Err(Error::setting(what, format!("give a whole number from 1 to {MOST}")));
        }
        let key = Key::new(seed).purpose(Purpose::Features);
        let what = format!("{count} random features of {} inputs", input.len());
        memory::request(memory::array::<f64>(&[input.len(), count]), what, "use fewer features")?;
        let kind = Kind::Random { count, length_scale, key, waves: OnceLock::new() };
        Ok(Features { name: format!("random features {count}"), input, kind })
    }

    fn count(&self) -> usize {
        match &self.kind {
            Kind::Polynomial { count, .. } | Kind::Random { count, .. } => *count,
            Kind::Harmonics { frequencies, .. } => 2 * frequencies * self.input.len(),
        }
    }
}

impl Terms {
    fn new(inputs: usize, degree: usize) -> Terms {
        let mut terms = Terms::default();
        for total in 1..=degree {
            push_terms(inputs, &mut Vec::new(), 0, total, &mut terms);
        }
        terms
    }
}

impl Waves {
    fn new(inputs: usize, count: usize, length_scale: f64, key: Key) -> Waves {
        let mut turns = vec![0.0; inputs * count];
        fill_normals(key, &mut turns);
        turns.iter_mut().for_each(|t| *t /= TAU * length_scale);
        let mut stream = Stream::new(key);
        Waves { turns, phase: (0..count).map(|_| stream.uniform()).collect() }
    }
}

fn positive(what: &str, value: f64) -> Result<()> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(Error::setting(format!("the {what} of features cannot be {value}"), "it takes a number above 0"))
}

/// All terms that begin with the factors `term` and whose powers from input `from` on add up to `left`, lower inputs with higher
/// powers first. Cost: as many steps as there are factors to write.
fn push_terms(inputs: usize, term: &mut Vec<(usize, usize)>, from: usize, left: usize, terms: &mut Terms) {
    if left == 0 {
        terms.factors.extend_from_slice(term);
        terms.ends.push(terms.factors.len());
        return;
    }
    for i in from..inputs {
        for power in (1..=left).rev() {
            term.push((i, power));
            push_terms(inputs, term, i + 1, left - power, terms);
            term.pop();
        }
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

simd_fn! {
    /// The same for the harmonics of one input. cos 2π(u − ¼) = sin 2πu
    fn harmonics<R>(x: R, period: f64, out: &mut [R], delta: bool) {
        for k in 0..out.len() {
            let phase = R::of(if k % 2 == 0 { -0.25 } else { 0.0 });
            let at = x.mul_add::<F>(R::of((k / 2 + 1) as f64 / period), phase);
            let (sin, cos) = at.sin_cos_turn::<F>();
            out[k] = if delta { out[k] * R::of(-TAU * SQRT_2) * sin } else { R::of(SQRT_2) * cos };
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
                Kind::Polynomial { degree, terms, .. } => {
                    let Terms { ends, factors } = terms.get_or_init(|| Terms::new(self.input.len(), *degree));
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
                Kind::Harmonics { frequencies, period } => {
                    let each = x.row(row).iter().zip(out.chunks_exact_mut(2 * frequencies));
                    each.for_each(|(x, out)| harmonics(*x, *period, out, false));
                }
                Kind::Random { count, length_scale, key, waves: made } => {
                    let make = || Waves::new(self.input.len(), *count, *length_scale, *key);
                    let Waves { turns, phase } = made.get_or_init(make);
                    waves(x.row(row), turns, phase, out, false);
                }
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
                Kind::Polynomial { degree, terms, .. } => {
                    let Terms { ends, factors } = terms.get_or_init(|| Terms::new(inputs, *degree));
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
                Kind::Harmonics { frequencies, period } => {
                    let each = x.row(row).iter().zip(delta.chunks_exact_mut(2 * frequencies)).zip(dx.iter_mut());
                    for ((x, delta), dx) in each {
                        harmonics(*x, *period, delta, true);
                        let turn = |k: usize| R::of((k / 2 + 1) as f64 / *period);
                        *dx = delta.iter().enumerate().fold(R::ZERO, |sum, (k, d)| sum + *d * turn(k));
                    }
                }
                Kind::Random { length_scale, key, waves: made, .. } => {
                    let Waves { turns, phase } = made.get_or_init(|| Waves::new(inputs, count, *length_scale, *key));
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
    fn space_numbers(&self, rows: usize) -> u128 {
        let table = match &self.kind {
            // With the terms, which are few factors each and once for all spaces.
            Kind::Polynomial { degree, count, .. } => memory::product(&[self.input.len() + 8 * count, degree + 1]),
            // ω, in double precision and once for all spaces.
            Kind::Random { count, .. } => memory::product(&[2, self.input.len() + 1, *count]),
            Kind::Harmonics { .. } => 0,
        };
        memory::product(&[2, rows, self.count()]).saturating_add(table)
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
        assert_eq!(count_terms(2, 3), Some(9));
        assert_eq!(count_terms(3, 0), Some(0));
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
