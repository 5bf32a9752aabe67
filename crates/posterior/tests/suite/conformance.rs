//! The conformance suite over every built-in row of every table.

use crate::nodes;
use posterior::inference::METHODS;
use posterior::likelihood::LIKELIHOODS;
use posterior::model::{Choice, Recipe};
use posterior::nn::{Activation, LayerSpec, NetworkSpec, Shape};
use posterior::prior::{LogUniform, Normal, PRIORS, ScaleMixture};
use posterior::score::METRICS;
use posterior::settings::Value;
use posterior_testing::conformance::{
    LikelihoodCase, Task, expect_block_prior, expect_layer, expect_likelihood, expect_method, expect_metric,
    expect_prior,
};

/// Name, settings, targets or classes.
type Written = (&'static str, &'static [(&'static str, &'static str)], usize);

#[test]
fn every_likelihood() {
    // Ten degrees: the z-test on variances needs a fourth moment.
    let cases: [Written; 13] = [
        ("gaussian", &[], 1),
        ("gaussian", &[], 3),
        ("gaussian", &[("noise", "fixed"), ("noise_std", "0.4")], 1),
        ("heteroscedastic", &[], 1),
        ("heteroscedastic", &[], 2),
        ("categorical", &[], 3),
        ("categorical", &[], 10),
        ("bernoulli", &[], 2),
        ("poisson", &[], 1),
        ("poisson", &[("offset", "0.7")], 2),
        ("student-t", &[("degrees", "10")], 1),
        ("student-t", &[("degrees", "10")], 3),
        ("student-t", &[("degrees", "10"), ("noise", "fixed")], 1),
    ];
    for entry in LIKELIHOODS {
        assert!(cases.iter().any(|(name, ..)| *name == entry.name), "{} is not tested", entry.name);
    }
    for (name, given, width) in cases {
        expect_likelihood(&LikelihoodCase::named(name, given, width));
    }
}

#[test]
fn every_prior() {
    PRIORS.iter().for_each(|entry| expect_prior(entry.name, &[]));
    // Off centre, wide, and with ends.
    expect_block_prior("normal off centre", &Normal::new(-1.0, 0.7));
    expect_block_prior("wide mixture", &ScaleMixture::new(0.3, 1.5, 0.4));
    expect_block_prior("short log-uniform", &LogUniform::new(0.1, 2.0).unwrap());
}

#[test]
fn every_metric() {
    METRICS.iter().for_each(expect_metric);
}

#[test]
fn every_layer() {
    let (flat, image) = (Shape::Flat(3), Shape::Image { channels: 4, height: 4, width: 4 });
    let layers = [
        (r#"kind = "dense", units = 4, activation = "tanh""#, flat),
        (r#"kind = "conv", channels = 2, kernel = 3, padding = 1, activation = "silu""#, image),
        (r#"kind = "max-pool", size = 2"#, image),
        (r#"kind = "avg-pool", size = 2"#, image),
        (r#"kind = "flatten""#, image),
        (r#"kind = "activation", activation = "gelu""#, flat),
        (r#"kind = "dropout", rate = 0.3"#, flat),
        (r#"kind = "polynomial", degree = 2"#, flat),
        (r#"kind = "fourier", frequencies = 2, period = 4.0"#, flat),
        (r#"kind = "random-features", count = 5, length_scale = 0.8"#, flat),
        (r#"kind = "residual", layers = [{ kind = "dense", units = 3, activation = "tanh" }]"#, flat),
        (r#"kind = "skip", layers = [{ kind = "conv", channels = 1, kernel = 3, padding = 1 }]"#, image),
        (r#"kind = "upsample", factor = 2, interpolation = "bilinear""#, image),
        (r#"kind = "pixel-shuffle", factor = 2"#, image),
        (r#"kind = "group-norm", groups = 2"#, image),
        (r#"kind = "select", columns = [2, 0]"#, flat),
        (
            r#"kind = "graph", nodes = [{ name = "a", kind = "dense", units = 2 }, { kind = "concat", from = ["a", "input"] }]"#,
            flat,
        ),
    ];
    for kind in LayerSpec::KINDS {
        let written = |text: &str| text.contains(&format!(r#"kind = "{kind}""#));
        let here = layers.iter().any(|(text, _)| written(text));
        assert!(here || nodes::networks().iter().any(|(.., text)| written(text)), "{kind} is not tested");
    }
    for (text, shape) in layers {
        let spec: NetworkSpec = toml::from_str(&format!("layers = [{{ {text} }}]")).unwrap();
        expect_layer(&spec.layers[0], shape);
    }
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

#[test]
fn every_method() {
    for entry in METHODS {
        let network = NetworkSpec::parse("8,4", Activation::Silu).unwrap();
        let recipe = Recipe { network, method: short(entry.name), ..Recipe::default() };
        // Exact for normal noise alone, and without hidden layers.
        let linear = entry.name == "linear";
        let recipe = if linear { Recipe { network: NetworkSpec::default(), ..recipe } } else { recipe };
        let tasks: &[Task] = if linear { &[Task::Real] } else { &[Task::Real, Task::TwoClasses] };
        tasks.iter().for_each(|task| drop(expect_method(&recipe, *task)));
    }
}
