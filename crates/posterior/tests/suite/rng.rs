//! Random numbers: distribution of the normals, independence of the keys, the same bits on any number of threads.

use posterior::math::special::normal_cdf;
use posterior::rng::{BLOCK, Key, Normals, Purpose, Stream, fill_normals, fill_normals_par};
use posterior_testing::{chi_square, chi_square_critical, correlation, expect_ks, moments};
use std::collections::HashSet;

const MANY: usize = 1 << 20;

fn normals<R: Normals>(key: Key, n: usize) -> Vec<f64> {
    let mut z = vec![R::ZERO; n];
    fill_normals(key, &mut z);
    z.into_iter().map(|v| v.f64()).collect()
}

fn four_moments_and_distribution<R: Normals>(seed: u64) {
    let mut z = normals::<R>(Key::new(seed), MANY);
    let m = moments(&z);
    let n = (MANY as f64).sqrt();
    // Standard errors for N(0, 1): mean 1/√n, variance √2/√n, skewness √6/√n, kurtosis √24/√n.
    for (name, value, expected, error) in [
        ("mean", m.mean, 0.0, 1.0),
        ("variance", m.variance, 1.0, 2f64.sqrt()),
        ("skewness", m.skewness, 0.0, 6f64.sqrt()),
        ("excess kurtosis", m.excess_kurtosis, 0.0, 24f64.sqrt()),
    ] {
        let score = (value - expected) * n / error;
        assert!(score.abs() < 5.0, "{name} is {value}: z = {score:.2}");
    }
    // The two numbers of one Box–Muller pair lie eight apart; neighbours come from different lanes.
    for lag in [1, 8, 16, BLOCK] {
        let r = correlation(&z[lag..], &z[..MANY - lag]);
        assert!(r.abs() * n < 5.0, "lag {lag}: r = {r}");
    }
    let squares: Vec<f64> = z.iter().map(|v| v * v).collect();
    let r = correlation(&squares[8..], &squares[..MANY - 8]);
    assert!(r.abs() * n < 5.0, "squares at lag 8: r = {r}");
    expect_ks(&mut z, normal_cdf);
}

#[test]
fn normals_have_four_moments_and_the_distribution_in_f32() {
    four_moments_and_distribution::<f32>(1);
}

#[test]
fn normals_have_four_moments_and_the_distribution_in_f64() {
    four_moments_and_distribution::<f64>(2);
}

#[test]
fn tails_have_the_mass_they_should() {
    // Numbers beyond 4σ among 2²⁴: expected 1063, Poisson; five standard deviations are 163. The bound on |z| itself is
    // the module's √(−2 ln u) at its smallest u (2⁻³² for f32, 2⁻⁵³ for f64), too rare to be seen by drawing.
    let expected = 2.0 * normal_cdf(-4.0) * f64::from(1 << 24);
    let mut beyond = 0.0;
    let mut farthest = 0.0_f64;
    for step in 0..16 {
        let z = normals::<f32>(Key::new(3).step(step), MANY);
        beyond += z.iter().filter(|v| v.abs() > 4.0).count() as f64;
        farthest = z.iter().fold(farthest, |m, v| m.max(v.abs()));
    }
    assert!((beyond - expected).abs() < 5.0 * expected.sqrt(), "{beyond} beyond 4σ, {expected:.0} expected");
    // P[max < 4.6] = exp(−2²⁴·4.2e-6) = e⁻⁷¹; above the bound of the formula nothing can lie.
    let bound = (2.0 * 32.0 * std::f64::consts::LN_2).sqrt();
    assert!(bound > 6.6 && farthest > 4.6 && farthest < bound * (1.0 + 1e-6), "{farthest}");
}

#[test]
fn neighbouring_keys_give_independent_streams() {
    let n = 1 << 16;
    let root = (n as f64).sqrt();
    let base = Key::new(7);
    let pairs = |f: &dyn Fn(u64) -> Key| (0..8).map(|i| (f(i), f(i + 1))).collect::<Vec<_>>();
    let mut all = pairs(&Key::new);
    all.extend(pairs(&|i| base.step(i)));
    all.extend(pairs(&|i| base.purpose(Purpose::Weights).step(3).block(i)));
    all.extend([
        (base.purpose(Purpose::Init), base.purpose(Purpose::Batches)),
        (base.purpose(Purpose::Weights), base.purpose(Purpose::Mask)),
        (base.purpose(Purpose::Draw), base.purpose(Purpose::Outcome)),
        (base, base.step(0)),
        (base.step(1).block(2), base.step(2).block(1)),
    ]);
    for (a, b) in all {
        let r = correlation(&normals::<f32>(a, n), &normals::<f32>(b, n));
        assert!(r.abs() * root < 5.0, "{a:?} and {b:?}: r = {r}");
        let mut streams = [Stream::new(a), Stream::new(b)];
        let [x, y] = [0, 1].map(|i| (0..n).map(|_| streams[i].uniform()).collect::<Vec<_>>());
        let r = correlation(&x, &y);
        assert!(r.abs() * root < 5.0, "streams of {a:?} and {b:?}: r = {r}");
    }
}

