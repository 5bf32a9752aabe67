//! Element-wise passes over slices, in SIMD.

use crate::simd_fn;

macro_rules! map {
    ($($(#[$meta:meta])* $name:ident => $method:ident),* $(,)?) => {$(
        simd_fn! {
            $(#[$meta])*
            pub fn $name<R>(x: &mut [R]) {
                for v in x {
                    *v = v.$method::<F>();
                }
            }
        }
    )*};
}

map! {
    /// x ← eˣ
    exp => exp,
    /// x ← ln x
    ln => ln,
    /// x ← tanh x
    tanh => tanh,
    /// x ← ln(1 + eˣ)
    softplus => softplus,
    /// x ← 1/(1 + e⁻ˣ)
    sigmoid => sigmoid,
}

simd_fn! {
    /// y ← y + a·x
    pub fn axpy<R>(a: R, x: &[R], y: &mut [R]) {
        let x = &x[..y.len()];
        for i in 0..y.len() {
            y[i] = a.mul_add::<F>(x[i], y[i]);
        }
    }
}

simd_fn! {
    /// xᵀy: sixteen lanes in the vectors' precision, added up in f64 in a fixed order.
    ///
    /// The lanes stay in registers as long as nothing else is done with them than this: what is left over has a sum of its own.
    pub fn dot<R>(x: &[R], y: &[R]) -> f64 {
        let mut lanes = [R::ZERO; 16];
        let y = &y[..x.len()];
        let ((x, x_rest), (y, y_rest)) = (x.as_chunks::<16>(), y.as_chunks::<16>());
        for (x, y) in x.iter().zip(y) {
            for l in 0..16 {
                lanes[l] = x[l].mul_add::<F>(y[l], lanes[l]);
            }
        }
        let mut rest = R::ZERO;
        for (x, y) in x_rest.iter().zip(y_rest) {
            rest = x.mul_add::<F>(*y, rest);
        }
        lanes.iter().map(|v| v.f64()).sum::<f64>() + rest.f64()
    }
}
