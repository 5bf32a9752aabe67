//! Tables as people have them, from outside: gaps and unseen categories stop nothing, and rows stay aligned.

use crate::common::{folder, run, succeed};

const SMALL: &[&str] = &["--target", "price", "--network", "4", "--method", "map", "--set", "epochs=2", "--out", "m"];

#[test]
fn gaps_and_unseen_categories_are_notes() {
    let dir = folder();
    let clean = std::fs::read_to_string(dir.path().join("houses.csv")).unwrap();
    let holes: String = clean
        .lines()
        .enumerate()
        .map(|(i, line)| {
            let mut cells: Vec<&str> = line.split(',').collect();
            if i % 9 == 3 {
                cells[1] = "";
            }
            cells.join(",") + "\n"
        })
        .collect();
    std::fs::write(dir.path().join("holes.csv"), holes).unwrap();
    let fitted = succeed(dir.path(), &[&["fit", "holes.csv"], SMALL].concat());
    assert!(fitted.stderr.contains("note: missing values in 'age' (7)"), "{}", fitted.stderr);
    let new = "size,age,district,garden\n50,,east,true\n60,4,west,true\n,3,east,maybe\n";
    std::fs::write(dir.path().join("new.csv"), new).unwrap();
    let said = succeed(dir.path(), &["predict", "m", "new.csv"]);
    assert_eq!(said.stdout.lines().count(), 4);
    assert!(said.stdout.lines().skip(1).all(|l| l.split(',').all(|c| c.parse::<f64>().is_ok())), "{}", said.stdout);
    for part in ["'district': 1 row has a value", "'west'", "'size': 1 row has no value", "'garden'"] {
        assert!(said.stderr.contains(part), "{part}: {}", said.stderr);
    }
    let strict = run(dir.path(), &[&["fit", "holes.csv", "--missing", "error"], SMALL].concat());
    assert_eq!(strict.code, Some(2));
    assert!(strict.stderr.contains("--missing auto"), "{}", strict.stderr);
}

#[test]
fn a_table_from_pandas_with_money_dates_and_names_is_fitted_and_predicted() {
    let dir = folder();
    let row = |i: usize| {
        format!("{i},2021-{:02}-{:02},\"$1,{:03}\",p{i},{}.5\n", i % 12 + 1, i % 28 + 1, i * 13 % 1000, i % 13)
    };
    let text = format!("Unnamed: 0,day,cost,name,price\n{}", (0..80).map(row).collect::<String>());
    std::fs::write(dir.path().join("t.csv"), text).unwrap();
    let fitted = succeed(dir.path(), &[&["fit", "t.csv"], SMALL].concat());
    assert!(fitted.stdout.contains("6 inputs"), "{}", fitted.stdout);
    for part in ["'Unnamed: 0' is an index", "'name' is an identifier"] {
        assert!(fitted.stderr.contains(part), "{part}: {}", fitted.stderr);
    }
    std::fs::write(dir.path().join("later.csv"), "day,cost\n2035-06-01,$900\n").unwrap();
    let said = succeed(dir.path(), &["predict", "m", "later.csv"]);
    assert_eq!((said.stdout.lines().count(), said.stderr.as_str()), (2, ""));
    let kept = succeed(dir.path(), &[&["fit", "t.csv", "--input", "Unnamed: 0"], SMALL].concat());
    assert!(kept.stdout.contains("7 inputs"), "{}", kept.stdout);
}

