//! Run-time detection: [`simd_fn!`](crate::simd_fn) compiles one body for AVX2 + FMA and for any machine, and where it is worth it for AVX-512.

use crate::error::{Error, Result};
use std::sync::atomic::{AtomicU8, Ordering};

const UNKNOWN: u8 = 0;
const WIDE: u8 = 1;
const PORTABLE: u8 = 2;
const WIDER: u8 = 3;
static CHOICE: AtomicU8 = AtomicU8::new(UNKNOWN);

#[inline]
fn choice() -> u8 {
    match CHOICE.load(Ordering::Relaxed) {
        UNKNOWN => {
            choose(Instructions::from_env().unwrap_or(None).unwrap_or(Instructions::Avx512));
            CHOICE.load(Ordering::Relaxed)
        }
        choice => choice,
    }
}

/// Instruction sets that kernels are compiled for, each with what the one before has. AVX2 and AVX-512 give the same bits; portable ones do not fuse
/// multiply and add on x86-64 and give others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instructions {
    /// What every machine of this architecture has.
    Portable,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 F, DQ and VL.
    Avx512,
}

impl Instructions {
    /// What the environment allows at most: `POSTERIOR_SIMD` is `portable`, `avx2` or `avx512`; `POSTERIOR_PORTABLE`, with any value, means `portable`.
    pub fn from_env() -> Result<Option<Instructions>> {
        if std::env::var_os("POSTERIOR_PORTABLE").is_some() {
            return Ok(Some(Instructions::Portable));
        }
        let Some(given) = std::env::var_os("POSTERIOR_SIMD") else { return Ok(None) };
        match given.to_str() {
            Some("portable") => Ok(Some(Instructions::Portable)),
            Some("avx2") => Ok(Some(Instructions::Avx2)),
            Some("avx512") => Ok(Some(Instructions::Avx512)),
            _ => Err(Error::setting(
                format!("the environment variable POSTERIOR_SIMD cannot be '{}'", given.display()),
                "it is portable, avx2 or avx512",
            )),
        }
    }

