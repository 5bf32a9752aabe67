//! Images, arrays and Parquet files through the program, from the file to the prediction.

use crate::common::{folder, run, succeed};
use ::parquet::data_type::DoubleType;
use ::parquet::file::writer::SerializedFileWriter;
use serde_json::Value;
use std::io::Write;
use std::sync::Arc;

/// 40 images of 8 × 8, bright on the left (class 0) or on the right (class 1).
fn images() -> (Vec<u8>, Vec<u8>) {
    let label = |i: usize| (i * 7 / 3) % 2;
    let pixel = |i: usize, p: usize| {
        let noise = (i * 64 + p).wrapping_mul(2_654_435_761) >> 7 & 63;
        let bright = ((p % 8) / 4) == label(i);
        noise as u8 + if bright { 160 } else { 0 }
    };
    let pixels = (0..40).flat_map(|i| (0..64).map(move |p| pixel(i, p))).collect();
    (pixels, (0..40).map(|i| label(i) as u8).collect())
}

const CONV: &str = r#"
[[network.layers]]
kind = "conv"
channels = 4
kernel = 3
activation = "relu"

[[network.layers]]
kind = "max-pool"
size = 2

[[network.layers]]
kind = "flatten"

[method]
name = "map"
epochs = 30
learning_rate = 0.01
"#;

#[test]
fn images_with_labels_from_end_to_end() {
    let dir = folder();
    let d = dir.path();
    let (pixels, labels) = images();
    let image_head = [0, 0, 8, 3, 0, 0, 0, 40, 0, 0, 0, 8, 0, 0, 0, 8];
    std::fs::write(d.join("train-images-idx3-ubyte"), [&image_head[..], &pixels].concat()).unwrap();
    std::fs::write(d.join("train-labels-idx1-ubyte"), [&[0, 0, 8, 1, 0, 0, 0, 40][..], &labels].concat()).unwrap();
    std::fs::write(d.join("conv.toml"), CONV).unwrap();
    succeed(d, &["fit", "train-images-idx3-ubyte", "--config", "conv.toml", "-q", "--out", "m"]);
    let scores = succeed(d, &["evaluate", "m", "train-images-idx3-ubyte", "--json"]).stdout;
    let scores: Value = serde_json::from_str(&scores).unwrap();
    assert!(scores["accuracy"].as_f64().unwrap() > 0.95 && scores["n"] == 40, "{scores}");
    let predicted = succeed(d, &["predict", "m", "train-images-idx3-ubyte"]).stdout;
    assert!(predicted.starts_with("predicted,p_0,p_1,") && predicted.lines().count() == 41);
    let inspected = succeed(d, &["inspect", "m"]).stdout;
    assert!(inspected.contains("conv") && inspected.contains("images of 1 × 8 × 8"), "{inspected}");

    // The same pixels without labels, and labels under another name.
    std::fs::write(d.join("new"), [&image_head[..], &pixels].concat()).unwrap();
    assert_eq!(succeed(d, &["predict", "m", "new"]).stdout, predicted);
    let unlabelled = run(d, &["evaluate", "m", "new"]);
    assert_eq!(unlabelled.code, Some(2));
    assert!(unlabelled.stderr.contains("--labels"), "{}", unlabelled.stderr);
    succeed(d, &["evaluate", "m", "new", "--labels", "train-labels-idx1-ubyte"]);
    let table = run(d, &["predict", "m", "houses.csv"]);
    assert!(table.code == Some(2) && table.stderr.contains("trained on images of 1 × 8 × 8"), "{}", table.stderr);
}

/// An NPY file of doubles; the shape as Python writes it.
fn npy(shape: &str, values: &[f64]) -> Vec<u8> {
    let mut head = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}");
    head += &" ".repeat(63 - (10 + head.len()) % 64);
    head.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((head.len() as u16).to_le_bytes());
    bytes.extend(head.as_bytes());
    bytes.extend(values.iter().flat_map(|v| v.to_le_bytes()));
    bytes
}

#[test]
fn arrays_of_numpy_from_end_to_end() {
    let dir = folder();
    let d = dir.path();
    let values: Vec<f64> = (0..30).flat_map(|i| [f64::from(i), (f64::from(i) * 0.4).sin()]).collect();
    std::fs::write(d.join("a.npy"), npy("(30, 2)", &values)).unwrap();
    let text: String = values.chunks(2).map(|r| format!("{},{}\n", r[0], r[1])).collect();
    std::fs::write(d.join("a.csv"), format!("c0,c1\n{text}")).unwrap();
    let answer = |data: &str| {
        succeed(d, &["fit", data, "--target", "c1", "-q", "--method", "mean-field", "--set", "epochs=5", "--out", "m"]);
        succeed(d, &["predict", "m", data]).stdout
    };
    let expected = answer("a.csv");
    assert_eq!(answer("a.npy"), expected);
    std::fs::write(d.join("a.parquet"), parquet(&values)).unwrap();
    assert_eq!(answer("a.parquet"), expected);
}

/// A Parquet file of two columns of doubles, `c0` and `c1`.
fn parquet(rows: &[f64]) -> Vec<u8> {
    let schema = "message t { REQUIRED DOUBLE c0; REQUIRED DOUBLE c1; }";
    let schema = Arc::new(::parquet::schema::parser::parse_message_type(schema).unwrap());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Default::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for i in 0..2 {
        let values: Vec<f64> = rows.iter().skip(i).step_by(2).copied().collect();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<DoubleType>().write_batch(&values, None, None).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    bytes
}

#[test]
fn an_archive_of_images_and_labels() {
    let dir = folder();
    let d = dir.path();
    let (pixels, labels) = images();
    let double = |v: &[u8]| v.iter().map(|b| f64::from(*b)).collect::<Vec<f64>>();
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in [("x.npy", npy("(40, 8, 8)", &double(&pixels))), ("label.npy", npy("(40,)", &double(&labels)))]
    {
        writer.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(&bytes).unwrap();
    }
    std::fs::write(d.join("a.npz"), writer.finish().unwrap().into_inner()).unwrap();
    std::fs::write(d.join("conv.toml"), CONV).unwrap();
    succeed(d, &["fit", "a.npz", "--config", "conv.toml", "-q", "--out", "m"]);
    let scores: Value = serde_json::from_str(&succeed(d, &["evaluate", "m", "a.npz", "--json"]).stdout).unwrap();
    assert!(scores["accuracy"].as_f64().unwrap() > 0.95 && scores["n"] == 40, "{scores}");
}
