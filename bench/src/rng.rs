//! Standard normals: time per million, one core, through `fill_normals`.

use crate::timing::measure;
use posterior::rng::{Key, Normals, fill_normals};
use std::hint::black_box;

const COUNT: usize = 1_000_000;

fn fill<R: Normals>(who: &str, workload: &str) {
    let mut z = vec![R::ZERO; COUNT];
    let mut step = 0;
    measure(who, workload, || {
        fill_normals(Key::new(step), black_box(&mut z));
        step += 1;
    });
}

pub fn run(_threads: usize) {
    // µs per million numbers = thousandths of ns per number.
    fill::<f32>("posterior", "normals_f32_1e6");
    fill::<f64>("posterior", "normals_f64_1e6");
}
