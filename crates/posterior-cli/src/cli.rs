//! The command line: every command with its flags.

mod check;
mod decide;
pub mod flags;
mod judge;
mod model;

pub use check::Check;
pub use decide::{Decide, Query, Suggest, Update};
pub use judge::{Attack, Calibrate, Compare, Ood};
pub use model::{Compress, Diagnose, Draws, Inspect};

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

const FILES_AND_MEMORY: &str = "\
Files are written whole or not at all. Links, permissions, devices and pipes stay what they are, and no file that a command reads is overwritten by it.
What would take more memory than --memory SIZE allows (three quarters of the machine's, if not given) is refused before it begins.";

/// Bayesian neural networks: fit one to your data, and learn how sure it is.
#[derive(Debug, Parser)]
#[command(name = "posterior", version, arg_required_else_help = true, max_term_width = 120, after_help = FILES_AND_MEMORY)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// The tour: makes a small data set with a gap, fits MAP and mean-field, writes a page with pictures
    Demo(Demo),
    /// Says what is in a data file, what a fit will do with each column, and what looks wrong
    Check(Check),
    /// Fits a Bayesian neural network to a data file
    Fit(Fit),
    /// Takes the weights of a network trained in PyTorch, so that Laplace and evaluation work on it
    Import(Import),
    /// Predicts the rows of a data file, with uncertainty
    Predict(Predict),
    /// Scores a model on rows whose outcome is known
    Evaluate(Evaluate),
    /// Fits several methods to the same splits of a data file, and says which is best by how much
    Compare(Compare),
    /// Learns from held-back rows how far to trust a model: a temperature, and intervals or sets with guaranteed coverage
    Calibrate(Calibrate),
    /// Tells rows that a model should know from others by how unsure it is of them
    Ood(Ood),
    /// Changes the inputs a little so that the model is fooled, and says whether it notices
    Attack(Attack),
    /// Chooses the action of least expected cost for every row, and says what a label or more data would save
    Decide(Decide),
    /// Says which rows of a pool to label next
    Query(Query),
    /// Says which experiments to try next: the CSV holds those tried, with a value, and those pending, without one
    Suggest(Suggest),
    /// Goes on with new rows: the posterior of a model is the prior, and it is said whether the rows look like those before
    Update(Update),
    /// Measures how noisy each estimator of the variational gradient is on a data file
    Gradients(Gradients),
    /// Draws functions from the prior, before any data
    Prior(Prior),
    /// Chooses between models by their evidence: polynomial order, network width and depth, prior scale, activation
    Select(Select),
    /// Lists inference methods, likelihoods and priors, or the settings of one
    Methods(Methods),
    /// Shows what a model file holds
    Inspect(Inspect),
    /// Prunes the weights that the data say little about, and writes a small model file
    Compress(Compress),
    /// Says whether a posterior may be believed: its chains, its distance from the posterior, its predictions
    Diagnose(Diagnose),
    /// Writes the draws of a posterior as Parquet
    Draws(Draws),
    /// Checks on this machine that methods find a posterior known in closed form
    Selftest(Selftest),
}

/// What every command takes.
#[derive(Debug, Clone, Args)]
pub struct Common {
    /// Print JSON, for machines: standard output holds the answer or {"error": …} and nothing else
    #[arg(long)]
    pub json: bool,
    /// Random numbers follow from this; the same seed gives the same bits [default: 0; of a fitted model, its own]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Threads to use; results do not depend on it [default: one per core]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,
    /// Memory that may be used, as in 2GB or 500MB; what needs more is refused before it begins [default: three quarters of the machine's]
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    pub memory: Option<u64>,
    /// No progress and no notes
    #[arg(long, short)]
    pub quiet: bool,
}

fn parse_threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if (1..=4096).contains(&n) => Ok(n),
        _ => Err("it takes a whole number from 1 to 4096".into()),
    }
}

/// Less than this is not enough for the program itself.
const LEAST_MEMORY: f64 = 1e6;

fn parse_memory(text: &str) -> Result<u64, String> {
    let wrong = || "it takes a size of 1MB or more, as in 500MB, 2GB or 1.5GiB".to_owned();
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024f64.powi(2),
        "gib" => 1024f64.powi(3),
        "tib" => 1024f64.powi(4),
        _ => return Err(wrong()),
    };
    let bytes = number.parse::<f64>().map_err(|_| wrong())? * unit;
    if (LEAST_MEMORY..1e18).contains(&bytes) { Ok(bytes as u64) } else { Err(wrong()) }
}

