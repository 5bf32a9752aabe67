//! Metrics as functionals of how often rows count.

use super::data::{Task, table};
use super::near;
use posterior::data::{Dataset, EncodeOptions};
use posterior::inference::Silent;
use posterior::model::{Choice, Model, Recipe};
use posterior::score::{Metric, Score, Scored};
use posterior::settings::Value;

/// 30 rows of each kind of outcome, scored by a small model; these rows followed by themselves; and row i there i mod 3 times.
fn scored(task: Task) -> [Scored; 3] {
    let method = Choice::named("map").with("epochs", Value::Int(30));
    let recipe = Recipe { method, ..Recipe::default() };
    let options = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
    let run = || {
        let model = Model::fit(&recipe, &table(task, 30), &options, 1, &mut Silent)?;
        let rows = model.encoder.encode(&table(task, 30), true)?.data;
        let twice: Vec<usize> = (0..30).chain(0..30).collect();
        let counted: Vec<usize> = (0..30).flat_map(|i| std::iter::repeat_n(i, i % 3)).collect();
        let score = |rows: &Dataset| model.score(rows, &model.how(1));
        Ok([score(&rows)?, score(&rows.select(&twice))?, score(&rows.select(&counted))?])
    };
    run().unwrap_or_else(|e: posterior::Error| panic!("{e}"))
}

/// A metric gives a finite number or says why not, does not depend on rows that do not count, and counts a row of weight 2 as two rows.
///
/// # Panics
/// If it breaks a rule, or is defined for no kind of outcome.
#[track_caller]
pub fn expect_metric(metric: &Metric) {
    let name = metric.name;
    assert!(!metric.summary.is_empty(), "{name} has no summary");
    let mut defined = 0;
    for task in [Task::Real, Task::TwoClasses, Task::ThreeClasses] {
        let [once, twice, counted] = scored(task);
        let f = match (metric.functional)(&once) {
            Some(Score::Of(f)) => f,
            Some(Score::Undefined(why)) => {
                assert!(
                    !why.is_empty() && !why.contains('\n'),
                    "{name} says why it is not defined in one line: '{why}'"
                );
                continue;
            }
            None => continue,
        };
        defined += 1;
        let n = once.y.len();
        let value = f(&vec![1.0; n]);
        assert!(value.is_finite(), "{name} is {value} on {task:?}");
        // Rounding of sums over 60 rows.
        let room = 1e-10 * (1.0 + value.abs());
        let Some(Score::Of(g)) = (metric.functional)(&twice) else {
            panic!("{name} is defined on rows and not on the same rows twice");
        };
        near(g(&vec![1.0; 2 * n]), f(&vec![2.0; n]), room, &format!("{name} on {task:?}, every row there twice"));
        let first: Vec<f64> = (0..2 * n).map(|i| if i < n { 1.0 } else { 0.0 }).collect();
        near(g(&first), value, room, &format!("{name} on {task:?}, half of the rows not counted"));
        let counts: Vec<f64> = (0..n).map(|i| (i % 3) as f64).collect();
        let Some(Score::Of(h)) = (metric.functional)(&counted) else {
            panic!("{name} is defined on rows and not on some of them");
        };
        near(
            f(&counts),
            h(&vec![1.0; counted.y.len()]),
            room,
            &format!("{name} on {task:?}, rows counted 0 to 2 times"),
        );
    }
    assert!(defined > 0, "{name} is defined for no kind of outcome");
}
