//! Progress, seen from outside: the library never prints.

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

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    Continue,
    /// Stop now; the fit returns [`crate::ErrorKind::Interrupted`].
    Stop,
}

/// Watches a fit.
pub trait Observer: Send {
    /// Called every few steps.
    fn progress(&mut self, progress: &Progress) -> Flow;

    /// Something the user should know.
    fn warn(&mut self, message: &str);
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
