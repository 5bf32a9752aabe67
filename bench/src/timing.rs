//! Times one step many times over.

use std::time::Instant;

/// Prints a `RES` line for `step`; each sample is the mean over about 10 ms of steps.
pub fn measure(who: &str, workload: &str, mut step: impl FnMut()) {
    if std::env::var("WL").is_ok_and(|filter| !workload.contains(&filter)) {
        return;
    }
    let budget: f64 = std::env::var("BUDGET").ok().and_then(|b| b.parse().ok()).unwrap_or(0.6);
    let started = Instant::now();
    let mut warmup = 0u32;
    while started.elapsed().as_secs_f64() < 0.4 * budget || warmup < 3 {
        step();
        warmup += 1;
    }
    let once = started.elapsed().as_secs_f64() / f64::from(warmup);
    let steps = ((0.010 / once) as usize).max(1);
    let mut samples = Vec::new();
    let started = Instant::now();
    while started.elapsed().as_secs_f64() < budget || samples.len() < 5 {
        let t = Instant::now();
        for _ in 0..steps {
            step();
        }
        samples.push(t.elapsed().as_secs_f64() / steps as f64 * 1e6);
    }
    samples.sort_by(f64::total_cmp);
    let n = samples.len();
    println!("RES {who} {workload} {:.3} {:.3} {:.3} {n}", samples[0], samples[n / 2], samples[n * 9 / 10]);
}
