//! Networks as graphs: every node of them by finite differences, brute force and equal bits, with fixed weights and with noise by row.

use posterior::nn::{
    Activation, AffineKind, AnyNetwork, Dense, Embedding, Graph, GraphBuilder, GroupNorm, Interpolation, MatRef, Mode,
    Network, NetworkSpec, Noisy, Op, Pass, PixelShuffle, RowNoise, Shape, Threads, Upsample, Weights,
};
use posterior::rng::{Key, fill_normals};
use posterior_testing::conformance::{expect_network, network_value};

/// Text, shape, and the columns that hold indices of one of five categories.
pub fn networks() -> Vec<(&'static str, Shape, std::ops::Range<usize>, &'static str)> {
    let image = |channels, side| Shape::Image { channels, height: side, width: side };
    vec![
        (
            "a small U-Net",
            image(2, 4),
            0..0,
            r#"layers = [{ kind = "graph", nodes = [
                { name = "fine", kind = "conv", channels = 2, kernel = 3, padding = 1, activation = "tanh" },
                { kind = "avg-pool", size = 2 }, { name = "coarse", kind = "conv", channels = 3, kernel = 1, activation = "silu" },
                { name = "up", kind = "upsample", factor = 2, interpolation = "bilinear" },
                { name = "rough", kind = "upsample", factor = 2, from = ["coarse"] },
                { kind = "concat", from = ["fine", "up", "input", "rough"] }, { kind = "group-norm", groups = 2 },
                { kind = "conv", channels = 1, kernel = 3, padding = 1 }] }]"#,
        ),
        (
            "dilation, stride, pixel shuffle, skip",
            image(1, 6),
            0..0,
            r#"layers = [{ kind = "conv", channels = 3, kernel = 3, dilation = 2, padding = 2, activation = "gelu" },
                { kind = "skip", layers = [{ kind = "conv", channels = 1, kernel = 3, padding = 1, activation = "tanh" }] },
                { kind = "conv", channels = 4, kernel = 2, stride = 2 }, { kind = "pixel-shuffle", factor = 2 },
                { kind = "group-norm", groups = 1 }, { kind = "flatten" },
                { kind = "residual", layers = [{ kind = "dense", units = 36, activation = "sigmoid" }] }]"#,
        ),
        (
            "categories",
            Shape::Flat(4),
            2..4,
            r#"layers = [{ kind = "graph", nodes = [
                { name = "numbers", kind = "select", columns = [1, 0], from = ["input"] },
                { kind = "select", columns = [2, 3], from = ["input"] }, { name = "vectors", kind = "embedding", categories = 5, size = 3 },
                { kind = "concat", from = ["numbers", "vectors"] }] }, { kind = "dense", units = 4, activation = "tanh" }]"#,
        ),
        (
            "one output read several times",
            Shape::Flat(3),
            0..0,
            r#"layers = [{ kind = "graph", nodes = [
                { name = "a", kind = "dense", units = 3, activation = "tanh" }, { name = "b", kind = "dense", units = 3, activation = "gelu" },
                { name = "c", kind = "add", from = ["input", "a", "b", "a"] }, { kind = "concat", from = ["c", "b", "input"] }] }]"#,
        ),
    ]
}

fn build(text: &str, shape: Shape) -> Graph {
    toml::from_str::<NetworkSpec>(text).unwrap().build(shape, 2).unwrap()
}

fn normals(seed: u64, n: usize) -> Vec<f64> {
    let mut z = vec![0.0; n];
    fill_normals(Key::new(seed), &mut z);
    z
}

fn pass(threads: Threads) -> Pass {
    Pass { mode: Mode::Train(Key::new(4)), layer: 0, first_row: 32, threads }
}

#[test]
fn every_network_conforms() {
    for (name, shape, indices, text) in networks() {
        expect_network(name, build(text, shape), indices);
    }
}

/// The input units of dropout are what one weight after another meets: a number, a channel, a category.
#[test]
fn every_weight_belongs_to_the_unit_it_meets() {
    for (name, shape, _, text) in networks() {
        let network = build(text, shape);
        for block in network.affine_blocks() {
            let (outer, units, inner) = block.input_units();
            assert_eq!(outer * units * inner, block.weights(), "{name}");
            let taps = if let AffineKind::Convolution { taps, .. } = block.kind { taps } else { 1 };
            for input in 0..block.inputs {
                for unit in 0..block.units {
                    let at = block.index(input, unit) - block.start;
                    assert_eq!(at / inner % units, input / taps, "{name}: input {input}, unit {unit}");
                }
            }
        }
    }
}

#[test]
fn dropout_of_an_embedding_drops_vectors() {
    // The vector of a category is dropped as a whole, and never its index.
    let (_, shape, _, text) = networks().remove(2);
    let lines = build(text, shape).with_dropout(0.3, 0.3).unwrap().describe();
    let at = lines.iter().position(|l| l == "vectors: embedding 3 of 5").unwrap();
    assert_eq!(lines[at + 1], "dropout 0.3 of units of 3");
    assert!(!lines[at - 1].contains("dropout"), "{lines:?}");
}

