//! Methods: equal bits, well-formed posteriors, the way through the model file.

use super::data::{Task, table};
use super::{expect_model, expect_same_on_threads, expect_settings};
use posterior::data::EncodeOptions;
use posterior::fitted::Saved;
use posterior::inference::{Silent, find};
use posterior::model::{Model, Recipe};
use posterior::predict::Outputs;
use posterior::rng::Key;

/// A recipe whose method is registered, with settings that make its fit short. It is fitted to 40 rows of two inputs.
///
/// # Panics
/// If the method breaks a rule, or refuses the task.
#[track_caller]
pub fn expect_method(recipe: &Recipe, task: Task) -> Model {
    let name = recipe.method.name.clone().unwrap_or_default();
    let entry = find(&name).unwrap_or_else(|e| panic!("{e}"));
    assert!(!entry.summary.is_empty() && !entry.gives.is_empty(), "{name} says what it is and what it gives");
    expect_settings(&name, entry.settings, |given| {
        let method = entry.configure(given)?;
        assert_eq!(method.name(), name, "the method has the name of its entry");
        Ok(())
    });
    let data = table(task, 40);
    let options = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
    let fit = || Model::fit(recipe, &data, &options, 7, &mut Silent).unwrap_or_else(|e| panic!("{name}: {e}"));
    let all = |model: &Model| -> (Saved, Outputs) {
        let run = || {
            let rows = model.encoder.encode(&data, false)?.data;
            Ok((model.fitted.save()?, model.predict(&rows.x, &model.how(3))?.outputs().clone()))
        };
        run().unwrap_or_else(|e: posterior::Error| panic!("{name}: {e}"))
    };
    expect_same_on_threads(&name, || all(&fit()));
    let model = fit();
    draws(&name, &model);
    expect_model(&model, &data);
    model
}

/// Draws have one finite number for every parameter and follow from their key.
fn draws(name: &str, model: &Model) {
    let network = model.network("").unwrap_or_else(|e| panic!("{name}: {e}"));
    let posterior = &network.posterior;
    assert_eq!(posterior.dim(), model.fitted.parameters(), "{name}: one number for every parameter");
    for s in 0..5 {
        let draw = posterior.draw(Key::new(s));
        assert_eq!(draw.w.len(), posterior.dim(), "{name}: draw {s}");
        assert!(draw.w.iter().all(|w| w.is_finite()), "{name}: draw {s} is finite");
        let again = posterior.draw(Key::new(s));
        assert!(again.w == draw.w && again.mode == draw.mode, "{name}: draw {s} again");
        if let Some(density) = posterior.log_density(&draw.w) {
            assert!(!density.is_nan(), "{name}: the log density of its own draw {s} is {density}");
        }
    }
    if let Some(evidence) = posterior.log_evidence() {
        assert!(evidence.is_finite(), "{name}: the evidence is {evidence}");
    }
}
