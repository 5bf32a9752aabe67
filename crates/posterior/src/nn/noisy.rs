//! Parameters of which every row has a draw of its own: local reparameterisation and flipout.
//!
//! A linear layer with weights N(M, V) gives z = xM + c-part, where
//! local (Kingma, Salimans & Welling 2015):   z = xM + √(x²V) ⊙ ζ,          ζ ~ N(0, 1) for every row and output;
//! flipout (Wen et al. 2018):                 z = xM + ((x ⊙ s)Δ) ⊙ r,      Δ = σ ⊙ ε shared, s, r random signs for every row.
//! Both are a second product t = uS of a changed input u (x² or x ⊙ s) with the spread S (V or Δ), and both have
//! dL/dS = uᵀe, dL/dx = δMᵀ + u′ ⊙ (eSᵀ), e = δ ⊙ c with c = ζ/(2√t) or r and u′ = 2x or s. Cost: twice the products of
//! fixed parameters.
//!
//! Local noise is exact for dense layers, whose outputs are independent given one row. A convolution's outputs share
//! weights; drawing them independently is the usual approximation there, while flipout stays exact.

use super::im2col::Geometry;
use super::mask::sign;
use super::node::Mode;
use crate::math::Real;
use crate::math::elementwise::axpy;
use crate::rng::{Key, Normals, fill_normals};
use crate::simd_fn;

/// How rows come by draws of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowNoise {
    /// Pre-activations are drawn; the spread is the variance of every parameter.
    Local,
    /// The signs of one draw are flipped; the spread is that draw minus the mean.
    Flipout,
}

/// Gaussian parameters, drawn anew for every row.
#[derive(Debug, Clone, Copy)]
pub struct Noisy<'a, R> {
    /// How.
    pub noise: RowNoise,
    /// Means.
    pub mean: &'a [R],
    /// Variances, or one draw minus the mean: see [`RowNoise`].
    pub spread: &'a [R],
}

/// Parameters of a pass: the same for all rows, or drawn for every row.
#[derive(Debug, Clone, Copy)]
pub enum Weights<'a, R> {
    /// The same for all rows.
    Fixed(&'a [R]),
    /// A draw for every row.
    Noisy(Noisy<'a, R>),
}

impl<'a, R> From<&'a [R]> for Weights<'a, R> {
    fn from(w: &'a [R]) -> Self {
        Weights::Fixed(w)
    }
}

impl<'a, R> Weights<'a, R> {
    /// Those of a range.
    pub fn slice(&self, range: std::ops::Range<usize>) -> Weights<'a, R> {
        match self {
            Weights::Fixed(w) => Weights::Fixed(&w[range]),
            Weights::Noisy(n) => Weights::Noisy(Noisy { mean: &n.mean[range.clone()], spread: &n.spread[range], ..*n }),
        }
    }

    /// The fixed values or the means.
    pub fn centre(&self) -> &'a [R] {
        match self {
            Weights::Fixed(w) => w,
            Weights::Noisy(n) => n.mean,
        }
    }
}

/// Where gradients go.
#[derive(Debug)]
pub struct Gradient<'a, R> {
    /// dL/dw, or dL/d(mean).
    pub centre: &'a mut [R],
    /// dL/d(spread); empty for fixed parameters.
    pub spread: &'a mut [R],
}

impl<'a, R> From<&'a mut [R]> for Gradient<'a, R> {
    fn from(centre: &'a mut [R]) -> Self {
        Gradient { centre, spread: &mut [] }
    }
}

impl<R> Gradient<'_, R> {
    /// That of a range.
    pub fn slice(&mut self, range: std::ops::Range<usize>) -> Gradient<'_, R> {
        let spread = if self.spread.is_empty() { &mut [] } else { &mut self.spread[range.clone()] };
        Gradient { centre: &mut self.centre[range], spread }
    }
}

/// Rows that share a key: one row of a narrow layer would use a fraction of a block of normals. Chunks of rows start at
/// multiples of this, so that how rows are cut into chunks changes nothing.
pub(super) const ROWS_PER_KEY: usize = 16;

/// The key of a layer's row noise; none where there is no noise, and the means alone count.
pub(super) fn noise_key(mode: Mode, layer: u64) -> Option<Key> {
    match mode {
        Mode::Plain => None,
        Mode::Train(key) | Mode::Draw(key) => Some(key.derive(layer)),
    }
}

/// ζ or r for `factor`, `width` numbers a row.
pub(super) fn fill_factor<R: Normals>(
    noise: RowNoise,
    key: Option<Key>,
    first_row: u64,
    width: usize,
    factor: &mut [R],
) {
    debug_assert!(first_row.is_multiple_of(ROWS_PER_KEY as u64), "chunks start at whole groups of rows");
    let Some(key) = key else { return factor.fill(R::ZERO) };
    let first = first_row / ROWS_PER_KEY as u64;
    for (g, part) in factor.chunks_mut(ROWS_PER_KEY * width.max(1)).enumerate() {
        let key = key.derive(first + g as u64);
        match noise {
            RowNoise::Local => fill_normals(key, part),
            RowNoise::Flipout => signs(key.derive(1), part),
        }
    }
}

