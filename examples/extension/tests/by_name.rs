//! Everything of this crate through the ordinary doors, and the conformance suite over it.

use posterior::artifact::{from_bytes, to_bytes};
use posterior::data::EncodeOptions;
use posterior::fitted::ModelEntry;
use posterior::inference::Silent;
use posterior::model::{Model, Recipe};
use posterior::nn::{CustomLayer, Shape};
use posterior::score::find;
use posterior::settings::Value;
use posterior_testing::conformance::{
    LikelihoodCase, Task, expect_layer, expect_likelihood, expect_method, expect_metric, expect_model, expect_prior,
    expect_settings, table,
};
use std::path::Path;
use std::sync::Once;

fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| posterior_extension::register().unwrap());
}

/// A network with the gated layer, logistic noise and the secant prior, fitted by particles.
const CONFIG: &str = r#"
    [[network.layers]]
    kind = "gated-dense"
    units = 6

    [[network.layers]]
    kind = "glu"

    [likelihood]
    name = "logistic"
    scale = 0.5

    [prior]
    name = "secant"

    [method]
    name = "stein"
    particles = 4
    steps = 300
"#;

fn fit(config: &str) -> posterior::Result<Model> {
    register();
    let options = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
    Model::fit(&Recipe::from_toml(config)?, &table(Task::Real, 80), &options, 1, &mut Silent)
}

#[test]
fn a_configuration_fits_predicts_saves_and_loads() {
    let model = fit(CONFIG).unwrap();
    let bytes = to_bytes(&model).unwrap();
    let back = from_bytes(&bytes, Path::new("m")).unwrap();
    assert_eq!(back.recipe, model.recipe);
    let rows = back.encoder.encode(&table(Task::Real, 80), true).unwrap().data;
    let scored = back.score(&rows, &back.how(4)).unwrap();
    let [rmse, bias] = ["rmse", "bias"].map(|name| find(name).unwrap().score(&scored).unwrap());
    // The outcomes have a standard deviation of 4: the fit has learnt something, and is right on average.
    assert!(rmse < 2.5 && bias.abs() < 1.0, "rmse {rmse}, bias {bias}");
}

#[test]
fn a_model_that_is_no_network_by_name() {
    let model = fit("[method]\nname = \"neighbours\"\nneighbours = 4\n").unwrap();
    assert_eq!(model.fitted.describe(), "4 neighbours of 80 rows");
    expect_model(&model, &table(Task::Real, 80));
    let entry: &ModelEntry = posterior::model::find_model("neighbours").unwrap();
    expect_settings("neighbours", entry.settings, |given| entry.settings(given).map(drop));
    let error = fit("[method]\nname = \"neighbours\"\n[likelihood]\nname = \"logistic\"\n").unwrap_err().to_string();
    assert!(error.contains("use the likelihood 'gaussian'"), "{error}");
}

#[test]
fn names_are_taken_once() {
    register();
    let again = posterior_extension::register().unwrap_err().to_string();
    assert!(again.contains("there is a method 'stein' already"), "{again}");
}

#[test]
fn the_likelihood_conforms() {
    register();
    expect_likelihood(&LikelihoodCase::named("logistic", &[], 1));
    expect_likelihood(&LikelihoodCase::named("logistic", &[], 2));
}

#[test]
fn the_prior_conforms() {
    register();
    expect_prior("secant", &[]);
}

#[test]
fn the_layers_conform() {
    register();
    expect_layer(&CustomLayer::named("glu").into(), Shape::Flat(6));
    expect_layer(&CustomLayer::named("gated-dense").with("units", Value::Int(3)).into(), Shape::Flat(4));
}

#[test]
fn the_metric_conforms() {
    expect_metric(&posterior_extension::metric::METRIC);
}

#[test]
fn the_method_conforms() {
    register();
    for task in [Task::Real, Task::ThreeClasses] {
        expect_method(&Recipe::from_toml("[method]\nname = \"stein\"\nsteps = 20\nparticles = 3\n").unwrap(), task);
    }
}
