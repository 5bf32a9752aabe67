//! Times one step many times over; processor time.

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

/// Whose time is counted.
#[derive(Debug, Clone, Copy)]
pub enum Clock {
    /// All threads of this process.
    Process,
    /// The calling thread.
    Thread,
}

/// Processor time so far, where the system tells it as Linux does: what a run costs on a machine that is busy otherwise.
pub fn cpu_seconds(clock: Clock) -> f64 {
    let path = match clock {
        Clock::Process => "/proc/self/stat",
        Clock::Thread => "/proc/thread-self/stat",
    };
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let after_name = text.rsplit(')').next().unwrap_or_default();
    // utime and stime are fields 14 and 15, in ticks of 10 ms; the name is field 2.
    let ticks = after_name.split_whitespace().skip(11).take(2).filter_map(|v| v.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}
