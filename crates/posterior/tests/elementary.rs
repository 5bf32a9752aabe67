//! Elementary functions against the standard library in f64, and the portable code against the wide one.
//!
//! One test in a process of its own: it switches the whole process between the two.

use posterior::math::simd::choose_portable;
use posterior::math::{Real, elementwise};
use posterior::rng::{Key, Normals, fill_normals};

/// A function on slices, what it should be, the points, and the largest error allowed (relative, or absolute below `floor`).
struct Case<R> {
    name: &'static str,
    ours: fn(&mut [R]),
    exact: fn(f64) -> f64,
    from: f64,
    to: f64,
    bound: f64,
    floor: f64,
}

fn cases<R: Real>(ulp: f64) -> Vec<Case<R>> {
    let case = |name, ours, exact, (from, to), bound, floor| Case { name, ours, exact, from, to, bound, floor };
    let exp_range = if ulp > 1e-10 { (-87.0, 88.0) } else { (-708.0, 709.0) };
    let log1p_exp: fn(f64) -> f64 = |x| x.max(0.0) + (-x.abs()).exp().ln_1p();
    vec![
        case("exp", elementwise::exp as fn(&mut [R]), f64::exp as fn(f64) -> f64, exp_range, 2.0 * ulp, 0.0),
        case("ln", elementwise::ln, f64::ln, (1e-30, 1e30), 2.0 * ulp, 1.0),
        case("ln near 1", elementwise::ln, f64::ln, (0.5, 2.0), 2.0 * ulp, 1.0),
        case("tanh", elementwise::tanh, f64::tanh, (-20.0, 20.0), 4.0 * ulp, 1.0),
        case("tanh small", elementwise::tanh, f64::tanh, (-0.5, 0.5), 4.0 * ulp, 1.0),
        case("sigmoid", elementwise::sigmoid, |x| 1.0 / (1.0 + (-x).exp()), (-40.0, 40.0), 2.0 * ulp, 1.0),
        case("softplus", elementwise::softplus, log1p_exp, (-80.0, 80.0), 4.0 * ulp, 0.0),
    ]
}

const POINTS: usize = 200_001;

fn check<R: Real>(ulp: f64) -> Vec<Vec<f64>> {
    cases::<R>(ulp)
        .into_iter()
        .map(|c| {
            let log = c.from > 0.0 && c.to / c.from > 1e6;
            let at = |i: usize| {
                let t = i as f64 / (POINTS - 1) as f64;
                if log { c.from * (c.to / c.from).powf(t) } else { c.from + (c.to - c.from) * t }
            };
            let mut values: Vec<R> = (0..POINTS).map(|i| R::of(at(i))).collect();
            let inputs = values.clone();
            (c.ours)(&mut values);
            let mut worst = (0.0, 0.0);
            for (x, y) in inputs.iter().zip(&values) {
                let exact = (c.exact)(x.f64());
                let error = (y.f64() - exact).abs() / exact.abs().max(c.floor).max(f64::MIN_POSITIVE);
                if error > worst.0 {
                    worst = (error, x.f64());
                }
            }
            println!("{:<10} {:e} at {}", c.name, worst.0, worst.1);
            assert!(worst.0 <= c.bound, "{}: error {:e} at {} is over {:e}", c.name, worst.0, worst.1, c.bound);
            values.iter().map(|v| v.f64()).collect()
        })
        .collect()
}

fn edges<R: Real>() {
    let run = |f: fn(&mut [R]), x: f64| {
        let mut v = [R::of(x); 9];
        f(&mut v);
        v[8].f64()
    };
    for f in [elementwise::exp, elementwise::ln, elementwise::tanh, elementwise::sigmoid, elementwise::softplus] {
        assert!(run(f, f64::NAN).is_nan(), "not-a-number comes out");
    }
    assert_eq!(run(elementwise::exp, -1e9), 0.0);
    assert_eq!(run(elementwise::exp, 1e9), f64::INFINITY);
    assert_eq!(run(elementwise::ln, 0.0), f64::NEG_INFINITY);
    assert!(run(elementwise::ln, -1.0).is_nan());
    assert_eq!(run(elementwise::ln, f64::INFINITY), f64::INFINITY);
    assert!((run(elementwise::ln, 1e-40) - (1e-40f64).ln()).abs() < 1e-3); // subnormal in f32
    assert!(run(elementwise::softplus, -60.0) > 0.0, "softplus keeps its digits far below 0");
    assert!((run(elementwise::tanh, 1e9) - 1.0).abs() < 4e-7);
    assert_eq!(run(elementwise::sigmoid, -1e9), 0.0);
}

fn normals<R: Normals>() -> Vec<f64> {
    let mut z = vec![R::ZERO; 5000];
    fill_normals(Key::new(1), &mut z);
    z.iter().map(|v| v.f64()).collect()
}

/// Largest difference, relative above 1 and absolute below.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| if a == b { 0.0 } else { (a - b).abs() / a.abs().max(1.0) }).fold(0.0, f64::max)
}

#[test]
fn bounds_hold_and_the_portable_code_agrees_to_rounding() {
    let (single, double) = (f64::from(f32::EPSILON), f64::EPSILON);
    let run = || (check::<f32>(single), check::<f64>(double), normals::<f32>(), normals::<f64>());
    let wide = run();
    edges::<f32>();
    edges::<f64>();
    choose_portable(true);
    let portable = run();
    edges::<f32>();
    edges::<f64>();
    choose_portable(false);
    // exp near its upper end multiplies the rounding of its argument, hence relative differences of some units in the last place.
    for (a, b) in wide.0.iter().zip(&portable.0) {
        assert!(distance(a, b) < 8.0 * single);
    }
    for (a, b) in wide.1.iter().zip(&portable.1) {
        assert!(distance(a, b) < 8.0 * double);
    }
    // −2 ln u, a root, a product: some units in the last place of at most 8.6.
    assert!(distance(&wide.2, &portable.2) < 16.0 * single && distance(&wide.3, &portable.3) < 16.0 * double);
}
