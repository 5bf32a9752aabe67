//! Damaged and hostile files: reading one gives a table or one sentence, never a panic.

use npyz::WriterBuilder;
use parquet::data_type::{ByteArrayType, DoubleType};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use posterior::data::{EncodeOptions, Encoder, Missing, ReadOptions, Table, Task};
use proptest::prelude::*;
use std::io::Write;
use std::sync::{Arc, LazyLock};

const CSV: &str = "age,city,\"on, off\",y\n31,Ulm,true,1.5\n42,\"Bad \"\"X\"\"\",false,2.5\n,Köln,true,NA\n17,Ulm,,-3e2\n\
                   5,Ulm,true,4\n6,Ulm,false,5\n7,Bonn,true,6\n";

static NPY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut bytes = Vec::new();
    let options = npyz::WriteOptions::new().default_dtype().shape(&[3, 4]).writer(&mut bytes);
    let mut writer = options.begin_nd().unwrap();
    writer.extend((0..12).map(f64::from)).unwrap();
    writer.finish().unwrap();
    bytes
});

static NPZ: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for name in ["a.npy", "b.npy"] {
        writer.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(&NPY).unwrap();
    }
    writer.finish().unwrap().into_inner()
});

static IDX: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut bytes = vec![0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 2];
    bytes.extend(0..12);
    bytes
});

static GZIP: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(&IDX).unwrap();
    writer.finish().unwrap()
});

static PARQUET: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let schema = "message t { OPTIONAL DOUBLE x; REQUIRED BYTE_ARRAY s (UTF8); }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Default::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<DoubleType>().write_batch(&[1.0, 2.0, 3.0], Some(&[1, 0, 1, 1]), None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let text = ["a", "b", "a", "a"].map(Into::into);
    column.typed::<ByteArrayType>().write_batch(&text, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    bytes
});

/// One edit of a file, at a place given as a fraction of its length.
#[derive(Debug, Clone)]
enum Edit {
    Set(f64, u8),
    Insert(f64, Vec<u8>),
    Remove(f64, usize),
    Cut(f64),
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let bytes = prop_oneof![
        proptest::collection::vec(any::<u8>(), 1..8),
        proptest::sample::select(vec![
            &b"\""[..],
            b",",
            b"\n",
            b"\r\n",
            b";",
            b"inf",
            b"NA",
            b"1e999",
            b"\xff",
            b"\0",
            b"-1"
        ])
        .prop_map(<[u8]>::to_vec),
    ];
    let edit = prop_oneof![
        4 => (0.0..1.0, any::<u8>()).prop_map(|(at, b)| Edit::Set(at, b)),
        3 => (0.0..1.0, bytes).prop_map(|(at, b)| Edit::Insert(at, b)),
        2 => (0.0..1.0, 1usize..16).prop_map(|(at, n)| Edit::Remove(at, n)),
        1 => (0.0..1.0).prop_map(Edit::Cut),
    ];
    proptest::collection::vec(edit, 1..4)
}

fn damage(bytes: &[u8], edits: &[Edit]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for edit in edits {
        let place = |at: &f64| (at * out.len() as f64) as usize;
        match edit {
            Edit::Set(at, b) => {
                let at = place(at);
                if let Some(byte) = out.get_mut(at) {
                    *byte = *b;
                }
            }
            Edit::Insert(at, b) => {
                let at = place(at);
                out.splice(at..at, b.iter().copied());
            }
            Edit::Remove(at, n) => {
                let at = place(at);
                let end = (at + n).min(out.len());
                out.drain(at..end);
            }
            Edit::Cut(at) => out.truncate(place(at)),
        }
    }
    out
}

