//! Layers and networks by finite differences, brute force and equal bits, with fixed weights and with noise by row.

use super::{expect_same_on_threads, expect_settings};
use crate::gradient::check_gradient;
use posterior::Real;
use posterior::nn::{
    AnyNetwork, CustomLayer, Gradient, Graph, LayerSpec, MatRef, Mode, Network, NetworkSpec, Noisy, Pass, RowNoise,
    Shape, Threads, Weights, layers,
};
use posterior::problem::JacobianFactors;
use posterior::rng::{Key, fill_normals};
use std::ops::Range;
use std::sync::Arc;

/// Rounding and the fourth order of the differences: see [`crate::gradient`].
const TOLERANCE: f64 = 1e-7;
const ROWS: usize = 5;
/// Enough for several teams of threads.
const MANY: usize = 600;
/// Indices go from 0 to this, the last of which is no category of the layers in the tests here.
const CATEGORIES: usize = 6;

/// A layer as written, for rows of a shape; a dense layer of two outputs follows it. Its options, and the way through a configuration and a model file, are
/// checked besides what [`expect_network`] checks.
///
/// # Panics
/// If it breaks a rule.
#[track_caller]
pub fn expect_layer(layer: &LayerSpec, input: Shape) {
    let spec = NetworkSpec { layers: vec![layer.clone()] };
    let build = |spec: &NetworkSpec| spec.build(input, 2);
    let network = build(&spec).unwrap_or_else(|e| panic!("{e}"));
    let describe = |n: &Graph| (n.describe(), n.layout().blocks().iter().map(|b| b.name.clone()).collect::<Vec<_>>());
    let text = toml::to_string(&spec).unwrap_or_else(|e| panic!("{layer:?} cannot be written: {e}"));
    let from_toml: NetworkSpec = toml::from_str(&text).unwrap_or_else(|e| panic!("{e} in {text}"));
    let json = serde_json::to_string(&spec).unwrap_or_else(|e| panic!("{layer:?} cannot be written: {e}"));
    let from_json: NetworkSpec = serde_json::from_str(&json).unwrap_or_else(|e| panic!("{e} in {json}"));
    assert!(from_toml == spec && from_json == spec, "{text}: comes back as {from_toml:?} and {from_json:?}");
    let again = build(&from_json).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(describe(&again), describe(&network), "built again");
    if let LayerSpec::Custom(CustomLayer { kind, options }) = layer {
        let entry = layers().into_iter().find(|l| l.name == kind).unwrap_or_else(|| panic!("no layer '{kind}'"));
        expect_settings(kind, entry.settings, |given| {
            let mut changed = CustomLayer { kind: kind.clone(), options: options.clone() };
            changed.options.extend(given.iter().cloned());
            build(&NetworkSpec { layers: vec![changed.into()] }).map(drop)
        });
    }
    expect_network(kind_of(layer), network, 0..0);
}

fn kind_of(layer: &LayerSpec) -> String {
    let value = serde_json::to_value(layer).ok();
    value.and_then(|v| v.get("kind")?.as_str().map(str::to_owned)).unwrap_or_default()
}

fn normals(seed: u64, n: usize) -> Vec<f64> {
    let mut z = vec![0.0; n];
    fill_normals(Key::new(seed), &mut z);
    z
}

/// Normals, and indices where they are wanted.
fn inputs(width: usize, indices: &Range<usize>, rows: usize) -> Vec<f64> {
    let mut x = normals(7, rows * width);
    for (r, row) in x.chunks_mut(width).enumerate() {
        indices.clone().for_each(|i| row[i] = ((r * 3 + i) % CATEGORIES) as f64);
    }
    x
}

fn pass(threads: Threads) -> Pass {
    Pass { mode: Mode::Train(Key::new(4)), layer: 0, first_row: 32, threads }
}

/// L = Σ c f with fixed normals c; dL/dw, dL/d(spread) with noise and dL/dx, one behind the other.
pub fn network_value<R: Real>(
    network: &Graph,
    weights: Weights<'_, R>,
    x: &[R],
    rows: usize,
    threads: Threads,
) -> (f64, Vec<R>)
where
    Graph: Network<R>,
{
    let c = normals(9, rows * network.outputs());
    let mut ws = Network::<R>::workspace(network, rows + 2);
    let x_rows = MatRef::new(x, rows, network.input().len());
    let f = network.forward(weights, x_rows, &pass(threads), &mut ws).data.to_vec();
    ws.output_and_delta().1[..c.len()].iter_mut().zip(&c).for_each(|(d, c)| *d = R::of(*c));
    let n = network.layout().len();
    let noisy = matches!(weights, Weights::Noisy(_));
    let (mut centre, mut spread) = (vec![R::of(f64::NAN); n], vec![R::of(f64::NAN); if noisy { n } else { 0 }]);
    let mut dx = vec![R::of(f64::NAN); x.len()];
    let grad = Gradient { centre: &mut centre, spread: &mut spread };
    network.backward(weights, x_rows, &pass(threads), &mut ws, grad, false, Some(&mut dx));
    (f.iter().zip(&c).map(|(f, c)| f.f64() * c).sum(), [centre, spread, dx].concat())
}

