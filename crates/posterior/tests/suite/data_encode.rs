//! From a table to numbers and back to names: what is learnt, what is refused, and the words of each refusal.

use posterior::data::{
    Column, EncodeOptions, Encoder, Fitted, Images, Inputs, Missing, ReadOptions, Table, TargetKind, Task, Values,
};
use posterior::nn::Shape;
use posterior::{Error, Result};

/// A table read from a file named `t.csv`.
fn csv(text: &str, options: &ReadOptions) -> Result<Table> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, text).unwrap();
    Table::read(&path, options)
}

fn table(text: &str) -> Table {
    csv(text, &ReadOptions::default()).unwrap()
}

/// The message without the folder's name.
fn words(error: &Error) -> String {
    let text = error.to_string();
    text.find("t.csv").map_or(text.clone(), |at| text[at..].to_owned())
}

fn options(target: &str) -> EncodeOptions {
    EncodeOptions { target: target.into(), ..EncodeOptions::default() }
}

fn fit(text: &str, options: &EncodeOptions) -> Fitted {
    Encoder::fit(&table(text), options).unwrap()
}

fn refused(text: &str, options: &EncodeOptions) -> String {
    words(&Encoder::fit(&table(text), options).unwrap_err())
}

fn numbers(values: &Values) -> Vec<f64> {
    values.to::<f64>().to_vec()
}

const SMALL: &str =
    "x,colour,on,y\n1,red,true,10\n3,blue,false,20\n1,red,true,10\n3,blue,false,20\n1,red,true,10\n3,green,false,20\n";

#[test]
fn a_table_becomes_standardised_numbers() {
    let Fitted { encoder, warnings, dropped_rows } = fit(SMALL, &options("y"));
    assert!(warnings.is_empty() && dropped_rows.is_empty());
    assert_eq!(encoder.feature_names(), ["x", "colour=blue", "colour=green", "colour=red", "on"]);
    assert_eq!(encoder.input_shape(), Shape::Flat(5));
    assert_eq!(encoder.target_scale(), (15.0, 5.0));
    let encoded = encoder.encode(&table(SMALL), true).unwrap();
    assert_eq!(numbers(&encoded.data.x)[..10], [-1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, -1.0]);
    assert_eq!(encoded.data.y[..2], [-1.0, 1.0]);
    assert_eq!((encoded.data.rows, encoded.data.targets, encoded.kept_rows.len()), (6, 1, 6));

    let json = serde_json::to_string(&encoder).unwrap();
    let again: Encoder = serde_json::from_str(&json).unwrap();
    assert_eq!(again, encoder);
    let new = table("colour,on,x,z\nred,false,5,1\n");
    let encoded = again.encode(&new, false).unwrap();
    assert_eq!(numbers(&encoded.data.x), [3.0, 0.0, 0.0, 1.0, -1.0]);
    assert_eq!((encoded.data.targets, encoded.data.y.len()), (0, 0));
    assert_eq!(encoded.warnings, ["columns that the model does not know are ignored: 'z'"]);
}

#[test]
fn the_task_follows_from_the_target() {
    let rows =
        |target: &[&str]| target.iter().enumerate().fold("x,t\n".to_owned(), |s, (i, t)| s + &format!("{i},{t}\n"));
    let names = |cells: &[&str], task| {
        let f = fit(&rows(cells), &EncodeOptions { task, ..options("t") });
        f.encoder.class_names().to_vec()
    };
    assert_eq!(names(&["b", "a", "b", "a", "b"], Task::Auto), ["a", "b"]);
    assert_eq!(names(&["True", "false", "true", "False", "true"], Task::Auto), ["false", "true"]);
    assert_eq!(names(&["10", "9", "10", "9.0", "10"], Task::Classification), ["9", "10"]);
    assert!(names(&["1", "2", "3", "4", "5"], Task::Auto).is_empty());
    let counts = fit(&rows(&["0", "2", "3", "4", "5"]), &EncodeOptions { task: Task::Count, ..options("t") });
    assert_eq!(counts.encoder.target_kind(), &TargetKind::Count { mean: 2.8 });
    let y = counts.encoder.encode(&table(&rows(&["0", "2", "3", "4", "5"])), true).unwrap().data.y;
    assert_eq!(*y, [0.0, 2.0, 3.0, 4.0, 5.0]);
    let classes =
        fit(&rows(&["10", "9", "10", "9", "10"]), &EncodeOptions { task: Task::Classification, ..options("t") });
    let y = classes.encoder.encode(&table("x,t\n1,9\n1,10.0\n"), true).unwrap().data.y;
    assert_eq!(*y, [0.0, 1.0]);
}