/// How a data file is read.
#[derive(Debug, Clone, Args)]
pub struct Data {
    /// CSV (comma, semicolon, tab), JSON lines, Parquet, NPY, NPZ or IDX images; text also as gz or zst; - is standard input
    #[arg(value_name = "DATA")]
    pub data: PathBuf,
    /// Labels of IDX images [default: the file named like DATA with labels-idx1 for images-idx3]
    #[arg(long, value_name = "FILE")]
    pub labels: Option<PathBuf>,
    /// Take a column as text even if it looks like numbers; may be given more than once
    #[arg(long, value_name = "COLUMN")]
    pub text: Vec<String>,
}

/// Help that lists the names of a table.
fn named<'a>(names: impl Iterator<Item = &'a str>, default: &str) -> String {
    let names: Vec<&str> = names.collect();
    let (last, first) = names.split_last().unwrap_or((&"", &[]));
    format!("{} or {last} [default: {default}]", first.join(", "))
}

/// What is modelled, and how.
#[derive(Debug, Clone, Args)]
pub struct Recipe {
    /// Widths of hidden layers (50,50), or linear, lenet-300-100, lenet-5 [default: 50]
    #[arg(long, value_name = "LAYERS")]
    pub network: Option<String>,
    /// relu, tanh, gelu, sigmoid or silu, for a network given by widths [default: tanh]
    #[arg(long, value_name = "NAME")]
    pub activation: Option<String>,
    #[arg(long, value_name = "NAME", help = named(posterior::likelihood::likelihoods().iter().map(|e| e.name), "what suits the target"))]
    pub likelihood: Option<String>,
    #[arg(long, value_name = "NAME", help = named(posterior::prior::priors().iter().map(|e| e.name), "normal"))]
    pub prior: Option<String>,
    /// The kernel of a Gaussian process (--method gp), as in "matern52(ard) + linear" [default: matern52(ard)]
    #[arg(long, value_name = "EXPRESSION")]
    pub kernel: Option<String>,
    /// Network, likelihood, prior and method from a TOML file; flags go over it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// A setting: KEY=VALUE for the method, prior.KEY=VALUE, likelihood.KEY=VALUE; may be given more than once
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// What the target is.
#[derive(Debug, Clone, Args)]
pub struct Target {
    /// The column to predict [default: label, for images]; several columns of numbers as A,B
    #[arg(long, value_name = "COLUMN")]
    pub target: Option<String>,
    /// Text and true/false mean classification, numbers regression, unless this says otherwise
    #[arg(long, value_name = "KIND", default_value = "auto", value_parser = ["auto", "regression", "classification", "count"])]
    pub task: String,
    /// Empty cells: auto (numbers take the column's mean and an input that marks them, categories a level of their own), mean (without the mark), drop (their rows are left out) or error
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = ["auto", "mean", "drop", "error"])]
    pub missing: String,
    /// A column to leave out; may be given more than once
    #[arg(long, value_name = "COLUMN")]
    pub ignore: Vec<String>,
    /// A column to take as an input though it looks like an index, an identifier or free text; may be given more than once
    #[arg(long, value_name = "COLUMN")]
    pub input: Vec<String>,
    /// A column of weights of the rows in the likelihood: 0 or more; it is no input
    #[arg(long, value_name = "COLUMN")]
    pub weights: Option<String>,
}

#[derive(Debug, Args)]
pub struct Demo {
    /// Another tour: kl fits a normal to two densities by either direction of the KL divergence, hmc samples a network between its data
    #[arg(value_name = "TOUR", value_parser = ["kl", "hmc"])]
    pub tour: Option<String>,
    /// Where the page goes [default: report.html, or TOUR.html]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub common: Common,
}

