//! The model file: what is written comes back bit for bit, and damaged or hostile files are errors, never panics.

use posterior::apply::compress::{Memory, Rule, prune};
use posterior::artifact::{from_bytes, load, save, to_bytes};
use posterior::data::{Column, EncodeOptions, Images, Table};
use posterior::inference::{METHODS, Silent};
use posterior::model::{Choice, Model, Recipe};
use posterior::nn::{Activation, NetworkSpec, Shape};
use posterior::posterior::MeanFieldPosterior;
use posterior::rng::{Key, fill_normals};
use posterior::settings::Value;
use proptest::prelude::*;
use std::path::Path;
use std::sync::{Arc, OnceLock};

fn table(rows: usize) -> Table {
    let number = |f: fn(f64) -> f64| Column::Number((0..rows).map(|i| f(i as f64 * 0.37)).collect());
    let word = Column::Text((0..rows).map(|i| Some(["red", "green", "blue"][i % 3].to_owned())).collect());
    let kind = Column::Text((0..rows).map(|i| Some(if i % 2 == 0 { "yes" } else { "no" }.to_owned())).collect());
    Table::from_columns(vec![
        ("a".into(), number(f64::sin)),
        ("colour".into(), word),
        ("y".into(), number(|v| (1.3 * v).cos() + 1e-17)),
        ("kind".into(), kind),
    ])
    .unwrap()
}

/// The method with settings that make its fit short, as far as it has them.
fn short(method: &str) -> Choice {
    let has = |name: &str| METHODS.iter().any(|m| m.name == method && m.settings.iter().any(|s| s.name == name));
    let mut all = vec![("epochs", 2)];
    if has("chains") {
        all.extend([("chains", 2), ("draws", 5), ("thin", 2), ("warmup", 20)]);
    }
    let given = all.into_iter().filter(|(name, _)| has(name));
    given.fold(Choice::named(method), |choice, (name, value)| choice.with(name, Value::Int(value)))
}

fn fit(method: &str, target: &str) -> Model {
    let recipe = Recipe {
        network: NetworkSpec::parse("8,4", Activation::Silu).unwrap(),
        method: short(method),
        ..Recipe::default()
    };
    // A method that is not iterated has no epochs, and one that is linear no hidden layers.
    let recipe = if method == "linear" { linear() } else { recipe };
    let options = EncodeOptions { target: target.into(), ..EncodeOptions::default() };
    Model::fit(&recipe, &table(40), &options, u64::MAX - 5, &mut Silent).unwrap()
}

fn linear() -> Recipe {
    Recipe { method: Choice::named("linear").with("degree", Value::Int(3)), ..Recipe::default() }
}

/// Writes, reads, writes again: the same bytes, the same numbers, the same predictions.
fn comes_back(model: &Model, name: &str) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.safetensors");
    save(model, &path).unwrap();
    let back = load(&path).unwrap();
    assert_eq!(back.fitted.save().unwrap(), model.fitted.save().unwrap(), "{name}");
    assert_eq!((&back.recipe, back.seed, back.rows), (&model.recipe, model.seed, model.rows));
    assert_eq!(back.summary, model.summary);
    assert_eq!(to_bytes(&back).unwrap(), to_bytes(model).unwrap(), "{name}: written again, the same bytes");
    let rows = table(12);
    let outputs = |m: &Model| {
        let p = m.predict(&m.encoder.encode(&rows, false).unwrap().data.x, &m.how(3)).unwrap();
        p.outputs().clone()
    };
    assert_eq!(outputs(&back), outputs(model), "{name}");
}

/// Members of every structure, one after another in the file.
#[test]
fn a_mixture_of_gaussians_comes_back_bit_for_bit() {
    for structure in ["full", "kron", "diag"] {
        for (target, predictive) in [("y", "linearised"), ("kind", "probit"), ("kind", "sampling")] {
            let given = [("structure", structure), ("predictive", predictive)];
            let method = Choice::named("laplace").with("members", Value::Int(3)).with("epochs", Value::Int(2));
            let method = given.into_iter().fold(method, |m, (k, v)| m.with(k, Value::Text(v.into())));
            let recipe =
                Recipe { network: NetworkSpec::parse("6", Activation::Tanh).unwrap(), method, ..Recipe::default() };
            let options = EncodeOptions { target: target.into(), ..EncodeOptions::default() };
            let model = Model::fit(&recipe, &table(40), &options, 1, &mut Silent).unwrap();
            let fit = model.network("").unwrap();
            assert_eq!((fit.posterior.kind(), fit.link.is_some()), ("mixture", predictive != "sampling"));
            comes_back(&model, structure);
        }
    }
}

