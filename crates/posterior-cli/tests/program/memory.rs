//! What would need more memory than is allowed: refused before it is allocated, with the number and what to do; exit code 2.

use crate::common::{folder, run, small_model, succeed};
use crate::wrong_input::one_sentence;
use ::parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType};
use ::parquet::file::writer::SerializedFileWriter;
use serde_json::{Value, json};
use std::io::Write;
use std::sync::{Arc, OnceLock};

/// A model file with another manifest and, where given, other tensors (name, dtype, bytes).
fn with_manifest(model: &[u8], tensors: Option<&[(&str, &str, &[u8])]>, edit: impl FnOnce(&mut Value)) -> Vec<u8> {
    let length = u64::from_le_bytes(model[..8].try_into().unwrap()) as usize;
    let mut header: Value = serde_json::from_slice(&model[8..8 + length]).unwrap();
    let mut manifest: Value = serde_json::from_str(header["__metadata__"]["posterior"].as_str().unwrap()).unwrap();
    edit(&mut manifest);
    let mut data = model[8 + length..].to_vec();
    if let Some(tensors) = tensors {
        header = json!({ "__metadata__": {} });
        data.clear();
        for (name, dtype, bytes) in tensors {
            let each = if *dtype == "F32" { 4 } else { 1 };
            let ends = [data.len(), data.len() + bytes.len()];
            header[*name] = json!({ "dtype": dtype, "shape": [bytes.len() / each], "data_offsets": ends });
            data.extend_from_slice(bytes);
        }
    }
    header["__metadata__"]["posterior"] = json!(manifest.to_string());
    let header = header.to_string();
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
}

fn houses() -> &'static [u8] {
    static MODEL: OnceLock<Vec<u8>> = OnceLock::new();
    MODEL.get_or_init(|| small_model("houses.csv", "price"))
}

/// A file of a few thousand bytes that asks for these layers in front of 16384 × 16384 pixels.
fn asks_for(layer: Value) -> Vec<u8> {
    let file = with_manifest(houses(), None, |manifest| {
        let scale = json!({ "mean": 0.0, "std": 1.0 });
        manifest["encoder"]["inputs"] =
            json!({ "images": { "channels": 1, "height": 16384, "width": 16384, "scale": scale } });
        manifest["recipe"]["network"]["layers"] = json!([layer]);
    });
    assert!(file.len() < 8000, "{}", file.len());
    file
}

#[test]
fn recipes_of_a_few_bytes_take_no_memory() {
    let random = json!({ "kind": "random-features", "count": 65536, "length_scale": 1.0 });
    one_sentence(
        &[("m", &asks_for(random))],
        &["inspect", "m", "--memory", "200MB"],
        &["65536 random features of 268435456 inputs takes 140737.5 GB of memory", "of 200 MB are left", "--memory"],
    );
    let dense = json!({ "kind": "dense", "units": 16 });
    one_sentence(
        &[("m", &asks_for(dense))],
        &["inspect", "m", "--memory", "200MB"],
        &["a network of 4294967312 parameters", "takes 17.2 GB of memory", "--memory 18"],
    );
    // More than there may be of them, whatever the memory.
    for layer in
        [json!({ "kind": "fourier", "frequencies": 100, "period": 1.0 }), json!({ "kind": "polynomial", "degree": 2 })]
    {
        one_sentence(&[("m", &asks_for(layer))], &["inspect", "m", "--memory", "200MB"], &["more than 65536 features"]);
    }
}

/// 20 images of 8 × 8 and a model of them.
fn images() -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let dir = folder();
    let d = dir.path();
    let pixels: Vec<u8> = (0..20 * 64).map(|i| (i * 37 % 251) as u8).collect();
    let labels: Vec<u8> = (0..20).map(|i| i % 2).collect();
    let pixels = [&[0, 0, 8, 3, 0, 0, 0, 20, 0, 0, 0, 8, 0, 0, 0, 8][..], &pixels].concat();
    let labels = [&[0, 0, 8, 1, 0, 0, 0, 20][..], &labels].concat();
    std::fs::write(d.join("i"), &pixels).unwrap();
    std::fs::write(d.join("l"), &labels).unwrap();
    let fit = ["fit", "i", "--labels", "l", "--network", "linear", "--method", "map", "--likelihood", "categorical"];
    succeed(d, &[&fit[..], &["--set", "epochs=1", "-q", "--out", "m"]].concat());
    (pixels, labels, std::fs::read(d.join("m")).unwrap())
}