#[derive(Debug, Args)]
pub struct Fit {
    #[command(flatten)]
    pub data: Data,
    #[command(flatten)]
    pub target: Target,
    /// How to infer; 'posterior methods' lists them [default: hmc, or ensemble for many rows or a large network]
    #[arg(long, value_name = "NAME")]
    pub method: Option<String>,
    #[command(flatten)]
    pub recipe: Recipe,
    /// Begin at this model, with its network, likelihood and scales: gradient methods at its centre, chains at its draws; laplace takes the centre as the mode
    #[arg(long, value_name = "MODEL")]
    pub start: Option<PathBuf>,
    /// Keep the state of the fit in this file, from which --resume goes on after an interruption with the same result
    #[arg(long, value_name = "FILE")]
    pub checkpoint: Option<PathBuf>,
    /// Seconds between two checkpoints [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, allow_negative_numbers = true)]
    pub every: Option<f64>,
    /// Go on from this checkpoint, with the same data and settings; it is kept up to date unless --checkpoint names another file
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
    /// Also score the fit on this fraction of the rows, as in 0.2, by a second fit to the others; the model is fitted to all rows
    #[arg(long, value_name = "FRACTION", default_value_t = 0.0, value_parser = parse_fraction, conflicts_with = "start")]
    pub holdout: f64,
    /// With --holdout, hold back whole groups of rows that have the same value in this column; the column is no input
    #[arg(long, value_name = "COLUMN", requires = "holdout")]
    pub group: Option<String>,
    /// With --holdout, hold back the last rows by this column of numbers or dates
    #[arg(long, value_name = "COLUMN", requires = "holdout", conflicts_with = "group")]
    pub time: Option<String>,
    /// Where the model goes
    #[arg(long, value_name = "MODEL", default_value = "model.safetensors")]
    pub out: PathBuf,
    #[command(flatten)]
    pub common: Common,
}

fn parse_fraction(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(p) if (0.0..=0.5).contains(&p) => Ok(p),
        _ => Err("it takes a number from 0 to 0.5, as in 0.2".into()),
    }
}

#[derive(Debug, Args)]
pub struct Import {
    /// A state dict of Linear and Conv2d modules, as safetensors.torch.save_file writes it
    #[arg(value_name = "WEIGHTS")]
    pub file: PathBuf,
    /// Rows like those it was trained on: names and order of the inputs, classes, and the noise come from them
    #[arg(long, value_name = "DATA")]
    pub data: PathBuf,
    /// Labels of IDX images [default: the file named like DATA with labels-idx1 for images-idx3]
    #[arg(long, value_name = "FILE")]
    pub labels: Option<PathBuf>,
    /// Take a column as text even if it looks like numbers; may be given more than once
    #[arg(long, value_name = "COLUMN")]
    pub text: Vec<String>,
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub recipe: Recipe,
    /// Names of the modules in the order of the network's layers, as in conv1,conv2,fc1 [default: sorted by name]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub modules: Vec<String>,
    /// What the network was trained on in standard deviations from the mean of DATA rather than as it is
    #[arg(long, value_name = "WHAT", default_value = "none", value_parser = ["none", "inputs", "target", "both"])]
    pub standardise: String,
    /// The network was trained on (x - MEAN)/STD of all inputs, pixels from 0 to 1
    #[arg(long, value_name = "MEAN", default_value_t = 0.0, allow_negative_numbers = true)]
    pub input_mean: f64,
    /// See --input-mean
    #[arg(long, value_name = "STD", default_value_t = 1.0)]
    pub input_std: f64,
    /// Where the model goes
    #[arg(long, value_name = "MODEL", default_value = "model.safetensors")]
    pub out: PathBuf,
    #[command(flatten)]
    pub common: Common,
}

#[derive(Debug, Args)]
pub struct Predict {
    /// A file that 'posterior fit' has written
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    #[command(flatten)]
    pub data: Data,
    /// Where predictions go, as CSV (JSON with --json) [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Probability of the interval from lower to upper
    #[arg(long, value_name = "P", default_value_t = 0.9, value_parser = parse_interval)]
    pub interval: f64,
    /// Draws from the posterior
    #[arg(long, value_name = "S", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub draws: u32,
    /// One pass of means and variances instead of draws: fast; dense networks under a diagonal Gaussian
    #[arg(long)]
    pub moments: bool,
    /// A column of DATA to write before the predictions, such as an identifier; may be given more than once
    #[arg(long, value_name = "COLUMN")]
    pub keep: Vec<String>,
    /// Write text as it is: without this, a ' stands in the CSV before text that a spreadsheet would run as a formula
    #[arg(long)]
    pub raw: bool,
    #[command(flatten)]
    pub common: Common,
}

fn parse_interval(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(p) if p > 0.0 && p < 1.0 => Ok(p),
        _ => Err("it takes a number between 0 and 1, as in 0.9".into()),
    }
}

