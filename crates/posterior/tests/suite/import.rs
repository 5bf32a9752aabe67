//! Weights trained elsewhere: the network gives what PyTorch's would, and what does not fit is listed in one sentence.

use posterior::data::{Column, EncodeOptions, Images, Scale, Table};
use posterior::inference::Silent;
use posterior::model::{ImportOptions, Model, Recipe, import};
use posterior::nn::Shape;
use safetensors::tensor::{Dtype, TensorView, serialize};
use std::path::Path;

type Tensors = Vec<(&'static str, Vec<usize>, Vec<f32>)>;

fn bytes_of(tensors: &Tensors) -> Vec<u8> {
    let raw: Vec<Vec<u8>> = tensors.iter().map(|(_, _, v)| v.iter().flat_map(|v| v.to_le_bytes()).collect()).collect();
    let views = tensors
        .iter()
        .zip(&raw)
        .map(|((name, shape, _), raw)| (name.to_string(), TensorView::new(Dtype::F32, shape.clone(), raw).unwrap()));
    serialize(views, None).unwrap()
}

/// 2-3-1 tanh, as nn.Sequential(Linear, Tanh, Linear) writes it.
fn state_dict() -> Tensors {
    vec![
        ("2.bias", vec![1], vec![0.25]),
        ("0.weight", vec![3, 2], vec![0.5, -1.0, 0.3, 0.8, -0.7, 0.2]),
        ("2.weight", vec![1, 3], vec![1.5, -0.5, 2.0]),
        ("0.bias", vec![3], vec![0.1, -0.2, 0.3]),
    ]
}

/// What PyTorch computes: W x + b with W of out × in.
fn forward(x: [f64; 2]) -> f64 {
    let (w, b) = ([[0.5, -1.0], [0.3, 0.8], [-0.7, 0.2]], [0.1, -0.2, 0.3]);
    let hidden: Vec<f64> = (0..3).map(|h| f64::tanh(w[h][0] * x[0] + w[h][1] * x[1] + b[h])).collect();
    0.25 + 1.5 * hidden[0] - 0.5 * hidden[1] + 2.0 * hidden[2]
}

/// Outcomes that scatter around the network by ± 0.5.
fn table() -> Table {
    let x: Vec<[f64; 2]> = (0..20).map(|i| [3.0 + i as f64 * 0.1, (i as f64).sin()]).collect();
    let y = x.iter().enumerate().map(|(i, x)| forward(*x) + if i % 2 == 0 { 0.5 } else { -0.5 });
    let column = |i: usize| Column::Number(x.iter().map(|x| x[i]).collect());
    Table::from_columns(vec![
        ("a".into(), column(0)),
        ("b".into(), column(1)),
        ("y".into(), Column::Number(y.collect())),
    ])
    .unwrap()
}

const PLAIN: Scale = Scale { mean: 0.0, std: 1.0 };

fn plain() -> ImportOptions {
    ImportOptions { modules: Vec::new(), input_scale: Some(PLAIN), target_scale: Some(PLAIN) }
}

fn take(bytes: &[u8], how: &ImportOptions) -> posterior::Result<Model> {
    let recipe = Recipe::from_toml("[network]\nhidden = [3]\nactivation = \"tanh\"\n")?;
    let options = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
    import(bytes, Path::new("net.safetensors"), &recipe, &table(), &options, how, &mut Silent)
}

#[test]
fn a_dense_network_gives_what_it_gave() {
    let model = take(&bytes_of(&state_dict()), &plain()).unwrap();
    let rows = model.encoder.encode(&table(), true).unwrap();
    let real = model.predict(&rows.data.x, &model.how(1)).unwrap().real();
    for (n, mean) in real.mean.iter().enumerate() {
        // f32 against f64.
        let x = [3.0 + n as f64 * 0.1, (n as f64).sin()];
        assert!((mean - forward(x)).abs() < 1e-5, "{n}: {mean} for {}", forward(x));
        // The noise is what the network leaves: 0.5.
        assert!((real.aleatoric[n].sqrt() - 0.5).abs() < 1e-5);
    }
    // Laplace at these weights, and a file of it.
    let recipe = Recipe { method: posterior::model::Choice::named("laplace"), ..model.recipe.clone() };
    let laplace = Model::fit_from(&model, &recipe, &table(), 0, &mut Silent).unwrap();
    let point = model.network("").unwrap().posterior.centre().unwrap();
    // All but the noise, which the evidence chose.
    assert_eq!(laplace.network("").unwrap().posterior.centre().unwrap()[..point.len() - 1], point[..point.len() - 1]);
    let bytes = posterior::artifact::to_bytes(&laplace).unwrap();
    let back = posterior::artifact::from_bytes(&bytes, Path::new("m")).unwrap();
    let [a, b] = [&laplace, &back].map(|m| m.predict(&rows.data.x, &m.how(50)).unwrap());
    assert_eq!(a.outputs(), b.outputs());
    assert!(a.real().epistemic.iter().all(|v| *v > 0.0));
}

#[test]
fn scales_of_its_training_are_told() {
    // Trained on (x − 1)/2: with x = 1 + 2u the network sees u.
    let how = ImportOptions { input_scale: Some(Scale { mean: 1.0, std: 2.0 }), ..plain() };
    let model = take(&bytes_of(&state_dict()), &how).unwrap();
    let rows = model.encoder.encode(&table(), false).unwrap();
    let mean = model.predict(&rows.data.x, &model.how(1)).unwrap().real().mean;
    assert!((mean[0] - forward([1.0, -0.5])).abs() < 1e-5);
    // On standardised rows and targets.
    let model = take(&bytes_of(&state_dict()), &ImportOptions::default()).unwrap();
    let posterior::data::TargetKind::Real(scale) = model.encoder.target_kind() else { panic!("a number") };
    assert!(scale.std != 1.0);
}

/// nn.Embedding has no bias, and keeps the order of its table.
#[test]
fn an_embedding_is_taken_as_it_is() {
    let recipe = Recipe::from_toml(
        r#"[network]
        layers = [{ kind = "graph", nodes = [{ name = "number", kind = "select", columns = [0], from = ["input"] },
            { kind = "select", columns = [1], from = ["input"] }, { name = "vector", kind = "embedding", categories = 3, size = 2 },
            { kind = "concat", from = ["number", "vector"] }] }]"#,
    )
    .unwrap();
    let vectors = [[0.5f32, -1.0], [0.25, 2.0], [-0.75, 0.125]];
    let tensors: Tensors = vec![
        ("embedding.weight", vec![3, 2], vectors.concat()),
        ("linear.weight", vec![1, 3], vec![2.0, -1.0, 3.0]),
        ("linear.bias", vec![1], vec![0.5]),
    ];
    let column = |f: &dyn Fn(usize) -> f64| Column::Number((0..12).map(f).collect());
    let table = Table::from_columns(vec![
        ("a".into(), column(&|i| 0.1 * i as f64)),
        ("c".into(), column(&|i| (i % 3) as f64)),
        ("y".into(), column(&|i| (i as f64).sin())),
    ])
    .unwrap();
    let options = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
    let take = |tensors: &Tensors| {
        import(&bytes_of(tensors), Path::new("net"), &recipe, &table, &options, &plain(), &mut Silent)
    };
    let model = take(&tensors).unwrap();
    let mean = model.predict(&model.encoder.encode(&table, true).unwrap().data.x, &model.how(1)).unwrap().real().mean;
    for (i, mean) in mean.iter().enumerate() {
        let v = vectors[i % 3].map(f64::from);
        // f32 against f64.
        assert!((mean - (0.5 + 0.2 * i as f64 - v[0] + 3.0 * v[1])).abs() < 1e-5, "{i}: {mean}");
    }
    let mut turned = tensors.clone();
    turned[0].1 = vec![2, 3];
    assert!(take(&turned).unwrap_err().to_string().contains("'embedding.weight' is 2 × 3 and should be 3 × 2"));
}

#[test]
fn a_convolutional_network_keeps_its_order() {
    let text = r#"[network]
        layers = [{ kind = "conv", channels = 2, kernel = 2, activation = "relu" }, { kind = "dense", units = 2, activation = "relu" }]"#;
    let conv: Vec<f32> = (0..8).map(|i| (i as f32 * 0.7).sin()).collect();
    let first: Vec<f32> = (0..16).map(|i| (i as f32 * 1.1).cos()).collect();
    let tensors: Tensors = vec![
        ("conv1.weight", vec![2, 1, 2, 2], conv.clone()),
        ("conv1.bias", vec![2], vec![0.1, -0.3]),
        ("fc1.weight", vec![2, 8], first.clone()),
        ("fc1.bias", vec![2], vec![0.2, 0.4]),
        ("fc2.weight", vec![1, 2], vec![1.0, -2.0]),
        ("fc2.bias", vec![1], vec![0.05]),
    ];
    let pixels: Vec<f32> = (0..6 * 9).map(|i| (i as f32 * 0.37).sin()).collect();
    let shape = Shape::Image { channels: 1, height: 3, width: 3 };
    let images = Images { shape, pixels: pixels.clone() };
    let label = Column::Number([0.0, 1.0, 0.0, 1.0, 0.0, 1.0].to_vec());
    let table = Table::from_images(images, Some(("label".into(), label))).unwrap();
    let options = EncodeOptions { target: "label".into(), ..EncodeOptions::default() };
    let recipe = Recipe::from_toml(text).unwrap();
    let model = import(&bytes_of(&tensors), Path::new("n"), &recipe, &table, &options, &plain(), &mut Silent).unwrap();
    let f = model
        .predict(&model.encoder.encode(&table, false).unwrap().data.x, &model.how(1))
        .unwrap()
        .draw(0)
        .unwrap()
        .to_vec();
    for (n, image) in pixels.chunks(9).enumerate() {
        let mut flat = Vec::new();
        for c in 0..2 {
            for (i, j) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let at = |u: usize, v: usize| conv[c * 4 + u * 2 + v] * image[(i + u) * 3 + j + v];
                flat.push((at(0, 0) + at(0, 1) + at(1, 0) + at(1, 1) + [0.1, -0.3][c]).max(0.0));
            }
        }
        let hidden: Vec<f32> = (0..2)
            .map(|h| ((0..8).map(|i| first[h * 8 + i] * flat[i]).sum::<f32>() + [0.2, 0.4][h]).max(0.0))
            .collect();
        let expected = hidden[0] - 2.0 * hidden[1] + 0.05;
        assert!((f[n] - expected).abs() < 1e-5, "{n}: {} for {expected}", f[n]);
    }
}