/// A pruned posterior in which nothing is left of so many parameters.
fn pruned(model: &[u8], layers: Value, parameters: usize) -> Vec<u8> {
    let gaps = vec![255; parameters / 255];
    with_manifest(model, Some(&[("gaps", "U8", &gaps), ("mean", "F32", &[])]), |manifest| {
        manifest["recipe"]["network"]["layers"] = layers;
        manifest["recipe"]["layer_priors"] = json!([]);
        manifest["posterior"] = json!("sparse");
        manifest["parameters"] = json!(parameters);
        manifest["log_evidence"] = Value::Null;
    })
}

#[test]
fn passes_are_asked_for_before_they_are_made() {
    let (pixels, _, model) = images();
    let conv = json!({ "kind": "conv", "channels": 60000, "kernel": 1, "activation": "tanh" });
    let layers = json!([conv, { "kind": "avg-pool", "size": 8 }, { "kind": "flatten" }]);
    let file = pruned(&model, layers, 2 * 60000 + 2 * 60000 + 2);
    assert!(file.len() < 8000, "{}", file.len());
    let args = ["predict", "m", "i", "--memory", "200MB", "--threads", "2", "--out", "old.csv"];
    let said =
        ["predicting 20 rows with 1 draw of 240002 parameters takes", "use fewer draws, or fewer rows", "--memory"];
    one_sentence(&[("m", &file), ("i", &pixels)], &args, &said);

    let width = 1_000_000;
    let inputs = {
        let length = u64::from_le_bytes(houses()[..8].try_into().unwrap()) as usize;
        let header: Value = serde_json::from_slice(&houses()[8..8 + length]).unwrap();
        let manifest: Value = serde_json::from_str(header["__metadata__"]["posterior"].as_str().unwrap()).unwrap();
        // 4 hidden units: inputs × 4 + 4 + 4 + 1 and the noise.
        (manifest["parameters"].as_u64().unwrap() as usize - 10) / 4
    };
    let layers = json!([{ "kind": "dense", "units": width }]);
    let file = pruned(houses(), layers, inputs * width + width + width + 2);
    assert!(file.len() < 60_000, "{}", file.len());
    let args = ["predict", "m", "houses.csv", "--memory", "200MB", "--threads", "2", "--out", "old.csv"];
    one_sentence(&[("m", &file)], &args, &["predicting", "parameters takes", "GB of memory"]);
}

#[test]
fn large_networks_are_refused_by_every_method() {
    let methods: [(&str, &[&str]); 8] = [
        ("map", &[]),
        ("mean-field", &[]),
        ("full-covariance", &[]),
        ("laplace", &["--set", "structure=full"]),
        ("laplace", &["--set", "structure=kron"]),
        ("ensemble", &[]),
        ("hmc", &[]),
        ("mc-dropout", &[]),
    ];
    for (method, flags) in methods {
        let fit = ["fit", "houses.csv", "--target", "price", "--network", "30000,30000", "--method", method];
        let args = [&fit[..], flags, &["--memory", "500MB", "--out", "old.st"]].concat();
        one_sentence(
            &[],
            &args,
            &["parameters takes", "GB of memory", "of 500 MB are left", "or allow more memory with --memory"],
        );
    }
    // The network itself fits here, and what the method keeps for it does not.
    for (method, said) in
        [("mean-field", "mean-field on 4"), ("full-covariance", "full-covariance on 4"), ("hmc", "hmc on 4")]
    {
        let fit = ["fit", "houses.csv", "--target", "price", "--network", "2000,2000", "--method", method];
        let args = [&fit[..], &["--memory", "50MB", "--out", "old.st"]].concat();
        one_sentence(&[], &args, &[said, "of memory"]);
    }
}

fn zipped(bytes: &[u8], times: usize) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    (0..times).for_each(|_| writer.write_all(bytes).unwrap());
    writer.finish().unwrap()
}

const FIT: [&str; 8] = ["fit", "data", "--target", "a", "--out", "old.st", "--memory", "50MB"];

