//! Flags of the commands that act on a model: decide, query, suggest, update.

use super::{Common, Data};
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Decide {
    /// A file that 'posterior fit' has written
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    #[command(flatten)]
    pub data: Data,
    /// A CSV with a column 'action' and a column of costs for every class; actions named ask or abstain leave the row to somebody else
    #[arg(long, value_name = "FILE", conflicts_with = "loss", required_unless_present = "loss")]
    pub costs: Option<PathBuf>,
    /// For numbers: squared, absolute, or prices of a unit too low and too high as in under=3,over=1
    #[arg(long, value_name = "LOSS")]
    pub loss: Option<String>,
    /// Act only where the mean cost of acting is guaranteed to be at most this, by conformal risk control; leave the other rows to ask or abstain
    #[arg(long, value_name = "COST", requires = "costs", value_parser = parse_positive, allow_negative_numbers = true)]
    pub guarantee: Option<f64>,
    /// Rows with known outcomes that the guarantee is learned from; the model must not have been fitted to them [default: half of DATA]
    #[arg(long, value_name = "FILE", requires = "guarantee")]
    pub labelled: Option<PathBuf>,
    /// Where decisions go, as CSV [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Draws from the posterior
    #[arg(long, value_name = "S", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub draws: u32,
    #[command(flatten)]
    pub common: Common,
}

fn parse_positive(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(p) if p > 0.0 && p < 1e300 => Ok(p),
        _ => Err("it takes a number above 0".into()),
    }
}

#[derive(Debug, Args)]
pub struct Query {
    /// A file that 'posterior fit' has written
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// Rows that could be labelled
    #[command(flatten)]
    pub data: Data,
    /// Rows to choose
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub n: u32,
    /// What a row is ranked by: epig (what its label would teach of the target rows), bald (of the model), entropy, variance, variation
    #[arg(long, value_name = "NAME", default_value = "epig", value_parser = ["epig", "bald", "entropy", "variance", "variation"])]
    pub score: String,
    /// How several are chosen: stochastic (in proportion to scores), top, or batchbald (greedily by what they teach together)
    #[arg(long, value_name = "HOW", default_value = "stochastic", value_parser = ["stochastic", "top", "batchbald"])]
    pub batch: String,
    /// Rows that are to be predicted, for epig [default: 200 rows of the pool at random]
    #[arg(long = "for", value_name = "TARGET_ROWS")]
    pub targets: Option<PathBuf>,
    /// Draws from the posterior
    #[arg(long, value_name = "S", default_value_t = 200, value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    pub draws: u32,
    #[command(flatten)]
    pub common: Common,
}

#[derive(Debug, Args)]
pub struct Suggest {
    /// Experiments tried, with a value of the target, and pending, without one; the other columns are the inputs
    #[command(flatten)]
    pub data: Data,
    /// The column to make large or small
    #[arg(long, value_name = "COLUMN")]
    pub target: String,
    /// Whether large or small values are good
    #[arg(long, value_name = "GOAL", value_parser = ["max", "min"])]
    pub goal: String,
    /// A TOML file with a table for every input: low and high (log = true for ratios, integer = true for whole numbers), or values = [...] [default: ranges of the data]
    #[arg(long, value_name = "FILE", conflicts_with = "pool")]
    pub space: Option<PathBuf>,
    /// Choose among the rows of this file
    #[arg(long, value_name = "FILE")]
    pub pool: Option<PathBuf>,
    /// Experiments to suggest
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub n: u32,
    /// What a point is ranked by: logei, ucb, ei, thompson or pi
    #[arg(long, value_name = "NAME", default_value = "logei", value_parser = ["logei", "ucb", "ei", "thompson", "pi"])]
    pub acquisition: String,
    /// How near to the optimum is near enough, in units of the target [default: 1 % of the range of its values]
    #[arg(long, value_name = "EPSILON", value_parser = parse_positive, allow_negative_numbers = true)]
    pub within: Option<f64>,
    /// A column to leave out; may be given more than once
    #[arg(long, value_name = "COLUMN")]
    pub ignore: Vec<String>,
    #[command(flatten)]
    pub common: Common,
}

#[derive(Debug, Args)]
pub struct Update {
    /// A file that 'posterior fit' has written, by linear, mean-field or ivon
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// New rows, with the columns of the old ones
    #[command(flatten)]
    pub data: Data,
    /// Where the updated model goes [default: MODEL itself]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub common: Common,
}
