//! Fits of small tables: a cell is a recipe on a split of a set, scored on the rows the split holds back. Cells are kept in a folder under names made
//! of all they follow from but the code, so that a table that was stopped goes on where it was; after a change of the code, take another folder.
//!
//! Two workers take cells from a queue, each with a pool of one thread, so that the seconds of a cell are a core's.

use crate::timing::{Clock, cpu_seconds};
use posterior::artifact::write_file;
use posterior::data::{EncodeOptions, Encoder, ReadOptions, Split, Table, Task, folds, split};
use posterior::inference::Silent;
use posterior::model::{Model, Recipe};
use posterior::rng::Key;
use posterior::score::find;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

/// Draws of a predictive.
const DRAWS: usize = 200;
const WORKERS: usize = 2;
/// Folds of a set that brings no splits.
const FOLDS: usize = 10;

/// A table of the folder of data.
pub(super) struct Set {
    pub(super) name: &'static str,
    /// Its file.
    file: &'static str,
    target: &'static str,
    /// Test rows, a line for each split; without, it is cut into folds.
    test_rows: Option<&'static str>,
    task: Task,
}

const fn uci(name: &'static str, file: &'static str, test_rows: &'static str) -> Set {
    Set { name, file, target: "y", test_rows: Some(test_rows), task: Task::Regression }
}

const fn tabular(name: &'static str, file: &'static str, task: Task) -> Set {
    Set { name, file, target: "target", test_rows: None, task }
}

pub(super) const SETS: &[Set] = &[
    uci("boston", "uci/boston/data.csv", "uci/boston/test_rows.csv"),
    uci("concrete", "uci/concrete/data.csv", "uci/concrete/test_rows.csv"),
    uci("energy", "uci/energy/data.csv", "uci/energy/test_rows.csv"),
    uci("power", "uci/power/data.csv", "uci/power/test_rows.csv"),
    uci("wine", "uci/wine/data.csv", "uci/wine/test_rows.csv"),
    uci("yacht", "uci/yacht/data.csv", "uci/yacht/test_rows.csv"),
    tabular("breast-cancer", "tabular/breast_cancer.csv", Task::Classification),
    tabular("diabetes", "tabular/diabetes.csv", Task::Regression),
    tabular("digits", "tabular/digits.csv", Task::Classification),
    tabular("iris", "tabular/iris.csv", Task::Classification),
    tabular("wine-cultivars", "tabular/wine.csv", Task::Classification),
];

/// What is to be fitted.
pub(super) struct Job {
    /// What the recipe is called.
    pub(super) method: &'static str,
    pub(super) recipe: Recipe,
    /// Which of SETS.
    pub(super) set: usize,
    pub(super) split: usize,
}

/// What came of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Cell {
    pub(super) log_likelihood: Option<f64>,
    pub(super) rmse: Option<f64>,
    pub(super) accuracy: Option<f64>,
    /// log p(D) of the training rows, where the model knows it.
    #[serde(default)]
    pub(super) log_evidence: Option<f64>,
    /// Of fit and predictions, by the clock.
    pub(super) seconds: f64,
    /// The same in time of a core.
    pub(super) cpu_seconds: f64,
    /// Why there are no scores.
    pub(super) failed: Option<String>,
}

/// Arguments that tables have in common; the others are the caller's.
pub(super) struct Options {
    pub(super) folder: PathBuf,
    pub(super) sets: Vec<usize>,
    pub(super) splits: std::ops::RangeInclusive<usize>,
    /// Part of the training rows to score on instead of the test rows.
    pub(super) held_out: f64,
    state: PathBuf,
    pub(super) rest: Vec<(String, String)>,
}

