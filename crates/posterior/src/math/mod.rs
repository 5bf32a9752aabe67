//! Arithmetic: products over `gemm`, factorisations over `faer`, elementary functions in SIMD.

pub mod elementwise;
pub mod linalg;
pub mod matmul;
pub(crate) mod mills;
pub(crate) mod over_rows;
mod product_kernels;
pub mod quadrature;
mod real;
pub mod simd;
pub mod special;
pub(crate) mod thin;

pub use matmul::{Mat, MatRef, Threads, gemm};
pub use real::Real;
