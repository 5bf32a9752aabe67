//! What to do with a posterior: act or ask, which rows to label, what to try next, how to learn on.
//!
//! Everything here is a function of draws of a fitted model: `draws` reads them from a predictive distribution, `costs` and `losses` choose actions, `guarantee` bounds their
//! risk, `query` scores rows to label and `batch` chooses several, `acquisition`, `surrogate`, `space` and `optimise` suggest experiments, `update` goes on with new rows.

mod acquisition;
mod batch;
mod costs;
mod draws;
mod guarantee;
mod losses;
mod optimise;
mod query;
mod search;
mod space;
mod space_file;
mod stop;
mod surrogate;
mod update;

pub use acquisition::{Acquisition, expected_improvement, log_expected_improvement, log_h};
pub use batch::{Batch, choose, joint_information};
pub use costs::{Costs, Decision, Realised, realised};
pub use draws::{ClassDraws, Draws, RealDraws};
pub use guarantee::{Guarantee, risk_control};
pub use losses::{Loss, NumberDecision};
pub use optimise::{Goal, Optimiser, Suggestion, Suggestions};
pub use query::{QueryScore, scores};
pub use space::{Dimension, Point, Space};
pub use stop::Stop;
pub use surrogate::{AtPoint, Surrogate};
pub use update::{Surprise, Updated, surprise, update};
