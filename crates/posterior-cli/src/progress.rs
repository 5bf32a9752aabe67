//! A progress bar on a terminal, notes on standard error; neither when quiet.

use crate::checkpoint::CheckpointFile;
use crate::cli::Common;
use crate::output::note;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use posterior::inference::{ChainProgress, Checkpoint, Flow, Observer, Progress};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two updates of the bar.
const BETWEEN: Duration = Duration::from_millis(50);

/// Whether the user has asked to stop.
static STOP: AtomicBool = AtomicBool::new(false);

/// Whether a first signal is to be waited for rather than obeyed at once.
static PATIENT: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C, and SIGTERM as service managers and batch systems send it, end the program with 128 + its number at once and leave no half-written
/// file.
pub fn catch_interrupt() {
    // Where they cannot be caught, they end the program as they do anyway.
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else { return };
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if STOP.swap(true, Ordering::Relaxed) || !PATIENT.load(Ordering::Relaxed) {
                posterior::artifact::abandon_writes();
                std::process::exit(128 + signal);
            }
        }
    });
}

/// From now on Ctrl-C stops a fit at its next step, so that a sampler keeps what it has drawn; a second Ctrl-C ends the program.
pub fn stop_fit_on_interrupt() {
    PATIENT.store(true, Ordering::Relaxed);
}

/// Shows a fit to the user.
pub struct Terminal {
    bar: ProgressBar,
    quiet: bool,
    shown: Option<Instant>,
    /// The last word of each chain, if there are chains.
    chains: Vec<Option<ChainProgress>>,
    /// Where the state of the fit is kept, if it is.
    pub file: Option<CheckpointFile>,
}

impl Terminal {
    pub fn new(common: &Common, what: &str) -> Terminal {
        let bar = ProgressBar::new(1);
        if common.quiet {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        let style = ProgressStyle::with_template("{prefix} {bar:30} {percent:>3} %  {msg}  {eta} left");
        if let Ok(style) = style {
            bar.set_style(style.progress_chars("━╸─"));
        }
        bar.set_prefix(what.to_owned());
        Terminal { bar, quiet: common.quiet, shown: None, chains: Vec::new(), file: None }
    }

    pub fn done(self) {
        self.bar.finish_and_clear();
    }
}

impl Observer for Terminal {
    fn progress(&mut self, p: &Progress) -> Flow {
        if p.step == p.steps || self.shown.is_none_or(|t| t.elapsed() > BETWEEN) {
            self.shown = Some(Instant::now());
            self.bar.set_length(p.steps);
            self.bar.set_position(p.step);
            if !self.chains.is_empty() {
                self.bar.set_message(of_chains(&self.chains));
            } else if p.objective.is_finite() {
                self.bar.set_message(format!("epoch {}/{}, objective {:.1}", p.epoch, p.epochs, p.objective));
            }
        }
        if let Some(failed) = self.file.as_mut().and_then(CheckpointFile::look) {
            self.warn(&failed);
        }
        if STOP.load(Ordering::Relaxed) { Flow::Stop } else { Flow::Continue }
    }

    fn chain(&mut self, p: &ChainProgress) -> Flow {
        self.chains.resize(p.chains, None);
        self.chains[p.chain] = Some(*p);
        Flow::Continue
    }

    fn warn(&mut self, message: &str) {
        if !self.quiet {
            self.bar.suspend(|| note(&format!("note: {message}")));
        }
    }

    fn checkpoint(&mut self) -> Option<Checkpoint> {
        self.file.as_ref().map(CheckpointFile::checkpoint)
    }
}

/// Chain by chain: draws (or transitions of the warm-up), step size and divergences; R-hat of all.
fn of_chains(chains: &[Option<ChainProgress>]) -> String {
    /// More would not fit on a line.
    const SHOWN: usize = 8;
    let one = |p: &Option<ChainProgress>| match p {
        None => "–".to_owned(),
        Some(p) if p.transitions < p.warmup => format!("warm-up {}", p.transitions),
        Some(p) => format!("{} ε{:.2e} {}÷", p.draws, p.step_size, p.divergences),
    };
    let mut parts: Vec<String> = chains.iter().take(SHOWN).map(one).collect();
    if chains.len() > SHOWN {
        parts.push("…".to_owned());
    }
    let r_hat = chains.iter().flatten().map(|p| p.r_hat).rfind(|r| r.is_finite());
    parts.extend(r_hat.map(|r| format!("R-hat {r:.3}")));
    parts.join(" | ")
}

/// Shows how many of several pieces of work are done.
pub struct Count {
    bar: ProgressBar,
}

impl Count {
    pub fn new(common: &Common, what: &str, total: usize) -> Count {
        let bar = ProgressBar::new(total as u64);
        if common.quiet {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        if let Ok(style) = ProgressStyle::with_template("{prefix} {bar:30} {pos}/{len}  {msg}  {elapsed}") {
            bar.set_style(style.progress_chars("━╸─"));
        }
        bar.set_prefix(what.to_owned());
        Count { bar }
    }

    pub fn begin(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    pub fn end(&self) {
        self.bar.inc(1);
    }

    pub fn done(self) {
        self.bar.finish_and_clear();
    }
}

/// Prints notes unless quiet.
pub fn notes(common: &Common, warnings: &[String]) {
    if !common.quiet {
        warnings.iter().for_each(|w| note(&format!("note: {w}")));
    }
}