impl Options {
    /// From `key=value` words; the sets are `sets` where none are named.
    pub(super) fn new(folder: &Path, words: &[String], sets: &[usize]) -> Result<Options, String> {
        let state = std::env::var_os("POSTERIOR_STATE").map(PathBuf::from);
        let mut options = Options {
            folder: folder.to_owned(),
            sets: sets.to_vec(),
            splits: 0..=19,
            held_out: 0.0,
            state: state.unwrap_or_else(|| std::env::temp_dir().join("posterior-cells")),
            rest: Vec::new(),
        };
        for word in words {
            let (key, value) = word.split_once('=').ok_or_else(|| format!("'{word}' is not key=value"))?;
            match key {
                "sets" => {
                    let found = |name: &str| {
                        let names = || SETS.iter().map(|s| s.name).collect::<Vec<_>>().join(", ");
                        let at = SETS.iter().position(|s| s.name == name);
                        at.ok_or_else(|| format!("there is no set '{name}'; choose among {}", names()))
                    };
                    options.sets = value.split(',').map(found).collect::<Result<_, _>>()?;
                }
                "splits" => {
                    let (first, last) = value.split_once('-').unwrap_or((value, value));
                    let number = |v: &str| v.parse().map_err(|_| format!("'{word}' is not splits=0-19 or splits=3"));
                    options.splits = number(first)?..=number(last)?;
                }
                "held_out" => {
                    let part = value.parse::<f64>().ok().filter(|p| (0.0..1.0).contains(p));
                    options.held_out = part.ok_or_else(|| format!("'{word}' is not a part such as held_out=0.1"))?;
                }
                "state" => options.state = PathBuf::from(value),
                _ => options.rest.push((key.to_owned(), value.to_owned())),
            }
        }
        Ok(options)
    }

    /// A set's table, encoding and splits, of those that are asked for.
    fn read(&self, set: &Set) -> posterior::Result<Loaded> {
        let table = Table::read(&self.folder.join(set.file), &ReadOptions::default())?;
        let options = EncodeOptions { target: set.target.into(), task: set.task, ..EncodeOptions::default() };
        let splits = match set.test_rows {
            Some(file) => {
                let path = self.folder.join(file);
                let text =
                    std::fs::read_to_string(&path).map_err(|e| posterior::Error::io("read", path.as_path(), e))?;
                text.lines().map(|line| test_rows(line, table.rows())).collect()
            }
            None => {
                let encoded = Encoder::fit(&table, &options)?.encoder.encode(&table, true)?;
                let classes = (set.task == Task::Classification).then_some(&*encoded.data.y);
                folds(table.rows(), FOLDS, classes, Key::new(0))?
            }
        };
        Ok(Loaded { table, options, splits })
    }

    fn path(&self, job: &Job) -> PathBuf {
        let text = format!("{:?}{}{}", job.recipe, self.held_out, DRAWS);
        // FNV-1a: a name, not a secret.
        let hash =
            text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3));
        self.state.join(format!("{}-{}-{}-{hash:016x}.json", SETS[job.set].name, job.method, job.split))
    }

    fn kept(&self, job: &Job) -> Option<Cell> {
        serde_json::from_slice(&std::fs::read(self.path(job)).ok()?).ok()
    }

    /// All cells, in the order of the jobs; `done` hears how many there are to do and which is done.
    pub(super) fn run(&self, jobs: &[Job]) -> Result<Vec<Cell>, String> {
        std::fs::create_dir_all(&self.state).map_err(|e| format!("{}: {e}", self.state.display()))?;
        let cells: Vec<Option<Cell>> = jobs.iter().map(|job| self.kept(job)).collect();
        // The last jobs first: callers put long ones there, and at the end both workers have something to do.
        let queue: Vec<usize> = (0..jobs.len()).filter(|j| cells[*j].is_none()).collect();
        let total = queue.len();
        let loaded: Vec<Option<Loaded>> = SETS
            .iter()
            .enumerate()
            .map(|(s, set)| jobs.iter().any(|j| j.set == s).then(|| self.read(set)).transpose())
            .collect::<posterior::Result<_>>()
            .map_err(|e| e.to_string())?;
        let (queue, cells) = (Mutex::new(queue), Mutex::new(cells));
        let work = || -> Result<(), String> {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().map_err(|e| e.to_string())?;
            loop {
                let (next, left) = {
                    let mut queue = queue.lock().unwrap_or_else(|e| e.into_inner());
                    (queue.pop(), queue.len())
                };
                let Some(at) = next else { return Ok(()) };
                let job = &jobs[at];
                let Some(loaded) = &loaded[job.set] else { continue };
                let cell = pool.install(|| loaded.cell(job, self.held_out));
                let score = cell.log_likelihood.map_or_else(|| format!("{:?}", cell.failed), |l| format!("{l:.4}"));
                let (set, done) = (SETS[job.set].name, total - left);
                eprintln!("{done}/{total} {set} {} {}: {score}, {:.1} s", job.method, job.split, cell.cpu_seconds);
                let text = serde_json::to_vec(&cell).map_err(|e| e.to_string())?;
                write_file(&self.path(job), &text).map_err(|e| e.to_string())?;
                cells.lock().unwrap_or_else(|e| e.into_inner())[at] = Some(cell);
            }
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|w| w.join().unwrap_or_else(|_| Err("a worker stopped".to_owned())))
        })?;
        Ok(cells.into_inner().unwrap_or_else(|e| e.into_inner()).into_iter().flatten().collect())
    }

    /// The splits that are asked for and that a set has.
    pub(super) fn splits_of(&self, set: usize) -> Result<std::ops::Range<usize>, String> {
        let has = match SETS[set].test_rows {
            Some(_) => 20,
            None => FOLDS,
        };
        let splits = *self.splits.start()..(self.splits.end() + 1).min(has);
        if splits.is_empty() {
            return Err(format!("{} has the splits 0 to {}", SETS[set].name, has - 1));
        }
        Ok(splits)
    }
}

