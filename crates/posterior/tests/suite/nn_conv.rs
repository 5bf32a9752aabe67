//! Convolution, pooling, flatten, dropout, residual: gradients by finite differences, values by plain loops, equal bits.

use posterior::math::{MatRef, Real, Threads};
use posterior::nn::{
    Activation, AnyNetwork, AvgPool, Conv, Dropout, Graph, MaxPool, Mode, Network, NetworkSpec, NodeOps, NodeSpace, Op,
    Pass, Shape,
};
use posterior::rng::{Key, fill_normals};

const ALL: [Activation; 6] =
    [Activation::Identity, Activation::Relu, Activation::Tanh, Activation::Gelu, Activation::Sigmoid, Activation::Silu];

fn image(channels: usize, height: usize, width: usize) -> Shape {
    Shape::Image { channels, height, width }
}

fn pass(mode: Mode, threads: Threads) -> Pass {
    Pass { mode, layer: 3, first_row: 5, threads }
}

fn normals(seed: u64, n: usize) -> Vec<f64> {
    let mut z = vec![0.0; n];
    fill_normals(Key::new(seed), &mut z);
    z
}

/// A network of this one node.
fn net(op: Op) -> Graph {
    Graph::chain(vec![op]).unwrap()
}

fn forward(network: &Graph, w: &[f64], x: &[f64], rows: usize, pass: &Pass) -> Vec<f64> {
    let mut space = network.workspace(rows);
    network.forward(w.into(), MatRef::new(x, rows, network.input().len()), pass, &mut space).data.to_vec()
}

/// Parameters, inputs, and the c of L = Σ c·out.
struct Case {
    w: Vec<f64>,
    x: Vec<f64>,
    c: Vec<f64>,
}

fn case(network: &Graph, rows: usize) -> Case {
    let w = normals(rows as u64, network.layout().len()).iter().map(|z| 0.4 * z).collect();
    Case { w, x: normals(91, rows * network.input().len()), c: normals(92, rows * network.outputs()) }
}

/// Output, dL/dw (added to `before`, if given) and dL/dx. The space is for more rows than there are.
fn both<R: Real>(network: &Graph, case: &Case, rows: usize, pass: &Pass, before: Option<f64>) -> [Vec<R>; 3]
where
    Graph: Network<R>,
{
    let of = |v: &[f64]| v.iter().map(|a| R::of(*a)).collect::<Vec<R>>();
    let (w, x) = (of(&case.w), of(&case.x));
    let mut space = Network::<R>::workspace(network, rows + 3);
    let input = MatRef::new(&x, rows, network.input().len());
    let out = network.forward(w[..].into(), input, pass, &mut space).data.to_vec();
    space.output_and_delta().1[..case.c.len()].copy_from_slice(&of(&case.c));
    let mut grad = vec![R::of(before.unwrap_or(f64::NAN)); w.len()];
    let mut dx = vec![R::of(f64::NAN); x.len()];
    network.backward(w[..].into(), input, pass, &mut space, grad[..].as_mut().into(), before.is_some(), Some(&mut dx));
    [out, grad, dx]
}

/// Central differences with step h err by h² f‴/6 + 1e-16·|L|/h, here below 1e-8 for |L| ~ 10.
fn check_gradient(layer: &Graph, rows: usize, mode: Mode) {
    let mut case = case(layer, rows);
    let pass = pass(mode, Threads::One);
    let [_, grad, dx] = both::<f64>(layer, &case, rows, &pass, None);
    assert!(grad.iter().chain(&dx).all(|g| g.is_finite()), "{:?}", layer.describe());
    let loss = |case: &Case| {
        let out = forward(layer, &case.w, &case.x, rows, &pass);
        out.iter().zip(&case.c).map(|(a, b)| a * b).sum::<f64>()
    };
    let h = 1e-6;
    for (what, exact) in [("w", &grad), ("x", &dx)] {
        for i in (0..exact.len()).step_by(exact.len().div_ceil(37).max(1)) {
            let mut at = |step: f64| {
                let place = if what == "w" { &mut case.w[i] } else { &mut case.x[i] };
                let old = std::mem::replace(place, *place + step);
                let value = loss(&case);
                *(if what == "w" { &mut case.w[i] } else { &mut case.x[i] }) = old;
                value
            };
            let numeric = (at(h) - at(-h)) / (2.0 * h);
            assert!(
                (numeric - exact[i]).abs() < 1e-6 * (1.0 + exact[i].abs()),
                "{:?} rows {rows} {what}[{i}]: {numeric} by differences, {} by backward",
                layer.describe(),
                exact[i]
            );
        }
    }
}