#[derive(Debug, Args)]
pub struct Evaluate {
    /// A file that 'posterior fit' has written
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    #[command(flatten)]
    pub data: Data,
    /// Draws from the posterior
    #[arg(long, value_name = "S", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub draws: u32,
    /// One pass of means and variances instead of draws: fast; dense networks under a diagonal Gaussian
    #[arg(long)]
    pub moments: bool,
    /// Write a page with tables and pictures
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub common: Common,
}

#[derive(Debug, Args)]
pub struct Gradients {
    #[command(flatten)]
    pub data: Data,
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub recipe: Recipe,
    /// Estimates of the gradient, over which the variance is taken
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    pub repeats: u32,
    #[command(flatten)]
    pub common: Common,
}

#[derive(Debug, Args)]
pub struct Prior {
    /// Draw at the inputs of this data file, in its target's units [default: one input from -3 to 3]
    #[arg(value_name = "DATA")]
    pub data: Option<PathBuf>,
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub recipe: Recipe,
    /// Functions to draw
    #[arg(long, value_name = "S", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub draws: u32,
    /// Compare the prior with its limit of infinite width: covariance and kurtosis of draws at growing width
    #[arg(long)]
    pub limit: bool,
    /// Where the picture goes, if there is one input
    #[arg(long, value_name = "FILE", default_value = "prior.svg")]
    pub out: PathBuf,
    #[command(flatten)]
    pub common: Common,
}

#[derive(Debug, Args)]
pub struct Select {
    #[command(flatten)]
    pub data: Data,
    #[command(flatten)]
    pub target: Target,
    /// What differs: KEY=V1,V2,… with a setting as in --set, or network (widths as 50x50), width, depth, activation, prior, likelihood; several give a grid
    #[arg(long, value_name = "KEY=V1,V2,…", required = true)]
    pub over: Vec<String>,
    /// How to infer: linear (exact), laplace, mean-field (a bound), or another that gives evidence [default: linear for degree, else mean-field]
    #[arg(long, value_name = "NAME")]
    pub method: Option<String>,
    #[command(flatten)]
    pub recipe: Recipe,
    /// Belief in each model before the data, in proportion, as in 1,2,1 [default: all the same]
    #[arg(long, value_name = "W1,W2,…", allow_hyphen_values = true)]
    pub prior_weights: Option<String>,
    /// Fraction of the rows whose log-likelihood under a fit to the others is shown beside the evidence; 0 for none
    #[arg(long, value_name = "PART", default_value_t = 0.2, value_parser = parse_part)]
    pub held_out: f64,
    /// Draws from the posterior for it
    #[arg(long, value_name = "S", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub draws: u32,
    /// Where the page with the picture goes
    #[arg(long, value_name = "FILE", default_value = "select.html")]
    pub out: PathBuf,
    #[command(flatten)]
    pub common: Common,
}

fn parse_part(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(p) if (0.0..1.0).contains(&p) => Ok(p),
        _ => Err("it takes a number from 0 to below 1, as in 0.2".into()),
    }
}

#[derive(Debug, Args)]
pub struct Methods {
    /// Show the settings of this method, likelihood or prior
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    #[command(flatten)]
    pub common: Common,
}

#[derive(Debug, Args)]
pub struct Selftest {
    #[command(flatten)]
    pub common: Common,
}

impl Command {
    pub fn common(&self) -> &Common {
        match self {
            Command::Demo(a) => &a.common,
            Command::Fit(a) => &a.common,
            Command::Import(a) => &a.common,
            Command::Predict(a) => &a.common,
            Command::Evaluate(a) => &a.common,
            Command::Compare(a) => &a.common,
            Command::Calibrate(a) => &a.common,
            Command::Ood(a) => &a.common,
            Command::Attack(a) => &a.common,
            Command::Decide(a) => &a.common,
            Command::Query(a) => &a.common,
            Command::Suggest(a) => &a.common,
            Command::Update(a) => &a.common,
            Command::Gradients(a) => &a.common,
            Command::Prior(a) => &a.common,
            Command::Select(a) => &a.common,
            Command::Methods(a) => &a.common,
            Command::Inspect(a) => &a.common,
            Command::Compress(a) => &a.common,
            Command::Diagnose(a) => &a.common,
            Command::Draws(a) => &a.common,
            Command::Check(a) => &a.common,
            Command::Selftest(a) => &a.common,
        }
    }
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(s) if (0.0..=1e9).contains(&s) => Ok(s),
        _ => Err("it takes a number of seconds, as in 60".into()),
    }
}
