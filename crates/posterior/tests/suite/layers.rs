//! A layer of another crate: in a configuration, in `Model::fit`, through the model file, and as bad input.

use posterior::artifact::{from_bytes, to_bytes};
use posterior::data::EncodeOptions;
use posterior::inference::Silent;
use posterior::model::{Model, Recipe};
use posterior::nn::{
    Activation, CustomLayer, Dense, Graph, LayerEntry, LayerSpec, NetworkSpec, Op, RowMap, Shape, layers,
    register_layer,
};
use posterior::settings::{Allowed, Default as Preset, Setting, Value};
use posterior::{Error, Real, Result};
use posterior_testing::conformance::{Task, expect_layer, expect_model, table};
use std::path::Path;
use std::sync::Once;

/// out = sharpness · a · b, for a row of the halves a and b.
#[derive(Debug)]
struct Product {
    half: usize,
    sharpness: f64,
}

impl RowMap for Product {
    fn describe(&self) -> String {
        format!("halves {}", self.half)
    }
    fn output(&self) -> Shape {
        Shape::Flat(self.half)
    }
    fn forward<R: Real>(&self, x: &[R], out: &mut [R]) {
        let (a, b) = x.split_at(self.half);
        let s = R::of(self.sharpness);
        out.iter_mut().zip(a.iter().zip(b)).for_each(|(out, (a, b))| *out = s * *a * *b);
    }
    fn vjp<R: Real>(&self, x: &[R], _out: &[R], d_out: &[R], dx: &mut [R]) {
        let s = R::of(self.sharpness);
        for i in 0..self.half {
            dx[i] = s * d_out[i] * x[self.half + i];
            dx[self.half + i] = s * d_out[i] * x[i];
        }
    }
}

const SHARPNESS: Setting =
    Setting { name: "sharpness", help: "a factor", default: Preset::Float(1.0), allowed: Allowed::Above(0.0, 10.0) };
const UNITS: Setting =
    Setting { name: "units", help: "outputs", default: Preset::Int(3), allowed: Allowed::Int(1, 1000) };

const HALVES: LayerEntry = LayerEntry {
    name: "halves",
    summary: "the product of the halves of a row",
    settings: &[SHARPNESS],
    build: |settings, builder, from| {
        let [x] = from else { return Err(Error::setting("halves takes one input", "give it one")) };
        if x.shape.len() % 2 == 1 {
            return Err(Error::setting(format!("{} have no halves", x.shape), "give an even number"));
        }
        let map = Product { half: x.shape.len() / 2, sharpness: settings.float("sharpness")? };
        builder.add(Op::rows(x.shape, map), from)
    },
};

/// Weights of its own, in the affine primitive.
const BILINEAR: LayerEntry = LayerEntry {
    name: "bilinear",
    summary: "products of two affine maps",
    settings: &[UNITS],
    build: |settings, builder, from| {
        let units = settings.count("units")?;
        let x = builder.add(Op::affine(Dense::new(from[0].shape, 2 * units, Activation::Identity)), from)?;
        builder.add(Op::rows(x.shape, Product { half: units, sharpness: 1.0 }), &[x])
    },
};

fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        register_layer(HALVES).unwrap();
        register_layer(BILINEAR).unwrap();
    });
}

#[test]
fn outside_layers_conform() {
    register();
    expect_layer(&CustomLayer::named("halves").with("sharpness", Value::Float(0.7)).into(), Shape::Flat(6));
    expect_layer(&CustomLayer::named("bilinear").into(), Shape::Flat(3));
    let residual = LayerSpec::Residual { layers: vec![CustomLayer::named("bilinear").into()] };
    expect_layer(&residual, Shape::Flat(3));
}

const CONFIG: &str = r#"
    [[network.layers]]
    kind = "bilinear"
    units = 4
    [[network.layers]]
    kind = "graph"
    nodes = [{ name = "both", kind = "halves", sharpness = 0.5 }, { kind = "concat", from = ["both", "input"] }]
    [method]
    name = "mean-field"
    epochs = 3
"#;

fn fit(config: &str) -> Result<Model> {
    let options = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
    Model::fit(&Recipe::from_toml(config)?, &table(Task::Real, 40), &options, 1, &mut Silent)
}

#[test]
fn a_layer_by_name_goes_the_whole_way() {
    register();
    let model = fit(CONFIG).unwrap();
    let network = &model.network("").unwrap().network;
    assert_eq!(network.describe(), ["bilinear (dense 8, halves 4)", "both: halves 2", "concat 2", "dense 1"]);
    let names: Vec<_> = network.layout().blocks().iter().map(|b| b.name.as_str()).collect();
    assert_eq!(names, ["0.0.weight", "0.0.bias", "3.weight", "3.bias"]);
    expect_model(&model, &table(Task::Real, 40));
    // What is not written is saved with its default, which may change.
    let short = fit("[[network.layers]]\nkind = \"bilinear\"\n[method]\nname = \"map\"\nepochs = 1\n").unwrap();
    let layer = CustomLayer::named("bilinear").with("units", Value::Int(3));
    assert_eq!(short.recipe.network, NetworkSpec { layers: vec![layer.into()] });
}

#[test]
fn unregistered_layers_and_wrong_options_are_one_sentence() {
    register();
    let error = |layer: &str| fit(&format!("[network]\nlayers = [{{ {layer} }}]\n")).unwrap_err().to_string();
    assert!(error(r#"kind = "halvs""#).contains("there is no layer 'halvs'; did you mean 'halves'?"));
    assert!(
        error(r#"kind = "halves", sharp = 1"#)
            .contains("layer 'halves' has no setting 'sharp'; did you mean 'sharpness'?")
    );
    assert!(error(r#"kind = "halves", sharpness = 11"#).contains("'sharpness' cannot be '11'"));
    assert!(error(r#"kind = "halves", sharpness = [1]"#).contains("the option 'sharpness' of a layer 'halves'"));
    assert!(error(r#"units = 3"#).contains("missing field `kind`"));
    assert!(error(r#"kind = 3"#).contains("the 'kind' of a layer is a word"));
    let odd = NetworkSpec { layers: vec![CustomLayer::named("halves").into()] };
    let odd: Result<Graph> = odd.build(Shape::Flat(3), 1);
    assert!(odd.unwrap_err().to_string().contains("3 numbers have no halves"));
    for (name, part) in [("halves", "there is a layer 'halves' already"), ("dense", "there is a layer 'dense' already")]
    {
        let again = register_layer(LayerEntry { name, ..HALVES });
        assert!(again.unwrap_err().to_string().contains(part));
    }
    assert!(layers().iter().any(|l| l.name == "bilinear"));
}

#[test]
fn a_file_that_names_an_unregistered_layer_is_one_sentence() {
    register();
    let bytes = to_bytes(&fit(CONFIG).unwrap()).unwrap();
    let renamed: Vec<u8> = {
        let at = bytes.windows(8).position(|w| w == b"bilinear").unwrap();
        let mut bytes = bytes.clone();
        bytes[at..at + 8].copy_from_slice(b"quadrant");
        bytes
    };
    let error = from_bytes(&renamed, Path::new("m.safetensors")).unwrap_err().to_string();
    assert!(error.contains("there is no layer 'quadrant'") && error.contains("registered before"), "{error}");
    assert!(!error.contains('\n'), "{error}");
}
