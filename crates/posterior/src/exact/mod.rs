//! Models whose posterior is known in closed form: what approximations are measured against, and parts of them are made of.

mod evidence;
mod linear;

pub use evidence::{LinearStatistics, Scales};
pub use linear::LinearRegression;
