//! Checkpoints of a fit: units of work (a training, a chain) hand in their states when they are asked to, and begin where they were.
//!
//! A unit depends on its key alone, so that units may be handed in at different moments and each goes on from its own: the result has the same bits as a fit in
//! one go. Whoever holds the [`Checkpoint`] decides when states are asked for and where they are kept; the fit gets it through
//! [`Observer::checkpoint`](super::Observer::checkpoint). A unit at work looks at one atomic number a step; without a checkpoint at nothing.

use crate::error::{Error, Result};
use crate::rng::Key;
use crate::snapshot::{Snapshot, Stateful};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a fit follows from: a checkpoint of one fit is not for another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fingerprint {
    /// A hash of inputs, targets and weights of the rows.
    pub data: String,
    /// The recipe with every setting, as JSON.
    pub recipe: String,
    /// The seed.
    pub seed: u64,
    /// A hash of the model that the fit starts from, if it starts from one.
    pub start: Option<String>,
}

/// States of the units of a fit. Copies share them.
#[derive(Debug, Clone, Default)]
pub struct Checkpoint {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Requests so far.
    requests: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Where it was read from, for messages.
    path: Option<PathBuf>,
    fingerprint: Option<Fingerprint>,
    finished: bool,
    units: BTreeMap<String, Arc<Snapshot>>,
    /// Units at work, and the last request that each has answered.
    at_work: BTreeMap<String, u64>,
}

impl Checkpoint {
    /// An empty one.
    pub fn new() -> Checkpoint {
        Checkpoint::default()
    }

    pub(super) fn restored(
        path: Option<PathBuf>,
        fingerprint: Option<Fingerprint>,
        finished: bool,
        units: BTreeMap<String, Arc<Snapshot>>,
    ) -> Checkpoint {
        let inner = Inner { path, fingerprint, finished, units, at_work: BTreeMap::new() };
        Checkpoint { shared: Arc::new(Shared { requests: AtomicU64::new(0), inner: Mutex::new(inner) }) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.shared.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks every unit at work for its state, which it hands in after its next step.
    pub fn request(&self) {
        self.shared.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether every unit at work has answered the last request.
    pub fn is_complete(&self) -> bool {
        let last = self.shared.requests.load(Ordering::Relaxed);
        self.lock().at_work.values().all(|answered| *answered == last)
    }

    /// Whether the fit came to its end.
    pub fn is_finished(&self) -> bool {
        self.lock().finished
    }

    /// The fit came to its end.
    pub fn finish(&self) {
        self.lock().finished = true;
    }

    /// What fit this is a checkpoint of. An error where it was read from a file and is of another.
    pub fn identify(&self, fingerprint: Fingerprint) -> Result<()> {
        let mut inner = self.lock();
        let Some(of) = &inner.fingerprint else {
            inner.fingerprint = Some(fingerprint);
            return Ok(());
        };
        let differs = [
            ("other data", of.data != fingerprint.data),
            ("another model, likelihood, prior or method, or other settings", of.recipe != fingerprint.recipe),
            ("another seed", of.seed != fingerprint.seed),
            ("another model to start from", of.start != fingerprint.start),
        ];
        match differs.iter().find(|(_, differs)| *differs) {
            None => Ok(()),
            Some((what, _)) => {
                let what = format!("this is the checkpoint of a fit with {what}");
                let fix = "resume with the same data and settings, or begin anew";
                Err(inner.path.as_ref().map_or_else(|| Error::setting(&what, fix), |p| Error::artifact(p, &what, fix)))
            }
        }
    }

    pub(super) fn contents(&self) -> (Option<Fingerprint>, bool, BTreeMap<String, Arc<Snapshot>>) {
        let inner = self.lock();
        (inner.fingerprint.clone(), inner.finished, inner.units.clone())
    }

    /// The unit of a name, which is at work from now on. Of two units of a fit, names differ.
    pub fn unit(&self, name: impl Into<String>) -> Unit {
        let name = name.into();
        // A request before it began is none to it.
        let answered = self.shared.requests.load(Ordering::Relaxed);
        self.lock().at_work.insert(name.clone(), answered);
        Unit { checkpoint: self.clone(), name, answered }
    }
}

/// A part of a fit that depends on its key alone.
#[derive(Debug)]
pub struct Unit {
    checkpoint: Checkpoint,
    name: String,
    answered: u64,
}

impl Unit {
    /// Of a kind of work and the key that decides it.
    pub(super) fn of(checkpoint: Option<Checkpoint>, kind: &str, Key([a, b]): Key) -> Option<Unit> {
        checkpoint.map(|c| c.unit(format!("{kind}-{a:016x}{b:016x}")))
    }

    /// Takes the state where the unit was when it last handed it in; false where it never did.
    pub fn resume(&self, work: &mut dyn Stateful) -> Result<bool> {
        let saved = self.checkpoint.lock().units.get(&self.name).cloned();
        let Some(saved) = saved else { return Ok(false) };
        work.resume(&saved).map_err(|e| self.damaged(&e))?;
        Ok(true)
    }

    fn damaged(&self, error: &Error) -> Error {
        let what = format!("the state of '{}' cannot be used ({error})", self.name);
        match &self.checkpoint.lock().path {
            Some(path) => Error::artifact(path, what, "begin the fit anew"),
            None => Error::setting(what, "begin the fit anew"),
        }
    }

    /// Whether its state is asked for.
    #[inline]
    pub fn due(&self) -> bool {
        self.checkpoint.shared.requests.load(Ordering::Relaxed) != self.answered
    }

    /// Hands in the state.
    pub fn keep(&mut self, work: &mut dyn Stateful) -> Result<()> {
        let snapshot = Arc::new(work.snapshot()?);
        self.answered = self.checkpoint.shared.requests.load(Ordering::Relaxed);
        let mut inner = self.checkpoint.lock();
        inner.units.insert(self.name.clone(), snapshot);
        inner.at_work.insert(self.name.clone(), self.answered);
        Ok(())
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        self.checkpoint.lock().at_work.remove(&self.name);
    }
}

/// Does work whose result is a list of numbers, or takes the result from the checkpoint.
pub(super) fn once(unit: Option<Unit>, work: impl FnOnce() -> Result<Vec<f64>>) -> Result<Vec<f64>> {
    let Some(mut unit) = unit else { return work() };
    let mut result = Numbers(Vec::new());
    if !unit.resume(&mut result)? {
        result.0 = work()?;
        unit.keep(&mut result)?;
    }
    Ok(result.0)
}

struct Numbers(Vec<f64>);

impl Stateful for Numbers {
    fn state(&mut self, state: &mut crate::snapshot::State<'_>) -> Result<()> {
        state.vector("numbers", &mut self.0, usize::MAX)
    }
}
