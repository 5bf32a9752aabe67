//! Several independent fits of one problem side by side: what mixtures and ensembles share.
//!
//! Member k is keyed by (key, member, k) alone, so that neither threads nor the number of members change it. As many run at a
//! time as there are threads: more would only hold memory, and their own parallel parts would nest without bound.

use super::checkpoint::Checkpoint;
use super::observer::{Flow, Observer, Progress};
use super::train::{EpochRecord, FitSummary};
use super::{Fit, Method};
use crate::error::{ErrorKind, Result};
use crate::problem::Problem;
use crate::rng::{Key, Purpose};
use rayon::prelude::*;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Fits `count` members with the same method; in order, with a summary of them all.
pub(super) fn fit_members(
    method: &dyn Method,
    count: usize,
    problem: &Problem,
    key: Key,
    observer: &mut dyn Observer,
) -> Result<(Vec<Fit>, FitSummary)> {
    fit_each(method, &vec![problem.clone(); count], key, observer)
}

/// Fits a member to each problem, as [`fit_members`] does to one.
pub(super) fn fit_each(
    method: &dyn Method,
    problems: &[Problem],
    key: Key,
    observer: &mut dyn Observer,
) -> Result<(Vec<Fit>, FitSummary)> {
    let started = Instant::now();
    let key = key.purpose(Purpose::Member);
    let fit = |k: usize, observer: &mut dyn Observer| method.fit(&problems[k], key.derive(k as u64), observer);
    let fits = side_by_side(problems.len(), observer, fit)?;
    let summaries: Vec<&FitSummary> = fits.iter().map(|f| &f.summary).collect();
    let summary = FitSummary { seconds: started.elapsed().as_secs_f64(), ..average(&summaries) };
    Ok((fits, summary))
}

/// Does `count` jobs that report to one observer, as many at a time as there are threads; what they give, in order.
pub(crate) fn side_by_side<T: Send>(
    count: usize,
    observer: &mut dyn Observer,
    job: impl Fn(usize, &mut dyn Observer) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let audience = SharedObserver::new(observer, count);
    let mut results = Vec::with_capacity(count);
    let members: Vec<usize> = (0..count).collect();
    for wave in members.chunks(rayon::current_num_threads().max(1)) {
        let done: Vec<Result<T>> = wave
            .par_iter()
            .map(|&k| {
                let mut seat = MemberObserver { audience: &audience, member: k };
                let result = job(k, &mut seat);
                audience.lock().end(k, result.is_err());
                result
            })
            .collect();
        // A member that failed stops the others: its error is the one to tell.
        let (failed, done): (Vec<_>, Vec<_>) = done.into_iter().partition(Result::is_err);
        let mut errors: Vec<_> = failed.into_iter().filter_map(Result::err).collect();
        if !errors.is_empty() {
            let cause = errors.iter().position(|e| !matches!(e.kind(), ErrorKind::Interrupted)).unwrap_or(0);
            return Err(errors.swap_remove(cause));
        }
        results.extend(done.into_iter().filter_map(Result::ok));
    }
    Ok(results)
}

/// One summary of several: steps of all together, records averaged.
fn average(members: &[&FitSummary]) -> FitSummary {
    let traces: Vec<&[EpochRecord]> = members.iter().map(|s| &s.trace[..]).collect();
    let mean = |records: &[&EpochRecord]| {
        let of = |f: fn(&EpochRecord) -> f64| records.iter().map(|r| f(r)).sum::<f64>() / records.len() as f64;
        EpochRecord {
            epoch: records.iter().map(|r| r.epoch).max().unwrap_or(0),
            objective: of(|r| r.objective),
            nll: of(|r| r.nll),
            penalty: of(|r| r.penalty),
            beta: of(|r| r.beta),
        }
    };
    // Where patience ran out at different epochs: those that all have, then the ends, which are what is returned.
    let ends: Vec<&EpochRecord> = traces.iter().filter_map(|t| t.last()).collect();
    let first_end = ends.iter().map(|e| e.epoch).min().unwrap_or(0);
    let shared = traces.first().into_iter().flat_map(|t| t.iter()).filter(|r| r.epoch < first_end);
    let mut trace: Vec<EpochRecord> = shared
        .filter_map(|r| {
            let at = |t: &&[EpochRecord]| t.binary_search_by_key(&r.epoch, |r| r.epoch).ok();
            let same: Option<Vec<&EpochRecord>> = traces.iter().map(|t| at(t).map(|i| &t[i])).collect();
            same.map(|records| mean(&records))
        })
        .collect();
    if !ends.is_empty() {
        trace.push(mean(&ends));
    }
    FitSummary {
        steps: members.iter().map(|s| s.steps).sum(),
        seconds: members.iter().map(|s| s.seconds).sum(),
        stopped_early: members.iter().any(|s| s.stopped_early),
        penalty_name: members.first().map(|s| s.penalty_name.clone()).unwrap_or_default(),
        epochs: members.iter().map(|s| s.epochs).max().unwrap_or(0),
        trace,
    }
}

