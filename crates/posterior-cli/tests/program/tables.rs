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