fn conv(input: Shape, out: usize, k: (usize, usize), s: usize, p: usize, a: Activation, pool: Option<usize>) -> Graph {
    net(Op::affine(Conv::new(input, out, k, s, p, a, pool).unwrap()))
}

/// Kernels, strides, paddings, pools and images that are not square.
fn geometries() -> Vec<Graph> {
    let mut all = Vec::new();
    for (k, stride, padding, input) in [
        ((1, 1), 1, 0, image(3, 4, 5)),
        ((1, 1), 2, 1, image(2, 5, 4)),
        ((3, 3), 1, 0, image(1, 7, 9)),
        ((3, 3), 1, 1, image(2, 6, 5)),
        ((3, 3), 2, 1, image(3, 7, 6)),
        ((5, 5), 1, 0, image(2, 9, 12)),
        ((5, 5), 1, 2, image(1, 6, 8)),
        ((5, 5), 2, 2, image(3, 9, 7)),
        ((3, 1), 2, 2, image(1, 5, 7)),
        ((2, 5), 1, 1, image(2, 4, 11)),
        ((1, 2), 3, 4, image(2, 3, 2)),
    ] {
        for pool in [None, Some(2), Some(3)] {
            let activation = if pool.is_none() { Activation::Gelu } else { Activation::Relu };
            match Conv::new(input, 3, k, stride, padding, activation, pool) {
                Ok(layer) => all.push(net(Op::affine(layer))),
                Err(e) => assert!(pool.is_some() && e.to_string().contains("does not fit"), "{e}"),
            }
        }
    }
    assert!(all.len() > 24);
    all
}

#[test]
fn conv_gradients() {
    for (i, layer) in geometries().iter().enumerate() {
        check_gradient(layer, [1, 7, 8, 9, 20][i % 5], Mode::Plain);
    }
    for activation in ALL {
        check_gradient(&conv(image(2, 6, 7), 3, (3, 3), 1, 1, activation, None), 9, Mode::Plain);
        if activation.monotone() {
            check_gradient(&conv(image(2, 6, 7), 2, (3, 3), 1, 0, activation, Some(2)), 7, Mode::Plain);
        }
    }
    // 77 rows are ten groups: five teams of two groups, the last group short.
    check_gradient(&conv(image(1, 5, 5), 2, (3, 3), 1, 0, Activation::Tanh, None), 77, Mode::Plain);
}

/// One image by six loops: before activation and pool, with its height and width.
fn naive(
    x: &[f64],
    w: &[f64],
    input: Shape,
    oc: usize,
    k: (usize, usize),
    s: usize,
    p: usize,
    d: usize,
) -> (Vec<f64>, usize, usize) {
    let Shape::Image { channels, height, width } = input else { unreachable!() };
    let (oh, ow) = ((height + 2 * p - (k.0 - 1) * d - 1) / s + 1, (width + 2 * p - (k.1 - 1) * d - 1) / s + 1);
    let mut out = Vec::new();
    for o in 0..oc {
        for i in 0..oh {
            for j in 0..ow {
                let mut sum = w[oc * channels * k.0 * k.1 + o];
                for c in 0..channels {
                    for u in 0..k.0 {
                        for v in 0..k.1 {
                            let (y, z) = ((i * s + u * d).wrapping_sub(p), (j * s + v * d).wrapping_sub(p));
                            if y < height && z < width {
                                sum += w[((o * channels + c) * k.0 + u) * k.1 + v] * x[(c * height + y) * width + z];
                            }
                        }
                    }
                }
                out.push(sum);
            }
        }
    }
    (out, oh, ow)
}