#[test]
fn every_sparse_model_comes_back_bit_for_bit() {
    let model = fit("mean-field", "y");
    for keep in [0.02, 0.2, 0.6, 1.0] {
        for memory in [Memory::MeanAndStd, Memory::Mean] {
            comes_back(&prune(&model, Rule::Keep(keep), memory).unwrap().model, &format!("{keep}, {memory:?}"));
        }
    }
    // Nothing is pruned: the same function under every draw.
    let same = prune(&model, Rule::Keep(1.0), Memory::MeanAndStd).unwrap().model;
    let rows = model.encoder.encode(&table(12), false).unwrap();
    assert_eq!(
        same.predict(&rows.data.x, &same.how(3)).unwrap().outputs(),
        model.predict(&rows.data.x, &model.how(3)).unwrap().outputs()
    );
    let e = prune(&fit("map", "y"), Rule::LogAlpha(3.0), Memory::Mean).unwrap_err().to_string();
    assert!(e.contains("kind 'point'") && e.contains("mean-field"), "{e}");
}

/// 8 bytes per parameter before. After: 8 (4 with the mean alone) and one of its gap for each of 5 % of the weights and for
/// all biases and the noise. What the manifest takes stands on both sides.
#[test]
fn a_pruned_models_file_is_as_small_as_it_should_be() {
    let recipe = Recipe {
        network: NetworkSpec::parse("300,300", Activation::Relu).unwrap(),
        method: Choice::named("mean-field").with("epochs", Value::Int(1)),
        ..Recipe::default()
    };
    let options = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
    let model = Model::fit(&recipe, &table(40), &options, 0, &mut Silent).unwrap();
    let dim = model.fitted.parameters();
    let mut mean = vec![0.0; dim];
    fill_normals(Key::new(1), &mut mean);
    let model = model.with_posterior(Arc::new(MeanFieldPosterior::new(mean, vec![1.0; dim], None))).unwrap();
    let before = to_bytes(&model).unwrap().len();
    let manifest = before - 8 * dim;
    for (memory, each, smaller) in [(Memory::MeanAndStd, 9, 14.0), (Memory::Mean, 5, 23.0)] {
        let pruned = prune(&model, Rule::Keep(0.05), memory).unwrap();
        let after = to_bytes(&pruned.model).unwrap().len();
        let kept = pruned.total().kept + dim - pruned.total().parameters;
        // Gaps of 255 and more are rare (2e-6 each); the header names one more tensor and pads to 8 bytes.
        assert!(after <= each * kept + manifest + 100, "{after} bytes for {kept} parameters, manifest {manifest}");
        assert!(before as f64 / after as f64 > smaller, "{before} to {after}");
    }
}

fn message(bytes: &[u8]) -> String {
    from_bytes(bytes, Path::new("m.safetensors")).unwrap_err().to_string()
}

/// The file with its manifest's text changed (and the lengths made right again).
fn with_manifest(bytes: &[u8], change: impl Fn(&str) -> String) -> Vec<u8> {
    let n = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = change(std::str::from_utf8(&bytes[8..8 + n]).unwrap());
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend(header.as_bytes());
    out.extend(&bytes[8 + n..]);
    out
}

