//! Model files of version 0.1 as it stood before networks became graphs: they load, and predict the numbers they predicted then.
//!
//! `data/models` holds each file, the rows it was asked about, and what `posterior predict MODEL ROWS --draws 20` answered.

use crate::common::{kept, succeed};

/// Passes are in f32, whose sums other vector instructions round otherwise: some 1e-6 of the largest number, and of draws' spreads
/// somewhat more. A wrong layer, order or key is off by more than 1e-2.
const TOLERANCE: f64 = 1e-4;

fn agree(got: &str, expected: &str) -> bool {
    match (got.parse::<f64>(), expected.parse::<f64>()) {
        (Ok(a), Ok(b)) => (a - b).abs() <= TOLERANCE * b.abs().max(1.0),
        _ => got == expected,
    }
}

#[test]
fn models_written_before_the_graph_predict_what_they_did() {
    let folder = kept("data").join("models");
    let mut models = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let (Some(stem), Some("safetensors")) =
            (path.file_stem().and_then(|s| s.to_str()), path.extension().and_then(|e| e.to_str()))
        else {
            continue;
        };
        models += 1;
        let rows = match stem.split('-').next() {
            Some("shapes") => "shapes-images-idx3-ubyte",
            Some("birds") => "birds.csv",
            _ => "houses.csv",
        };
        let file = format!("{stem}.safetensors");
        let got = succeed(&folder, &["predict", &file, rows, "--draws", "20", "-q"]).stdout;
        let expected = std::fs::read_to_string(folder.join(format!("{stem}.csv"))).unwrap();
        assert_eq!(got.lines().count(), expected.lines().count(), "{stem}");
        for (got, expected) in got.lines().zip(expected.lines()) {
            let cells = || got.split(',').zip(expected.split(','));
            assert!(
                cells().count() == expected.split(',').count() && cells().all(|(a, b)| agree(a, b)),
                "{stem}: got {got}, expected {expected}"
            );
        }
    }
    assert_eq!(models, 13);
}