#[test]
fn one_table_in_many_forms_gives_one_model() {
    let dir = folder();
    let write = |name: &str, bytes: &[u8]| std::fs::write(dir.path().join(name), bytes).unwrap();
    let clean = std::fs::read_to_string(dir.path().join("houses.csv")).unwrap().replace("south", "süd");
    write("a.csv", clean.as_bytes());
    let latin: Vec<u8> = clean.chars().map(|c| c as u8).collect();
    write("latin.csv", &latin);
    let wide: Vec<u8> = [0xff, 0xfe].into_iter().chain(clean.encode_utf16().flat_map(u16::to_le_bytes)).collect();
    write("wide.csv", &wide);
    write("comment.csv", format!("# made by hand\n# in spring, it seems\n{clean}").as_bytes());
    let names: Vec<&str> = clean.lines().next().unwrap().split(',').collect();
    let object = |line: &str| {
        let cell = |(name, cell): (&&str, &str)| match cell.parse::<f64>().is_ok() || cell == "true" || cell == "false"
        {
            true => format!("\"{name}\": {cell}"),
            false => format!("\"{name}\": \"{cell}\""),
        };
        let cells: Vec<String> = names.iter().zip(line.split(',')).map(cell).collect();
        format!("{{{}}}\n", cells.join(", "))
    };
    write("rows.jsonl", clean.lines().skip(1).map(object).collect::<String>().as_bytes());
    let semicolons = clean.replace(',', ";").replace('.', ",");
    write("semicolons.csv", semicolons.as_bytes());
    succeed(dir.path(), &[&["fit", "a.csv"], SMALL].concat());
    let model = std::fs::read(dir.path().join("m")).unwrap();
    for name in ["latin.csv", "wide.csv", "comment.csv", "rows.jsonl", "semicolons.csv"] {
        let said = succeed(dir.path(), &[&["fit", name], SMALL].concat()).stderr;
        assert_eq!(said.contains("Latin-1"), name == "latin.csv", "{name}: {said}");
        assert!(std::fs::read(dir.path().join("m")).unwrap() == model, "{name}");
    }
    let mut child = crate::common::program(dir.path(), &[&["fit", "-"], SMALL].concat());
    child.stdin(std::fs::File::open(dir.path().join("a.csv")).unwrap());
    assert!(child.output().unwrap().status.success());
    assert!(std::fs::read(dir.path().join("m")).unwrap() == model);
    let broken = format!("{clean}1,2\n");
    write("broken.csv", broken.as_bytes());
    let refused = run(dir.path(), &[&["fit", "broken.csv"], SMALL].concat());
    assert!(refused.stderr.contains("broken.csv, line 62: the header has 5 cells"), "{}", refused.stderr);
}