#[test]
fn all_that_does_not_fit_is_listed() {
    let message = |tensors: &Tensors| take(&bytes_of(tensors), &plain()).unwrap_err().to_string();
    let mut wrong = state_dict();
    wrong[1].1 = vec![2, 3];
    wrong.remove(0);
    wrong.push(("3.running_mean", vec![2], vec![0.0, 0.0]));
    let text = message(&wrong);
    assert!(text.starts_with("net.safetensors: "), "{text}");
    for part in [
        "'0.weight' is 2 × 3 and should be 3 × 2",
        "'2.bias' is missing",
        "'3.running_mean' has no place in the network",
    ] {
        assert!(text.contains(part), "{text}");
    }
    // What is neither a weight nor a bias does not shift the others.
    let mut more = state_dict();
    more.push(("extra", vec![1], vec![1.0]));
    assert!(message(&more).starts_with("net.safetensors: 'extra' has no place in the network; "), "{}", message(&more));
    let mut short = state_dict();
    short.retain(|(name, ..)| name.starts_with('0'));
    assert!(message(&short).contains("the network's layer 1 has no tensors"));
    let mut broken = state_dict();
    broken[2].2[1] = f32::NAN;
    assert!(message(&broken).contains("the tensor '2.weight' holds NaN at number 2"));
    // Names that do not sort into the order of the layers.
    let named: Tensors = state_dict()
        .into_iter()
        .map(|(n, s, v)| {
            (
                match n {
                    "0.weight" => "hidden.weight",
                    "0.bias" => "hidden.bias",
                    "2.weight" => "final.weight",
                    _ => "final.bias",
                },
                s,
                v,
            )
        })
        .collect();
    assert!(message(&named).contains("'final.weight' is 1 × 3 and should be 3 × 2"));
    let how = ImportOptions { modules: vec!["hidden".into(), "final".into()], ..plain() };
    assert!(take(&bytes_of(&named), &how).is_ok());
}