#[test]
fn conv_agrees_with_plain_loops() {
    let pools = [
        (None, Activation::Silu),
        (Some(2), Activation::Tanh),
        (Some(3), Activation::Relu),
        (Some(1), Activation::Sigmoid),
    ];
    let geometries = [
        ((1, 1), 1, 0, 1),
        ((3, 3), 1, 1, 1),
        ((5, 5), 1, 0, 1),
        ((3, 2), 2, 2, 1),
        ((5, 3), 2, 0, 1),
        ((2, 2), 1, 3, 1),
        ((3, 3), 1, 2, 2),
        ((2, 3), 2, 1, 3),
    ];
    for (k, s, p, d) in geometries {
        for (pool, activation) in pools {
            let (input, rows, oc) = (image(2, 11, 13), 9, 3);
            let layer = net(Op::affine(Conv::dilated(input, oc, k, s, p, d, activation, pool).unwrap()));
            let Case { w, x, .. } = case(&layer, rows);
            let out = forward(&layer, &w, &x, rows, &pass(Mode::Plain, Threads::Pool));
            let mut expected = Vec::new();
            for row in x.chunks(input.len()) {
                let (raw, oh, ow) = naive(row, &w, input, oc, k, s, p, d);
                let act: Vec<f64> = raw.iter().map(|z| activation.value::<f64, false>(*z)).collect();
                let q = pool.unwrap_or(1);
                for plane in act.chunks(oh * ow) {
                    for i in 0..oh / q {
                        for j in 0..ow / q {
                            let window = (0..q * q).map(|t| plane[(i * q + t / q) * ow + j * q + t % q]);
                            expected.push(window.fold(f64::NEG_INFINITY, f64::max));
                        }
                    }
                }
            }
            assert_eq!(out.len(), expected.len());
            for (a, b) in out.iter().zip(&expected) {
                assert!((a - b).abs() < 1e-12, "{:?}: {a} {b}", layer.describe());
            }
        }
    }
}

/// Two convolutions with dropout between them, and a block within the block.
fn residual() -> Graph {
    let text = r#"layers = [{ kind = "residual", layers = [
        { kind = "conv", channels = 3, kernel = 3, padding = 1, activation = "tanh" }, { kind = "dropout", rate = 0.25 },
        { kind = "residual", layers = [{ kind = "conv", channels = 3, kernel = 1, activation = "silu" }] },
        { kind = "conv", channels = 2, kernel = 5, padding = 2 }] }]"#;
    toml::from_str::<NetworkSpec>(text).unwrap().build(image(2, 5, 6), 4).unwrap()
}

#[test]
fn other_gradients() {
    let input = image(2, 7, 9);
    for (k, s) in [(1, 1), (2, 2), (3, 3), (3, 2), (2, 3), (2, 1)] {
        check_gradient(&net(Op::plain(MaxPool::new(input, k, s).unwrap())), 7, Mode::Plain);
        check_gradient(&net(Op::plain(AvgPool::new(input, k, s).unwrap())), 7, Mode::Plain);
    }
    for mode in [Mode::Plain, Mode::Train(Key::new(1)), Mode::Draw(Key::new(1))] {
        check_gradient(&net(Op::plain(Dropout::new(input, 0.3).unwrap())), 5, mode);
        check_gradient(&residual(), 9, mode);
    }
}

#[test]
fn residual_blocks_name_their_layers() {
    let network = residual();
    let names: Vec<&str> = network.layout().blocks().iter().map(|b| b.name.as_str()).collect();
    let inner = ["0.0.weight", "0.0.bias", "0.2.0.weight", "0.2.0.bias", "0.3.weight", "0.3.bias"];
    assert_eq!(names, [&inner[..], &["1.weight", "1.bias"]].concat());
    assert!(network.layout().blocks()[..6].iter().all(|b| b.layer == 0));
    let inner = "residual (conv 3@3×3 padding 1 tanh, dropout 0.25, residual (conv 3@1×1 silu), conv 2@5×5 padding 2)";
    assert_eq!(network.describe(), [inner, "dense 4"]);
}