fn one(op: Op, x: &[f64]) -> Vec<f64> {
    let network = Graph::chain(vec![op]).unwrap();
    let mut ws = Network::<f64>::workspace(&network, 1);
    let plain = Pass { mode: Mode::Plain, ..pass(Threads::One) };
    network.forward((&[][..]).into(), MatRef::new(x, 1, x.len()), &plain, &mut ws).data.to_vec()
}

/// By hand from the definitions, which are those of PyTorch: nn.Upsample(align_corners=False), nn.PixelShuffle, nn.GroupNorm(affine=False).
#[test]
fn images_are_resized_and_normalised_as_elsewhere() {
    let image = |channels, height, width| Shape::Image { channels, height, width };
    let x = [1.0, 2.0, 3.0, 4.0];
    let nearest = one(Op::plain(Upsample::new(image(1, 2, 2), 2, Interpolation::Nearest).unwrap()), &x);
    assert_eq!(nearest, [1., 1., 2., 2., 1., 1., 2., 2., 3., 3., 4., 4., 3., 3., 4., 4.]);
    let bilinear = one(Op::plain(Upsample::new(image(1, 2, 2), 2, Interpolation::Bilinear).unwrap()), &x);
    assert_eq!(bilinear, [1., 1.25, 1.75, 2., 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3., 3.25, 3.75, 4.]);
    let shuffled = one(Op::plain(PixelShuffle::new(image(4, 1, 2), 2).unwrap()), &[0., 1., 2., 3., 4., 5., 6., 7.]);
    assert_eq!(shuffled, [0., 2., 1., 3., 4., 6., 5., 7.]);
    let normed = one(Op::plain(GroupNorm::new(image(2, 1, 2), 2, 1e-5).unwrap()), &[1.0, 2.0, 3.0, 5.0]);
    // ±(½/√(¼ + 1e-5)), ±(1/√(1 + 1e-5))
    for (a, b) in normed.iter().zip([-0.999_980_000_6, 0.999_980_000_6, -0.999_995_000_04, 0.999_995_000_04]) {
        assert!((a - b).abs() < 1e-9, "{a} {b}");
    }
}

/// An embedding is a dense layer without bias on one-hot rows.
#[test]
fn an_embedding_is_a_dense_layer_on_one_hot_rows() {
    let (categories, size, rows) = (6, 3, 40);
    let index: Vec<f64> = (0..rows).map(|i| (i * 5 % categories) as f64).collect();
    let hot: Vec<f64> =
        index.iter().flat_map(|c| (0..categories).map(move |j| if j as f64 == *c { 1.0 } else { 0.0 })).collect();
    let embedding = Graph::chain(vec![Op::affine(Embedding::new(Shape::Flat(1), categories, size).unwrap())]).unwrap();
    let dense = Dense::new(Shape::Flat(categories), size, Activation::Identity);
    let dense = Graph::chain(vec![Op::affine(dense)]).unwrap();
    let n = categories * size;
    let (w, mut with_bias) = (normals(1, n), normals(1, n));
    with_bias.resize(n + size, 0.0);
    let (a, mut ga) = network_value(&embedding, w[..].into(), &index, rows, Threads::One);
    let (b, gb) = network_value(&dense, with_bias[..].into(), &hot, rows, Threads::One);
    assert!((a - b).abs() < 1e-12 * a.abs());
    ga.truncate(n);
    // Sums of seven terms, in another order.
    assert!(ga.iter().zip(&gb).all(|(a, b)| (a - b).abs() < 1e-13 * (1.0 + b.abs())));
    // What was never seen, or is no index, gives 0 and no gradient.
    for odd in [-1.0, 6.0, 0.5, f64::NAN, f64::INFINITY] {
        let (v, g) = network_value(&embedding, w[..].into(), &[odd], 1, Threads::One);
        assert!(v == 0.0 && g[..n].iter().all(|g| *g == 0.0), "{odd}");
    }
}

