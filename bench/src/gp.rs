//! One log marginal likelihood of an exact Gaussian process with its gradient: Matérn-5/2, a lengthscale for each of 18 inputs, made-up rows.
//!
//! Lines `gp-lml-N` for N = 1000, 2000 and 5000 rows; the peers' script times the same on the set `elevators`.

use crate::timing::measure;
use posterior::data::{Feature, FeatureKind, Inputs, Scale};
use posterior::gp::{Kernel, log_marginal};
use posterior::rng::{Key, fill_normals};
use std::hint::black_box;

const INPUTS: usize = 18;

pub fn run(threads: usize) {
    let scale = Scale { mean: 0.0, std: 1.0 };
    let column = |i: usize| Feature { name: format!("x{i}"), kind: FeatureKind::Standard(scale) };
    let inputs = Inputs::Columns((0..INPUTS).map(column).collect());
    let Ok(kernel) = Kernel::parse("matern52(ard, lengthscale~3)", &inputs) else { return };
    for n in [1000, 2000, 5000] {
        let (mut x, mut y) = (vec![0.0f64; n * INPUTS], vec![0.0; n]);
        fill_normals(Key::new(1), &mut x);
        fill_normals(Key::new(2), &mut y);
        y.iter_mut().zip(x.chunks(INPUTS)).for_each(|(y, x)| *y = 0.3 * *y + x[0].sin() + 0.5 * x[1]);
        let mut log = kernel.start();
        log.push(0.1f64.ln());
        let mut gradient = vec![0.0; log.len()];
        measure(&format!("posterior-{threads}t"), &format!("gp-lml-{n}"), || {
            black_box(log_marginal(&kernel, &x, &y, &log, Some(&mut gradient)).ok());
        });
    }
}
