//! Small data sets of every kind of outcome.

use posterior::data::{Column, Table};
use posterior::rng::{Key, Stream};

/// What is to be learnt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// A real number.
    Real,
    /// One of two classes.
    TwoClasses,
    /// One of three classes.
    ThreeClasses,
}

/// So many rows with two inputs and a target `y`.
///
/// # Panics
/// If there are no rows.
pub fn table(task: Task, rows: usize) -> Table {
    let mut stream = Stream::new(Key::new(42));
    let a: Vec<f64> = (0..rows).map(|_| stream.normal()).collect();
    let b: Vec<f64> = (0..rows).map(|_| stream.normal()).collect();
    let f: Vec<f64> = a.iter().zip(&b).map(|(a, b)| (1.3 * a).sin() + 0.5 * b + 0.3 * stream.normal()).collect();
    let class = |names: &'static [&str]| {
        let of = |f: &f64| ((f + 0.5 * names.len() as f64).max(0.0) as usize).min(names.len() - 1);
        Column::Text(f.iter().map(|f| Some(names[of(f)].to_owned())).collect())
    };
    let y = match task {
        Task::Real => Column::Number(f.iter().map(|f| 20.0 + 4.0 * f).collect()),
        Task::TwoClasses => class(&["no", "yes"]),
        Task::ThreeClasses => class(&["low", "middle", "high"]),
    };
    let columns = vec![("a".into(), Column::Number(a)), ("b".into(), Column::Number(b)), ("y".into(), y)];
    Table::from_columns(columns).unwrap_or_else(|e| panic!("{e}"))
}
