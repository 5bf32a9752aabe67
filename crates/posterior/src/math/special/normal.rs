//! Φ(x) = ½ erfc(−x/√2), its logarithm and its inverse, accurate to the last digits in both tails.
//!
//! Reference: Wichura (1988), Algorithm AS 241, Applied Statistics 37; Abramowitz & Stegun 26.2.12 (tail series).

use super::HALF_LN_TAU;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

/// What is missing from the f64 value of 1/√2.
const FRAC_1_SQRT_2_REST: f64 = -4.833_646_656_726_456_5e-17;

/// erf(x) = 2/√π ∫₀ˣ e^{−t²} dt.
pub fn erf(x: f64) -> f64 {
    libm::erf(x)
}

/// erfc(x) = 1 − erf(x), with relative accuracy where it is small.
pub fn erfc(x: f64) -> f64 {
    libm::erfc(x)
}

/// Φ(x), the standard normal distribution function.
pub fn normal_cdf(x: f64) -> f64 {
    let t = -x * FRAC_1_SQRT_2;
    let tail = 0.5 * erfc(t);
    if t > 1.0 && t < 40.0 {
        // erfc(t + r) ≈ erfc(t) − 2/√π e^{−t²} r: the rounding r of t would cost t² units in the last place.
        let r = (-x).mul_add(FRAC_1_SQRT_2, -t) - x * FRAC_1_SQRT_2_REST;
        tail - 0.5 * FRAC_2_SQRT_PI * (-t * t).exp() * r
    } else {
        tail
    }
}

/// ln Φ(x), finite for every finite x.
pub fn normal_log_cdf(x: f64) -> f64 {
    if x > 0.0 {
        (-normal_cdf(-x)).ln_1p()
    } else if x > -10.0 || x.is_nan() {
        normal_cdf(x).ln()
    } else if x == f64::NEG_INFINITY {
        x
    } else {
        // Φ(x) = φ(x)/|x| · (1 − 1/x² + 1·3/x⁴ − …); at |x| = 10 the term k = 20 is 3e-17.
        let inverse = 1.0 / (x * x);
        let (mut term, mut sum) = (1.0, 0.0);
        for k in 1..=20 {
            term *= -f64::from(2 * k - 1) * inverse;
            sum += term;
        }
        -0.5 * x * x - (-x).ln() - HALF_LN_TAU + sum.ln_1p()
    }
}

fn horner(coefficients: &[f64; 8], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
}

/// Φ⁻¹(p); −∞ at 0, ∞ at 1, NaN outside.
pub fn normal_quantile(p: f64) -> f64 {
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180625 - q * q;
        return q * horner(&A, r) / horner(&B, r);
    }
    if !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    let tail = if q < 0.0 { p } else { 1.0 - p };
    if tail == 0.0 {
        return f64::INFINITY.copysign(q);
    }
    let r = (-tail.ln()).sqrt();
    let x =
        if r <= 5.0 { horner(&C, r - 1.6) / horner(&D, r - 1.6) } else { horner(&E, r - 5.0) / horner(&F, r - 5.0) };
    x.copysign(q)
}

