//! Scores of a fit on rows that were held back: a second fit, to the other rows, is scored; the model that is kept is fitted to all of them.
//!
//! The table is split before anything is learnt from it, scales and categories included, so that nothing of the rows held back is in the scored fit.

use super::how;
use crate::cli::Fit;
use crate::output::number;
use crate::progress::Terminal;
use posterior::data::{EncodeOptions, Split, Table, TargetKind, folds_in_time, folds_of_groups, split};
use posterior::inference::{ChainProgress, Flow, Observer, Progress};
use posterior::model::{Model, Recipe};
use posterior::rng::Key;
use posterior::score::{Needs, Rated, ScoreBuilder, rate};
use serde_json::{Map, Value, json};

/// Draws from the posterior that is scored.
const DRAWS: u32 = 100;

pub struct HeldOut {
    train: usize,
    rows: usize,
    rated: Vec<Rated>,
}

impl HeldOut {
    /// Fits the recipe again without a part of the rows, and scores it there; `model` is the fit to all of them.
    pub fn of(
        args: &Fit,
        recipe: &Recipe,
        table: &Table,
        options: &EncodeOptions,
        model: &Model,
    ) -> anyhow::Result<HeldOut> {
        let seed = args.common.seed.unwrap_or(0);
        let split = rows(args, table, model, Key::new(seed))?;
        let mut terminal = Terminal::new(&args.common, "fitting without the rows held back");
        let fitted = Model::fit(recipe, &table.select(&split.train), options, seed, &mut Quiet(&mut terminal));
        terminal.done();
        let fitted = fitted?;
        let test = fitted.encoder.encode(&table.select(&split.validation), true)?;
        let outcome = fitted.likelihood().outcome();
        let mut builder = ScoreBuilder::new(outcome, Needs::all()).with_room(test.data.y.len());
        let each = test.data.targets;
        fitted.predict_blocks(&test.data.x, &how(&fitted, DRAWS, false, &args.common), |part, raw| {
            let y = fitted.encoder.decode_target(&test.data.y[part.start * each..part.end * each]);
            builder.push(&raw, &y);
            Ok(())
        })?;
        let scored = builder.finish();
        Ok(HeldOut { train: fitted.rows, rows: scored.rows(), rated: rate(&scored, Key::new(seed)) })
    }

    /// For people: the scores that a table of methods shows.
    pub fn line(&self) -> String {
        let score = |r: &Rated| {
            let value = r.value.as_ref().ok().filter(|_| r.metric.short)?;
            let error = r.standard_error.map_or(String::new(), |e| format!(" ± {}", number(e)));
            Some(format!("{} {}{error}", r.metric.name, number(*value)))
        };
        let scores: Vec<String> = self.rated.iter().filter_map(score).collect();
        format!(
            "{}; on {} rows held back from a second fit to the other {} (the model is fitted to all)",
            scores.join(", "),
            self.rows,
            self.train
        )
    }

    pub fn as_json(&self) -> Value {
        let mut object = Map::from_iter([("n".to_owned(), json!(self.rows)), ("train".to_owned(), json!(self.train))]);
        object.extend(self.rated.iter().map(|r| (r.metric.name.to_owned(), json!(r.value.as_ref().ok()))));
        Value::Object(object)
    }
}

/// Which rows of the table are held back: at random, whole groups, or the last.
fn rows(args: &Fit, table: &Table, model: &Model, key: Key) -> anyhow::Result<Split> {
    let encoded = model.encoder.encode(table, true)?;
    let kept = &encoded.kept_rows;
    let parts = (1.0 / args.holdout).round().max(2.0) as usize;
    let found = if let Some(name) = &args.group {
        let column = table.column(name)?;
        let groups: Vec<Option<String>> = kept.iter().map(|r| column.text(*r)).collect();
        folds_of_groups(&groups, parts, key)?.remove(0)
    } else if let Some(name) = &args.time {
        let times = table.times(name)?;
        let times: Vec<f64> = kept.iter().map(|r| times[*r]).collect();
        // Of as many periods, the last.
        let mut periods = folds_in_time(&times, parts - 1)?;
        periods.remove(periods.len() - 1)
    } else {
        let classes = matches!(model.encoder.target_kind(), TargetKind::Class { .. }).then_some(&*encoded.data.y);
        split(encoded.data.rows, args.holdout, classes, key)?
    };
    let of_table = |part: Vec<usize>| part.into_iter().map(|i| kept[i]).collect();
    Ok(Split { train: of_table(found.train), validation: of_table(found.validation) })
}

/// An observer that shows progress: what there is to note about the table was noted at the first fit.
struct Quiet<'a>(&'a mut Terminal);

impl Observer for Quiet<'_> {
    fn progress(&mut self, progress: &Progress) -> Flow {
        self.0.progress(progress)
    }

    fn chain(&mut self, progress: &ChainProgress) -> Flow {
        self.0.chain(progress)
    }

    fn warn(&mut self, _: &str) {}
}
