//! Models whose posterior is known in closed form: what approximations are measured against, and parts of them are made of.

mod linear;

pub use linear::LinearRegression;