#[test]
fn other_numbers_and_other_files_are_refused() {
    let half = TensorView::new(Dtype::F16, vec![2], &[0, 0, 0, 0]).unwrap();
    let bytes = serialize([("0.weight", half)], None).unwrap();
    let text = take(&bytes, &plain()).unwrap_err().to_string();
    assert!(
        text.contains("the tensor '0.weight' holds F16, not F32 or F64; convert the model with .float()"),
        "{text}"
    );
    let text = take(b"PK nonsense", &plain()).unwrap_err().to_string();
    assert!(text.contains("this is not a safetensors file") && text.contains("safetensors.torch.save_file"), "{text}");
    // Double precision is narrowed.
    let mut wide = Vec::new();
    for (name, shape, values) in state_dict() {
        wide.push((name, shape, values.iter().flat_map(|v| f64::from(*v).to_le_bytes()).collect::<Vec<u8>>()));
    }
    let views = wide.iter().map(|(n, s, raw)| (*n, TensorView::new(Dtype::F64, s.clone(), raw).unwrap()));
    let (a, b) = (serialize(views, None).unwrap(), bytes_of(&state_dict()));
    let centre = |m: &Model| m.network("").unwrap().posterior.centre();
    assert_eq!(centre(&take(&a, &plain()).unwrap()), centre(&take(&b, &plain()).unwrap()));
}
