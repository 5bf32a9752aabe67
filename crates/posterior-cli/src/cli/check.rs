//! Flags of the command that looks at a data file before a fit.

use super::{Common, Data, Target};
use clap::Args;

#[derive(Debug, Args)]
pub struct Check {
    #[command(flatten)]
    pub data: Data,
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub common: Common,
}