#[test]
fn each_kind_of_damage_has_its_sentence() {
    let bytes = to_bytes(&fit("mean-field", "y")).unwrap();
    assert!(message(b"").contains("the file is empty"));
    assert!(message(b"x,y\n1,2\n3,4\n5,6\n").contains("not a model file"));
    assert!(message(&bytes[..bytes.len() / 2]).contains("cut short"));
    assert!(message(&bytes[..5]).contains("not a model file"));
    let newer = with_manifest(&bytes, |h| h.replace("\\\"format\\\":1", "\\\"format\\\":9"));
    assert!(message(&newer).contains("use a newer version of posterior"));
    let other = with_manifest(&bytes, |h| h.replace("posterior model", "posterior chains"));
    assert!(message(&other).contains("'posterior chains', not a model"));
    let wider = with_manifest(&bytes, |h| h.replace("\\\"units\\\":8", "\\\"units\\\":9"));
    assert!(message(&wider).contains("parameters"));
    let hostile = with_manifest(&bytes, |h| h.replace("\\\"units\\\":8", "\\\"units\\\":99999999999999999"));
    assert!(message(&hostile).contains("units"));
    let mut long = bytes.clone();
    long[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(!message(&long).is_empty());
    let mut nan = bytes.clone();
    let at = nan.len() - 4;
    nan[at..].copy_from_slice(&f32::NAN.to_le_bytes());
    assert!(message(&nan).contains("not a finite number"));
    let sparse = sparse_model();
    let renamed =
        with_manifest(sparse, |h| h.replacen("\"gaps\"", "\"gups\"", 1).replacen("\"bitmap\"", "\"botmap\"", 1));
    assert!(message(&renamed).contains("positions of kept parameters"));
    let mut dense = with_manifest(sparse, |h| {
        h.replacen("\\\"posterior\\\":\\\"sparse\\\"", "\\\"posterior\\\":\\\"mean-field\\\"", 1)
    });
    assert!(message(&dense).contains("the tensor 'mean' has"));
    // The file ends with the bytes of positions.
    dense = [&sparse[..sparse.len() - 1], &[253]].concat();
    assert!(message(&dense).contains("parameters"));
    // Another safetensors file.
    let foreign = safetensors_without_manifest();
    assert!(message(&foreign).contains("holds no model of posterior"));
}

fn safetensors_without_manifest() -> Vec<u8> {
    let header = r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend(header.as_bytes());
    out.extend([0; 4]);
    out
}

/// Forty images of 8 × 8 in two classes.
fn images() -> Table {
    let shape = Shape::Image { channels: 1, height: 8, width: 8 };
    let pixels = (0..40 * 64).map(|i| ((i * 7) % 11) as f32 / 11.0 * ((i / 64) % 2) as f32).collect();
    let labels = Column::Number((0..40).map(|i| f64::from(i % 2)).collect());
    Table::from_images(Images { shape, pixels }, Some(("label".into(), labels))).unwrap()
}

/// A convolutional network's model file.
fn image_model() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let text = "[network]\nlayers = [{ kind = \"conv\", channels = 3, kernel = 3, padding = 1 }, { kind = \"max-pool\", size = 2 }]\n\
                    [method]\nname = \"map\"\nepochs = 1\n";
        let options = EncodeOptions { target: "label".into(), ..EncodeOptions::default() };
        let model = Model::fit(&Recipe::from_toml(text).unwrap(), &images(), &options, 0, &mut Silent).unwrap();
        to_bytes(&model).unwrap()
    })
}

fn whole() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| to_bytes(&fit("mean-field", "kind")).unwrap())
}

/// A pruned model's file.
fn sparse_model() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let model = prune(&fit("mean-field", "kind"), Rule::Keep(0.05), Memory::MeanAndStd).unwrap().model;
        to_bytes(&model).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Bytes changed, dropped, inserted: an error of one line, or a model that still predicts.
    #[test]
    fn damaged_files_never_panic(sparse in any::<bool>(), edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 1..6)) {
        let mut bytes = if sparse { sparse_model() } else { whole() }.to_vec();
        for (index, byte, kind) in edits {
            // A third of the edits go into the header, where there is more to break, a third to the end, where positions are.
            let n = bytes.len();
            let i = match byte % 3 {
                0 => index.index(n),
                1 => index.index(n.min(4000)),
                _ => n - 1 - index.index(n.min(20)),
            };
            match kind {
                0 => bytes[i] = byte,
                1 => { bytes.remove(i); }
                _ => bytes.insert(i, byte),
            }
        }
        match from_bytes(&bytes, Path::new("m")) {
            Ok(model) => {
                if let Ok(rows) = model.encoder.encode(&table(3), false) {
                    let _ = model.predict(&rows.data.x, &model.how(2));
                }
            }
            Err(e) => prop_assert!(!e.to_string().contains('\n'), "{e}"),
        }
    }

    /// Numbers in the manifest replaced by others.
    #[test]
    fn hostile_numbers_never_panic(model in 0..3u8, which in any::<prop::sample::Index>(), value in prop_oneof![
        Just("0".to_owned()), Just("-1".to_owned()), Just("18446744073709551615".to_owned()), Just("1e308".to_owned()),
        Just("4294967296".to_owned()), Just("2147483648".to_owned()), Just("null".to_owned()), any::<u32>().prop_map(|v| v.to_string())]) {
        let bytes = with_manifest([whole(), image_model(), sparse_model()][usize::from(model)], |h| {
            let starts: Vec<usize> = h.char_indices().zip(h.chars().skip(1))
                .filter(|((_, c), d)| !c.is_ascii_alphanumeric() && *c != '.' && *c != '-' && d.is_ascii_digit())
                .map(|((i, c), _)| i + c.len_utf8()).collect();
            let start = starts[which.index(starts.len())];
            let end = start + h[start..].find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(0);
            format!("{}{value}{}", &h[..start], &h[end..])
        });
        let rows = if model == 1 { images() } else { table(3) };
        if let Ok(model) = from_bytes(&bytes, Path::new("m"))
            && let Ok(rows) = model.encoder.encode(&rows, false)
        {
            let _ = model.predict(&rows.data.x, &model.how(2));
        }
    }
}