/// A network; `indices` are the columns that hold indices of categories instead of numbers.
///
/// # Panics
/// If it breaks a rule.
#[track_caller]
pub fn expect_network(name: impl AsRef<str>, network: Graph, indices: Range<usize>) {
    let name = name.as_ref();
    gradients(name, &network, &indices);
    bits_and_precisions(name, &network, &indices);
    dropout(name, &network, &indices);
    jacobian_factors(name, Arc::new(network), &indices);
}

/// In weights, spreads of the noise and inputs. An index has no gradient: it is held.
fn gradients(name: &str, network: &Graph, indices: &Range<usize>) {
    let (n, width) = (network.layout().len(), network.input().len());
    let x = inputs(width, indices, ROWS);
    let w: Vec<f64> = normals(11, n).iter().map(|z| 0.4 * z).collect();
    let spread: Vec<f64> = normals(12, n).iter().map(|z| 0.05 + 0.2 * z.abs()).collect();
    let held = |g: &mut [f64]| {
        for row in g.chunks_mut(width) {
            row[indices.clone()].iter_mut().for_each(|g| assert_eq!(std::mem::replace(g, 0.0), 0.0, "{name}"));
        }
    };
    let at = |point: &[f64]| -> Vec<f64> {
        let mut moved = point.to_vec();
        for (moved, old) in moved.chunks_mut(width).zip(x.chunks(width)) {
            moved[indices.clone()].copy_from_slice(&old[indices.clone()]);
        }
        moved
    };
    let mut fixed = |p: &[f64]| {
        let (v, mut g) = network_value(network, p[..n].into(), &at(&p[n..]), ROWS, Threads::One);
        held(&mut g[n..]);
        (v, g)
    };
    expect(name, "fixed weights", &mut fixed, &[&w[..], &x].concat());
    for noise in [RowNoise::Local, RowNoise::Flipout] {
        let mut noisy = |p: &[f64]| {
            let weights = Weights::Noisy(Noisy { noise, mean: &p[..n], spread: &p[n..2 * n] });
            let (v, mut g) = network_value(network, weights, &at(&p[2 * n..]), ROWS, Threads::One);
            held(&mut g[2 * n..]);
            (v, g)
        };
        expect(name, &format!("{noise:?}"), &mut noisy, &[&w[..], &spread, &x].concat());
    }
    expect_noise(name, network, &w, &x);
}

fn expect(name: &str, what: &str, f: impl FnMut(&[f64]) -> (f64, Vec<f64>), point: &[f64]) {
    check_gradient(f, point, TOLERANCE).unwrap_or_else(|e| panic!("{name}, {what}: {e}"));
}

/// Noise by row changes the outputs, and by more than rounding: a map that ignores the spread would pass every gradient check.
fn expect_noise(name: &str, network: &Graph, w: &[f64], x: &[f64]) {
    let spread = vec![0.04; w.len()];
    let plain = network_value::<f64>(network, w.into(), x, ROWS, Threads::One).0;
    for noise in [RowNoise::Local, RowNoise::Flipout] {
        let run = |spread: &[f64]| {
            network_value::<f64>(network, Weights::Noisy(Noisy { noise, mean: w, spread }), x, ROWS, Threads::One).0
        };
        let (noisy, without) = (run(&spread), run(&vec![0.0; w.len()]));
        let size = 1.0 + plain.abs();
        assert!((noisy - plain).abs() > 1e-6 * size, "{name}, {noise:?}: weights with a spread give the same outputs");
        // Variances have 1e-16 added, so that their root has a slope: 1e-8 for every unit.
        assert!((without - plain).abs() < 1e-6 * size, "{name}, {noise:?}: {without} without a spread and not {plain}");
    }
}

