//! Φ(z), φ(z) and E|N(z, 1)| from cubics between the nodes of a table, for where millions of them are needed.
//!
//! A cubic that agrees with f and f′ at both ends of a cell of width h is off by h⁴/384 · max|f⁗| at most: below 1.3e-10 for Φ and
//! 1.3e-10 for E|N(z, 1)| with h = 1/64. About five times as fast as through erf; 16 kB each, which stay in the cache.

use super::normal_cdf;
use std::f64::consts::PI;
use std::sync::LazyLock;

/// Cells per unit, and where Φ is 1 to rounding.
const CELLS: f64 = 64.0;
const END: usize = 8;

type Cubics = Vec<[f64; 4]>;

/// Coefficients of t⁰ … t³ in every cell, t from 0 to 1.
fn cubics(f: impl Fn(f64) -> (f64, f64)) -> Cubics {
    let node = |i: usize| {
        let (value, slope) = f(i as f64 / CELLS);
        (value, slope / CELLS)
    };
    let cell = |i: usize| {
        let ((a, da), (b, db)) = (node(i), node(i + 1));
        [a, da, 3.0 * (b - a) - 2.0 * da - db, 2.0 * (a - b) + da + db]
    };
    (0..END * CELLS as usize).map(cell).collect()
}

fn density(z: f64) -> f64 {
    (-0.5 * z * z).exp() / (2.0 * PI).sqrt()
}

/// Φ(z) − ½ for z ≥ 0.
static HALF: LazyLock<Cubics> = LazyLock::new(|| cubics(|z| (normal_cdf(z) - 0.5, density(z))));
/// E|N(z, 1)| = 2 φ(z) + z (2 Φ(z) − 1) for z ≥ 0; its slope is 2 Φ(z) − 1.
static ABSOLUTE: LazyLock<Cubics> = LazyLock::new(|| {
    cubics(|z| {
        let slope = 2.0 * normal_cdf(z) - 1.0;
        (2.0 * density(z) + z * slope, slope)
    })
});

/// The tables, looked up once.
#[derive(Clone, Copy)]
pub(crate) struct NormalTable {
    half: &'static [[f64; 4]],
    absolute: &'static [[f64; 4]],
}

impl NormalTable {
    pub(crate) fn new() -> NormalTable {
        NormalTable { half: &HALF, absolute: &ABSOLUTE }
    }

    /// (Φ(z), φ(z)).
    #[inline(always)]
    pub(crate) fn cdf(&self, z: f64) -> (f64, f64) {
        let at = z.abs() * CELLS;
        match self.half.get(at as usize) {
            Some([a, b, c, d]) => {
                let t = at - at.floor();
                let value = a + t * (b + t * (c + t * d));
                (0.5 + value.copysign(z), CELLS * (b + t * (2.0 * c + t * 3.0 * d)))
            }
            None => (if z > 0.0 { 1.0 } else { 0.0 }, 0.0),
        }
    }

    /// E|N(z, 1)|.
    #[inline(always)]
    pub(crate) fn mean_absolute(&self, z: f64) -> f64 {
        let at = z.abs() * CELLS;
        match self.absolute.get(at as usize) {
            Some([a, b, c, d]) => {
                let t = at - at.floor();
                a + t * (b + t * (c + t * d))
            }
            None => z.abs(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bound of the head, at places that are no nodes, on both sides and beyond the end.
    #[test]
    fn cubics_are_close() {
        let table = NormalTable::new();
        for i in -20_000..20_000 {
            let z = f64::from(i) * 0.000_457_3;
            let (cdf, slope) = table.cdf(z);
            assert!((cdf - normal_cdf(z)).abs() < 1.3e-10, "{z}: {cdf}");
            assert!((slope - density(z)).abs() < 1e-6, "{z}: {slope}");
            let exact = 2.0 * density(z) + z * (2.0 * normal_cdf(z) - 1.0);
            assert!((table.mean_absolute(z) - exact).abs() < 1.3e-10, "{z}");
        }
        assert!(table.cdf(f64::NAN).0.is_nan() && table.mean_absolute(f64::NAN).is_nan());
    }
}
