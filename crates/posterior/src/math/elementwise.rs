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
