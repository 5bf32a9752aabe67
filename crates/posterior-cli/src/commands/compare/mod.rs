//! `posterior compare DATA --target COL`: methods on the same splits of the user's data, in parallel, resumable; one table.

mod cell;
mod report;
mod splits;
mod state;
mod table;

use super::{data_files, encode_options, read, recipe};
use crate::cli::Compare;
use crate::memory::{self, Gauge};
use crate::output::{check_writable, json, print};
use crate::progress::{Count, notes};
use cell::Outcome;
use posterior::artifact::write_file;
use posterior::data::{EncodeOptions, Encoder, Split, Table};
use posterior::error::suggest;
use posterior::inference::{METHODS, find};
use posterior::model::Choice;
use posterior::model::Recipe;
use posterior::model::{MODELS, find_model};
use posterior::nn::NetworkSpec;
use posterior::predict::Predictive;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// A method with the recipe it is fitted by.
pub struct Named {
    name: &'static str,
    recipe: Recipe,
    /// The recipe, as it was asked for and with every setting it resolves to: what a fit follows from.
    identity: String,
}

/// Everything that is to be done.
pub struct Plan {
    table: Table,
    options: EncodeOptions,
    splits: Vec<Split>,
    methods: Vec<Named>,
    /// Which of the methods the others are measured by.
    reference: Option<usize>,
    seed: u64,
    draws: usize,
}

/// What came of it: `cells[method][split]`.
pub struct Compared {
    plan: Plan,
    cells: Vec<Vec<Outcome>>,
    /// Fits taken from an earlier run.
    taken: usize,
}

pub fn run(args: &Compare) -> anyhow::Result<()> {
    let plan = plan(args)?;
    let inputs = data_files(&args.data.data, args.data.labels.as_ref()).into_iter();
    let inputs = inputs.chain(args.recipe.config.clone()).chain(args.test_rows.clone());
    args.report.as_deref().map_or(Ok(()), |out| check_writable(out, inputs))?;
    let data: Vec<&std::path::Path> =
        [Some(&args.data.data), args.data.labels.as_ref()].into_iter().flatten().map(|p| &**p).collect();
    let state = state::State::open(&args.state, &data, &format!("{:?}", args.data.text))?;
    let compared = work(args, plan, &state)?;
    let summary = table::Summary::of(&compared);
    if summary.rows.iter().all(|r| r.done == 0) {
        let why = summary.rows.iter().flat_map(|r| &r.failures).next().map_or(String::new(), |(_, why)| why.clone());
        anyhow::bail!("no method got through: {why}");
    }
    if let Some(path) = &args.report {
        write_file(path, report::page(&compared, &summary, &args.data.data).html().as_bytes())?;
    }
    if args.common.json {
        return json(&summary.as_json(args, &compared));
    }
    print(&summary.as_text(args, &compared))
}

