//! Matrix products C ← A·B or C ← C + A·B over the `gemm` crate, with strides, so that no transpose is copied.

use super::Real;
use super::product_kernels::{Product, run};
use gemm::Parallelism;

/// A row-major matrix that borrows its numbers.
#[derive(Debug, Clone, Copy)]
pub struct MatRef<'a, R> {
    /// `rows × cols` numbers, row after row.
    pub data: &'a [R],
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
}

impl<'a, R> MatRef<'a, R> {
    /// A view of `rows × cols` numbers.
    ///
    /// # Panics
    /// If the slice has another length.
    pub fn new(data: &'a [R], rows: usize, cols: usize) -> Self {
        assert_eq!(data.len(), rows * cols, "a {rows} × {cols} matrix");
        MatRef { data, rows, cols }
    }

    /// Row `i`.
    pub fn row(&self, i: usize) -> &'a [R] {
        &self.data[i * self.cols..(i + 1) * self.cols]
    }

    /// Rows `from..to`.
    pub fn slice(&self, from: usize, to: usize) -> MatRef<'a, R> {
        MatRef { data: &self.data[from * self.cols..to * self.cols], rows: to - from, cols: self.cols }
    }
}

/// One operand of a product: numbers with a row stride and a column stride.
#[derive(Debug, Clone, Copy)]
pub struct Mat<'a, R> {
    data: &'a [R],
    row_stride: usize,
    col_stride: usize,
}

impl<'a, R> Mat<'a, R> {
    /// Row-major with `cols` numbers per row.
    pub fn rows_of(data: &'a [R], cols: usize) -> Self {
        Mat { data, row_stride: cols, col_stride: 1 }
    }

    /// The transpose of a row-major matrix with `cols` numbers per row.
    pub fn transposed(data: &'a [R], cols: usize) -> Self {
        Mat { data, row_stride: 1, col_stride: cols }
    }
}

/// Whether a product may use the thread pool. The result has the same bits either way: `gemm` splits rows and
/// columns over threads, never the sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// This thread alone.
    One,
    /// The rayon pool this call runs in, when the product is large enough to pay for it.
    Pool,
}

/// Below this many multiply-adds, waking another thread costs more than it saves.
const PARALLEL_FROM: usize = 200_000;

impl Threads {
    /// Does two pieces of work of about the same size, some `multiply_adds` each, side by side where threads are free;
    /// each is told which threads it has.
    ///
    /// Two whole products on a thread each are faster than both threads on one product after the other: operands are packed
    /// once, and threads wait for each other once.
    pub fn both(self, multiply_adds: usize, a: impl FnOnce(Threads) + Send, b: impl FnOnce(Threads) + Send) {
        let free = if self == Threads::One { 1 } else { rayon::current_num_threads() };
        if free == 1 || multiply_adds < PARALLEL_FROM {
            a(self);
            b(self);
        } else {
            let each = if free < 4 { Threads::One } else { Threads::Pool };
            rayon::join(|| a(each), || b(each));
        }
    }
}

/// C (m×n, row-major) ← [C +] A (m×k) · B (k×n).
pub fn gemm<R: Real>(
    (m, n, k): (usize, usize, usize),
    c: &mut [R],
    accumulate: bool,
    a: Mat<'_, R>,
    b: Mat<'_, R>,
    threads: Threads,
) {
    if m == 0 || n == 0 {
        return;
    }
    // Whether the last number of r × c lies in the slice; a product that does not fit a word lies in none.
    let holds = |mat: &Mat<'_, R>, r: usize, c: usize| {
        let (down, across) = ((r - 1).checked_mul(mat.row_stride), (c - 1).checked_mul(mat.col_stride));
        down.zip(across).and_then(|(d, a)| d.checked_add(a)).is_some_and(|last| last < mat.data.len())
    };
    let room = m.checked_mul(n).is_some_and(|len| len <= c.len());
    assert!(room && (k == 0 || (holds(&a, m, k) && holds(&b, k, n))), "the matrices lie inside their slices");
    let parallel = match threads {
        Threads::Pool if m.saturating_mul(n).saturating_mul(k) > PARALLEL_FROM && rayon::current_num_threads() > 1 => {
            Parallelism::Rayon(0)
        }
        _ => Parallelism::None,
    };
    let _guard = allocation::Inside::new(matches!(parallel, Parallelism::Rayon(_)));
    // SAFETY: the assertion above keeps every access inside the three slices.
    unsafe {
        run(Product {
            size: (m, n, k),
            c: c.as_mut_ptr(),
            c_strides: (1, n as isize),
            accumulate,
            a: a.data.as_ptr(),
            a_strides: (a.col_stride as isize, a.row_stride as isize),
            b: b.data.as_ptr(),
            b_strides: (b.col_stride as isize, b.row_stride as isize),
            parallelism: parallel,
        });
    }
}

