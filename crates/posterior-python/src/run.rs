//! Long work: on a thread of its own, while the calling thread listens to signals.
//!
//! The pool of threads is made for a call and ends with it, so that nothing is left that a fork could lose. Ctrl-C asks the work to stop through its observer and
//! waits for [`PATIENCE`]: what has been drawn by then is kept; work that hears it later ends by itself, and its result is thrown away.

use crate::error::{of_panic, to_python};
use posterior::inference::{Flow, Observer, Progress};
use pyo3::prelude::*;
use rayon::ThreadPool;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Between two looks at signals.
const LISTEN: Duration = Duration::from_millis(50);
/// How long work that was asked to stop is waited for.
const PATIENCE: Duration = Duration::from_millis(700);

/// What the work and the calling thread tell each other.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    warnings: Mutex<Vec<String>>,
    progress: Mutex<Option<Progress>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The observer of a fit.
pub struct Watch(Arc<Shared>);

impl Observer for Watch {
    fn progress(&mut self, progress: &Progress) -> Flow {
        *lock(&self.0.progress) = Some(*progress);
        if self.0.stop.load(Ordering::Relaxed) { Flow::Stop } else { Flow::Continue }
    }

    fn warn(&mut self, message: &str) {
        lock(&self.0.warnings).push(message.to_owned());
    }
}

/// What came of the work.
pub struct Done<T> {
    /// Its result.
    pub value: T,
    /// What the user should know.
    pub warnings: Vec<String>,
    /// The exception that a signal raised, where the work was cut short and gave what it had.
    pub interrupted: Option<PyErr>,
}

/// A pool of `jobs` threads; 0 means one per core, or as many as RAYON_NUM_THREADS says.
pub fn pool(jobs: usize) -> PyResult<ThreadPool> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(jobs)
        .build()
        .map_err(|e| pyo3::exceptions::PyOSError::new_err(format!("no threads could be started ({e}); lower n_jobs")))
}

/// Does work without the interpreter's lock; `progress` is called with (step, steps, objective) now and then.
pub fn work<T: Send + 'static>(
    py: Python<'_>,
    jobs: usize,
    progress: Option<&Bound<'_, PyAny>>,
    job: impl FnOnce(&mut Watch) -> posterior::Result<T> + Send + 'static,
) -> PyResult<Done<T>> {
    let shared = Arc::new(Shared::default());
    let (pool, mut watch) = (pool(jobs)?, Watch(shared.clone()));
    let (sender, receiver) = channel();
    std::thread::Builder::new().name("posterior".to_owned()).spawn(move || {
        let result = catch_unwind(AssertUnwindSafe(|| pool.install(|| job(&mut watch))));
        // Nobody listens any more where the user has interrupted.
        let _ = sender.send(result);
    })?;
    let receiver = Mutex::new(receiver);
    let wait = |time: Duration| py.detach(|| lock(&receiver).recv_timeout(time));
    let mut interrupted = None;
    let result = loop {
        match wait(if interrupted.is_some() { PATIENCE } else { LISTEN }) {
            Ok(result) => break result,
            Err(RecvTimeoutError::Disconnected) => break Err(Box::new("a thread ended") as Box<_>),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Some(error) = interrupted {
            return Err(error);
        }
        let told = progress.map_or(Ok(()), |call| match lock(&shared.progress).take() {
            Some(p) => call.call1((p.step, p.steps, p.objective)).map(drop),
            None => Ok(()),
        });
        if let Err(error) = py.check_signals().and(told) {
            shared.stop.store(true, Ordering::Relaxed);
            interrupted = Some(error);
        }
    };
    match (result.map_err(of_panic)?, interrupted) {
        (Ok(value), interrupted) => {
            let warnings = std::mem::take(&mut *lock(&shared.warnings));
            Ok(Done { value, warnings, interrupted })
        }
        (Err(_), Some(error)) => Err(error),
        (Err(error), None) => Err(to_python(error)),
    }
}