fn plan(args: &Compare) -> anyhow::Result<Plan> {
    let mut names: Vec<&'static str> = Vec::new();
    let all: Vec<String> =
        METHODS.iter().map(|m| m.name).chain(MODELS.iter().map(|m| m.name)).map(String::from).collect();
    let given = if args.methods.is_empty() { &all } else { &args.methods };
    for name in given.iter().chain(&args.reference) {
        let name = match find_model(name.trim()) {
            Some(model) => model.name,
            None => find(name.trim())?.name,
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let reference = args.reference.as_ref().and_then(|r| names.iter().position(|n| n == r));
    let base = recipe::from_flags(&args.recipe, None)?;
    let settings_of = |method: &str| match find_model(method) {
        Some(model) => model.settings,
        None => find(method).map_or(&[][..], |m| m.settings),
    };
    let known = |method: &str, key: &str| settings_of(method).iter().any(|s| s.name == key);
    for key in base.method.settings.keys() {
        if !names.iter().any(|n| known(n, key)) {
            let settings: Vec<&str> = names.iter().flat_map(|n| settings_of(n).iter().map(|s| s.name)).collect();
            anyhow::bail!("none of the methods has a setting '{key}'; {}", suggest(key, settings));
        }
    }
    let table = read(&args.data, None)?;
    let mut options = encode_options(&args.target, &table)?;
    options.ignore.extend(args.group.clone());
    let splits = splits::of(args, &table, &options)?;
    let encoder = Encoder::fit(&table, &options)?.encoder;
    // A setting goes to every method that has it.
    let named = |name: &'static str| {
        let mut recipe = base.clone();
        recipe.method.name = Some(name.to_owned());
        recipe.method.settings.retain(|key, _| known(name, key));
        if find_model(name).is_some() {
            // Network and prior are those of the others.
            (recipe.network, recipe.prior) = (NetworkSpec::default(), Choice::default());
            recipe.layer_priors.clear();
        }
        let resolved = recipe.plan(&encoder)?.into_recipe();
        let identity = serde_json::to_string(&[&recipe, &resolved])?;
        Ok(Named { name, recipe, identity })
    };
    let methods = names.into_iter().map(named).collect::<anyhow::Result<Vec<Named>>>()?;
    let seed = args.common.seed.unwrap_or(0);
    Ok(Plan { table, options, splits, methods, reference, seed, draws: args.draws as usize })
}

/// The reference's predictions of a split, or nothing if it has none.
type Reference = OnceLock<Option<Arc<Predictive>>>;

/// Runs what an earlier run has not done: workers take fits from a queue, each in a pool of threads of its own, so that the seconds and
/// the memory of a fit are its own too.
fn work(args: &Compare, plan: Plan, state: &state::State) -> anyhow::Result<Compared> {
    let (methods, splits) = (plan.methods.len(), plan.splits.len());
    let mut cells: Vec<Vec<Outcome>> = vec![vec![Outcome::OutOfTime; splits]; methods];
    let references: Vec<Reference> = (0..splits).map(|_| Reference::new()).collect();
    let (mut first, mut queue, mut taken) = (VecDeque::new(), VecDeque::new(), 0);
    for split in 0..splits {
        let before: Vec<Option<Outcome>> = (0..methods).map(|m| state.get(&plan, m, split)).collect();
        let missing = (0..methods).any(|m| before[m].is_none());
        for (m, outcome) in before.into_iter().enumerate() {
            let is_reference = plan.reference == Some(m);
            // The others are measured by its predictions: without its model it must be fitted again.
            if is_reference && missing {
                let model = state.model(&plan, m, split);
                if let Some((predictive, _)) = model.and_then(|model| cell::predict(&plan, &model, split).ok()) {
                    let _ = references[split].set(Some(Arc::new(predictive)));
                }
            }
            let needed = is_reference && missing && references[split].get().is_none();
            match outcome {
                Some(outcome) if !needed => {
                    cells[m][split] = outcome;
                    taken += 1;
                }
                _ if is_reference => first.push_back((m, split)),
                _ => queue.push_back((m, split)),
            }
        }
    }
    first.append(&mut queue);
    if taken > 0 {
        notes(&args.common, &[format!("{taken} of {} fits are taken from {}", methods * splits, args.state.display())]);
    }
    let deadline = args.budget.map(|s| Instant::now() + Duration::from_secs_f64(s));
    let total = first.len();
    let threads = rayon::current_num_threads();
    let workers = threads.min(total).max(1);
    let count = Count::new(&args.common, "comparing", total);
    let (queue, results) = (Mutex::new(first), Mutex::new((cells, None)));
    let worker = || -> anyhow::Result<()> {
        loop {
            let Some((m, split)) = queue.lock().unwrap_or_else(|e| e.into_inner()).pop_front() else { return Ok(()) };
            count.begin(&format!("{}, split {split}", plan.methods[m].name));
            // New threads for every fit: what they keep for themselves is counted where it is first needed.
            let gauge: &'static Gauge = Box::leak(Box::default());
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads / workers)
                .start_handler(move |_| memory::count_into(gauge))
                .build()?;
            let outcome = pool.install(|| one(&plan, state, (m, split), deadline, &references, gauge));
            count.end();
            let mut results = results.lock().unwrap_or_else(|e| e.into_inner());
            match outcome {
                Ok(outcome) => results.0[m][split] = outcome,
                Err(e) => results.1 = results.1.take().or(Some(e)),
            }
        }
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        all.into_iter().try_for_each(|w| {
            w.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a worker stopped; report this as a bug")))
        })
    })?;
    count.done();
    let (cells, error) = results.into_inner().unwrap_or_else(|e| e.into_inner());
    match error {
        Some(e) => Err(e.into()),
        None => Ok(Compared { plan, cells, taken }),
    }
}

/// One fit, kept on disk when it is done. An error is one of writing.
fn one(
    plan: &Plan,
    state: &state::State,
    (m, split): (usize, usize),
    deadline: Option<Instant>,
    references: &[Reference],
    gauge: &Gauge,
) -> posterior::Result<Outcome> {
    let is_reference = plan.reference == Some(m);
    let late = deadline.is_some_and(|t| Instant::now() >= t);
    if late {
        if is_reference {
            let _ = references[split].set(None);
        }
        return Ok(Outcome::OutOfTime);
    }
    if is_reference {
        let mut kept = None;
        let outcome = cell::run(plan, m, split, deadline, None, gauge, &mut |model, predictive| {
            kept = Some((model.clone(), Arc::new(predictive.clone())));
        });
        let (model, predictive) = kept.unzip();
        let _ = references[split].set(predictive);
        if let Some(model) = model {
            state.put_model(plan, m, split, &model)?;
        }
        state.put(plan, m, split, &outcome)?;
        return Ok(outcome);
    }
    // References stand first in the queue: whoever works on this one does not wait for anybody.
    let reference = plan.reference.and_then(|_| references[split].wait().clone());
    let outcome = cell::run(plan, m, split, deadline, reference.as_deref(), gauge, &mut |_, _| {});
    if plan.reference.is_none() || reference.is_some() {
        state.put(plan, m, split, &outcome)?;
    }
    Ok(outcome)
}