/// Tells a counting allocator apart what `gemm` allocates for packing from what a training step allocates itself.
pub mod allocation {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicUsize, Ordering};

    thread_local! {
        static HERE: Cell<bool> = const { Cell::new(false) };
    }
    /// Calls that use the pool: they allocate on threads that did not make the call.
    static ON_POOL: AtomicUsize = AtomicUsize::new(0);

    /// Whether this thread is inside a call of `gemm`, or may be working for one (always false in builds without debug
    /// assertions).
    pub fn inside_gemm() -> bool {
        HERE.with(Cell::get) || ON_POOL.load(Ordering::SeqCst) > 0
    }

    pub(super) struct Inside {
        on_pool: bool,
    }

    impl Inside {
        #[inline(always)]
        pub(super) fn new(on_pool: bool) -> Self {
            if cfg!(debug_assertions) {
                HERE.with(|d| d.set(true));
                ON_POOL.fetch_add(usize::from(on_pool), Ordering::SeqCst);
            }
            Inside { on_pool }
        }
    }

    impl Drop for Inside {
        #[inline(always)]
        fn drop(&mut self) {
            if cfg!(debug_assertions) {
                HERE.with(|d| d.set(false));
                ON_POOL.fetch_sub(usize::from(self.on_pool), Ordering::SeqCst);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Key, fill_normals};

    /// (3 − 1) · 2⁶³ is 0 in a word of 64 bits.
    #[test]
    #[should_panic(expected = "the matrices lie inside their slices")]
    fn strides_that_overflow_are_refused() {
        let (data, mut c) = ([1.0f64; 3], [0.0; 3]);
        let a = Mat { data: &data, row_stride: 1 << (usize::BITS - 1), col_stride: 1 };
        gemm((3, 1, 1), &mut c, false, a, Mat { data: &data, row_stride: 1, col_stride: 1 }, Threads::One);
    }

    /// Every operand as it is and transposed, against three loops.
    #[test]
    fn products_agree_with_three_loops() {
        for (m, n, k) in
            [(1, 1, 1), (5, 9, 3), (4, 8, 16), (7, 50, 8), (128, 50, 13), (30, 20, 17), (3, 1, 40), (1, 64, 2)]
        {
            let fill = |seed, len| {
                let mut v = vec![0.0f64; len];
                fill_normals(Key::new(seed), &mut v);
                v
            };
            let (a, b, start) = (fill(1, m * k), fill(2, k * n), fill(3, m * n));
            for (ta, tb, accumulate) in
                [(0, 0, 0), (0, 0, 1), (1, 0, 0), (0, 1, 0), (1, 1, 1)].map(|(x, y, z)| (x == 1, y == 1, z == 1))
            {
                let mut c = start.clone();
                let left = if ta { Mat::transposed(&a, m) } else { Mat::rows_of(&a, k) };
                let right = if tb { Mat::transposed(&b, k) } else { Mat::rows_of(&b, n) };
                gemm((m, n, k), &mut c, accumulate, left, right, Threads::One);
                for i in 0..m {
                    for j in 0..n {
                        let term = |l: usize| {
                            let x = if ta { a[l * m + i] } else { a[i * k + l] };
                            x * if tb { b[j * k + l] } else { b[l * n + j] }
                        };
                        let before = if accumulate { start[i * n + j] } else { 0.0 };
                        let exact = before + (0..k).map(term).sum::<f64>();
                        // Rounding of at most 40 terms of size about 1.
                        assert!((c[i * n + j] - exact).abs() < 1e-13, "{m} {n} {k} {ta} {tb} {accumulate}");
                    }
                }
            }
        }
    }
}
