//! A progress bar on a terminal, notes on standard error; neither when quiet.

use crate::cli::Common;
use crate::output::note;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use posterior::inference::{Flow, Observer, Progress};
use std::time::{Duration, Instant};

/// Between two updates of the bar.
const BETWEEN: Duration = Duration::from_millis(50);

/// Shows a fit to the user.
pub struct Terminal {
    bar: ProgressBar,
    quiet: bool,
    shown: Option<Instant>,
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
        Terminal { bar, quiet: common.quiet, shown: None }
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
            if p.objective.is_finite() {
                self.bar.set_message(format!("epoch {}/{}, objective {:.1}", p.epoch, p.epochs, p.objective));
            }
        }
        Flow::Continue
    }

    fn warn(&mut self, message: &str) {
        if !self.quiet {
            self.bar.suspend(|| note(&format!("note: {message}")));
        }
    }
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
