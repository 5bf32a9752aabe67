//! `fit --method laplace`, `import`, `fit --start`: through the program, with what is refused.

use crate::common::{folder, run, succeed};
use serde_json::Value;
use std::path::Path;

fn json(dir: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&succeed(dir, &[args, &["--json", "--quiet"]].concat()).stdout).unwrap()
}

/// A safetensors file by its definition: the length of a JSON header, the header, the numbers.
fn write_state_dict(path: &Path, tensors: &[(&str, &[usize], Vec<f32>)]) {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, shape, values) in tensors {
        let start = data.len();
        data.extend(values.iter().flat_map(|v| v.to_le_bytes()));
        let entry = serde_json::json!({ "dtype": "F32", "shape": shape, "data_offsets": [start, data.len()] });
        header.insert((*name).to_owned(), entry);
    }
    let header = Value::Object(header).to_string();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn fitted_predicted_and_scored() {
    let dir = folder();
    let d = dir.path();
    for (data, target, structure) in [("houses.csv", "price", "full"), ("birds.csv", "species", "kron")] {
        let set = format!("structure={structure}");
        let args = ["fit", data, "--target", target, "--method", "laplace", "--network", "6", "--set", "epochs=100"];
        let fitted = json(d, &[&args[..], &["--set", &set, "--out", "m.st"]].concat());
        assert!(fitted["log_evidence"].as_f64().unwrap().is_finite());
        let scores = json(d, &["evaluate", "m.st", data]);
        assert!(scores["log_likelihood"].as_f64().unwrap().is_finite());
        let rows = json(d, &["predict", "m.st", data]);
        let first = &rows["rows"][0];
        let epistemic = if target == "price" { "std_epistemic" } else { "mutual_information" };
        assert!(first[epistemic].as_f64().unwrap() > 0.0, "{first}");
        // Linearised: nothing is random.
        assert_eq!(rows, json(d, &["predict", "m.st", data, "--seed", "9"]));
        succeed(d, &[&args[..], &["--set", "predictive=sampling", "--out", "s.st", "--quiet"]].concat());
        assert_ne!(json(d, &["predict", "s.st", data]), json(d, &["predict", "s.st", data, "--seed", "9"]));
    }
}

/// A mixture through every command that takes a model; and at the members of an ensemble.
#[test]
fn members_are_a_mixture() {
    let dir = folder();
    let d = dir.path();
    for (data, target) in [("houses.csv", "price"), ("birds.csv", "species")] {
        let fit = ["fit", data, "--target", target, "--network", "6", "--set", "epochs=60", "--set", "members=3"];
        let fitted = json(d, &[&fit[..], &["--method", "laplace", "--out", "m.st"]].concat());
        assert!(fitted["log_evidence"].as_f64().unwrap().is_finite());
        let inspected = json(d, &["inspect", "m.st"]);
        assert_eq!((&inspected["posterior"], &inspected["log_evidence"]), (&"mixture".into(), &fitted["log_evidence"]));
        assert!(succeed(d, &["inspect", "m.st"]).stdout.contains("mixture of 3"));
        let rows = json(d, &["predict", "m.st", data]);
        assert_eq!(rows, json(d, &["predict", "m.st", data, "--seed", "9"]));
        assert!(json(d, &["evaluate", "m.st", data])["log_likelihood"].as_f64().unwrap().is_finite());
        let verdict = run(d, &["diagnose", "m.st", data]);
        assert!(verdict.code != Some(2) && verdict.stdout.contains("rust"), "{}{}", verdict.stdout, verdict.stderr);
        succeed(d, &[&fit[..], &["--method", "ensemble", "--out", "e.st", "--quiet"]].concat());
        let start = ["fit", data, "--start", "e.st", "--method", "laplace", "--out", "l.st", "--quiet"];
        let refused = run(d, &start);
        assert_eq!(refused.code, Some(2));
        assert!(refused.stderr.contains("use --set members=3 for a Gaussian at each of its members"));
        let at_members = json(d, &[&start[..8], &["--set", "members=3"]].concat());
        assert_eq!(at_members["steps"], 0);
        assert!(json(d, &["evaluate", "l.st", data])["log_likelihood"].as_f64().unwrap().is_finite());
    }
}

#[test]
fn weights_of_another_framework_become_a_model() {
    let dir = folder();
    let d = dir.path();
    std::fs::write(d.join("line.csv"), "x,y\n0,1\n1,3.1\n2,4.9\n3,7.1\n4,9\n5,11\n").unwrap();
    std::fs::write(d.join("net.toml"), "[network]\nhidden = [2]\nactivation = \"relu\"\n").unwrap();
    // relu(x)·2 + 1
    let tensors: [(&str, &[usize], Vec<f32>); 4] = [
        ("0.weight", &[2, 1], vec![1.0, -1.0]),
        ("0.bias", &[2], vec![0.0, 0.0]),
        ("2.weight", &[1, 2], vec![2.0, 0.5]),
        ("2.bias", &[1], vec![1.0]),
    ];
    write_state_dict(&d.join("w.st"), &tensors);
    let flags = ["--config", "net.toml", "--data", "line.csv", "--target", "y"];
    let imported = json(d, &[&["import", "w.st"], &flags[..], &["--out", "m.st"]].concat());
    assert_eq!(imported["parameters"], 8); // seven weights and a noise
    let rows = json(d, &["predict", "m.st", "line.csv"]);
    assert!((rows["rows"][5]["mean"].as_f64().unwrap() - 11.0).abs() < 1e-5);
    let fit = ["fit", "line.csv", "--start", "m.st", "--method", "laplace", "--out", "l.st"];
    let laplace = json(d, &fit);
    assert_eq!((&laplace["steps"], &laplace["method"]), (&Value::from(0), &Value::from("laplace")));
    let rows = json(d, &["predict", "l.st", "line.csv"]);
    assert!((rows["rows"][5]["mean"].as_f64().unwrap() - 11.0).abs() < 1e-4);
    assert!(rows["rows"][5]["std_epistemic"].as_f64().unwrap() > 0.0);
    // What does not go together, in one line each.
    let refused = [
        (&[&fit[..], &["--network", "5"]].concat(), "--network does not go with --start"),
        (
            &[&fit[..], &["--target", "x"]].concat(),
            "--target x is not what the model of --start predicts, which is 'y'",
        ),
    ];
    for (args, expected) in refused {
        let no = run(d, args);
        assert!(no.code == Some(2) && no.stderr.contains(expected) && no.stderr.lines().count() == 1, "{}", no.stderr);
    }
    write_state_dict(&d.join("w.st"), &tensors[..3]);
    let no = run(d, &[&["import", "w.st"], &flags[..], &["--out", "n.st"]].concat());
    assert!(no.code == Some(2) && no.stderr.contains("'2.bias' is missing"), "{}", no.stderr);
    assert!(!d.join("n.st").exists());
    let no = run(d, &["import", "absent.st", "--data", "line.csv", "--target", "y"]);
    assert!(no.code == Some(2) && no.stderr.contains("absent.st"), "{}", no.stderr);
}
