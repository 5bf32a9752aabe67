//! The examples that users copy run.

#[path = "../../examples/arrays.rs"]
mod arrays;
#[path = "../../examples/checkpoint.rs"]
mod checkpoint;
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