#[test]
fn no_two_blocks_are_equal_among_100_000_keys() {
    let mut seen = HashSet::new();
    let mut block = [0.0_f64; 2];
    for i in 0..25_000 {
        for key in [
            Key::new(i),
            Key::new(1).step(i + 1),
            Key::new(2).purpose(Purpose::Draw).block(i),
            Key::new(3).step(i % 158).block(i / 158),
        ] {
            f64::fill_block(key, &mut block);
            assert!(seen.insert(block.map(f64::to_bits)), "the block of {key:?} came twice");
        }
    }
}

fn threads_and_prefixes<R: Normals>() {
    let n = 40 * BLOCK + 13;
    let mut all = vec![R::ZERO; n];
    fill_normals(Key::new(11), &mut all);
    for threads in [1, 2, 4] {
        let pool = rayon_pool(threads);
        let mut z = vec![R::ZERO; n];
        pool.install(|| fill_normals_par(Key::new(11), &mut z));
        assert!(z == all, "{threads} threads give other numbers");
    }
    for short in [0, 1, 15, 16, 17, BLOCK - 1, BLOCK, BLOCK + 1, 17 * BLOCK + 5] {
        let mut z = vec![R::ZERO; short];
        fill_normals(Key::new(11), &mut z);
        assert!(z == all[..short], "{short} numbers are no prefix");
    }
}

fn rayon_pool(threads: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads")
}

#[test]
fn threads_and_lengths_do_not_change_the_numbers() {
    threads_and_prefixes::<f32>();
    threads_and_prefixes::<f64>();
}

#[test]
fn stream_uniforms_and_normals_have_their_distributions() {
    let mut stream = Stream::new(Key::new(13));
    let mut u: Vec<f64> = (0..MANY).map(|_| stream.uniform()).collect();
    assert!(u.iter().all(|u| *u > 0.0 && *u < 1.0));
    expect_ks(&mut u, |x| x);
    let mut z: Vec<f64> = (0..MANY / 4).map(|_| stream.normal()).collect();
    expect_ks(&mut z, normal_cdf);
}

#[test]
fn below_is_without_bias() {
    let mut stream = Stream::new(Key::new(17));
    for cells in [2_u64, 3, 10, 97] {
        let (mut counts, n) = (vec![0_u64; cells as usize], 200_000);
        (0..n).for_each(|_| counts[stream.below(cells) as usize] += 1);
        let expected = vec![f64::from(n) / cells as f64; counts.len()];
        let chi = chi_square(&counts, &expected);
        assert!(chi < chi_square_critical(counts.len() - 1), "below({cells}): χ² = {chi}");
    }
    // Where plain multiplication or a remainder would show: n = 3·2⁶² falls into four quarters 1:1:1:0 of 2⁶⁴, and a remainder
    // would favour the lowest third 2:1:1.
    let mut thirds = [0_u64; 3];
    (0..90_000).for_each(|_| thirds[(stream.below(3 << 62) >> 62) as usize] += 1);
    assert!(chi_square(&thirds, &[30_000.0; 3]) < chi_square_critical(2));
}

#[test]
fn shuffles_of_four_are_all_equally_likely() {
    let mut stream = Stream::new(Key::new(19));
    let mut counts = std::collections::BTreeMap::new();
    for _ in 0..240_000 {
        let mut items = [0, 1, 2, 3];
        stream.shuffle(&mut items);
        *counts.entry(items).or_insert(0_u64) += 1;
    }
    assert_eq!(counts.len(), 24);
    let counts: Vec<u64> = counts.into_values().collect();
    let chi = chi_square(&counts, &[10_000.0; 24]);
    assert!(chi < chi_square_critical(23), "χ² = {chi}");
}
