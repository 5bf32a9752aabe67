//! Weights of rows: a weight of 2 is a row that is there twice, and 0 one that is not there.

use posterior::data::{Column, EncodeOptions, Missing, Table};
use posterior::inference::Silent;
use posterior::model::{Choice, Model, Recipe};

/// Two inputs, one with a missing value in row 7, and an outcome.
fn table() -> Table {
    let a: Vec<f64> = (0..30).map(|i| f64::from(i * i % 17)).collect();
    let mut b: Vec<f64> = (0..30).map(|i| f64::from(i * 7 % 11)).collect();
    let y = a.iter().zip(&b).map(|(a, b)| 0.3 * a - b + (a * b).sin()).collect();
    b[7] = f64::NAN;
    let columns = [("a", a), ("b", b), ("y", y)];
    Table::from_columns(columns.map(|(n, v)| (n.to_owned(), Column::Number(v))).into()).unwrap()
}

fn options() -> EncodeOptions {
    EncodeOptions { target: "y".into(), missing: Missing::Drop, ..EncodeOptions::default() }
}

#[test]
fn closed_forms_do_not_tell_a_weight_from_repeated_rows() {
    let recipe = Recipe { method: Choice::named("linear"), ..Recipe::default() };
    let (table, options) = (table(), options());
    let weights: Vec<f64> = (0..30).map(|i| f64::from(i % 4)).collect();
    let repeated: Vec<usize> = (0..30).flat_map(|i| std::iter::repeat_n(i, i % 4)).collect();
    let weighted = Model::fit_weighted(&recipe, &table, &options, &weights, 0, &mut Silent).unwrap();
    let plain = Model::fit(&recipe, &table.select(&repeated), &options, 0, &mut Silent).unwrap();
    let mean = |m: &Model| m.predict(&m.encoder.encode(&table, false).unwrap().data.x, &m.how(1)).unwrap().real();
    let (a, b) = (mean(&weighted), mean(&plain));
    // The same sums in another order.
    for (a, b) in a.mean.iter().zip(&b.mean).chain(a.epistemic.iter().zip(&b.epistemic)) {
        assert!((a - b).abs() < 1e-9 * b.abs().max(1.0), "{a} {b}");
    }
    let evidence = |m: &Model| m.fitted.log_evidence().unwrap();
    assert!((evidence(&weighted) - evidence(&plain)).abs() < 1e-8, "{} {}", evidence(&weighted), evidence(&plain));
    // 22 have a weight, and row 7 is not complete.
    assert_eq!(weighted.rows, 21);
    // A column of weights is the same door.
    let mut columns: Vec<(String, Column)> = table.columns().map(|(n, c)| (n.to_owned(), c.clone())).collect();
    columns.push(("w".to_owned(), Column::Number(weights)));
    let by_column = EncodeOptions { weights: Some("w".into()), ..options };
    let by_column = Model::fit(&recipe, &Table::from_columns(columns).unwrap(), &by_column, 0, &mut Silent).unwrap();
    assert_eq!((mean(&by_column).mean, by_column.rows), (a.mean, 21));
}

#[test]
fn wrong_weights_are_refused() {
    let recipe = Recipe { method: Choice::named("linear"), ..Recipe::default() };
    let refused = |weights: &[f64]| {
        Model::fit_weighted(&recipe, &table(), &options(), weights, 0, &mut Silent).unwrap_err().to_string()
    };
    assert_eq!(refused(&[1.0; 3]), "there are 3 weights for 30 rows; give one for every row");
    let mut weights = [1.0; 30];
    weights[2] = -1.0;
    assert!(refused(&weights).contains("the weight of row 3 is -1"));
    assert!(refused(&[0.0; 30]).contains("at least 5 are needed"));
}