#[test]
fn targets_that_cannot_be_learnt_are_refused() {
    let of = |cells: &[&str], task| {
        let text = cells.iter().enumerate().fold("x,t\n".to_owned(), |s, (i, t)| s + &format!("{i},{t}\n"));
        refused(&text, &EncodeOptions { task, ..options("t") })
    };
    let constant =
        "t.csv, column 't': the target is '7' in every row; there is nothing to learn; choose another target";
    for task in [Task::Regression, Task::Classification, Task::Count] {
        assert_eq!(of(&["7"; 5], task), constant);
    }
    assert_eq!(
        of(&["a", "a", "b", "b", "c"], Task::Auto),
        "t.csv, column 't': class 'c' has one row; a class needs at least two: remove it or add rows"
    );
    assert_eq!(of(&["1", "2"], Task::Auto), "t.csv: there are 2 rows and at least 5 are needed; add rows");
    let count = "is not a count; counts are whole numbers from 0; correct the cell, or use task=regression";
    assert_eq!(of(&["1", "2", "-3", "4", "5"], Task::Count), format!("t.csv, line 4, column 't': -3 {count}"));
    assert_eq!(of(&["1", "2", "3", "4.5", "5"], Task::Count), format!("t.csv, line 5, column 't': 4.5 {count}"));
    for task in [Task::Regression, Task::Count] {
        assert_eq!(
            of(&["a", "a", "b", "b", "b"], task),
            "t.csv, column 't': the target holds text, not numbers; use task=classification, or choose another target"
        );
    }
    let many: Vec<String> = (0..1001).map(|i| i.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(
        of(&many, Task::Classification),
        "t.csv, column 't': the target has 1001 different values, too many for classes; use task=regression"
    );
    let fractions: Vec<String> = (0..101).map(|i| (f64::from(i) + 0.5).to_string()).collect();
    let fractions: Vec<&str> = fractions.iter().map(String::as_str).collect();
    assert_eq!(
        of(&fractions, Task::Classification),
        "t.csv, column 't': the target has 101 different values, too many for classes; use task=regression"
    );
}

#[test]
fn columns_without_use_are_left_out_or_refused() {
    let text = "k,x,s,m,y\n1,1,a,,1\n1,2,a,,2\n1,3,a,,3\n1,4,a,,4\n1,5,a,,5\n";
    let f = fit(text, &options("y"));
    assert_eq!(f.encoder.feature_names(), ["x"]);
    assert_eq!(
        f.warnings,
        [
            "column 'm' has no values and is left out",
            "column 'k' has the same value in every row and is left out",
            "column 's' has the same value in every row and is left out",
        ]
    );
    assert!(f.encoder.encode(&table(text), true).unwrap().warnings.is_empty());
    assert_eq!(
        refused(text, &EncodeOptions { ignore: vec!["x".into()], ..options("y") }),
        "t.csv: no column is left to predict from; add a column that varies from row to row"
    );
    assert_eq!(refused(text, &options("z")).split(';').next(), Some("t.csv: there is no column 'z'"));
    assert_eq!(refused(SMALL, &options("color")), "t.csv: there is no column 'color'; did you mean 'colour'?");
    assert_eq!(
        refused(SMALL, &EncodeOptions { ignore: vec!["colr".into()], ..options("y") }),
        "t.csv: there is no column 'colr'; did you mean 'colour'?"
    );
    assert_eq!(
        refused(SMALL, &EncodeOptions { ignore: vec!["y".into()], ..options("y") }),
        "the target 'y' is also to be ignored; choose another target, or do not ignore it"
    );
    let large = "x,y\n1e200,1\n2,2\n3,3\n4,4\n5,5\n";
    assert_eq!(
        refused(large, &options("y")),
        "t.csv, line 2, column 'x': the number 1e200 is too large; correct the cell, or give the column in another unit"
    );
}

const HOLES: &str =
    "x,s,b,y\n1,a,true,1\n,b,false,2\n3,,true,3\n4,a,,4\n5,b,false,5\n6,a,true,6\n7,b,false,7\n8,a,true,\n9,b,true,9\n";

#[test]
fn missing_values_are_refused_replaced_or_dropped() {
    let with = |missing| EncodeOptions { missing, ..options("y") };
    assert_eq!(
        refused(HOLES, &with(Missing::Error)),
        "t.csv, line 3, column 'x': the value is missing; fill it in, or use missing=auto, missing=mean or missing=drop"
    );
    let target = "t.csv, line 9, column 'y': the value is missing; a target must be there: fill it in, or use missing=auto or missing=drop";
    assert_eq!(refused(HOLES, &with(Missing::Mean)), target);

    let f = fit(HOLES, &with(Missing::Drop));
    assert_eq!(
        (f.dropped_rows, f.warnings),
        (vec![1, 2, 3, 7], vec!["4 rows with missing values are left out".to_owned()])
    );
}

/// Column x drives y and varies; where z, known in six rows of thirty, leaves only rows with one x, it must not be x that goes.
#[test]
fn a_mostly_empty_column_costs_no_other_its_place() {
    let row = |i: usize| {
        let z = if i < 6 { (i % 3).to_string() } else { String::new() };
        let (x, kind) = if i < 6 { (5, "a") } else { (i % 4, ["a", "b"][i % 2]) };
        format!("{x},{kind},{z},7,{}\n", i * 3 + x)
    };
    let text = format!("x,kind,z,same,y\n{}", (0..30).map(row).collect::<String>());
    let f = fit(&text, &EncodeOptions { missing: Missing::Drop, ..options("y") });
    assert_eq!(f.encoder.feature_names(), ["x", "kind=a", "kind=b", "z"]);
    assert_eq!(f.dropped_rows, (6..30).collect::<Vec<_>>());
    let why = "so nothing is learnt of what else it does: leave out column 'z', which is missing in 24 of the others, to learn it";
    let expected = [
        "column 'same' has the same value in every row and is left out".to_owned(),
        "24 rows with missing values are left out".to_owned(),
        format!("column 'x' has one value in the 6 complete rows, {why}"),
        format!("column 'kind' has one value in the 6 complete rows, {why}"),
    ];
    assert_eq!(f.warnings, expected);
    // Scaled by the rows where it is known: 5 six times, 0 to 3 six times each.
    let x = numbers(&f.encoder.encode(&table(&text), true).unwrap().data.x);
    let (mean, square) = (66.0 / 30.0, (6.0 * 25.0 + 6.0 * 14.0) / 30.0);
    let std = f64::sqrt(square - mean * mean);
    assert!((x[0] - (5.0 - mean) / std).abs() < 1e-12); // rounding
    // A column with one value and holes costs no row; one that varies only where the target is missing goes.
    let text = "x,h,v,y\n1,2,0,1\n2,,0,2\n3,2,0,3\n4,,0,4\n5,2,0,5\n6,2,1,\n";
    let f = fit(text, &EncodeOptions { missing: Missing::Drop, ..options("y") });
    assert_eq!((f.encoder.feature_names(), f.dropped_rows), (vec!["x".to_owned()], vec![5]));
}

/// Names are looked up in tables, not searched for: with 100 000 columns a search through all of them for each would take more than
/// 20 s of this processor (6 s at 40 000), and everything together takes less than one. The bound leaves room for a busy machine.
#[test]
fn cost_is_linear_in_the_number_of_columns() {
    const COLUMNS: usize = 100_000;
    let line = |f: &dyn Fn(usize) -> String| (0..COLUMNS).map(f).collect::<Vec<_>>().join(",");
    let mut text = line(&|i| format!("c{i}")) + ",y\n";
    for r in 0..6 {
        text += &format!("{},{r}\n", line(&|i| ((i * 7 + r * r) % 10).to_string()));
    }
    let start = std::time::Instant::now();
    let read = table(&text);
    let encoder = Encoder::fit(&read, &options("y")).unwrap().encoder;
    let again = csv(&text, &encoder.read_options()).unwrap();
    let encoded = encoder.encode(&again, true).unwrap();
    encoder.decode_inputs(&encoded.data.x, &again).unwrap();
    assert!(start.elapsed().as_secs_f64() < 10.0, "{:?}", start.elapsed());
}

#[test]
fn dropping_may_leave_too_few_rows() {
    let five = &HOLES[..HOLES.find("7,b").unwrap()];
    assert_eq!(
        refused(five, &EncodeOptions { missing: Missing::Drop, ..options("y") }),
        "t.csv: there are 3 complete rows and at least 5 are needed; add rows"
    );
}

#[test]
fn the_mean_stands_for_a_missing_number_and_a_category_for_a_missing_text() {
    let text = &HOLES[..HOLES.find("8,a").unwrap()];
    let f = fit(text, &EncodeOptions { missing: Missing::Mean, ..options("y") });
    assert_eq!(f.encoder.feature_names(), ["x", "s=(missing)", "s=a", "s=b", "b"]);
    let x = numbers(&f.encoder.encode(&table(text), true).unwrap().data.x);
    assert_eq!((x[5], x[3 * 5 + 4]), (0.0, 0.0));
    assert_eq!(x[10 + 1..10 + 4], [1.0, 0.0, 0.0]);
}

#[test]
fn other_tables_are_checked_against_the_training_table() {
    let encoder = fit(SMALL, &EncodeOptions { missing: Missing::Error, ..options("y") }).encoder;
    let refused = |text: &str| words(&encoder.encode(&table(text), false).unwrap_err());
    assert_eq!(refused("x,colours,on\n1,red,true\n"), "t.csv: there is no column 'colour'; did you mean 'colours'?");
    assert_eq!(
        refused("x,colour,on\n1,red,true\nabc,red,true\n"),
        "t.csv, line 3, column 'x': text 'abc' in a numeric column; correct the cell"
    );
    assert_eq!(
        refused("x,colour,on\n1,red,2\n"),
        "t.csv, line 2, column 'on': '2' in a column of true and false; correct the cell"
    );
    assert_eq!(
        refused("x,colour,on\n,red,true\n"),
        "t.csv, line 2, column 'x': the value is missing; fill it in, or fit a model that takes missing values (by the mean, or by leaving rows out)"
    );
    // Columns that the model does not know may hold anything.
    let read =
        csv("x,colour,on,note,far\n1,red,true,1,1\n3,blue,false,see below,inf\n", &encoder.read_options()).unwrap();
    assert_eq!(encoder.encode(&read, false).unwrap().warnings.len(), 1);
    let asked = EncodeOptions { task: Task::Count, missing: Missing::Error, ..options("n") };
    let counts = fit("x,n\n1,1\n2,2\n3,3\n4,4\n5,5\n", &asked).encoder;
    assert_eq!(
        words(&counts.encode(&table("x,n\n1,2\n2,0.5\n"), true).unwrap_err()),
        "t.csv, line 3, column 'n': 0.5 is not a count; counts are whole numbers from 0; correct the cell"
    );
    assert_eq!(
        words(&counts.encode(&table("x,n\n1,2\n2,\n"), true).unwrap_err()),
        "t.csv, line 3, column 'n': the value is missing; a target must be there: fill it in, or leave the row out"
    );
    let absent = encoder.encode(&table("x,colour,on\n1,red,true\n"), true).unwrap_err();
    assert!(words(&absent).starts_with("t.csv: there is no column 'y'; "));

    let text = "x,t\n1,a\n2,b\n3,a\n4,b\n5,a\n";
    let encoder = fit(text, &options("t")).encoder;
    assert_eq!(
        words(&encoder.encode(&table("x,t\n1,a\n2,c\n"), true).unwrap_err()),
        "t.csv, line 3, column 't': the class 'c' was not seen in training; the known ones are a, b"
    );
}

#[test]
fn columns_keep_the_kind_they_had_in_training() {
    let text = "zip,y\n01,1\n2,2\n01,3\n2,4\n01,5\n";
    let as_text = ReadOptions { text: vec!["zip".into()], ..ReadOptions::default() };
    let encoder = Encoder::fit(&csv(text, &as_text).unwrap(), &options("y")).unwrap().encoder;
    assert_eq!(encoder.feature_names(), ["zip=01", "zip=2"]);
    let read = csv("zip\n01\n2\n", &encoder.read_options()).unwrap();
    assert_eq!(numbers(&encoder.encode(&read, false).unwrap().data.x), [1.0, 0.0, 0.0, 1.0]);
    // Read as a number, 2.0 is written "2" again.
    assert_eq!(numbers(&encoder.encode(&table("zip\n2\n"), false).unwrap().data.x), [0.0, 1.0]);
    assert_eq!(
        words(&csv(text, &ReadOptions { text: vec!["zap".into()], ..ReadOptions::default() }).unwrap_err()),
        "t.csv: there is no column 'zap'; did you mean 'zip'?"
    );
}

#[test]
fn images_share_one_scale() {
    let shape = Shape::Image { channels: 1, height: 1, width: 2 };
    // Half of the pixels are a background: it stays 0, and the scale is √½.
    let images = |n: usize| Images { shape, pixels: [0.0, 1.0].repeat(n) };
    let labels = Column::Number(vec![3.0, 7.0, 3.0, 7.0, 3.0]);
    let table = Table::from_images(images(5), Some(("label".into(), labels))).unwrap();
    let encoder = Encoder::fit(&table, &options("label")).unwrap().encoder;
    assert_eq!((encoder.input_shape(), encoder.class_names()), (shape, &["3".to_owned(), "7".to_owned()][..]));
    assert!(matches!(&encoder.inputs, Inputs::Images { scale, .. } if (scale.mean, scale.std) == (0.0, 0.5f64.sqrt())));
    let new = encoder.encode(&Table::from_images(images(1), None).unwrap(), false).unwrap();
    assert!(matches!(&new.data.x, Values::F32(x) if **x == [0.0, 2f32.sqrt()]));

    let other = Shape::Image { channels: 1, height: 2, width: 1 };
    let other = Table::from_images(Images { shape: other, pixels: vec![0.0; 2] }, None).unwrap();
    assert_eq!(
        encoder.encode(&other, false).unwrap_err().to_string(),
        "the images are 1 × 2 × 1; the model was trained on images of 1 × 1 × 2"
    );
    let flat = Table::from_columns(vec![("x".into(), Column::Number(vec![1.0]))]).unwrap();
    assert_eq!(
        encoder.encode(&flat, false).unwrap_err().to_string(),
        "this is a table; the model was trained on images of 1 × 1 × 2"
    );
    let encoder = fit(SMALL, &options("y")).encoder;
    assert_eq!(
        encoder.encode(&table, false).unwrap_err().to_string(),
        "these are images and the model was trained on a table; give a table"
    );
    let grey = Images { shape, pixels: vec![0.5; 10] };
    let labels = Column::Number(vec![3.0, 7.0, 3.0, 7.0, 3.0]);
    let grey = Table::from_images(grey, Some(("label".into(), labels))).unwrap();
    assert_eq!(
        Encoder::fit(&grey, &options("label")).unwrap_err().to_string(),
        "all pixels are the same; there is nothing to learn from; check the file"
    );
}

#[test]
fn a_contradictory_encoder_is_refused() {
    let encoder = fit(SMALL, &options("y")).encoder;
    let json = serde_json::to_string(&encoder).unwrap().replace("\"std\":5.0", "\"std\":0.0");
    let broken: Encoder = serde_json::from_str(&json).unwrap();
    assert_eq!(
        broken.encode(&table(SMALL), true).unwrap_err().to_string(),
        "the description of the columns contradicts itself; fit the model again"
    );
}

#[test]
fn files_that_are_not_there_or_not_what_they_say() {
    let folder = tempfile::tempdir().unwrap();
    let message = |name: &str| {
        let error = Table::read(&folder.path().join(name), &ReadOptions::default()).unwrap_err().to_string();
        error.replace(&format!("{}/", folder.path().display()), "")
    };
    assert!(message("absent.csv").starts_with("cannot read absent.csv: "));
    std::fs::write(folder.path().join("empty.csv"), "").unwrap();
    assert_eq!(message("empty.csv"), "empty.csv: the file is empty; give a file with a header line and rows");
    std::fs::write(folder.path().join("a.parquet"), "a,b\n1,2\n").unwrap();
    assert_eq!(
        message("a.parquet"),
        "a.parquet: this is not a PARQUET file, or its first bytes are damaged; write it again"
    );
    let uneven = vec![("a".to_owned(), Column::Number(vec![1.0])), ("b".to_owned(), Column::Bool(vec![]))];
    assert_eq!(
        Table::from_columns(uneven).unwrap_err().to_string(),
        "column 'b': it has 0 rows and column 'a' has 1; give columns of one length"
    );
}
