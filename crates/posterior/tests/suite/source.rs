//! Rows on demand: mini-batches read from files give the same bits as rows in memory, and what cannot be read is an error with its row.

use posterior::data::{Batch, Dataset, NpyRows, Source};
use posterior::inference::{METHODS, Silent};
use posterior::likelihood::Outcome;
use posterior::model::{Choice, Recipe};
use posterior::nn::{Activation, NetworkSpec, Shape};
use posterior::posterior::Tensor;
use posterior::problem::Problem;
use posterior::rng::Key;
use posterior::settings::Value;
use posterior::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ROWS: usize = 90;

fn inputs() -> Vec<f32> {
    (0..2 * ROWS).map(|i| ((i * 37 % 101) as f32) / 50.0 - 1.0).collect()
}

fn outcomes(classes: usize) -> Vec<f64> {
    let x = inputs();
    (0..ROWS).map(|i| if classes > 0 { (i % classes) as f64 } else { f64::from(x[2 * i]).sin() }).collect()
}

/// As `numpy.save` writes it.
fn npy(path: &Path, descr: &str, fortran: bool, shape: &str, data: &[u8]) -> PathBuf {
    let order = if fortran { "True" } else { "False" };
    let header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
    let padded = format!("{header:<117}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((padded.len() as u16).to_le_bytes());
    bytes.extend(padded.as_bytes());
    bytes.extend(data);
    std::fs::write(path, bytes).unwrap();
    path.to_owned()
}

fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn f64s(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn files(dir: &Path, classes: usize) -> (PathBuf, PathBuf) {
    let x = npy(&dir.join("x.npy"), "<f4", false, "(90, 2)", &f32s(&inputs()));
    (x, npy(&dir.join("y.npy"), "<f8", false, "(90,)", &f64s(&outcomes(classes))))
}

fn recipe(method: &str) -> Recipe {
    let has = |name: &str| METHODS.iter().any(|m| m.name == method && m.settings.iter().any(|s| s.name == name));
    let mut all = vec![("epochs", 4), ("swag_epochs", 3), ("members", 2), ("batch_size", 32), ("draws", 25)];
    if has("chains") {
        all.extend([("chains", 2), ("warmup", 20)]);
    }
    let settings = all.into_iter().filter(|(name, _)| has(name));
    let method = settings.fold(Choice::named(method), |c, (name, value)| c.with(name, Value::Int(value)));
    Recipe { network: NetworkSpec::parse("5", Activation::Tanh).unwrap(), method, ..Recipe::default() }
}

fn fit(
    recipe: &Recipe,
    classes: usize,
    problem: impl FnOnce(posterior::model::Resolved) -> Result<Problem>,
) -> Result<Vec<Tensor>> {
    let outcome = if classes > 0 { Outcome::Class } else { Outcome::Real };
    let resolved = recipe.resolve_for(Shape::Flat(2), outcome, classes.max(1))?;
    let method = resolved.method()?;
    Ok(method.fit(&problem(resolved)?, Key::new(5), &mut Silent)?.posterior.tensors())
}

/// Those that take mini-batches; all others say that they do not.
const STREAM: [&str; 16] = [
    "ml",
    "map",
    "mean-field",
    "low-rank",
    "full-covariance",
    "mixture",
    "ensemble",
    "swag",
    "ivon",
    "bbvi",
    "mc-dropout",
    "gaussian-dropout",
    "variational-dropout",
    "sparse-dropout",
    "sgld",
    "sghmc",
];

#[test]
fn rows_of_files_give_the_same_bits_or_a_clear_error() {
    let dir = tempfile::tempdir().unwrap();
    for classes in [0, 3] {
        let (x, y) = files(dir.path(), classes);
        let data = Dataset::from_arrays(inputs(), Shape::Flat(2), outcomes(classes)).unwrap();
        for method in METHODS.iter().filter(|m| m.name != "linear") {
            let recipe = recipe(method.name);
            let source: Arc<dyn Source> = Arc::new(NpyRows::open(&x, &y).unwrap());
            let streamed = fit(&recipe, classes, |r| r.problem_of(source));
            if STREAM.contains(&method.name) || method.name == "moments" {
                let whole = fit(&recipe, classes, |r| r.problem(data.clone())).unwrap();
                assert!(streamed.unwrap() == whole, "{} with {classes} classes", method.name);
            } else {
                let error = streamed.unwrap_err().to_string();
                assert!(error.contains("needs all rows in memory, and these are read in mini-batches; use"), "{error}");
            }
        }
        // All rows a step are read, too.
        let all = Recipe {
            method: Choice::named("map").with("batch_size", Value::Int(500)).with("epochs", Value::Int(5)),
            ..recipe("map")
        };
        let source: Arc<dyn Source> = Arc::new(NpyRows::open(&x, &y).unwrap());
        let whole = fit(&all, classes, |r| r.problem(data.clone())).unwrap();
        assert!(fit(&all, classes, |r| r.problem_of(source)).unwrap() == whole);
        // A source that has them in memory is those rows.
        let held: Arc<dyn Source> = Arc::new(data);
        assert!(fit(&all, classes, |r| r.problem_of(held)).unwrap() == whole);
    }
    let raw = Recipe { network: NetworkSpec::default(), ..recipe("linear") };
    let (x, y) = files(dir.path(), 0);
    let source: Arc<dyn Source> = Arc::new(NpyRows::open(&x, &y).unwrap());
    assert!(fit(&raw, 0, |r| r.problem_of(source)).unwrap_err().to_string().starts_with("linear needs all rows"));
}

/// Gives out rows for a while.
#[derive(Debug)]
struct Failing {
    data: Dataset,
    asked: std::sync::atomic::AtomicUsize,
}

impl Source for Failing {
    fn rows(&self) -> usize {
        self.data.rows
    }
    fn shape(&self) -> Shape {
        self.data.shape
    }
    fn targets(&self) -> usize {
        self.data.targets
    }
    fn gather(&self, rows: &[u32], into: &mut Batch) -> Result<()> {
        match self.asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0..5 => self.data.gather(rows, into),
            5 => self.data.gather(&rows[1..], into),
            _ => Err(Error::data("the cable is out", "put it back")),
        }
    }
    fn whole(&self) -> Option<&Dataset> {
        None
    }
}

#[test]
fn an_evaluation_can_fail() {
    let data = Dataset::from_arrays(inputs(), Shape::Flat(2), outcomes(0)).unwrap();
    let short = "; make the source fill in every row that it is asked for";
    for (asked, what) in [(0, short), (6, "the cable is out; put it back")] {
        for method in ["map", "mean-field", "ensemble", "swag", "sgld"] {
            let source: Arc<dyn Source> = Arc::new(Failing { data: data.clone(), asked: asked.into() });
            let recipe = Recipe { method: recipe(method).method, ..recipe(method) };
            let error = fit(&recipe, 0, |r| r.problem_of(source)).unwrap_err().to_string();
            // With two members, the other may be the one that meets the next failure.
            assert!(error.contains(what) || method == "ensemble", "{method}: {error}");
        }
    }
}

#[test]
fn files_that_do_not_fit_get_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let (x, y) = files(dir.path(), 0);
    let told = |x: &Path, y: &Path| {
        let error = NpyRows::open(x, y).unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
        error.replace(&*dir.path().to_string_lossy(), "D")
    };
    let short = npy(&at("short.npy"), "<f8", false, "(89,)", &f64s(&outcomes(0)));
    assert_eq!(
        told(&x, &short),
        "D/short.npy: there are 89 outcomes for the 90 rows of D/x.npy; save arrays of one length"
    );
    let cut = npy(&at("cut.npy"), "<f4", false, "(90, 2)", &f32s(&inputs()[1..]));
    assert_eq!(told(&cut, &y), "D/cut.npy: the NPY data is cut short; write it again");
    let huge = npy(&at("huge.npy"), "<f8", false, "(4611686018427387904, 4611686018427387904)", &[0; 64]);
    assert!(told(&huge, &y).starts_with("D/huge.npy: the NPY data is cut short"));
    let whole = npy(&at("int.npy"), "<i8", false, "(90,)", &f64s(&outcomes(0)));
    assert_eq!(
        told(&x, &whole),
        "D/int.npy: the array holds '<i8', which is not read from disk; save it as float32 or float64"
    );
    let fortran = npy(&at("fortran.npy"), "<f4", true, "(90, 2)", &f32s(&inputs()));
    assert!(told(&fortran, &y).contains("the array is in Fortran order; save numpy.ascontiguousarray of it"));
    let empty = npy(&at("empty.npy"), "<f4", false, "(0, 2)", &[]);
    assert!(told(&empty, &y).contains("the array has no rows or no columns"));
    std::fs::write(at("not.npy"), "a,b\n1,2\n").unwrap();
    assert!(told(&at("not.npy"), &y).starts_with("D/not.npy: the NPY header is damaged"));
    assert!(told(&at("missing.npy"), &y).starts_with("cannot read D/missing.npy"));
    // What only a row shows is said when the row is read.
    let mut bad = inputs();
    bad[2 * 70 + 1] = f32::NAN;
    let bad = npy(&at("nan.npy"), "<f4", false, "(90, 2)", &f32s(&bad));
    let run = |x: &Path, y: &Path, classes| {
        let source: Arc<dyn Source> = Arc::new(NpyRows::open(x, y).unwrap());
        fit(&recipe("map"), classes, |r| r.problem_of(source)).unwrap_err().to_string()
    };
    assert_eq!(run(&bad, &y, 0), "an input of row 71 of 90 is not a finite number; correct it, or leave the row out");
    let (x, y) = files(dir.path(), 3);
    assert!(run(&x, &y, 2).contains("is 2, and there are 2 classes; number the classes from 0 to 1"));
}

