//! Tables as people have them: gaps, unseen and rare categories, told in notes and met by what was learnt.

use posterior::data::{EncodeOptions, Encoder, Fitted, Missing, ReadOptions, Table};

fn table(text: &str) -> Table {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, text).unwrap();
    Table::read(&path, &ReadOptions::default()).unwrap()
}

fn options() -> EncodeOptions {
    EncodeOptions { target: "y".into(), ..EncodeOptions::default() }
}

fn fit(text: &str) -> Fitted {
    Encoder::fit(&table(text), &options()).unwrap()
}

fn rows(encoder: &Encoder, text: &str) -> Vec<Vec<f64>> {
    let x = encoder.encode(&table(text), false).unwrap().data.x.to::<f64>();
    x.chunks(encoder.input_shape().len()).map(<[f64]>::to_vec).collect()
}

fn notes(encoder: &Encoder, text: &str) -> Vec<String> {
    encoder.encode(&table(text), false).unwrap().warnings
}

#[test]
fn gaps_take_the_mean_and_are_marked() {
    let text = "x,s,b,y\n1,a,true,1\n,b,false,2\n3,,true,3\n2,a,,4\n2,b,false,\n2,a,true,6\n";
    let f = fit(text);
    assert_eq!(f.dropped_rows, [4]);
    assert_eq!(f.encoder.feature_names(), ["x", "x=(missing)", "s=(missing)", "s=a", "s=b", "b", "b=(missing)"]);
    assert_eq!(
        f.warnings,
        [
            "1 row without a target is left out",
            "missing values in 'x' (1), 's' (1), 'b' (1): numbers take the column's mean and an input that marks them, categories a level of their own",
        ]
    );
    let encoded = f.encoder.encode(&table(text), true).unwrap();
    assert_eq!(encoded.kept_rows, [0, 1, 2, 3, 5]);
    // Of 1, 3, 2, 2 the mean is 2.
    let x = rows(&f.encoder, text);
    assert_eq!((&x[1][..2], &x[3][..2]), (&[0.0, 1.0][..], &[0.0, 0.0][..]));
    assert_eq!(x[2][2..5], [1.0, 0.0, 0.0]);
    assert_eq!((x[3][5], x[3][6], x[0][6]), (0.0, 1.0, 0.0));
    let again: Encoder = serde_json::from_str(&serde_json::to_string(&f.encoder).unwrap()).unwrap();
    assert_eq!(again, f.encoder);
    // A clean table gets no further input.
    assert_eq!(fit("x,y\n1,1\n2,2\n3,3\n4,4\n5,5\n").encoder.feature_names(), ["x"]);
}

#[test]
fn a_column_that_is_there_or_not_is_an_input() {
    let f = fit("x,sold,y\n1,7,1\n2,,2\n3,7,3\n4,,4\n5,7,5\n");
    assert_eq!(f.encoder.feature_names(), ["x", "sold=(missing)"]);
    assert_eq!(f.warnings[0], "column 'sold' has one value where it has any: whether it has is the input");
}

#[test]
fn what_training_never_met_is_met_by_the_same_rules() {
    let text = "x,s,b,y\n1,a,true,1\n2,b,false,2\n3,a,true,3\n2,b,false,4\n2,a,true,5\n";
    let encoder = fit(text).encoder;
    let new = "x,s,b\n,a,true\n1,zebra,false\n1,,maybe\n";
    let x = rows(&encoder, new);
    assert_eq!(x[0][0], 0.0);
    assert_eq!((&x[1][1..3], &x[2][1..3]), (&[0.0, 0.0][..], &[0.0, 0.0][..]));
    assert_eq!(x[2][3], 0.0);
    assert_eq!(
        notes(&encoder, new),
        [
            "column 'x': 1 row has no value, which training never met; the training mean is taken",
            "column 's': 1 row has no value, which training never met; it counts as none of the known ones",
            "column 's': 1 row has a value that training never met, such as 'zebra'; it counts as none of the known ones",
            "column 'b': 1 row has a value that training never met, such as 'maybe'; the training mean is taken",
        ]
    );
    let strict = Encoder::fit(&table(text), &EncodeOptions { missing: Missing::Error, ..options() }).unwrap().encoder;
    assert!(strict.encode(&table("x,s,b\n,a,true\n"), false).is_err());
}

#[test]
fn rare_categories_share_a_level_that_unseen_ones_join() {
    let level = |i: usize| match i {
        0 => "once".to_owned(),
        1 | 2 => "twice".to_owned(),
        _ => ["a", "b"][i % 2].to_owned(),
    };
    let text = (0..60).fold("s,y\n".to_owned(), |t, i| t + &format!("{},{}\n", level(i), i % 7));
    let f = fit(&text);
    assert_eq!(f.encoder.feature_names(), ["s=(other)", "s=a", "s=b"]);
    assert_eq!(f.warnings, ["column 's': 2 of 4 categories have fewer than 3 rows and share the level '(other)'"]);
    assert_eq!(rows(&f.encoder, "s\nonce\nnew\na\n"), [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]);
    // What was rare is known by its level only, and met like any other that is new.
    let told = notes(&f.encoder, "s\nnew\na\n");
    assert_eq!(told, ["column 's': 1 row has a value that training never met, such as 'new'; it counts as '(other)'"]);
}