const A: [f64; 8] = [
    3.387_132_872_796_366_608,
    133.141_667_891_784_377_45,
    1_971.590_950_306_551_442_7,
    13_731.693_765_509_461_125,
    45_921.953_931_549_871_457,
    67_265.770_927_008_700_853,
    33_430.575_583_588_128_105,
    2_509.080_928_730_122_672_7,
];
const B: [f64; 8] = [
    1.0,
    42.313_330_701_600_911_252,
    687.187_007_492_057_908_3,
    5_394.196_021_424_751_107_7,
    21_213.794_301_586_595_867,
    39_307.895_800_092_710_61,
    28_729.085_735_721_942_674,
    5_226.495_278_852_854_561,
];
const C: [f64; 8] = [
    1.423_437_110_749_683_577_34,
    4.630_337_846_156_545_295_9,
    5.769_497_221_460_691_405_5,
    3.647_848_324_763_204_605_04,
    1.270_458_252_452_368_382_58,
    0.241_780_725_177_450_611_77,
    2.272_384_498_926_918_458_33e-2,
    7.745_450_142_783_414_076_4e-4,
];
const D: [f64; 8] = [
    1.0,
    2.053_191_626_637_758_821_87,
    1.676_384_830_183_803_849_4,
    0.689_767_334_985_100_004_55,
    0.148_103_976_427_480_074_59,
    1.519_866_656_361_645_719_66e-2,
    5.475_938_084_995_344_946e-4,
    1.050_750_071_644_416_843_24e-9,
];
const E: [f64; 8] = [
    6.657_904_643_501_103_777_2,
    5.463_784_911_164_114_369_9,
    1.784_826_539_917_291_335_8,
    0.296_560_571_828_504_891_23,
    2.653_218_952_657_612_309_3e-2,
    1.242_660_947_388_078_438_6e-3,
    2.711_555_568_743_487_578_15e-5,
    2.010_334_399_292_288_132_65e-7,
];
const F: [f64; 8] = [
    1.0,
    0.599_832_206_555_887_937_69,
    0.136_929_880_922_735_805_31,
    1.487_536_129_085_061_485_25e-2,
    7.868_691_311_456_132_591e-4,
    1.846_318_317_510_054_681_8e-5,
    1.421_511_758_316_445_888_7e-7,
    2.044_263_103_389_939_785_64e-15,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn close(name: &str, x: f64, got: f64, expected: f64, tolerance: f64) {
        let error = (got - expected).abs() / expected.abs().max(f64::MIN_POSITIVE);
        assert!(error <= tolerance, "{name}({x}) = {got:e}, not {expected:e}: relative error {error:.1e}");
    }

    // Expected values: mpmath 1.4 with 50 digits, at the exact f64 argument.

    #[test]
    fn error_functions() {
        for (x, y) in [
            (-3.0, 1.9999779095030014146),
            (-0.5, 1.5204998778130465377),
            (0.25, 0.72367360983176306701),
            (1.0, 0.15729920705028513066),
            (2.5, 0.00040695201744495893956),
            (6.0, 2.1519736712498913117e-17),
            (15.0, 7.2129941724512066666e-100),
            (26.0, 5.6631924088561428465e-296),
        ] {
            close("erfc", x, erfc(x), y, 1e-15);
        }
        for (x, y) in [
            (1e-8, 1.1283791670955125599e-8),
            (0.1, 0.1124629160182848984),
            (0.7, 0.67780119383741844228),
            (1.5, 0.96610514647531072707),
            (3.0, 0.99997790950300141456),
        ] {
            close("erf", x, erf(x), y, 1e-15);
        }
    }

    #[test]
    fn normal_distribution_function() {
        for (x, y) in [
            (-37.0, 5.7255712225245768227e-300),
            (-30.0, 4.9067139271481870595e-198),
            (-20.0, 2.7536241186062336951e-89),
            (-8.0, 6.2209605742717841235e-16),
            (-3.0, 0.0013498980316300945267),
            (-1.0, 0.15865525393145705141),
            (-0.1, 0.46017216272297101633),
            (0.1, 0.53982783727702898367),
            (1.0, 0.84134474606854294859),
            (3.0, 0.99865010196836990547),
            (8.0, 0.9999999999999993779),
        ] {
            close("cdf", x, normal_cdf(x), y, 2e-15);
        }
        assert_eq!((normal_cdf(f64::NEG_INFINITY), normal_cdf(f64::INFINITY)), (0.0, 1.0));
        assert!(normal_cdf(f64::NAN).is_nan());
    }

    #[test]
    fn logarithm_of_the_distribution_function() {
        for (x, y) in [
            (-1e5, -5000000012.4318639983),
            (-1000.0, -500007.82669481218431),
            (-100.0, -5005.5242086942050886),
            (-37.0, -689.0305855768905936),
            (-20.0, -203.91715537109726394),
            (-12.0, -75.410673001568795939),
            (-10.001, -53.241383739024036293),
            (-9.999, -53.221187552555526995),
            (-5.0, -15.064998393988725736),
            (-1.0, -1.8410216450092635058),
            (0.0, -std::f64::consts::LN_2),
            (1.0, -0.17275377902344988953),
            (5.0, -2.8665161296376359338e-7),
            (8.0, -6.2209605742717860585e-16),
        ] {
            close("log cdf", x, normal_log_cdf(x), y, 2e-15);
        }
        assert_eq!(normal_log_cdf(f64::NEG_INFINITY), f64::NEG_INFINITY);
        assert_eq!(normal_log_cdf(f64::INFINITY), 0.0);
        assert!(normal_log_cdf(f64::NAN).is_nan());
    }

    #[test]
    fn quantiles() {
        for (p, x) in [
            (1e-300, -37.047096299361199237),
            (1e-100, -21.273453560965324294),
            (1e-20, -9.2623400897984075796),
            (1e-8, -5.6120012441747887279),
            (0.001, -3.0902323061678135354),
            (0.02, -2.0537489106318230443),
            (0.075, -1.4395314709384559349),
            (0.2, -0.84162123357291416552),
            (0.7, 0.52440051270804065631),
            (0.93, 1.475791028179171099),
            (0.999, 3.0902323061678132778),
        ] {
            close("quantile", p, normal_quantile(p), x, 2e-15);
        }
        assert_eq!(normal_quantile(0.5), 0.0);
        assert_eq!((normal_quantile(0.0), normal_quantile(1.0)), (f64::NEG_INFINITY, f64::INFINITY));
        assert!([-0.1, 1.1, f64::NAN].iter().all(|p| normal_quantile(*p).is_nan()));
        // And back: the relative error of x, a few roundings of the rational function, grows by x² in the tail.
        for i in 1..100 {
            let p = (-0.1 * f64::from(i * i)).exp2();
            let back = normal_cdf(normal_quantile(p));
            let x = normal_quantile(p);
            assert!((back / p - 1.0).abs() < 1e-15 * (4.0 + x * x), "{p:e} {back:e}");
        }
    }
}
