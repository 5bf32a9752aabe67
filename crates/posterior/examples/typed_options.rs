//! Typed options in place of names and settings; a wrong value is an error. `cargo run --release -p posterior --example typed_options`
//!
//! The fields are those that `posterior methods laplace` shows, with the same defaults: one declaration gives both.

use posterior::data::Column;
use posterior::options::likelihood::{Gaussian, Noise};
use posterior::options::prior::Normal;
use posterior::options::{CurvatureStructure, Laplace};
use posterior::prelude::*;

/// Fits by typed options, and again by names.
pub fn main() -> posterior::Result<()> {
    let x: Vec<f64> = (0..60).map(|i| f64::from(i) / 10.0).collect();
    let y = x.iter().map(|v| v.sin()).collect();
    let table = Table::from_columns(vec![("x".into(), Column::Number(x)), ("y".into(), Column::Number(y))])?;
    let encode = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };

    let laplace = Laplace { epochs: 300, structure: CurvatureStructure::Full, ..Default::default() };
    let typed = Recipe::new(NetworkSpec::parse("10", Activation::Tanh)?)
        .method(laplace)
        .likelihood(Gaussian { noise: Noise::Fixed, noise_std: 0.1, ..Default::default() })
        .prior(Normal { weight_std: 2.0, ..Default::default() });
    let model = Model::fit(&typed, &table, &encode, 1, &mut Silent)?;

    let named = Recipe::new(NetworkSpec::parse("10", Activation::Tanh)?)
        .method(Choice::named("laplace").with("epochs", Value::Int(300)).with("structure", Value::Text("full".into())))
        .likelihood(
            Choice::named("gaussian").with("noise", Value::Text("fixed".into())).with("noise_std", Value::Float(0.1)),
        )
        .prior(Choice::named("normal").with("weight_std", Value::Float(2.0)));
    let again = Model::fit(&named, &table, &encode, 1, &mut Silent)?;
    assert_eq!(model.recipe, again.recipe);
    println!("log evidence {:?}, by names {:?}", model.fitted.log_evidence(), again.fitted.log_evidence());

    let wrong = typed.method(Laplace { validation: 2.0, ..laplace });
    if let Err(error) = Model::fit(&wrong, &table, &encode, 1, &mut Silent) {
        println!("{error}");
    }
    Ok(())
}
