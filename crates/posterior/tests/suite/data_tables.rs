//! Tables as people have them: gaps, unseen and rare categories, told in notes and met by what was learnt.

use posterior::data::{Column, EncodeOptions, Encoder, Fitted, Missing, ReadOptions, Table};

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

/// 60 rows: the first cells as given by `cells`, then a number x, a target y.
fn sixty(head: &str, cells: impl Fn(usize) -> String) -> String {
    (0..60).fold(format!("{head},x,y\n"), |t, i| t + &format!("{},{},{}.5\n", cells(i), i * 7 % 11, i % 13))
}

#[test]
fn indices_identifiers_and_free_text_are_left_out_with_a_note() {
    let cells = |i: usize| format!("{i},{},n{i},it was number {i} of many", i * 37 % 60 + 1000);
    let text = sixty(",customer_id,name,remark", cells);
    let f = fit(&text);
    assert_eq!(f.encoder.feature_names(), ["x"]);
    assert_eq!(
        f.warnings,
        [
            "column 'column_1' is an index: it counts the rows, and is left out",
            "column 'customer_id' is an identifier, and is left out",
            "column 'name' is an identifier: its values do not repeat, and is left out",
            "column 'remark' is free text, and is left out",
        ]
    );
    assert!(f.encoder.encode(&table(&text), true).unwrap().warnings.is_empty());
    let asked = EncodeOptions { inputs: vec!["customer_id".into()], ..options() };
    assert_eq!(Encoder::fit(&table(&text), &asked).unwrap().encoder.feature_names(), ["customer_id", "x"]);
    let counts = (0..60).fold("x,y\n".to_owned(), |t, i| t + &format!("{}.5,{}\n", i % 9, i * i % 23));
    assert_eq!(
        fit(&counts).warnings,
        [
            "the target 'y' holds whole numbers from 0 and is taken as an amount; for counts choose the task 'count' (a Poisson likelihood)"
        ]
    );
}

#[test]
fn a_hundred_thousand_levels_are_no_wall() {
    let level = |i: usize| if i.is_multiple_of(4) { "often".to_owned() } else { format!("l{}", i / 3) };
    let text = (0..300_000).fold("s,x,y\n".to_owned(), |t, i| t + &format!("{},{},{}\n", level(i), i % 7, i % 5));
    let f = fit(&text);
    assert_eq!(f.encoder.feature_names().len(), 3, "{:?}", f.encoder.feature_names().len());
    assert!(f.warnings[0].contains("share the level '(other)'"), "{:?}", f.warnings);
}

#[test]
fn words_for_yes_and_no_are_one_input_and_stay_names_of_classes() {
    let text = sixty("smoker", |i| ["Yes", "no", "y"][i % 3].to_owned());
    let encoder = fit(&text).encoder;
    assert_eq!(encoder.feature_names(), ["smoker", "x"]);
    let x = rows(&encoder, "smoker,x\nYES,1\nN,1\n,1\n");
    assert!(x[0][0] > 0.0 && x[1][0] < 0.0 && x[2][0] == 0.0);
    let asked = EncodeOptions { target: "smoker".into(), ..EncodeOptions::default() };
    let words = sixty("smoker", |i| ["yes", "no"][i % 2].to_owned());
    assert_eq!(Encoder::fit(&table(&words), &asked).unwrap().encoder.class_names(), ["no", "yes"]);
}

#[test]
fn dates_become_season_weekday_hour_and_elapsed_time() {
    // Days 0, 20, 40 … after 2020-01-01 at two times of day.
    let date = |i: usize| {
        let (month, day) = (i % 12 + 1, i % 28 + 1);
        format!("{}-{month:02}-{day:02} {}:30", 2020 + i / 24, ["06", "18"][i % 2])
    };
    let f = fit(&sixty("when", date));
    let names = ["elapsed", "year", "season_sin", "season_cos", "weekday_sin", "weekday_cos", "hour_sin", "hour_cos"];
    let expected: Vec<String> = names.iter().map(|n| format!("when:{n}")).chain(["x".to_owned()]).collect();
    assert_eq!(f.encoder.feature_names(), expected);
    assert!(f.warnings.is_empty(), "{:?}", f.warnings);
    let again: Encoder = serde_json::from_str(&serde_json::to_string(&f.encoder).unwrap()).unwrap();
    assert_eq!(again, f.encoder);
    // A later year goes on in elapsed time and turns in the season: 2031-01-01 is a Wednesday, 06:00 a quarter of a day.
    let x = rows(&f.encoder, "when,x\n2031-01-01 06:00,1\n2031-01-02 06:00,1\nsoon,1\n");
    assert!(x[0][0] > 3.0 && x[0][0] < x[1][0] && x[0][1] > 3.0);
    let quarter = std::f64::consts::TAU * 0.25 / 365.25;
    assert!((x[0][2] - quarter.sin()).abs() < 1e-12 && (x[0][3] - quarter.cos()).abs() < 1e-12); // rounding
    let wednesday = std::f64::consts::TAU * 2.0 / 7.0;
    assert!((x[0][4] - wednesday.sin()).abs() < 1e-12 && (x[0][6] - 1.0).abs() < 1e-9);
    assert_eq!(x[2][..8], [0.0; 8]);
    // Days without times have no hour; months that cannot be told are said.
    let f = fit(&sixty("when", |i| format!("{}/{}/2020", i % 12 + 1, i % 12 + 1)));
    assert_eq!(f.warnings.len(), 1);
    assert!(f.warnings[0].contains("read as") && f.warnings[0].contains("cannot be told apart"), "{:?}", f.warnings);
    assert!(!f.encoder.feature_names().iter().any(|n| n.contains("hour") || n.contains("year")));
    // A date is no target.
    let asked = EncodeOptions { target: "when".into(), ..EncodeOptions::default() };
    let error = Encoder::fit(&table(&sixty("when", date)), &asked).unwrap_err().to_string();
    assert!(error.ends_with("column 'when': the target holds dates, which cannot be predicted; give a number in its place, such as the days since a date, or choose another target"), "{error}");
}

#[test]
fn numbers_with_signs_are_numbers_when_they_are_read_again() {
    let text = sixty("price,share", |i| format!("\"$1,{:03}\",{}%", i * 13 % 100, i % 9));
    let t = table(&text);
    assert!(matches!(t.column("price").unwrap(), Column::Number(v) if v[1] == 1013.0));
    let encoder = fit(&text).encoder;
    assert_eq!(encoder.feature_names(), ["price", "share", "x"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.csv");
    std::fs::write(&path, "price,share,x\n\"$1,013\",1%,2\n1013,1,2\n").unwrap();
    let new = Table::read(&path, &encoder.read_options());
    // A column of numbers takes a sign or not, but not both ways of writing a percentage.
    assert!(new.is_err_and(|e| e.to_string().contains("column 'share'")));
    std::fs::write(&path, "price,share,x\n\"$1,013\",1%,2\n1013,2%,2\n").unwrap();
    let new = Table::read(&path, &encoder.read_options()).unwrap();
    let x = encoder.encode(&new, false).unwrap().data.x.to::<f64>();
    assert_eq!(x[0], x[3]);
}
