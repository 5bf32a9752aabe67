//! Which kernels of the `gemm` crate a product runs on, and which of its operands they pack.
//!
//! The crate's own entry chooses by the processor alone. Here the choice is [`super::simd`]'s, so that it can be forced, and it changes no bit between
//! AVX2 and AVX-512:
//! - A sum over k is added up in one lane, whichever operand is packed. The crate cuts it into blocks by the size of the first cache and by the length of
//!   vectors; here it is cut beforehand, into equal blocks of at most [`BLOCK`] terms, which all kernels take whole.
//! - Where the crate sums across lanes, or treats the end of a vector apart, the AVX2 kernels run on every machine.
//!
//! A kernel wants one operand packed, and the crate packs the right one of a row-major product. If that is transposed, its numbers are gathered
//! from rows a stride apart: the weight gradient of a convolution, 50 × 500 over 512 terms, ran at 99 GFLOP/s with AVX-512, slower than with AVX2. With
//! operands exchanged, the smaller one is packed and the other read in place: 186 GFLOP/s on the same machine.

use super::Real;
use gemm::Parallelism;
#[cfg(target_arch = "x86_64")]
use gemm_common::{gemm::gemm_basic_generic, simd::MixedSimd};

/// C (m×n) ← [C +] A·B as a kernel sees it: pointers and strides.
#[derive(Clone, Copy)]
pub(super) struct Product<T> {
    pub size: (usize, usize, usize),
    pub c: *mut T,
    /// Column stride, row stride.
    pub c_strides: (isize, isize),
    pub accumulate: bool,
    pub a: *const T,
    pub a_strides: (isize, isize),
    pub b: *const T,
    pub b_strides: (isize, isize),
    pub parallelism: Parallelism,
}

impl<T: Copy> Product<T> {
    #[cfg(target_arch = "x86_64")]
    fn cast<U>(self) -> Product<U> {
        Product {
            size: self.size,
            c: self.c.cast(),
            c_strides: self.c_strides,
            accumulate: self.accumulate,
            a: self.a.cast(),
            a_strides: self.a_strides,
            b: self.b.cast(),
            b_strides: self.b_strides,
            parallelism: self.parallelism,
        }
    }

    /// Cᵀ = Bᵀ·Aᵀ: the same numbers, operands exchanged.
    fn transposed(self) -> Self {
        let (m, n, k) = self.size;
        let turned = |(col, row): (isize, isize)| (row, col);
        Product {
            size: (n, m, k),
            c_strides: turned(self.c_strides),
            a: self.b,
            a_strides: turned(self.b_strides),
            b: self.a,
            b_strides: turned(self.a_strides),
            ..self
        }
    }

    /// Whether bits would depend on the length of vectors: sums across lanes, or ends of vectors that are not fused.
    fn depends_on_length(&self) -> bool {
        let (m, n, k) = self.size;
        let along_k = self.a_strides.0 == 1 && self.b_strides.1 == 1;
        (along_k && m * n <= 16 * 16) || m == 1 || n == 1 || k <= 2
    }
}

/// Terms of a sum that are added up before they are added to C: what the crate takes with AVX-512 on the machines it was seen on.
const BLOCK: usize = 512;
/// Terms from which exchanged operands are worth writing every number of C by itself (50 × 500: 0.92 of the speed over 128 terms, 1.9 over 512).
const LONG: usize = 256;

macro_rules! kernel {
    ($name:ident, $t:ty, $crate_:ident, $set:ident, $of:ident, $simd:ident, $lanes:expr) => {
        /// # Safety
        /// Every access that sizes and strides imply lies inside the operands, and the machine has these instructions.
        #[cfg(target_arch = "x86_64")]
        #[inline(never)]
        unsafe fn $name(p: Product<$t>) {
            use $crate_::microkernel::$set::$of::{H_M, H_N, H_UKR, MR_DIV_N, NR, UKR};
            type Instructions = gemm_common::simd::$simd;
            let Some(simd) = <Instructions as MixedSimd<$t, $t, $t, $t>>::try_new() else { return };
            let (m, n, k) = p.size;
            // SAFETY: the caller's promises.
            unsafe {
                gemm_basic_generic::<_, $t, { $lanes }, { MR_DIV_N * $lanes }, NR, MR_DIV_N, H_M, H_N>(
                    simd,
                    m,
                    n,
                    k,
                    p.c,
                    p.c_strides.0,
                    p.c_strides.1,
                    p.accumulate,
                    p.a,
                    p.a_strides.0,
                    p.a_strides.1,
                    p.b,
                    p.b_strides.0,
                    p.b_strides.1,
                    1.0,
                    1.0,
                    false,
                    false,
                    false,
                    |a, b, c| a * b + c,
                    &UKR,
                    &H_UKR,
                    false,
                    p.parallelism,
                )
            }
        }
    };
}

kernel!(f32_avx512, f32, gemm_f32, avx512f, f32, V4, 16);
kernel!(f32_avx2, f32, gemm_f32, fma, f32, V3, 8);
kernel!(f64_avx512, f64, gemm_f64, avx512f, f64, V4, 8);
kernel!(f64_avx2, f64, gemm_f64, fma, f64, V3, 4);

/// Runs a product whose C is row-major, with R either f32 or f64.
///
/// # Safety
/// Every access that sizes and strides imply lies inside the operands.
pub(super) unsafe fn run<R: Real>(p: Product<R>) {
    let k = p.size.2;
    let block = k.div_ceil(k.div_ceil(BLOCK).max(1)).max(1);
    let mut from = 0;
    loop {
        let terms = block.min(k - from);
        let part = Product {
            size: (p.size.0, p.size.1, terms),
            accumulate: p.accumulate || from > 0,
            a: p.a.wrapping_offset(from as isize * p.a_strides.0),
            b: p.b.wrapping_offset(from as isize * p.b_strides.1),
            ..p
        };
        // SAFETY: the terms from..from + terms are some of the caller's.
        unsafe { run_block(part) };
        from += terms;
        if from >= k {
            return;
        }
    }
}

/// # Safety
/// As for [`run`].
unsafe fn run_block<R: Real>(p: Product<R>) {
    #[cfg(target_arch = "x86_64")]
    if super::simd::wide() {
        let (m, n, k) = p.size;
        let both_along_k = p.a_strides.0 == 1 && p.b_strides.1 == 1;
        // Kernels write columns, so that the operands of a row-major product are exchanged, unless that packs much more.
        let p = if both_along_k && 2 * m <= n && k >= LONG { p } else { p.transposed() };
        let wider = super::simd::wider() && !p.depends_on_length();
        // SAFETY: `Real` is f32 or f64, told by its size; the instructions were detected; the rest is the caller's promise.
        unsafe {
            match (size_of::<R>() == 4, wider) {
                (true, true) => f32_avx512(p.cast()),
                (true, false) => f32_avx2(p.cast()),
                (false, true) => f64_avx512(p.cast()),
                (false, false) => f64_avx2(p.cast()),
            }
        }
        return;
    }
    let ((m, n, k), (c_cs, c_rs)) = (p.size, p.c_strides);
    let ((a_cs, a_rs), (b_cs, b_rs), one) = (p.a_strides, p.b_strides, R::ONE);
    // SAFETY: the caller's promise.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            p.c,
            c_cs,
            c_rs,
            p.accumulate,
            p.a,
            a_cs,
            a_rs,
            p.b,
            b_cs,
            b_rs,
            one,
            one,
            false,
            false,
            false,
            p.parallelism,
        );
    }
}
