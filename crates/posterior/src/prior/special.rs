//! What priors need of `math::special`, until that is in.

/// ½ ln 2π
pub(super) const HALF_LN_TAU: f64 = 0.918_938_533_204_672_8;

/// The error function.
pub(super) fn erf(x: f64) -> f64 {
    libm::erf(x)
}