/// Flipout is one draw of the table with its signs turned; local noise has the variance of the category.
#[test]
fn noise_of_an_embedding_is_that_of_its_table() {
    let (categories, size, rows) = (4, 2, 4000);
    let network = Graph::chain(vec![Op::affine(Embedding::new(Shape::Flat(2), categories, size).unwrap())]).unwrap();
    let (mean, spread) = (normals(1, 8), vec![0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]);
    // Both columns hold the same category.
    let x: Vec<f64> = (0..rows).flat_map(|i| [(i % categories) as f64; 2]).collect();
    let run = |noise| {
        let mut ws = Network::<f64>::workspace(&network, rows);
        let w = Weights::Noisy(Noisy { noise, mean: &mean, spread: &spread });
        network.forward(w, MatRef::new(&x, rows, 2), &pass(Threads::One), &mut ws).data.to_vec()
    };
    let (mut plus, flipped, local) = (0, run(RowNoise::Flipout), run(RowNoise::Local));
    let mut sums = [0.0; 8];
    for (i, (f, l)) in flipped.chunks(4).zip(local.chunks(4)).enumerate() {
        let c = i % categories * size;
        assert_eq!(f[..2], f[2..], "one table for all columns of a row");
        for j in 0..2 {
            let d = f[j] - mean[c + j];
            assert!((d.abs() - spread[c + j]).abs() < 1e-15);
            plus += usize::from(d > 0.0);
            sums[c + j] += (l[j] - mean[c + j]).powi(2) / (rows / categories) as f64;
        }
    }
    // 8000 signs: five standard errors of √8000/2.
    assert!((plus as f64 - 4000.0).abs() < 5.0 * 45.0, "{plus}");
    for (v, s) in sums.iter().zip(&spread) {
        // 1000 squares of normals: variance 2v²/1000.
        assert!((v / s - 1.0).abs() < 5.0 * (2.0f64 / 1000.0).sqrt(), "{v} {s}");
    }
}

#[test]
fn what_is_written_comes_back_and_what_is_wrong_is_told() {
    for (_, _, _, text) in networks() {
        let spec: NetworkSpec = toml::from_str(text).unwrap();
        let json = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<NetworkSpec>(&json).unwrap(), spec);
    }
    let (_, shape, _, text) = networks().remove(0);
    let network = build(text, shape);
    let names: Vec<&str> = network.layout().blocks().iter().map(|b| b.name.as_str()).collect();
    assert_eq!(
        names,
        ["fine.weight", "fine.bias", "coarse.weight", "coarse.bias", "7.weight", "7.bias", "8.weight", "8.bias"]
    );
    let kinds: Vec<AffineKind> = network.affine_blocks().iter().map(|b| b.kind).collect();
    assert!(matches!(kinds[..], [_, AffineKind::Convolution { taps: 1, pixels: 4 }, _, AffineKind::Dense]));
    let error = |nodes: &str| {
        let text = format!("layers = [{{ kind = \"graph\", nodes = [{nodes}] }}]");
        match toml::from_str::<NetworkSpec>(&text) {
            Ok(spec) => spec.build(Shape::Flat(3), 1).map(|_| ()).unwrap_err().to_string(),
            Err(e) => e.to_string(),
        }
    };
    let a = r#"{ name = "a", kind = "dense", units = 2 }"#;
    assert!(
        error(&format!("{a}, {{ kind = \"add\", from = [\"a\", \"b\"] }}")).contains("no node before it is called 'b'")
    );
    assert!(error(&format!("{a}, {a}")).contains("two nodes are called 'a'"));
    assert!(
        error(&format!("{a}, {{ kind = \"add\", from = [\"a\", \"input\"] }}"))
            .contains("2 numbers and 3 numbers cannot be added")
    );
    assert!(error(r#"{ kind = "concat" }"#).contains("name from 2 to 8 nodes in 'from'"));
    assert!(
        error(&format!("{a}, {{ kind = \"dense\", units = 2, from = [\"input\"] }}")).contains("is used by no other")
    );
    assert!(
        error(&format!("{a}, {{ kind = \"dense\", units = 2, from = [\"input\", \"a\"] }}"))
            .contains("takes one input and got 2")
    );
    assert!(error(r#"{ name = "1", kind = "dense", units = 2 }"#).contains("cannot be the name of a node"));
    assert!(error(r#"{ name = "input", kind = "dense", units = 2 }"#).contains("two nodes are called 'input'"));
    assert!(error(r#"{ kind = "dense", units = 2, unit = 3 }"#).contains("unknown field `unit`"));
    assert!(error(r#"{ kind = "select", columns = [3] }"#).contains("column 3 cannot be selected from 3 numbers"));
    assert!(error(r#"{ kind = "embedding", categories = 0, size = 1 }"#).contains("categories"));
    assert!(error(r#"{ kind = "group-norm", groups = 2 }"#).contains("choose a number that divides 3"));
    assert!(error(r#"{ kind = "upsample", factor = 2 }"#).contains("needs an image"));
    // By hand: a builder checks as much.
    let mut builder = GraphBuilder::new(Shape::Flat(3));
    let x = builder.input();
    let dense = |n| Op::affine(Dense::new(Shape::Flat(n), 2, Activation::Tanh));
    assert!(builder.add(dense(4), &[x]).unwrap_err().to_string().contains("takes 4 numbers and got 3 numbers"));
    assert!(builder.add(dense(3), &[x, x]).unwrap_err().to_string().contains("takes 1 inputs and got 2"));
}