#[test]
fn arrays_that_do_not_fit_get_one_sentence() {
    let told = |x: Vec<f64>, shape: Shape, y: Vec<f64>| Dataset::from_arrays(x, shape, y).unwrap_err().to_string();
    let two = Shape::Flat(2);
    assert_eq!(told(vec![], two, vec![]), "there are no rows; give at least one");
    assert_eq!(
        told(vec![1.0; 5], two, vec![0.0; 2]),
        "5 inputs are no whole rows of 2; give every row all of its inputs"
    );
    assert_eq!(
        told(vec![1.0; 4], two, vec![0.0; 3]),
        "there are 3 outcomes for 2 rows of inputs; give every row the same number of outcomes"
    );
    assert_eq!(told(vec![1.0; 4], Shape::Flat(0), vec![0.0; 2]), "a row has no inputs; give a shape without 0");
    assert_eq!(
        told(vec![1.0, 2.0, f64::NAN, 1.0], two, vec![0.0; 2]),
        "input 1 of row 2 is not a finite number; fill it in, or leave the row out"
    );
    assert_eq!(
        told(vec![1.0; 4], two, vec![0.0, f64::INFINITY]),
        "outcome 1 of row 2 is not a finite number; leave the row out"
    );
    let good = || Dataset::from_arrays(vec![1.0f32; 4], two, vec![0.0, 1.0]).unwrap();
    assert_eq!(
        good().with_weights(vec![1.0]).unwrap_err().to_string(),
        "there are 1 weights for 2 rows; give one for every row"
    );
    assert_eq!(
        good().with_weights(vec![1.0, -1.0]).unwrap_err().to_string(),
        "the weight of row 2 is -1; give weights of 0 or more"
    );
    // What is shared is not copied.
    let x: Arc<[f32]> = inputs().into();
    let y: Arc<[f64]> = outcomes(0).into();
    let data = Dataset::from_arrays(x.clone(), two, y.clone()).unwrap();
    assert!(Arc::ptr_eq(&data.x.to::<f32>(), &x) && Arc::ptr_eq(&data.y, &y));
    // Classes that the likelihood does not have.
    let resolved = recipe("map").resolve_for(two, Outcome::Class, 3).unwrap();
    let error = resolved.problem(Dataset::from_arrays(vec![1.0f32; 4], two, vec![0.0, 3.0]).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "the class of row 2 is 3, and there are 3 classes; number the classes from 0 to 2");
}