fn bits_and_precisions(name: &str, network: &Graph, indices: &Range<usize>) {
    let (n, x) = (network.layout().len(), inputs(network.input().len(), indices, MANY));
    let w: Vec<f64> = normals(11, n).iter().map(|z| 0.4 * z).collect();
    let spread = vec![0.1; n];
    let single = |v: &[f64]| v.iter().map(|v| *v as f32).collect::<Vec<f32>>();
    let (w32, x32) = (single(&w), single(&x));
    let run = |threads| {
        let noisy = |noise| Weights::Noisy(Noisy { noise, mean: &w, spread: &spread });
        let double = [w[..].into(), noisy(RowNoise::Local), noisy(RowNoise::Flipout)];
        let double = double.map(|w| network_value::<f64>(network, w, &x, MANY, threads));
        (double, network_value::<f32>(network, w32[..].into(), &x32, MANY, threads))
    };
    let expected = expect_same_on_threads(name, || run(Threads::Pool));
    assert!(run(Threads::One) == expected, "{name}: other bits without the pool");
    let (exact, narrow) = (&expected.0[0].1, &expected.1.1);
    let size = (exact.iter().map(|v| v * v).sum::<f64>() / exact.len() as f64).sqrt();
    for (a, b) in exact.iter().zip(narrow) {
        // Sums of a few thousand rounded terms: √n·6e-8 of their size, a hundred times that for what cancels.
        assert!((a - f64::from(*b)).abs() < 1e-4 * (size + a.abs()), "{name}: {a} in double, {b} in single precision");
    }
}

/// Factors of every affine block against one backward pass per row and output, and the vjp against the backward pass.
fn jacobian_factors(name: &str, network: Arc<Graph>, indices: &Range<usize>) {
    let (n, k, width) = (network.layout().len(), network.outputs(), network.input().len());
    let x = inputs(width, indices, ROWS);
    let w: Vec<f64> = normals(11, n).iter().map(|z| 0.4 * z).collect();
    let blocks = network.affine_blocks().to_vec();
    assert_eq!(blocks.iter().map(|b| b.len()).sum::<usize>(), n, "{name}: every parameter is in one block");
    let rows = MatRef::new(&x, ROWS, width);
    let mut factors = JacobianFactors::<f64>::new(network.clone(), &blocks, ROWS);
    factors.run(&w, rows, Threads::One);
    let mut ws = Network::<f64>::workspace(&*network, 1);
    let plain = Pass { mode: Mode::Plain, ..pass(Threads::One) };
    for (r, o) in (0..ROWS).flat_map(|r| (0..k).map(move |o| (r, o))) {
        let x = rows.slice(r, r + 1);
        let mut one = |grad: Option<&mut [f64]>, dx: &mut [f64]| {
            network.forward(w[..].into(), x, &plain, &mut ws);
            let (_, delta) = ws.output_and_delta();
            delta[..k].fill(0.0);
            delta[o] = 1.0;
            match grad {
                Some(g) => network.backward(w[..].into(), x, &plain, &mut ws, g.into(), false, Some(dx)),
                None => network.vjp(&w, x, &plain, &mut ws, 0, Some(dx)),
            }
        };
        let (mut grad, mut dx, mut by_vjp) = (vec![0.0; n], vec![0.0; x.cols], vec![f64::NAN; x.cols]);
        one(Some(&mut grad), &mut dx);
        one(None, &mut by_vjp);
        assert!(dx.iter().zip(&by_vjp).all(|(a, b)| (a - b).abs() < 1e-13 * (1.0 + a.abs())), "{name}: vjp");
        for (l, block) in blocks.iter().enumerate() {
            let mut j = vec![f64::NAN; block.len()];
            factors.jacobian(l, r, o, &mut j);
            for (i, u) in (0..block.rows()).flat_map(|i| (0..block.units).map(move |u| (i, u))) {
                // Rounding of sums over a few dozen positions.
                let (a, b) = (j[i * block.units + u], grad[block.index(i, u)]);
                assert!((a - b).abs() < 1e-12 * (1.0 + b.abs()), "{name}, factors of block {l}: {a} {b}");
            }
        }
    }
}

/// Dropout masks units and keeps the parameters.
fn dropout(name: &str, network: &Graph, indices: &Range<usize>) {
    let (n, width) = (network.layout().len(), network.input().len());
    let x = inputs(width, indices, ROWS);
    let w: Vec<f64> = normals(11, n).iter().map(|z| 0.4 * z).collect();
    let dropping = network.with_dropout(0.3, 0.3).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(dropping.is_random(), "{name}");
    let ranges = |n: &dyn AnyNetwork| n.affine_blocks().iter().map(|b| (b.start, b.kind)).collect::<Vec<_>>();
    assert_eq!(ranges(&*dropping), ranges(network), "{name}");
    let run = |network: &dyn AnyNetwork, mode| {
        let network: &dyn Network<f64> = network;
        let mut ws = network.workspace(ROWS);
        let pass = Pass { mode, ..pass(Threads::One) };
        network.forward(w[..].into(), MatRef::new(&x, ROWS, width), &pass, &mut ws).data.to_vec()
    };
    assert_eq!(run(&*dropping, Mode::Plain), run(network, Mode::Plain), "{name}: without dropout");
    assert_ne!(run(&*dropping, Mode::Draw(Key::new(1))), run(network, Mode::Plain), "{name}: with dropout");
}
