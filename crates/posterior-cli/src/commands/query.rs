//! `posterior query MODEL POOL`: which rows to label next, and why.

use super::{how, read};
use crate::cli::{Data, Query};
use crate::output::{count, json, number, print, table};
use crate::progress::notes;
use anyhow::bail;
use posterior::artifact;
use posterior::data::{Encoded, Values};
use posterior::decide::{Batch, Draws, QueryScore, choose, scores};
use posterior::fitted::Route;
use posterior::model::Model;
use posterior::rng::{Key, Purpose, Stream};
use posterior::settings::{OptionValue, Value};
use serde_json::json;

/// Rows of the pool that stand for what is to be predicted.
const TARGETS: usize = 200;

pub fn run(args: &Query) -> anyhow::Result<()> {
    let model = artifact::load(&args.model)?;
    let pool = encoded(args, &model, &args.data)?;
    let word = |text: &str| Value::Text(text.to_owned());
    let Some(score) = QueryScore::of_value(&word(&args.score)) else { bail!("'{}' is no score", args.score) };
    let Some(batch) = Batch::of_value(&word(&args.batch)) else { bail!("'{}' is no way to choose", args.batch) };
    let key = Key::new(args.common.seed.unwrap_or(model.seed));
    let own = draws(args, &model, &pool.data.x)?;
    let mut said = Vec::new();
    let targets = match (&args.targets, score) {
        (Some(path), QueryScore::Epig) => {
            let data = Data { data: path.clone(), labels: None, text: args.data.text.clone() };
            Some(draws(args, &model, &encoded(args, &model, &data)?.data.x)?)
        }
        (None, QueryScore::Epig) => {
            let mut rows: Vec<usize> = (0..pool.data.rows).collect();
            Stream::new(key.purpose(Purpose::Split)).shuffle(&mut rows);
            rows.truncate(TARGETS);
            said.push(format!(
                "{} of the pool stand for what is to be predicted; --for names a file instead",
                count(rows.len(), "row")
            ));
            Some(draws(args, &model, &pool.data.x.rows(&rows, pool.data.shape.len()))?)
        }
        (Some(_), _) => bail!("--for says which rows are to be predicted, and only --score epig asks for them"),
        _ => None,
    };
    let all = scores(score, &own, targets.as_ref())?;
    let n = (args.n as usize).min(all.len());
    if n < args.n as usize {
        said.push(format!("the pool has {} only", count(n, "row")));
    }
    if batch == Batch::Joint && score != QueryScore::Bald {
        said.push("batchbald chooses by bald, whatever the score".to_owned());
    }
    if all.iter().all(|s| *s <= 1e-12) && score != QueryScore::Entropy {
        said.push(format!(
            "every row has a {} of 0: this model says of no row that a label would teach it anything",
            args.score
        ));
    }
    notes(&args.common, &said);
    let chosen = choose(batch, n, &all, &own, key);
    let mean = all.iter().sum::<f64>() / all.len().max(1) as f64;
    if args.common.json {
        let rows: Vec<_> = chosen.iter().map(|(i, s)| json!({ "row": pool.kept_rows[*i], "score": s })).collect();
        return json(
            &json!({ "rows": rows, "score": args.score, "batch": args.batch, "pool": all.len(), "mean_score": mean }),
        );
    }
    let rows: Vec<Vec<String>> = chosen.iter().map(|(i, s)| vec![pool.kept_rows[*i].to_string(), number(*s)]).collect();
    print(&table(&["row", args.score.as_str()], &rows))?;
    print(&format!("{}; the mean over the pool is {}\n", reason(score), number(mean)))
}

fn reason(score: QueryScore) -> &'static str {
    match score {
        QueryScore::Epig => "epig: nats that a label is expected to teach of the rows to be predicted",
        QueryScore::Bald => "bald: nats that a label is expected to teach of the model",
        QueryScore::Entropy => {
            "entropy: how uncertain the prediction is, in nats, noise that no label removes included"
        }
        QueryScore::Variance => "variance: how far draws of the model are apart",
        QueryScore::Variation => "variation: 1 minus the probability of the most probable class",
    }
}

fn encoded(args: &Query, model: &Model, data: &Data) -> anyhow::Result<Encoded> {
    let encoded = model.encoder.encode(&read(data, Some(&model.encoder))?, false)?;
    notes(&args.common, &encoded.warnings);
    if encoded.data.rows == 0 {
        bail!("{} has no row to choose from", data.data.display());
    }
    Ok(encoded)
}

fn draws(args: &Query, model: &Model, x: &Values) -> anyhow::Result<Draws> {
    let how = how(model, args.draws, false, &args.common).by(Route::Draws);
    let mut all: Option<Draws> = None;
    model.predict_blocks(x, &how, |_, raw| {
        let next = Draws::of(&model.calibrated(raw))?;
        match &mut all {
            Some(all) => all.append(next),
            None => all = Some(next),
        }
        Ok(())
    })?;
    all.ok_or_else(|| anyhow::anyhow!("there is no row"))
}