    /// The most that this machine has.
    pub fn detected() -> Instructions {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma");
            let avx512 = std::arch::is_x86_feature_detected!("avx512f")
                && std::arch::is_x86_feature_detected!("avx512dq")
                && std::arch::is_x86_feature_detected!("avx512vl");
            match (avx2, avx512) {
                (true, true) => Instructions::Avx512,
                (true, false) => Instructions::Avx2,
                _ => Instructions::Portable,
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        Instructions::Portable
    }
}

/// Chooses the versions that run, in the whole process: those for `most`, or for the most that the machine has.
pub fn choose(most: Instructions) {
    let choice = match (most, Instructions::detected()) {
        (Instructions::Portable, _) | (_, Instructions::Portable) => PORTABLE,
        (Instructions::Avx512, Instructions::Avx512) => WIDER,
        _ => WIDE,
    };
    CHOICE.store(choice, Ordering::Relaxed);
}

/// Whether the AVX2 + FMA versions run. Decided once, then a load and a branch.
/// What the environment says is read at the first call, see [`Instructions::from_env`].
#[inline]
pub fn wide() -> bool {
    matches!(choice(), WIDE | WIDER)
}

/// Whether the AVX-512 versions run, of functions that have one.
#[inline]
pub fn wider() -> bool {
    choice() == WIDER
}

/// Chooses the portable versions, or whatever suits the machine; for the whole process, for tests that compare the two.
pub fn choose_portable(portable: bool) {
    choose(if portable { Instructions::Portable } else { Instructions::Avx512 });
}

/// Whether the portable version may fuse multiply and add: where the base instruction set has it.
pub const PORTABLE_FUSES: bool = cfg!(target_arch = "aarch64");

/// Defines a function, generic over [`Real`](crate::math::Real) or not, whose body may use the constant `F` (fused multiply-add).
///
/// The body is compiled for AVX2 + FMA and for the base instruction set; the call picks at run time. Loops over slices
/// of known equal length, without branches, become SIMD code. Sums need their own lanes: the compiler does not reorder
/// floating point.
///
/// With `wider` before its name a function is compiled for AVX-512 too, and a generic one is told so by the constant `W`: the same operations on every number, so the
/// same bits, in vectors of twice the length.
///
/// ```
/// posterior::simd_fn! {
///     /// y ← a·x + y
///     pub fn axpy<R>(a: R, x: &[R], y: &mut [R]) {
///         let x = &x[..y.len()];
///         for i in 0..y.len() {
///             y[i] = a.mul_add::<F>(x[i], y[i]);
///         }
///     }
/// }
/// let mut y = [1.0_f32, 2.0];
/// axpy(2.0, &[10.0, 20.0], &mut y);
/// assert_eq!(y, [21.0, 42.0]);
/// ```
#[macro_export]
macro_rules! simd_fn {
    ($(#[$meta:meta])* wider $vis:vis fn $name:ident<$R:ident>($($arg:ident : $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        $vis fn $name<$R: $crate::math::Real>($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            fn body<$R: $crate::math::Real, const F: bool, const W: bool>($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx2,fma")]
                fn wider<$R: $crate::math::Real>($($arg: $ty),*) $(-> $ret)? {
                    body::<$R, true, true>($($arg),*)
                }
                #[target_feature(enable = "avx2,fma")]
                fn wide<$R: $crate::math::Real>($($arg: $ty),*) $(-> $ret)? {
                    body::<$R, true, false>($($arg),*)
                }
                if $crate::math::simd::wider() {
                    // SAFETY: `simd::wider` is true only where all these features were detected.
                    return unsafe { wider::<$R>($($arg),*) };
                }
                if $crate::math::simd::wide() {
                    // SAFETY: `simd::wide` is true only where both features were detected.
                    return unsafe { wide::<$R>($($arg),*) };
                }
            }
            body::<$R, { $crate::math::simd::PORTABLE_FUSES }, false>($($arg),*)
        }
    };
    ($(#[$meta:meta])* $vis:vis fn $name:ident<$R:ident>($($arg:ident : $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        $vis fn $name<$R: $crate::math::Real>($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            fn body<$R: $crate::math::Real, const F: bool>($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn wide<$R: $crate::math::Real>($($arg: $ty),*) $(-> $ret)? {
                    body::<$R, true>($($arg),*)
                }
                if $crate::math::simd::wide() {
                    // SAFETY: `simd::wide` is true only where both features were detected.
                    return unsafe { wide::<$R>($($arg),*) };
                }
            }
            body::<$R, { $crate::math::simd::PORTABLE_FUSES }>($($arg),*)
        }
    };
    ($(#[$meta:meta])* wider $vis:vis fn $name:ident($($arg:ident : $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        $vis fn $name($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            fn body<const F: bool>($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx2,fma")]
                fn wider($($arg: $ty),*) $(-> $ret)? {
                    body::<true>($($arg),*)
                }
                #[target_feature(enable = "avx2,fma")]
                fn wide($($arg: $ty),*) $(-> $ret)? {
                    body::<true>($($arg),*)
                }
                if $crate::math::simd::wider() {
                    // SAFETY: `simd::wider` is true only where all these features were detected.
                    return unsafe { wider($($arg),*) };
                }
                if $crate::math::simd::wide() {
                    // SAFETY: `simd::wide` is true only where both features were detected.
                    return unsafe { wide($($arg),*) };
                }
            }
            body::<{ $crate::math::simd::PORTABLE_FUSES }>($($arg),*)
        }
    };
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident : $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        $vis fn $name($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            fn body<const F: bool>($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn wide($($arg: $ty),*) $(-> $ret)? {
                    body::<true>($($arg),*)
                }
                if $crate::math::simd::wide() {
                    // SAFETY: `simd::wide` is true only where both features were detected.
                    return unsafe { wide($($arg),*) };
                }
            }
            body::<{ $crate::math::simd::PORTABLE_FUSES }>($($arg),*)
        }
    };
}