/// Reads, and encodes what could be read; every error is one line of text.
fn survives(name: &str, bytes: &[u8]) -> Result<(), TestCaseError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let one_line = |text: String| prop_assert_one_line(&text);
    let table = match Table::read(&path, &ReadOptions::default()) {
        Ok(table) => table,
        Err(e) => return one_line(e.to_string()),
    };
    for (task, missing) in
        [(Task::Auto, Missing::Error), (Task::Classification, Missing::Mean), (Task::Count, Missing::Drop)]
    {
        let target = table.column_names().last().unwrap_or("label").to_owned();
        match Encoder::fit(&table, &EncodeOptions { target, task, missing, ..EncodeOptions::default() }) {
            Err(e) => one_line(e.to_string())?,
            Ok(fitted) => {
                let encoded = fitted.encoder.encode(&table, true).map_err(|e| TestCaseError::fail(e.to_string()))?;
                prop_assert_eq!(encoded.data.rows + fitted.dropped_rows.len(), table.rows());
                prop_assert!(encoded.data.x.to::<f64>().iter().all(|v| v.is_finite()));
                prop_assert!(encoded.data.y.iter().all(|v| v.is_finite()));
            }
        }
    }
    Ok(())
}

fn prop_assert_one_line(text: &str) -> Result<(), TestCaseError> {
    prop_assert!(!text.trim().is_empty());
    prop_assert!(!text.contains(['\n', '\r', '\0']), "more than one line: {text:?}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn edited_csv(edits in edits()) {
        survives("t.csv", &damage(CSV.as_bytes(), &edits))?;
    }

    #[test]
    fn edited_npy(edits in edits()) {
        survives("t.npy", &damage(&NPY, &edits))?;
    }

    #[test]
    fn edited_npz(edits in edits()) {
        survives("t.npz", &damage(&NPZ, &edits))?;
    }

    #[test]
    fn edited_idx(edits in edits()) {
        survives("t-images-idx3-ubyte", &damage(&IDX, &edits))?;
        survives("t-images-idx3-ubyte.gz", &damage(&GZIP, &edits))?;
    }

    #[test]
    fn edited_parquet(edits in edits()) {
        survives("t.parquet", &damage(&PARQUET, &edits))?;
    }

    #[test]
    fn random_bytes_after_any_first_bytes(
        start in proptest::sample::select(vec![
            &b""[..], b"PAR1", b"\x93NUMPY\x01\x00", b"\x93NUMPY\x02\x00", b"PK\x03\x04", b"\x1f\x8b\x08\x00", b"\0\0\x08\x03", b"a,b\n",
        ]),
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        parquet_end in any::<bool>(),
    ) {
        let end: &[u8] = if parquet_end { b"\x20\0\0\0PAR1" } else { b"" };
        survives("t", &[start, &bytes, end].concat())?;
    }
}

#[test]
fn undamaged_files_are_read() {
    for (name, bytes, rows) in [
        ("t.csv", CSV.as_bytes(), 7),
        ("t.npy", &NPY, 3),
        ("t.npz", &NPZ, 3),
        ("t", &IDX, 3),
        ("t.gz", &GZIP, 3),
        ("t.parquet", &PARQUET, 4),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(Table::read(&path, &ReadOptions::default()).unwrap().rows(), rows, "{name}");
    }
}

#[test]
fn headers_that_promise_too_much_are_refused_before_memory_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    for shape in [
        "(18446744073709551615, 18446744073709551615)",
        "(0, 18446744073709551615, 18446744073709551615)",
        "(4294967295, 0)",
        "(0, 4294967295)",
        "((((((((((1))))))))))",
    ] {
        for order in ["True", "False"] {
            let text = format!("{{'descr': '<f8', 'fortran_order': {order}, 'shape': {shape}, }}\n");
            let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
            bytes.extend((text.len() as u16).to_le_bytes());
            bytes.extend(text.bytes());
            bytes.extend([0; 64]);
            let path = folder.path().join("t.npy");
            std::fs::write(&path, &bytes).unwrap();
            let error = Table::read(&path, &ReadOptions::default()).unwrap_err().to_string();
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