#[test]
fn what_a_small_file_unpacks_to_is_counted() {
    let csv = zipped(&b"1,2\n".repeat(1 << 16), 400);
    assert!(csv.len() < 1 << 22, "{}", csv.len());
    one_sentence(&[("data", &csv)], &FIT, &["data: the unpacked file takes", "or more", "--memory"]);
    let idx = zipped(&vec![0; 1 << 20], 100);
    let head = zipped(&[0, 0, 8, 3, 0, 0, 0, 100, 0, 0, 4, 0, 0, 0, 4, 0], 1);
    let args = ["fit", "data", "--out", "old.st", "--memory", "50MB"];
    one_sentence(&[("data", &[head, idx].concat())], &args, &["data: the unpacked file takes", "or more"]);

    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    archive.start_file("a.npy", zip::write::SimpleFileOptions::default()).unwrap();
    archive.write_all(b"\x93NUMPY\x01\x00\x46\x00").unwrap();
    archive
        .write_all(format!("{:69}\n", "{'descr': '|u1', 'fortran_order': False, 'shape': (104857600,)}").as_bytes())
        .unwrap();
    (0..100).for_each(|_| archive.write_all(&vec![0; 1 << 20]).unwrap());
    let npz = archive.finish().unwrap().into_inner();
    assert!(npz.len() < 1 << 22, "{}", npz.len());
    one_sentence(&[("data", &npz)], &FIT, &["the unpacked archive takes", "or more"]);
    // Unpacked it fits; as numbers of eight bytes it does not.
    let args = [&FIT[..6], &["--memory", "250MB"]].concat();
    one_sentence(&[("data", &npz)], &args, &["the table takes 1.7 GB of memory"]);
}

/// A column `a` of the same value in every row.
fn parquet<T: DataType>(schema: &str, value: T::T, rows: usize) -> Vec<u8> {
    let schema = Arc::new(::parquet::schema::parser::parse_message_type(schema).unwrap());
    let mut file = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut file, schema, Default::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let batch = vec![value; rows.min(1 << 16)];
    let mut left = rows;
    while left > 0 {
        let n = left.min(batch.len());
        column.typed::<T>().write_batch(&batch[..n], None, None).unwrap();
        left -= n;
    }
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    file
}

#[test]
fn run_lengths_and_dictionaries_are_counted() {
    let numbers = |rows| parquet::<DoubleType>("message m { required double a; }", 1.0, rows);
    let many = numbers(100_000_000);
    assert!(many.len() < 1 << 20, "{}", many.len());
    one_sentence(&[("data", &many)], &FIT, &["data: the table takes 800 MB of memory", "fewer rows"]);
    one_sentence(&[("data", &numbers(5_000_000))], &FIT, &["the table takes", "MB of memory", "of 50 MB are left"]);
    let text = ByteArray::from(vec![b'x'; 100_000]);
    let texts = parquet::<ByteArrayType>("message m { required binary a (UTF8); }", text, 10_000);
    assert!(texts.len() < 1 << 22, "{}", texts.len());
    one_sentence(&[("data", &texts)], &FIT, &["the table takes 1.0 GB of memory"]);
}

#[test]
fn a_device_without_an_end_is_refused() {
    one_sentence(&[], &["inspect", "/dev/zero", "--memory", "20MB"], &["/dev/zero: the file takes", "or more"]);
}

#[test]
fn sizes_are_read_and_enough_memory_changes_nothing() {
    for wrong in ["0", "many", "1KB", "2XB", "-1", "1e400GB"] {
        let run = run(folder().path(), &["methods", &format!("--memory={wrong}")]);
        assert_eq!(run.code, Some(2), "{wrong}");
        assert!(run.stderr.contains("it takes a size of 1MB or more"), "{}", run.stderr);
    }
    let dir = folder();
    let fit =
        ["fit", "houses.csv", "--target", "price", "--network", "8", "--method", "map", "--set", "epochs=3", "-q"];
    for (out, memory) in [("a", "100MB"), ("b", "1.5 GiB"), ("c", "2000000000")] {
        succeed(dir.path(), &[&fit[..], &["--out", out, "--memory", memory]].concat());
    }
    succeed(dir.path(), &[&fit[..], &["--out", "d"]].concat());
    let bytes = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
    assert!(["a", "b", "c"].iter().all(|name| bytes(name) == bytes("d")));
    // Predictions in blocks that a small budget allows are the same.
    let predict = |memory| succeed(dir.path(), &["predict", "d", "houses.csv", "--memory", memory]).stdout;
    assert_eq!(predict("2GB"), predict("6MB"));
}
