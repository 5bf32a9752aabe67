//! Progress, seen from outside: the library never prints.

use super::checkpoint::Checkpoint;

/// How far a fit is.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Steps done.
    pub step: u64,
    /// Steps planned.
    pub steps: u64,
    /// Epochs begun.
    pub epoch: usize,
    /// Epochs planned.
    pub epochs: usize,
    /// The objective (log joint or ELBO) over the last whole epoch; not-a-number before there is one.
    pub objective: f64,
}

/// How far one of several chains is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChainProgress {
    /// Which chain, from 0.
    pub chain: usize,
    /// How many there are.
    pub chains: usize,
    /// Transitions done, the warm-up's included.
    pub transitions: usize,
    /// Transitions planned.
    pub of: usize,
    /// How many of them are warm-up.
    pub warmup: usize,
    /// Draws kept.
    pub draws: usize,
    /// The step size of the next transition.
    pub step_size: f64,
    /// Transitions after warm-up that diverged.
    pub divergences: u64,
    /// R-hat of the log density over all chains so far; not-a-number while it is too early to say.
    pub r_hat: f64,
}

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    Continue,
    /// Stop now; the fit returns [`crate::ErrorKind::Interrupted`], or, if it samples, what was drawn so far.
    Stop,
}

/// Watches a fit.
pub trait Observer: Send {
    /// Called every few steps.
    fn progress(&mut self, progress: &Progress) -> Flow;

    /// Called by samplers after every turn of a chain, beside `progress`.
    fn chain(&mut self, _: &ChainProgress) -> Flow {
        Flow::Continue
    }

    /// Something the user should know.
    fn warn(&mut self, message: &str);

    /// Where the fit finds and leaves the states of its units, if anybody wants them.
    fn checkpoint(&mut self) -> Option<Checkpoint> {
        None
    }
}

/// Watches nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn progress(&mut self, _: &Progress) -> Flow {
        Flow::Continue
    }
    fn warn(&mut self, _: &str) {}
}