simd_fn! {
    /// Random signs.
    pub(super) fn signs<R>(key: Key, out: &mut [R]) {
        for (i, s) in out.iter_mut().enumerate() {
            *s = sign(key, i as u32);
        }
    }
}

simd_fn! {
    pub(super) fn squares<R>(x: &[R], u: &mut [R]) {
        let x = &x[..u.len()];
        for i in 0..u.len() {
            u[i] = x[i] * x[i];
        }
    }
}

simd_fn! {
    fn signed<R>(key: Key, x: &[R], u: &mut [R]) {
        let x = &x[..u.len()];
        for i in 0..u.len() {
            u[i] = x[i] * sign::<R>(key, i as u32);
        }
    }
}

/// u: the input of the second product, `width` numbers a row.
pub(super) fn change_input<R: Normals>(
    noise: RowNoise,
    key: Option<Key>,
    first_row: u64,
    width: usize,
    x: &[R],
    u: &mut [R],
) {
    match (noise, key) {
        (RowNoise::Local, _) | (_, None) => squares(x, u),
        (RowNoise::Flipout, Some(key)) => {
            let (rows, first) = (ROWS_PER_KEY * width.max(1), first_row / ROWS_PER_KEY as u64);
            for (g, (x, u)) in x.chunks(rows).zip(u.chunks_mut(rows)).enumerate() {
                signed(key.derive(first + g as u64), x, u);
            }
        }
    }
}

simd_fn! {
    pub(super) fn add_through_squares<R>(x: &[R], t: &[R], dx: &mut [R]) {
        let (x, t) = (&x[..dx.len()], &t[..dx.len()]);
        for i in 0..dx.len() {
            dx[i] = (x[i] + x[i]).mul_add::<F>(t[i], dx[i]);
        }
    }
}

simd_fn! {
    fn add_through_signs<R>(key: Key, t: &[R], dx: &mut [R]) {
        let t = &t[..dx.len()];
        for i in 0..dx.len() {
            dx[i] = sign::<R>(key, i as u32).mul_add::<F>(t[i], dx[i]);
        }
    }
}

/// dx ← dx + u′ ⊙ t, with t = eSᵀ.
pub(super) fn add_input_gradient<R: Normals>(
    noise: RowNoise,
    key: Option<Key>,
    first_row: u64,
    width: usize,
    x: &[R],
    t: &[R],
    dx: &mut [R],
) {
    match (noise, key) {
        (RowNoise::Local, _) | (_, None) => add_through_squares(x, t, dx),
        (RowNoise::Flipout, Some(key)) => {
            let (rows, first) = (ROWS_PER_KEY * width.max(1), first_row / ROWS_PER_KEY as u64);
            for (g, (t, dx)) in t.chunks(rows).zip(dx.chunks_mut(rows)).enumerate() {
                add_through_signs(key.derive(first + g as u64), t, dx);
            }
        }
    }
}

/// Added to a variance, so that its root's slope stays finite where every input is 0: far below any variance that matters.
pub(crate) const TINY: f64 = 1e-16;

/// z += √v·ζ and ζ ← ζ/(2√v), on one number; v is the variance.
#[inline(always)]
pub(super) fn local_one<R: Real>(z: &mut R, v: R, factor: &mut R) {
    let root = (v + R::of(TINY)).sqrt();
    *z += root * *factor;
    *factor = *factor * R::HALF / root;
}

simd_fn! {
    /// Adds the noise to the pre-activations z of rows: `t` is the second product, `bias` its bias part for each output,
    /// and `factor` (ζ or r) becomes c.
    pub(super) fn add_noise_by_row<R>(noise: RowNoise, bias: &[R], t: &[R], z: &mut [R], factor: &mut [R]) {
        let n = bias.len();
        let rows = z.chunks_exact_mut(n).zip(t.chunks_exact(n)).zip(factor.chunks_exact_mut(n));
        match noise {
            RowNoise::Local => for ((z, t), factor) in rows {
                for j in 0..n {
                    local_one(&mut z[j], t[j] + bias[j], &mut factor[j]);
                }
            },
            RowNoise::Flipout => for ((z, t), factor) in rows {
                for j in 0..n {
                    z[j] = factor[j].mul_add::<F>(t[j] + bias[j], z[j]);
                }
            },
        }
    }
}