/// The one observer, shared by the members.
struct SharedObserver<'o>(Mutex<Shared<'o>>);

struct Shared<'o> {
    observer: &'o mut dyn Observer,
    /// The last word of each member that has begun.
    last: Vec<Option<Progress>>,
    warned: Vec<String>,
    stop: bool,
}

impl<'o> SharedObserver<'o> {
    fn new(observer: &'o mut dyn Observer, members: usize) -> Self {
        SharedObserver(Mutex::new(Shared { observer, last: vec![None; members], warned: Vec::new(), stop: false }))
    }

    fn lock(&self) -> MutexGuard<'_, Shared<'o>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared<'_> {
    /// Steps and epochs of all members together; the mean of the objectives there are.
    fn together(&self, example: &Progress) -> Progress {
        let begun = || self.last.iter().flatten();
        // Those that have not begun are taken to be as long as the one that speaks.
        let all = || self.last.iter().map(|p| p.unwrap_or(*example));
        let objectives: Vec<f64> = begun().map(|p| p.objective).filter(|o| !o.is_nan()).collect();
        Progress {
            step: begun().map(|p| p.step).sum(),
            steps: all().map(|p| p.steps).sum(),
            epoch: begun().map(|p| p.epoch).sum(),
            epochs: all().map(|p| p.epochs).sum(),
            objective: objectives.iter().sum::<f64>() / objectives.len() as f64,
        }
    }

    /// A member is through, maybe before its last step.
    fn end(&mut self, member: usize, failed: bool) {
        self.stop |= failed;
        if let Some(last) = &mut self.last[member] {
            (last.step, last.epoch) = (last.steps, last.epochs);
        }
    }
}

/// A member's view of the observer.
struct MemberObserver<'a, 'o> {
    audience: &'a SharedObserver<'o>,
    member: usize,
}

impl Observer for MemberObserver<'_, '_> {
    fn progress(&mut self, progress: &Progress) -> Flow {
        let mut shared = self.audience.lock();
        shared.last[self.member] = Some(*progress);
        if !shared.stop {
            let together = shared.together(progress);
            shared.stop = shared.observer.progress(&together) == Flow::Stop;
        }
        if shared.stop { Flow::Stop } else { Flow::Continue }
    }

    /// What several members say, numbers aside, is told once.
    fn warn(&mut self, message: &str) {
        let mut shared = self.audience.lock();
        let words: String = message.chars().filter(|c| c.is_alphabetic()).collect();
        if !shared.warned.contains(&words) {
            shared.warned.push(words);
            shared.observer.warn(message);
        }
    }

    /// Units have keys of their own: those of all members stand side by side.
    fn checkpoint(&mut self) -> Option<Checkpoint> {
        self.audience.lock().observer.checkpoint()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Silent;
    use super::*;
    use crate::data::{Dataset, Values};
    use crate::error::Error;
    use crate::likelihood::Outcome;
    use crate::model::Recipe;
    use crate::nn::Shape;
    use crate::settings::Settings;

    /// The member of one key fails; the others run until they are stopped.
    #[derive(Debug)]
    struct Failing(Key, Settings);

    impl Method for Failing {
        fn name(&self) -> &'static str {
            "failing"
        }
        fn settings(&self) -> &Settings {
            &self.1
        }
        fn fit(&self, _: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
            if key == self.0 {
                return Err(Error::numerical("it broke down", "mend it"));
            }
            let progress = Progress { step: 1, steps: 2, epoch: 1, epochs: 2, objective: f64::NAN };
            while observer.progress(&progress) == Flow::Continue {
                std::thread::yield_now();
            }
            Err(ErrorKind::Interrupted.into())
        }
    }

    #[test]
    fn the_member_that_fails_stops_the_others_and_its_error_is_told() {
        let data = Dataset::new(Values::F64(vec![0.0, 1.0].into()), Shape::Flat(1), vec![0.0, 1.0], 1);
        let problem = Recipe::default().resolve_for(Shape::Flat(1), Outcome::Real, 1).unwrap().problem(data).unwrap();
        let key = Key::new(1);
        let last = key.purpose(Purpose::Member).derive(3);
        let method = Failing(last, Settings::resolve(&[], &[], "").unwrap());
        // Four threads, so that all four members run at a time.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap();
        let error = pool.install(|| fit_members(&method, 4, &problem, key, &mut Silent)).unwrap_err();
        assert_eq!(error.to_string(), "it broke down; mend it");
    }
}
