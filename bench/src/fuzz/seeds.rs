//! The corpus: small whole inputs of every kind, made by `posterior-bench fuzz --write-corpus`, from which mutations start.

use flate2::write::GzEncoder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{BoolType, ByteArrayType, DataType, DoubleType, FloatType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use posterior::apply::compress::{Memory, Rule, prune};
use posterior::artifact;
use posterior::data::{Column, EncodeOptions, Images, Table, Task};
use posterior::inference::{METHODS, Silent};
use posterior::model::{Choice, Model, Recipe};
use posterior::nn::{Activation, NetworkSpec, Shape};
use posterior::settings::{Default, Value};
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

type Made<T> = Result<T, Box<dyn Error>>;

/// Rows with a number, a category, and targets of every kind.
pub fn rows(n: usize) -> Table {
    let number = |f: fn(f64) -> f64| Column::Number((0..n).map(|i| f(i as f64 * 0.37)).collect());
    let word = |words: &[&str]| Column::Text((0..n).map(|i| Some(words[i % words.len()].to_owned())).collect());
    let columns = vec![
        ("a".to_owned(), number(f64::sin)),
        ("colour".to_owned(), word(&["red", "green", "blue"])),
        ("y".to_owned(), number(|v| (1.3 * v).cos())),
        ("kind".to_owned(), word(&["yes", "no"])),
        ("n".to_owned(), number(|v| (3.0 * v).floor() % 5.0)),
    ];
    Table::from_columns(columns).expect("columns of one length")
}

/// Images of 8 × 8 in two classes.
pub fn images(n: usize) -> Table {
    let shape = Shape::Image { channels: 1, height: 8, width: 8 };
    let pixels = (0..n * 64).map(|i| ((i * 7) % 11) as f32 / 11.0 * ((i / 64) % 2) as f32).collect();
    let labels = Column::Number((0..n).map(|i| (i % 2) as f64).collect());
    Table::from_images(Images { shape, pixels }, Some(("label".into(), labels))).expect("whole images")
}

/// Writes all seeds below a folder, one folder for each target.
pub fn write(folder: &Path) -> Made<()> {
    for (target, seeds) in [
        ("model", models()?),
        ("csv", csv()?),
        ("parquet", parquet()?),
        ("npy", npy()?),
        ("idx", idx()?),
        ("config", config()),
        ("set", set()),
    ] {
        let folder = folder.join(target);
        std::fs::create_dir_all(&folder)?;
        for (name, bytes) in seeds {
            std::fs::write(folder.join(name), bytes)?;
        }
    }
    Ok(())
}

type Seeds = Vec<(String, Vec<u8>)>;

/// The method with settings that make its fit short, as far as it has them.
fn short(method: &str) -> Choice {
    let has = |name: &str| METHODS.iter().any(|m| m.name == method && m.settings.iter().any(|s| s.name == name));
    // What the warm-up of a chain counts is a fraction elsewhere.
    let chain: &[_] = if has("chains") { &[("chains", 2), ("draws", 4), ("thin", 1), ("warmup", 4)] } else { &[] };
    let other = [("epochs", 2), ("swag_epochs", 2), ("members", 2), ("kept", 4), ("vi_epochs", 2)];
    let settings = other.iter().chain(chain).copied();
    let given = settings.filter(|(name, _)| has(name));
    given.fold(Choice::named(method), |choice, (name, value)| choice.with(name, Value::Int(value)))
}

fn fit(method: &str, network: &str, target: &str, task: Task) -> Made<Model> {
    let network = NetworkSpec::parse(network, Activation::Silu)?;
    let network = if method == "linear" { NetworkSpec { layers: Vec::new() } } else { network };
    let recipe = Recipe { network, method: short(method), ..Recipe::default() };
    let ignore = ["y", "kind", "n"].into_iter().filter(|c| *c != target).map(str::to_owned).collect();
    let options = EncodeOptions { target: target.into(), task, ignore, ..EncodeOptions::default() };
    Ok(Model::fit(&recipe, &rows(30), &options, 1, &mut Silent)?)
}

/// A model of every method, of every likelihood, of images, of fixed features, and a pruned one.
fn models() -> Made<Seeds> {
    let mut seeds = Seeds::new();
    let mut put = |name: &str, model: &Model| -> Made<()> {
        seeds.push((format!("{name}.safetensors"), artifact::to_bytes(model)?));
        Ok(())
    };
    for method in METHODS {
        put(method.name, &fit(method.name, "3", "y", Task::Auto)?)?;
    }
    put("classes", &fit("mean-field", "3,2", "kind", Task::Auto)?)?;
    put("counts", &fit("map", "3", "n", Task::Count)?)?;
    let pruned = prune(&fit("mean-field", "8", "y", Task::Auto)?, Rule::Keep(0.2), Memory::MeanAndStd)?;
    put("sparse", &pruned.model)?;
    for (name, layers) in [
        ("fourier", r#"{ kind = "fourier", frequencies = 2, period = 2.0 }"#),
        ("random-features", r#"{ kind = "random-features", count = 5, length_scale = 1.0 }"#),
        (
            "residual",
            r#"{ kind = "dense", units = 3 }, { kind = "residual", layers = [{ kind = "dense", units = 3, activation = "tanh" }] }"#,
        ),
    ] {
        let text = format!("[network]\nlayers = [{layers}]\n[method]\nname = \"map\"\nepochs = 1\n");
        let options = EncodeOptions { target: "y".into(), ignore: vec!["kind".into()], ..EncodeOptions::default() };
        put(name, &Model::fit(&Recipe::from_toml(&text)?, &rows(30), &options, 1, &mut Silent)?)?;
    }
    let text = "[network]\nlayers = [{ kind = \"conv\", channels = 2, kernel = 3, padding = 1 }, { kind = \"max-pool\", size = 2 }, \
                { kind = \"avg-pool\", size = 2 }]\n[method]\nname = \"map\"\nepochs = 1\n";
    let options = EncodeOptions { target: "label".into(), task: Task::Classification, ..EncodeOptions::default() };
    put("images", &Model::fit(&Recipe::from_toml(text)?, &images(20), &options, 1, &mut Silent)?)?;
    Ok(seeds)
}

fn gzip(bytes: &[u8]) -> Made<Vec<u8>> {
    let mut writer = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(bytes)?;
    Ok(writer.finish()?)
}

fn csv() -> Made<Seeds> {
    let mixed = "age,city,\"on, off\",y\n31,Ulm,true,1.5\n42,\"Bad \"\"X\"\"\",false,2.5\n,Köln,true,NA\n17,Ulm,,-3e2\n5,Ulm,true,4\n";
    let semicolons = "\u{feff}a;b;class\r\n1,5;2;x\r\n2,5;3;y\r\n\r\n3,5;4;x\r\n";
    let tabs = "x\ty\n1\t2\n3\t4\n5\t7\n";
    let counts = "x,n\n0.1,3\n0.2,0\n0.4,12\n0.7,1\n";
    let broken = "a,b\n1,\"two\nlines\"\n\n2,z\n";
    let all = [("mixed", mixed), ("semicolons", semicolons), ("tabs", tabs), ("counts", counts), ("quotes", broken)];
    let mut seeds: Seeds = all.iter().map(|(name, text)| (format!("{name}.csv"), text.as_bytes().to_vec())).collect();
    seeds.push(("mixed.csv.gz".to_owned(), gzip(mixed.as_bytes())?));
    Ok(seeds)
}

fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, &mut Vec<u8>>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Made<()> {
    let mut column = group.next_column()?.ok_or("no further column")?;
    column.typed::<T>().write_batch(values, levels, None)?;
    Ok(column.close()?)
}

fn parquet() -> Made<Seeds> {
    let schema = "message t { OPTIONAL DOUBLE x; REQUIRED BYTE_ARRAY s (UTF8); REQUIRED INT32 i; REQUIRED INT64 d (DECIMAL(10, 2)); \
                  REQUIRED BOOLEAN b; OPTIONAL FLOAT y; }";
    let mut seeds = Seeds::new();
    for (name, compression, dictionary) in [
        ("plain", Compression::UNCOMPRESSED, false),
        ("dictionary", Compression::UNCOMPRESSED, true),
        ("snappy", Compression::SNAPPY, true),
        ("gzip", Compression::GZIP(parquet::basic::GzipLevel::default()), false),
        ("zstd", Compression::ZSTD(ZstdLevel::default()), true),
        ("lz4", Compression::LZ4_RAW, false),
    ] {
        let properties = WriterProperties::builder().set_compression(compression).set_dictionary_enabled(dictionary);
        let mut bytes = Vec::new();
        let schema = Arc::new(parse_message_type(schema)?);
        let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties.build()))?;
        for _ in 0..2 {
            let mut group = writer.next_row_group()?;
            column::<DoubleType>(&mut group, &[1.0, 2.0, 3.5], Some(&[1, 0, 1, 1]))?;
            column::<ByteArrayType>(&mut group, &["a", "b", "a", "a"].map(Into::into), None)?;
            column::<Int32Type>(&mut group, &[1, 2, 3, -4], None)?;
            column::<Int64Type>(&mut group, &[100, 250, 3, -4], None)?;
            column::<BoolType>(&mut group, &[true, false, true, true], None)?;
            column::<FloatType>(&mut group, &[0.5, 0.25, 1.0, 9.0], Some(&[1, 1, 1, 1]))?;
            group.close()?;
        }
        writer.close()?;
        seeds.push((format!("{name}.parquet"), bytes));
    }
    Ok(seeds)
}

fn array(kind: &str, fortran: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': {fortran}, 'shape': {shape}, }}");
    while (10 + header.len() + 1) % 16 != 0 {
        header.push(' ');
    }
    header.push('\n');
    [&b"\x93NUMPY\x01\x00"[..], &(header.len() as u16).to_le_bytes(), header.as_bytes(), data].concat()
}

fn npy() -> Made<Seeds> {
    let numbers: Vec<u8> = (0..12).flat_map(|i| (f64::from(i) * 0.5).to_le_bytes()).collect();
    let bytes: Vec<u8> = (0..64).collect();
    let flat = array("<f8", "False", "(4, 3)", &numbers);
    let labels = array("<i8", "False", "(4,)", &[0u64, 1, 0, 1].map(u64::to_le_bytes).concat());
    let pixels = array("|u1", "False", "(4, 4, 4)", &bytes);
    let mut seeds = vec![
        ("fortran.npy".to_owned(), array("<f8", "True", "(4, 3)", &numbers)),
        ("images.npy".to_owned(), array("|u1", "False", "(4, 1, 4, 4)", &bytes)),
        ("bool.npy".to_owned(), array("|b1", "False", "(4,)", &[1, 0, 1, 1])),
        ("labels.npy".to_owned(), labels.clone()),
        ("flat.npy".to_owned(), flat.clone()),
    ];
    for (name, entries) in
        [("table.npz", [("x", &flat), ("y", &labels)]), ("images.npz", [("x", &pixels), ("y", &labels)])]
    {
        let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for (entry, content) in entries {
            writer.start_file(format!("{entry}.npy"), zip::write::SimpleFileOptions::default())?;
            writer.write_all(content)?;
        }
        seeds.push((name.to_owned(), writer.finish()?.into_inner()));
    }
    Ok(seeds)
}

fn idx() -> Made<Seeds> {
    let images = [&[0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 2][..], &(0..12).collect::<Vec<u8>>()].concat();
    let labels = vec![0, 0, 8, 1, 0, 0, 0, 3, 1, 0, 2];
    let zipped = gzip(&images)?;
    Ok(vec![("images".to_owned(), images), ("images.gz".to_owned(), zipped), ("labels".to_owned(), labels)])
}

fn config() -> Seeds {
    let dense = "[network]\nhidden = [20, 10]\nactivation = \"relu\"\n[method]\nname = \"map\"\nepochs = 3\n";
    let layers = "[network]\nlayers = [{ kind = \"conv\", channels = 3, kernel = 3, stride = 1, padding = 1, activation = \"relu\" }, \
                  { kind = \"max-pool\", size = 2 }, { kind = \"flatten\" }, { kind = \"dropout\", rate = 0.2 }, { kind = \"dense\", units = 4 }]\n";
    let features = "[[network.layers]]\nkind = \"random-features\"\ncount = 20\nlength_scale = 1.5\nseed = 3\n\
                    [[network.layers]]\nkind = \"residual\"\nlayers = [{ kind = \"activation\", activation = \"tanh\" }]\n";
    let priors = "[likelihood]\nname = \"student-t\"\n[prior]\nname = \"normal\"\nweight_std = 1.0\nscaling = \"none\"\n\
                  [[layer_priors]]\nlayer = 0\nbias_std = 10.0\n[[layer_priors]]\nlayer = 1\nweight_std = 0.5\n";
    let named = "[network]\nname = \"linear\"\n[likelihood]\nname = \"poisson\"\n[method]\nname = \"laplace\"\nstructure = \"kron\"\n";
    let fixed = "[network]\nlayers = [{ kind = \"polynomial\", degree = 3 }, { kind = \"fourier\", frequencies = 3, period = 4.0 }]\n";
    [
        ("dense", dense),
        ("layers", layers),
        ("features", features),
        ("priors", priors),
        ("named", named),
        ("fixed", fixed),
    ]
    .map(|(name, text)| (format!("{name}.toml"), text.as_bytes().to_vec()))
    .into()
}

/// Every setting of every method, at its default.
fn set() -> Seeds {
    let value = |d: Default| Value::from(d).to_string();
    let of = |m: &posterior::inference::MethodEntry| {
        let settings: String = m.settings.iter().map(|s| format!("{}={}\n", s.name, value(s.default))).collect();
        let rest = "prior.weight_std=2\nprior.bias_std=0.5\nlikelihood.noise=learned\n";
        (format!("{}.txt", m.name), format!("{} normal gaussian\n{settings}{rest}", m.name).into_bytes())
    };
    METHODS.iter().map(of).collect()
}
