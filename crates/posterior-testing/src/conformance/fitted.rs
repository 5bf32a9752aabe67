//! Fitted models: predictions row by row, functions with gradients, the way through the model file.

use crate::gradient::check_gradient;
use posterior::artifact::{from_bytes, to_bytes};
use posterior::data::{Table, Values};
use posterior::fitted::{Fitted, How};
use posterior::model::Model;
use posterior::rng::Key;
use std::path::Path;

/// A model: what was written comes back with the same bytes and predicts the same numbers, a file that is cut short is an error, and the model satisfies
/// [`expect_fitted`] at the rows of a table.
///
/// # Panics
/// If it breaks a rule.
#[track_caller]
pub fn expect_model(model: &Model, table: &Table) {
    let kind = model.fitted.kind().to_owned();
    let rows = model.encoder.encode(table, false).unwrap_or_else(|e| panic!("{kind}: {e}")).data;
    let bytes = to_bytes(model).unwrap_or_else(|e| panic!("{kind}: {e}"));
    let back = from_bytes(&bytes, Path::new("model")).unwrap_or_else(|e| panic!("{kind}: {e}"));
    assert!(to_bytes(&back).is_ok_and(|again| again == bytes), "{kind}: written again, the file has the same bytes");
    assert_eq!((&back.recipe, back.fitted.kind()), (&model.recipe, kind.as_str()), "{kind}");
    assert!(back.fitted.save().ok() == model.fitted.save().ok(), "{kind}: what is saved comes back");
    assert_eq!(back.fitted.parameters(), model.fitted.parameters(), "{kind}");
    let outputs = |m: &Model| m.predict(&rows.x, &m.how(3)).unwrap_or_else(|e| panic!("{kind}: {e}")).outputs().clone();
    assert!(outputs(&back) == outputs(model), "{kind}: predictions change on the way through a file");
    for part in 1..8 {
        let cut = &bytes[..bytes.len() * part / 8];
        let error = from_bytes(cut, Path::new("model")).err().map(|e| e.to_string());
        assert!(error.is_some_and(|e| !e.contains('\n')), "{kind}: {part}/8 of a file is read without an error");
    }
    expect_fitted(&*model.fitted, &rows.x);
}

/// Rows of x are inputs of the model's shape.
///
/// # Panics
/// If the model breaks a rule.
#[track_caller]
pub fn expect_fitted(fitted: &dyn Fitted, x: &Values) {
    let (kind, width) = (fitted.kind(), fitted.input().len());
    let wide: Vec<f64> = x.to::<f64>().to_vec();
    let rows = wide.len() / width;
    assert!(rows >= 3, "at least three rows are needed");
    assert!(!fitted.describe().is_empty() && fitted.parameters() > 0, "{kind} says what it is and how large");
    let how = How::new(4, Key::new(3));
    let predict = |x: &[f64]| {
        let x = Values::F64(x.to_vec().into());
        fitted.predict(&x, &how).unwrap_or_else(|e| panic!("{kind}: {e}"))
    };
    let (all, again) = (predict(&wide), predict(&wide));
    assert_eq!(all.rows(), rows, "{kind}: a prediction for every row");
    assert!(all.outputs() == again.outputs(), "{kind}: the same key gives the same prediction");
    // A row's prediction does not depend on the rows beside it, but for the order of sums in products.
    let part = predict(&wide[width..3 * width]);
    let mean = |p: &posterior::predict::Predictive, n: usize| match fitted.likelihood().classes() {
        0 => p.real().mean[n],
        _ => p.classes().probabilities[n * fitted.likelihood().classes()],
    };
    for n in 0..2 {
        let (a, b) = (mean(&part, n), mean(&all, n + 1));
        assert!((a - b).abs() <= 1e-5 * (1.0 + b.abs()), "{kind}: row {} alone {a}, among others {b}", n + 1);
    }
    functions(fitted, &wide[..2 * width]);
    let saved = fitted.save().unwrap_or_else(|e| panic!("{kind}: {e}"));
    let mut names: Vec<&str> = saved.tensors.iter().map(|t| t.name.as_str()).collect();
    names.extend(saved.wide.iter().map(|t| t.name.as_str()).chain(saved.packed.iter().map(|(n, _)| n.as_str())));
    names.sort_unstable();
    assert!(names.windows(2).all(|w| w[0] != w[1]), "{kind}: two tensors of one name in {names:?}");
    let fits = saved.tensors.iter().all(|t| t.shape.iter().product::<usize>() == t.data.len());
    let fits = fits && saved.wide.iter().all(|t| t.shape.iter().product::<usize>() == t.data.len());
    assert!(fits, "{kind}: the shape of a tensor is not that of its numbers");
}

/// Each function of a set has the same values when it is asked again, and gradients in x by finite differences.
fn functions(fitted: &dyn Fitted, x: &[f64]) {
    let (kind, outputs) = (fitted.kind(), fitted.likelihood().outputs());
    let Some(mut set) = fitted.functions(3, Key::new(5), true) else { return };
    let rows = x.len() / fitted.input().len();
    assert!((1..=3).contains(&set.len()), "{kind}: {} functions where 3 were asked for", set.len());
    let noise: usize = fitted.likelihood().blocks().iter().map(|b| b.len()).sum();
    let mut first = vec![0.0; rows * outputs];
    for s in 0..set.len() {
        set.select(s);
        assert_eq!(set.noise().len(), noise, "{kind}: the likelihood's own parameters");
        let mut value = |x: &[f64]| {
            let (mut f, mut dx) = (vec![f64::NAN; rows * outputs], vec![f64::NAN; x.len()]);
            set.eval(x, &mut f);
            let v: Vec<f64> = (0..f.len()).map(|i| 1.0 - 0.4 * i as f64).collect();
            set.vjp(x, &v, &mut dx);
            (f.iter().zip(&v).map(|(f, v)| f * v).sum(), dx)
        };
        // Rounding and the fourth order of the differences: see `crate::gradient`.
        check_gradient(&mut value, x, 1e-6).unwrap_or_else(|e| panic!("{kind}, function {s}: {e}"));
        if s == 0 {
            set.eval(x, &mut first);
        }
    }
    set.select(0);
    let mut again = vec![f64::NAN; first.len()];
    set.eval(x, &mut again);
    assert_eq!(again, first, "{kind}: a function has the same values when it is selected again");
}