#[test]
fn same_bits_on_any_number_of_threads() {
    let layers = [
        conv(image(1, 28, 28), 6, (5, 5), 1, 0, Activation::Relu, Some(2)),
        conv(image(2, 9, 8), 3, (3, 3), 2, 1, Activation::Gelu, None),
        net(Op::plain(MaxPool::new(image(3, 30, 30), 2, 2).unwrap())),
        net(Op::plain(AvgPool::new(image(3, 30, 30), 3, 2).unwrap())),
        residual(),
    ];
    let mode = Mode::Train(Key::new(4));
    for layer in &layers {
        for rows in [1, 9, 20, 100] {
            let case = case(layer, rows);
            let run = |threads| {
                let single = both::<f32>(layer, &case, rows, &pass(mode, threads), None);
                (single, both::<f64>(layer, &case, rows, &pass(mode, threads), None))
            };
            let expected = run(Threads::One);
            for threads in [1, 2, 3, 4] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                assert!(pool.install(|| run(Threads::Pool)) == expected, "{:?} on {threads} threads", layer.describe());
            }
        }
    }
}

#[test]
fn single_precision_agrees_and_accumulate_adds() {
    let pool = MaxPool::new(image(2, 6, 6), 2, 2).unwrap();
    let layers = [residual(), net(Op::plain(pool))].into_iter().chain(geometries()).collect::<Vec<_>>();
    for layer in &layers {
        let rows = 11;
        let case = case(layer, rows);
        let pass = pass(Mode::Train(Key::new(2)), Threads::One);
        let exact = both::<f64>(layer, &case, rows, &pass, None);
        let single = both::<f32>(layer, &case, rows, &pass, None);
        let added = both::<f64>(layer, &case, rows, &pass, Some(2.5));
        // A sum of n rounded terms errs by about √n·6e-8 of its typical size; n is below 5000 here.
        for (a, b) in exact.iter().zip(&single) {
            let size = (a.iter().map(|v| v * v).sum::<f64>() / a.len().max(1) as f64).sqrt();
            for (a, b) in a.iter().zip(b) {
                assert!((a - f64::from(*b)).abs() < 1e-5 * (size + a.abs()), "{:?}: {a} {b}", layer.describe());
            }
        }
        for (a, b) in exact[1].iter().zip(&added[1]) {
            assert!((a + 2.5 - b).abs() < 1e-10 * (1.0 + a.abs()), "{:?}", layer.describe());
        }
        assert_eq!(exact[2], added[2]);
    }
}

fn drop(layer: &Dropout, x: &[f64], rows: usize, pass: &Pass, space: &mut NodeSpace<f64>) -> Vec<f64> {
    layer.forward(&[MatRef::new(x, rows, x.len() / rows)], pass, space);
    space.out[..x.len()].to_vec()
}

