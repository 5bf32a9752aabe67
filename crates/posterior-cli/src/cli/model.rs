//! Flags of the commands that look into a model, or make it small.

use super::Common;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Inspect {
    /// A file that 'posterior fit' has written
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    #[command(flatten)]
    pub common: Common,
}

#[derive(Debug, Args)]
pub struct Compress {
    /// A file that 'posterior fit' has written, with a mean and a standard deviation for every weight
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// Prune weights whose log α = ln(std²/mean²) is above this [default: 3]
    #[arg(long, value_name = "T", value_parser = parse_threshold, allow_negative_numbers = true, conflicts_with = "keep")]
    pub threshold: Option<f64>,
    /// Keep this fraction of all weights, those with the highest |mean|/std
    #[arg(long, value_name = "FRACTION", value_parser = parse_fraction, allow_negative_numbers = true)]
    pub keep: Option<f64>,
    /// Keep no standard deviations: one set of weights, and a file of about half the size
    #[arg(long)]
    pub mean_only: bool,
    /// Compare the predictions of both models on the rows of this file
    #[arg(long, value_name = "DATA")]
    pub data: Option<PathBuf>,
    /// Draws from the posterior where predictions are timed and compared
    #[arg(long, value_name = "S", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub draws: u32,
    /// Where the compressed model goes
    #[arg(long, value_name = "FILE", default_value = "compressed.safetensors")]
    pub out: PathBuf,
    #[command(flatten)]
    pub common: Common,
}

#[derive(Debug, Args)]
pub struct Diagnose {
    /// A file that 'posterior fit' has written
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// Chains are judged at the inputs of this file [default: the rows of the fit, as judged then]; an approximation needs the rows it was fitted to
    #[arg(value_name = "DATA")]
    pub data: Option<PathBuf>,
    /// Labels of IDX images [default: the file named like DATA with labels-idx1 for images-idx3]
    #[arg(long, value_name = "FILE")]
    pub labels: Option<PathBuf>,
    /// Draws from an approximation that are weighed against the posterior
    #[arg(long, value_name = "S", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(25..=10_000_000))]
    pub draws: u32,
    #[command(flatten)]
    pub common: Common,
}

#[derive(Debug, Args)]
pub struct Draws {
    /// A file that 'posterior fit' has written
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// Where the draws go: a row each, with columns chain, draw and the parameters by name
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Draws from a posterior that is not made of chains; of chains, all are written
    #[arg(long, value_name = "S", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub draws: u32,
    #[command(flatten)]
    pub common: Common,
}

fn parse_threshold(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(t) if f64::is_finite(t) => Ok(t),
        _ => Err("it takes a number, as in 3".into()),
    }
}

fn parse_fraction(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(f) if f > 0.0 && f <= 1.0 => Ok(f),
        _ => Err("it takes a number above 0 and at most 1, as in 0.05".into()),
    }
}
