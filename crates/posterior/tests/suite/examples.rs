//! The examples that users copy run.

#[path = "../../examples/arrays.rs"]
mod arrays;
#[path = "../../examples/checkpoint.rs"]
mod checkpoint;
#[path = "../../examples/own_density.rs"]
mod own_density;
#[path = "../../examples/own_fitted_model.rs"]
mod own_fitted_model;
#[path = "../../examples/own_layer.rs"]
mod own_layer;
#[path = "../../examples/own_likelihood.rs"]
mod own_likelihood;
#[path = "../../examples/own_method.rs"]
mod own_method;
#[path = "../../examples/typed_options.rs"]
mod typed_options;

#[test]
fn arrays_in_and_predictions_out() {
    arrays::main().unwrap();
}

#[test]
fn checkpoint_and_resume() {
    checkpoint::main().unwrap();
}

#[test]
fn typed_options_and_names() {
    typed_options::main().unwrap();
}

#[test]
fn own_parts() {
    own_density::main().unwrap();
    own_fitted_model::main().unwrap();
    own_layer::main().unwrap();
    own_likelihood::main().unwrap();
    own_method::main().unwrap();
}