#[test]
fn dropout_keeps_the_mean_and_one_mask_per_draw() {
    let (rows, cols, rate) = (200, 500, 0.3_f64);
    let layer = Dropout::new(Shape::Flat(cols), rate).unwrap();
    let ones = vec![1.0; rows * cols];
    let mut space: NodeSpace<f64> = layer.space(rows);
    let train = drop(&layer, &ones, rows, &pass(Mode::Train(Key::new(8)), Threads::One), &mut space);
    // Each number has variance p/(1 − p): five standard errors of the mean of 100,000, and of a column's mean of 200.
    let deviation = (rate / (1.0 - rate)).sqrt();
    let mean = train.iter().sum::<f64>() / (rows * cols) as f64;
    assert!((mean - 1.0).abs() < 5.0 * deviation / ((rows * cols) as f64).sqrt(), "{mean}");
    for column in 0..cols {
        let mean = (0..rows).map(|r| train[r * cols + column]).sum::<f64>() / rows as f64;
        assert!((mean - 1.0).abs() < 5.0 * deviation / (rows as f64).sqrt(), "{column} {mean}");
    }
    // Neighbours, in a row and between rows, are independent: correlation 0 with standard error 1/√n.
    for lag in [1, 2, cols, cols + 1] {
        let n = train.len() - lag;
        let products = (0..n).map(|i| (train[i] - 1.0) * (train[i + lag] - 1.0)).sum::<f64>();
        let correlation = products / n as f64 / (deviation * deviation);
        assert!(correlation.abs() < 5.0 / (n as f64).sqrt(), "{lag} {correlation}");
    }
    let draw = drop(&layer, &ones, rows, &pass(Mode::Draw(Key::new(8)), Threads::One), &mut space);
    assert!(draw.chunks(cols).all(|row| row == &draw[..cols]));
    assert!(draw[..cols].contains(&0.0) && draw[..cols].iter().any(|a| *a > 1.0));
    let other = Pass { layer: 4, ..pass(Mode::Draw(Key::new(8)), Threads::One) };
    assert_ne!(drop(&layer, &ones, rows, &other, &mut space), draw);
    let plain = drop(&layer, &ones, rows, &pass(Mode::Plain, Threads::One), &mut space);
    assert_eq!(plain, ones);
}

#[test]
fn dropout_does_not_depend_on_chunks() {
    let (rows, cols) = (10, 33);
    let layer = Dropout::new(image(3, 1, 11), 0.5).unwrap();
    let x = normals(1, rows * cols);
    let mut space: NodeSpace<f64> = layer.space(rows);
    for mode in [Mode::Train(Key::new(8)), Mode::Draw(Key::new(8))] {
        let whole = drop(&layer, &x, rows, &pass(mode, Threads::One), &mut space);
        let (a, b) = x.split_at(4 * cols);
        let mut parts = drop(&layer, a, 4, &pass(mode, Threads::One), &mut space);
        let later = Pass { first_row: 9, ..pass(mode, Threads::Pool) };
        parts.extend(drop(&layer, b, 6, &later, &mut space));
        assert_eq!(whole, parts);
    }
}

#[test]
fn wrong_settings_are_explained() {
    let small = image(1, 4, 4);
    let error = |r: posterior::Result<Conv>| r.unwrap_err().to_string();
    let new = |k, s, p, pool| Conv::new(small, 2, k, s, p, Activation::Relu, pool);
    assert!(error(new((5, 5), 1, 0, None)).contains("larger than the 4 × 4 image with padding 0"));
    assert!(new((5, 5), 1, 1, None).is_ok());
    assert!(error(new((3, 3), 1, 0, Some(3))).contains("does not fit"));
    assert!(error(new((3, 3), 0, 0, None)).contains("empty"));
    assert!(error(new((3, 3), 1, usize::MAX, None)).contains("too large"));
    assert!(error(new((3, 3), 1, 0, Some(0))).contains("empty"));
    assert!(error(Conv::new(small, usize::MAX, (3, 3), 1, 0, Activation::Relu, None)).contains("too large"));
    assert!(error(Conv::new(small, 2, (3, 3), 1, 0, Activation::Gelu, Some(2))).contains("layer of its own"));
    assert!(error(Conv::new(Shape::Flat(9), 2, (3, 3), 1, 0, Activation::Relu, None)).contains("needs an image"));
    assert!(MaxPool::new(image(1, 99, 99), 17, 17).is_err() && AvgPool::new(image(1, 99, 99), 17, 17).is_ok());
    assert!(Dropout::new(small, 1.0).is_err() && Dropout::new(small, f64::NAN).is_err());
    let residual = |inner: &str| {
        let text = format!("layers = [{{ kind = \"residual\", layers = [{inner}] }}]");
        toml::from_str::<NetworkSpec>(&text).unwrap().build(small, 1).unwrap_err().to_string()
    };
    assert!(residual("").contains("has no layers"));
    assert!(
        residual(r#"{ kind = "conv", channels = 1, kernel = 3 }"#)
            .contains("takes an image of 1 × 4 × 4 and its layers give")
    );
}