simd_fn! {
    /// The same for numbers that share one bias part: an output channel of a convolution.
    pub(super) fn add_noise<R>(noise: RowNoise, bias: R, t: &[R], z: &mut [R], factor: &mut [R]) {
        let n = z.len();
        let (t, factor) = (&t[..n], &mut factor[..n]);
        match noise {
            RowNoise::Local => for j in 0..n {
                local_one(&mut z[j], t[j] + bias, &mut factor[j]);
            },
            RowNoise::Flipout => for j in 0..n {
                z[j] = factor[j].mul_add::<F>(t[j] + bias, z[j]);
            },
        }
    }
}

simd_fn! {
    /// e ← δ ⊙ c on rows, and its sum over rows added to the gradient of the bias's spread.
    pub(super) fn through_factor<R>(delta: &[R], factor: &[R], e: &mut [R], d_bias: &mut [R]) {
        let n = d_bias.len();
        for ((e, delta), factor) in e.chunks_exact_mut(n).zip(delta.chunks_exact(n)).zip(factor.chunks_exact(n)) {
            for j in 0..n {
                e[j] = delta[j] * factor[j];
                d_bias[j] += e[j];
            }
        }
    }
}

simd_fn! {
    /// e ← y ⊙ c, and the sum of every `ld` numbers added to the gradient of a bias's spread.
    pub(super) fn multiply_and_sum<R>(y: &[R], factor: &[R], e: &mut [R], ld: usize, d_bias: &mut [R]) {
        let rows = e.chunks_exact_mut(ld).zip(y.chunks_exact(ld)).zip(factor.chunks_exact(ld));
        for (((e, y), factor), d) in rows.zip(d_bias) {
            let mut lanes = [R::ZERO; 16];
            for ((e, y), factor) in e.chunks_mut(16).zip(y.chunks(16)).zip(factor.chunks(16)) {
                for j in 0..e.len() {
                    e[j] = y[j] * factor[j];
                    lanes[j] += e[j];
                }
            }
            *d += lanes.into_iter().sum::<R>();
        }
    }
}

/// ζ or r of `(channels, images, area)` numbers; an image has a key of its own, and a sign is a whole channel's.
pub(super) fn fill_channels<R: Normals>(
    noise: RowNoise,
    key: Option<Key>,
    first_row: u64,
    (channels, count, area): (usize, usize, usize),
    factor: &mut [R],
) {
    let Some(key) = key else { return factor.fill(R::ZERO) };
    for image in 0..count {
        let key = key.derive(first_row + image as u64).derive(1);
        for channel in 0..channels {
            let part = &mut factor[(channel * count + image) * area..][..area];
            match noise {
                RowNoise::Local => fill_normals(key.derive(channel as u64), part),
                RowNoise::Flipout => part.fill(sign(key, channel as u32)),
            }
        }
    }
}

/// The columns u of the second product from the columns of x, in place.
pub(super) fn change_columns<R: Normals>(
    noise: RowNoise,
    key: Option<Key>,
    first_row: u64,
    g: &Geometry,
    count: usize,
    col: &mut [R],
) {
    match (noise, key) {
        (RowNoise::Local, _) | (_, None) => square(col),
        (RowNoise::Flipout, Some(key)) => by_channel(key, first_row, g, count, |sign: R, from, to| {
            if sign < R::ZERO {
                col[from..to].iter_mut().for_each(|c| *c = -*c);
            }
        }),
    }
}

/// d_col ← d_col + u′ ⊙ t for columns.
pub(super) fn add_columns_gradient<R: Normals>(
    noise: RowNoise,
    key: Option<Key>,
    first_row: u64,
    g: &Geometry,
    count: usize,
    col: &[R],
    t: &[R],
    d_col: &mut [R],
) {
    match (noise, key) {
        (RowNoise::Local, _) | (_, None) => add_through_squares(col, t, d_col),
        (RowNoise::Flipout, Some(key)) => {
            by_channel(key, first_row, g, count, |sign, from, to| axpy(sign, &t[from..to], &mut d_col[from..to]));
        }
    }
}

/// Calls `f` with the sign and the place of every run of columns that shares one: an image's, under one tap.
fn by_channel<R: Real>(key: Key, first_row: u64, g: &Geometry, count: usize, mut f: impl FnMut(R, usize, usize)) {
    let (area, taps) = (g.area(), g.kernel.0 * g.kernel.1);
    for k in 0..g.patch() {
        for image in 0..count {
            let from = (k * count + image) * area;
            f(sign(key.derive(first_row + image as u64), (k / taps) as u32), from, from + area);
        }
    }
}

simd_fn! {
    fn square<R>(x: &mut [R]) {
        for v in x {
            *v *= *v;
        }
    }
}

/// At least `len` numbers: the first pass with row noise makes the buffers that passes without do not need.
pub(super) fn grow<R: Real>(buffer: &mut Vec<R>, len: usize) {
    if buffer.len() < len {
        buffer.resize(len, R::ZERO);
    }
}