/// All rows but those of the line, and those.
fn test_rows(line: &str, rows: usize) -> Split {
    let mut held = vec![false; rows];
    let numbers = line.split(|c: char| !c.is_ascii_digit()).filter_map(|w| w.parse::<usize>().ok());
    numbers.filter(|r| *r < rows).for_each(|r| held[r] = true);
    let (validation, train) = (0..rows).partition(|r| held[*r]);
    Split { train, validation }
}

struct Loaded {
    table: Table,
    options: EncodeOptions,
    splits: Vec<Split>,
}

impl Loaded {
    fn cell(&self, job: &Job, held_out: f64) -> Cell {
        let (started, cpu) = (Instant::now(), cpu_seconds(Clock::Thread));
        let scores = self.scores(job, held_out);
        let (seconds, cpu_seconds) = (started.elapsed().as_secs_f64(), cpu_seconds(Clock::Thread) - cpu);
        match scores {
            Ok([log_likelihood, rmse, accuracy, log_evidence]) => {
                Cell { log_likelihood, rmse, accuracy, log_evidence, seconds, cpu_seconds, failed: None }
            }
            Err(e) => {
                let failed = Some(e.to_string());
                Cell {
                    log_likelihood: None,
                    rmse: None,
                    accuracy: None,
                    log_evidence: None,
                    seconds,
                    cpu_seconds,
                    failed,
                }
            }
        }
    }

    fn scores(&self, job: &Job, held_out: f64) -> posterior::Result<[Option<f64>; 4]> {
        let Some(Split { train, validation }) = self.splits.get(job.split) else { return Ok([None; 4]) };
        let (train, test) = match held_out {
            0.0 => (train.clone(), validation.clone()),
            part => {
                let inner = split(train.len(), part, None, Key::new(job.split as u64))?;
                let rows = |part: Vec<usize>| part.into_iter().map(|i| train[i]).collect::<Vec<_>>();
                (rows(inner.train), rows(inner.validation))
            }
        };
        let model = Model::fit(&job.recipe, &self.table.select(&train), &self.options, job.split as u64, &mut Silent)?;
        let rows = model.encoder.encode(&self.table.select(&test), true)?;
        let scored = model.score(&rows.data, &model.how(DRAWS))?;
        let [ll, rmse, accuracy] = ["log_likelihood", "rmse", "accuracy"].map(|name| find(name)?.score(&scored));
        Ok([ll, rmse, accuracy, model.fitted.log_evidence()])
    }
}
