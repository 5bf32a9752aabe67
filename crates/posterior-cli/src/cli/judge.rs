//! Flags of the commands that judge and compare models.

use super::{Common, Data, Recipe, Target};
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Compare {
    #[command(flatten)]
    pub data: Data,
    #[command(flatten)]
    pub target: Target,
    /// Methods to compare, as in map,mean-field [default: all of them]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub methods: Vec<String>,
    #[command(flatten)]
    pub recipe: Recipe,
    /// Number of folds; every row is held back once
    #[arg(long, value_name = "K", default_value_t = 5, conflicts_with = "test_rows")]
    pub folds: usize,
    /// A file whose line i holds the test rows of split i, counted from 0
    #[arg(long, value_name = "FILE")]
    pub test_rows: Option<PathBuf>,
    /// Keep rows that have the same value in this column in the same fold; the column is no input
    #[arg(long, value_name = "COLUMN", conflicts_with = "test_rows")]
    pub group: Option<String>,
    /// Predict later rows from earlier ones by this column of numbers or dates: the rows are cut into K + 1 periods, and each but the first is predicted from all before it
    #[arg(long, value_name = "COLUMN", conflicts_with_all = ["test_rows", "group"])]
    pub time: Option<String>,
    /// Stop after so many seconds; what is not done by then is said
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, allow_negative_numbers = true)]
    pub budget: Option<f64>,
    /// How far every method's predictions are from those of this one
    #[arg(long, value_name = "METHOD")]
    pub reference: Option<String>,
    /// Draws from each posterior
    #[arg(long, value_name = "S", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub draws: u32,
    /// A folder for finished fits: the same comparison goes on from there
    #[arg(long, value_name = "FOLDER", default_value = "compare.state")]
    pub state: PathBuf,
    /// Write a page with the table and pictures
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub common: Common,
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(s) if s > 0.0 && s < 1e9 => Ok(s),
        _ => Err("it takes a number of seconds above 0".into()),
    }
}

#[derive(Debug, Args)]
pub struct Calibrate {
    /// A file that 'posterior fit' has written
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    #[command(flatten)]
    pub data: Data,
    /// Draws from the posterior
    #[arg(long, value_name = "S", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub draws: u32,
    /// Where the calibrated model goes [default: MODEL itself]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub common: Common,
}

#[derive(Debug, Args)]
pub struct Ood {
    /// A file that 'posterior fit' has written
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// Rows like those the model was fitted to
    #[arg(value_name = "IN_DATA")]
    pub known: PathBuf,
    /// Rows unlike them
    #[arg(value_name = "OUT_DATA")]
    pub other: PathBuf,
    /// Draws from the posterior
    #[arg(long, value_name = "S", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub draws: u32,
    /// Write a page with histograms
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub common: Common,
}

#[derive(Debug, Args)]
pub struct Attack {
    /// A file that 'posterior fit' has written
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    #[command(flatten)]
    pub data: Data,
    /// fgsm takes one step, pgd takes ten
    #[arg(long, value_name = "NAME", default_value = "fgsm", value_parser = ["fgsm", "pgd"])]
    pub attack: String,
    /// How far an input may move, one or more sizes as in 0.05,0.1: in standard deviations of its column, or in brightness of a pixel
    #[arg(long, value_name = "E", value_delimiter = ',', required = true, value_parser = parse_epsilon, allow_negative_numbers = true)]
    pub epsilon: Vec<f64>,
    /// Draws from the posterior
    #[arg(long, value_name = "S", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub draws: u32,
    /// Where the changed rows go: CSV for tables, NPZ for images; with several sizes, each before the ending [default: adversarial.csv or .npz]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Write text as it is: without this, a ' stands in a CSV before text that a spreadsheet would run as a formula
    #[arg(long)]
    pub raw: bool,
    #[command(flatten)]
    pub common: Common,
}

fn parse_epsilon(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(e) if e > 0.0 && e < 1e6 => Ok(e),
        _ => Err("it takes numbers above 0, as in 0.05,0.1".into()),
    }
}