#[test]
fn check_says_what_will_be_done_and_what_looks_wrong() {
    let dir = folder();
    let row = |i: usize| {
        let y = i * 7 % 11;
        let hole = if i == 3 { String::new() } else { (i % 5).to_string() };
        let t = if i.is_multiple_of(13) { -999 } else { (i % 9) as i64 };
        format!(
            "u{i},{},{hole},1,{t},{}.25,{},{y}.5\n",
            ["a", "b"][i % 2],
            y * 2,
            ["p", "q", "r", "s", "t", "u", "v", "w", "x", "y", "z"][y]
        )
    };
    let rows: String = (0..60).map(row).collect();
    let text = format!("user,kind,n,same,t,twice,code,y\n{rows}{}{}", row(5), row(5));
    std::fs::write(dir.path().join("t.csv"), text).unwrap();
    let said = succeed(dir.path(), &["check", "t.csv", "--target", "y"]).stdout;
    for part in [
        "62 rows",
        "column 'twice' is a linear function of the target 'y'",
        "column 'code' determines the target 'y'",
        "column 'same' has the same value in every row",
        "column 't' holds -999 in 5 rows",
        "2 rows repeat others in every column, such as lines 7 and 62",
        "a standardised number, a mark of missing values",
        "column 'user' has values that hardly repeat, and is left out",
        "2 inputs, one for each category",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let json = succeed(dir.path(), &["check", "t.csv", "--target", "y", "--json"]).stdout;
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((value["rows"].as_u64(), value["columns"][2]["missing"].as_u64()), (Some(62), Some(1)));
    let clean = succeed(dir.path(), &["check", "houses.csv", "--target", "price"]).stdout;
    assert!(clean.contains("Nothing looks wrong."), "{clean}");
    let refused = run(dir.path(), &["check", "houses.csv", "--target", "district", "--task", "regression"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("the target holds text"), "{}", refused.stderr);
}

#[test]
fn identifiers_pass_through_predictions() {
    let dir = folder();
    succeed(dir.path(), &[&["fit", "houses.csv"], SMALL].concat());
    let new = "key,size,age,district,garden\n007,50,3,east,true\n008,60,4,west,true\n";
    std::fs::write(dir.path().join("new.csv"), new).unwrap();
    let said = succeed(dir.path(), &["predict", "m", "new.csv", "--keep", "key", "--keep", "size", "-q"]).stdout;
    let lines: Vec<&str> = said.lines().collect();
    assert!(
        lines[0].starts_with("key,size,mean,") && lines[1].starts_with("007,50,") && lines[2].starts_with("008,60,")
    );
    let plain = succeed(dir.path(), &["predict", "m", "new.csv", "-q"]).stdout;
    assert!(lines.iter().zip(plain.lines()).all(|(kept, plain)| kept.ends_with(plain)), "{said}");
    let refused = run(dir.path(), &["predict", "m", "new.csv", "--keep", "kee"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("did you mean 'key'?"), "{}", refused.stderr);
}

#[test]
fn weights_reach_the_fit_and_wrong_ones_are_refused() {
    let dir = folder();
    let weight = |i: usize| i % 3;
    let line = |i: usize| format!("{}.5,{}", i * 7 % 11, (i * 7 % 11) as f64 * 2.0 + (i % 4) as f64);
    let rows = |of: &dyn Fn(usize) -> String| (0..60).map(of).collect::<String>();
    let weighted = format!("x,y,w\n{}", rows(&|i| format!("{},{}\n", line(i), weight(i))));
    std::fs::write(dir.path().join("w.csv"), weighted).unwrap();
    let config = ["--target", "y", "--method", "linear", "--out", "m"];
    succeed(dir.path(), &[&["fit", "w.csv", "--weights", "w"], &config[..]].concat());
    let with = succeed(dir.path(), &["predict", "m", "w.csv", "-q"]).stdout;
    succeed(dir.path(), &[&["fit", "w.csv", "--ignore", "w"], &config[..]].concat());
    let without = succeed(dir.path(), &["predict", "m", "w.csv", "-q"]).stdout;
    let mean = |text: &str| text.lines().nth(1).unwrap().split(',').next().unwrap().parse::<f64>().unwrap();
    assert!((mean(&with) - mean(&without)).abs() > 1e-6, "weights change nothing");
    std::fs::write(dir.path().join("bad.csv"), "x,y,w\n1,1,1\n2,2,-1\n3,3,1\n4,4,1\n5,5,1\n").unwrap();
    let refused = run(dir.path(), &[&["fit", "bad.csv", "--weights", "w"], &config[..]].concat());
    assert!(refused.stderr.contains("bad.csv, line 3, column 'w': the weight is -1"), "{}", refused.stderr);
}

#[test]
fn folds_keep_groups_together_and_go_forward_in_time() {
    let dir = folder();
    let row = |i: usize| format!("{},g{},2021-{:02}-{:02},{}.5\n", i * 7 % 11, i % 6, i % 12 + 1, i % 28 + 1, i % 13);
    std::fs::write(dir.path().join("t.csv"), format!("x,g,day,y\n{}", (0..60).map(row).collect::<String>())).unwrap();
    let compare = ["compare", "t.csv", "--target", "y", "--methods", "map", "--set", "epochs=2", "--network", "4"];
    for flags in [["--group", "g"], ["--time", "day"]] {
        succeed(dir.path(), &[&compare[..], &flags, &["--folds", "3", "-q", "--state", flags[1]]].concat());
    }
    let refused = run(dir.path(), &[&compare[..], &["--group", "g", "--folds", "9"]].concat());
    assert!(refused.stderr.contains("6 groups cannot be split into 9 folds"), "{}", refused.stderr);
    let refused = run(dir.path(), &[&compare[..], &["--time", "g"]].concat());
    assert!(refused.stderr.contains("column 'g': the column holds neither numbers nor dates"), "{}", refused.stderr);
}

#[test]
fn classes_have_a_confusion_matrix() {
    let dir = folder();
    let fit = [
        "fit",
        "birds.csv",
        "--target",
        "species",
        "--network",
        "4",
        "--method",
        "map",
        "--set",
        "epochs=2",
        "--out",
        "m",
    ];
    succeed(dir.path(), &fit);
    let said = succeed(dir.path(), &["evaluate", "m", "birds.csv"]).stdout;
    assert!(said.contains("true class") && said.contains("recall"), "{said}");
    let json = succeed(dir.path(), &["evaluate", "m", "birds.csv", "--json"]).stdout;
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    let counts: Vec<Vec<u64>> = serde_json::from_value(value["confusion"]["counts"].clone()).unwrap();
    let all: u64 = counts.iter().flatten().sum();
    let right: u64 = (0..counts.len()).map(|k| counts[k][k]).sum();
    assert_eq!(all, value["n"].as_u64().unwrap());
    // The same rows, counted: rounding alone.
    assert!((right as f64 / all as f64 - value["accuracy"].as_f64().unwrap()).abs() < 1e-12);
}

#[test]
fn rows_held_back_are_scored_and_the_model_is_the_same() {
    let dir = folder();
    succeed(dir.path(), &[&["fit", "houses.csv"], SMALL].concat());
    let model = std::fs::read(dir.path().join("m")).unwrap();
    let said = succeed(dir.path(), &[&["fit", "houses.csv", "--holdout", "0.2"], SMALL].concat()).stdout;
    assert!(said.contains("on 12 rows held back from a second fit to the other 48"), "{said}");
    assert!(std::fs::read(dir.path().join("m")).unwrap() == model, "the model is fitted to all rows");
    let json = succeed(dir.path(), &[&["fit", "houses.csv", "--holdout", "0.2", "--json"], SMALL].concat()).stdout;
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((value["rows"].as_u64(), value["holdout"]["train"].as_u64()), (Some(60), Some(48)));
    assert!(value["holdout"]["log_likelihood"].is_f64());
    let last = succeed(dir.path(), &[&["fit", "houses.csv", "--holdout", "0.25", "--time", "size"], SMALL].concat());
    assert!(last.stdout.contains("held back"), "{}", last.stdout);
}

/// A Zstandard frame of one raw block (RFC 8878): magic, a header with the size in one byte, the block's header, the bytes.
#[test]
fn text_compressed_with_zstandard_is_read() {
    let dir = folder();
    let text = (0..20).fold("x,price\n".to_owned(), |t, i| t + &format!("{},{}\n", i * 7 % 11, i % 5));
    let size = u8::try_from(text.len()).unwrap();
    let block = (1 | u32::from(size) << 3).to_le_bytes();
    let frame = [&[0x28, 0xb5, 0x2f, 0xfd, 0x20, size], &block[..3], text.as_bytes()].concat();
    std::fs::write(dir.path().join("t.csv.zst"), &frame).unwrap();
    std::fs::write(dir.path().join("t.csv"), &text).unwrap();
    succeed(dir.path(), &[&["fit", "t.csv"], SMALL].concat());
    let model = std::fs::read(dir.path().join("m")).unwrap();
    succeed(dir.path(), &[&["fit", "t.csv.zst"], SMALL].concat());
    assert!(std::fs::read(dir.path().join("m")).unwrap() == model);
    std::fs::write(dir.path().join("cut.zst"), &frame[..40]).unwrap();
    let refused = run(dir.path(), &[&["fit", "cut.zst"], SMALL].concat());
    assert!(refused.code == Some(2) && refused.stderr.contains("cut.zst"), "{}", refused.stderr);
}
