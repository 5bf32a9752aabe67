//! `posterior decide MODEL DATA --costs COSTS.csv`: what to do with every row, what it is expected to cost, what knowing more would save.

use super::{data_files, how, read};
use crate::cli::{Data, Decide};
use crate::output::{check_writable, count, facts, json, number, print};
use crate::progress::notes;
use anyhow::bail;
use posterior::artifact;
use posterior::data::{Encoded, ReadOptions, Table, guarded, split};
use posterior::decide::{ClassDraws, Costs, Draws, Guarantee, Loss, Realised, realised, risk_control};
use posterior::fitted::Route;
use posterior::model::Model;
use posterior::rng::{Key, Purpose};
use serde_json::{Value, json};
use std::path::Path;

/// One row of the answer.
struct Row {
    row: usize,
    action: Action,
    expected_cost: f64,
    saved_by_label: f64,
    saved_by_data: f64,
}

enum Action {
    Named(String),
    Number(f64),
}

pub fn run(args: &Decide) -> anyhow::Result<()> {
    let inputs = data_files(&args.data.data, args.data.labels.as_ref()).into_iter();
    let inputs = inputs.chain([args.model.clone()]).chain(args.costs.clone()).chain(args.labelled.clone());
    args.out.as_deref().map_or(Ok(()), |out| check_writable(out, inputs))?;
    let model = artifact::load(&args.model)?;
    let table = read(&args.data, Some(&model.encoder))?;
    let labelled = is_labelled(&model, &table);
    let encoded = model.encoder.encode(&table, labelled)?;
    notes(&args.common, &encoded.warnings);
    let (rows, summary) = match (&args.costs, &args.loss) {
        (Some(costs), _) => by_costs(args, &model, &encoded, labelled, costs)?,
        (None, Some(loss)) => by_loss(args, &model, &encoded, labelled, loss)?,
        (None, None) => bail!("what do actions cost? give --costs FILE, or --loss for numbers"),
    };
    if args.common.json {
        let rows: Vec<Value> = rows.iter().map(Row::json).collect();
        if let Some(out) = &args.out {
            artifact::write_file(out, format!("{:#}\n", json!({ "rows": rows, "summary": summary.json })).as_bytes())?;
            return json(&json!({ "summary": summary.json, "file": out.display().to_string() }));
        }
        return json(&json!({ "rows": rows, "summary": summary.json }));
    }
    let csv: String = rows.iter().map(Row::csv).collect();
    let csv = format!("action,expected_cost,saved_by_label,saved_by_data\n{csv}");
    match &args.out {
        Some(out) => {
            artifact::write_file(out, csv.as_bytes())?;
            print(&facts(&summary.facts))
        }
        None => {
            print(&csv)?;
            notes(
                &args.common,
                &summary.facts.iter().map(|(name, text)| format!("{name}: {text}")).collect::<Vec<_>>(),
            );
            Ok(())
        }
    }
}

/// What is said of all rows.
struct Summary {
    facts: Vec<(&'static str, String)>,
    json: Value,
}

/// Whether every row has an outcome.
fn is_labelled(model: &Model, table: &Table) -> bool {
    let name = &model.encoder.target.name;
    table.get(name).is_some_and(|c| (0..table.rows()).all(|r| !c.is_missing(r)))
}

fn class_draws(args: &Decide, model: &Model, encoded: &Encoded) -> anyhow::Result<ClassDraws> {
    let mut all: Option<Draws> = None;
    model.predict_blocks(&encoded.data.x, &how(model, args.draws, false, &args.common), |_, raw| {
        let next = Draws::of(&model.calibrated(raw))?;
        match &mut all {
            Some(all) => all.append(next),
            None => all = Some(next),
        }
        Ok(())
    })?;
    match all {
        Some(Draws::Classes(draws)) => Ok(draws),
        Some(Draws::Real(_)) => bail!("a table of costs is for classes, and the model predicts numbers; give --loss"),
        None => bail!("there is no row to decide on"),
    }
}

fn by_costs(
    args: &Decide,
    model: &Model,
    encoded: &Encoded,
    labelled: bool,
    path: &Path,
) -> anyhow::Result<(Vec<Row>, Summary)> {
    let classes = model.encoder.class_names();
    if classes.is_empty() {
        bail!("a table of costs is for classes, and the model predicts numbers; give --loss");
    }
    let costs = Table::read(path, &ReadOptions { text: vec!["action".into()], ..ReadOptions::default() })?;
    let costs = Costs::from_table(&costs, classes).map_err(|e| e.in_file(path))?;
    let draws = class_draws(args, model, encoded)?;
    let mut decisions = costs.decide(&draws);
    let y: Vec<usize> = encoded.data.y.iter().map(|y| *y as usize).collect();
    let (mut guarantee, mut judged): (Option<(Guarantee, String)>, Vec<usize>) = (None, (0..draws.rows()).collect());
    if let Some(level) = args.guarantee {
        let Some(fallback) = costs.fallback() else {
            bail!(
                "a guarantee needs an action named 'ask' or 'abstain' for the rows that are not acted on; add one to {}",
                path.display()
            );
        };
        let (acting, numbers) = costs.acting();
        if numbers.is_empty() {
            bail!(
                "{} has no action but '{}'; add the actions it is an alternative to",
                path.display(),
                costs.actions[fallback]
            );
        }
        let own = acting.decide(&draws);
        let learn = |expected: Vec<f64>, cost: Vec<f64>| {
            let most = acting.cost.iter().copied().fold(0.0, f64::max);
            risk_control(&expected, &cost, most, level)
        };
        let found = match &args.labelled {
            Some(file) => {
                let data = Data { data: file.clone(), labels: None, text: args.data.text.clone() };
                let other = model.encoder.encode(&read(&data, Some(&model.encoder))?, true)?;
                notes(&args.common, &other.warnings);
                let decided = acting.decide(&class_draws(args, model, &other)?);
                let cost =
                    decided.iter().zip(other.data.y.iter()).map(|(d, y)| acting.at(d.action, *y as usize)).collect();
                (learn(decided.iter().map(|d| d.expected_cost).collect(), cost), file.display().to_string())
            }
            None if labelled => {
                let key = Key::new(args.common.seed.unwrap_or(model.seed)).purpose(Purpose::Split);
                let halves = split(y.len(), 0.5, None, key)?;
                let expected = halves.train.iter().map(|i| own[*i].expected_cost).collect();
                let cost = halves.train.iter().map(|i| acting.at(own[*i].action, y[*i])).collect();
                judged = halves.validation;
                (learn(expected, cost), "half of the rows, chosen at random".to_owned())
            }
            None => bail!("a guarantee is learned from rows with known outcomes; give them with --labelled FILE"),
        };
        for (n, (d, own)) in decisions.iter_mut().zip(&own).enumerate() {
            let acts = own.expected_cost <= found.0.threshold;
            *d = costs.forced(d, if acts { numbers[own.action] } else { fallback }, &draws.mean(n));
        }
        guarantee = Some(found);
    }
    let realised = labelled.then(|| {
        let part = ClassDraws { p: judged.iter().flat_map(|n| draws.row(*n).to_vec()).collect(), ..draws.clone() };
        let chosen: Vec<_> = judged.iter().map(|n| decisions[*n]).collect();
        let y: Vec<usize> = judged.iter().map(|n| y[*n]).collect();
        let risk = args.guarantee.map(|_| {
            let acted = |(d, y): (&posterior::decide::Decision, &usize)| {
                if Some(d.action) == costs.fallback() { 0.0 } else { costs.at(d.action, *y) }
            };
            chosen.iter().zip(&y).map(acted).sum::<f64>() / y.len().max(1) as f64
        });
        (realised(&costs, classes, &part, &chosen, &y), risk)
    });
    let summary = summary(&costs, &decisions, guarantee.as_ref(), realised.as_ref());
    let rows = decisions.iter().zip(&encoded.kept_rows).map(|(d, row)| Row {
        row: *row,
        action: Action::Named(costs.actions[d.action].clone()),
        expected_cost: d.expected_cost,
        saved_by_label: d.saved_by_label,
        saved_by_data: d.saved_by_data,
    });
    Ok((rows.collect(), summary))
}

fn summary(
    costs: &Costs,
    decisions: &[posterior::decide::Decision],
    guarantee: Option<&(Guarantee, String)>,
    realised: Option<&(Realised, Option<f64>)>,
) -> Summary {
    let n = decisions.len().max(1) as f64;
    let mean = |of: &dyn Fn(&posterior::decide::Decision) -> f64| decisions.iter().map(of).sum::<f64>() / n;
    let counts: Vec<usize> =
        (0..costs.actions.len()).map(|a| decisions.iter().filter(|d| d.action == a).count()).collect();
    let named: Vec<String> = costs.actions.iter().zip(&counts).map(|(a, c)| format!("{a} {c}")).collect();
    let (cost, label, data) = (mean(&|d| d.expected_cost), mean(&|d| d.saved_by_label), mean(&|d| d.saved_by_data));
    let mut facts = vec![
        ("actions", named.join(", ")),
        (
            "expected cost",
            format!("{} a row; a label would save {}, more data at most {}", number(cost), number(label), number(data)),
        ),
    ];
    let actions: serde_json::Map<String, Value> =
        costs.actions.iter().cloned().zip(counts.iter().map(|c| json!(c))).collect();
    let mut all = json!({ "actions": actions, "expected_cost": cost, "saved_by_label": label, "saved_by_data": data });
    if let Some((g, from)) = guarantee {
        let text = if g.threshold == f64::NEG_INFINITY {
            format!(
                "no row may be acted on: {} of known outcome cannot promise {} ({} are needed at least)",
                count(g.rows, "row"),
                number(g.level),
                g.rows_needed
            )
        } else {
            let where_ = if g.threshold == f64::INFINITY {
                "everywhere".to_owned()
            } else {
                format!("where the expected cost is at most {}", number(g.threshold))
            };
            format!("mean cost of acting at most {} for rows like those of {from}, acting {where_}", number(g.level))
        };
        facts.push(("guarantee", text));
        let threshold = g.threshold.is_finite().then_some(g.threshold);
        all["guarantee"] = json!({ "level": g.level, "threshold": threshold, "acts": g.threshold > f64::NEG_INFINITY, "rows": g.rows, "rows_needed": g.rows_needed });
    }
    if let Some((r, risk)) = realised {
        let mut text = format!("{} a row on {}", number(r.decided), count(r.rows, "row"));
        match r.most_probable {
            Some(v) => text += &format!("; {} by the most probable class", number(v)),
            None => {
                text += "; the most probable class cannot be compared, as not every class has an action of its name"
            }
        }
        if let Some((v, t)) = r.best_threshold {
            text += &format!("; {} by the best threshold ({}, chosen in hindsight)", number(v), number(t));
        }
        text += &format!("; {} by the best single action", number(r.best_constant));
        facts.push(("realised cost", text));
        let threshold = r.best_threshold.map(|t| json!({ "cost": t.0, "threshold": t.1.is_finite().then_some(t.1) }));
        all["realised"] = json!({
            "rows": r.rows, "cost": r.decided, "most_probable": r.most_probable, "best_threshold": threshold,
            "best_action": r.best_constant, "cost_of_acting": risk,
        });
    }
    Summary { facts, json: all }
}

fn by_loss(
    args: &Decide,
    model: &Model,
    encoded: &Encoded,
    labelled: bool,
    loss: &str,
) -> anyhow::Result<(Vec<Row>, Summary)> {
    let loss = Loss::parse(loss)?;
    let own = how(model, args.draws, false, &args.common);
    let mut decisions = Vec::with_capacity(encoded.data.rows);
    let mut real = Vec::with_capacity(encoded.data.rows);
    model.predict_blocks(&encoded.data.x, &own, |part, raw| {
        let width = encoded.data.shape.len();
        let x = encoded.data.x.range(part.start * width..part.end * width);
        let drawn = model.fitted.predict(&x, &own.clone().by(Route::Draws))?;
        let p = model.calibrated(raw);
        decisions.extend(loss.decide(&p, &drawn, model.likelihood())?);
        real.extend(p.real().mean);
        Ok(())
    })?;
    let n = decisions.len().max(1) as f64;
    let mean = |of: &dyn Fn(&posterior::decide::NumberDecision) -> f64| decisions.iter().map(of).sum::<f64>() / n;
    let (cost, data) = (mean(&|d| d.expected_cost), mean(&|d| d.saved_by_data));
    let text = format!("{} a row; more data would save at most {}", number(cost), number(data));
    let mut facts = vec![("expected cost", text)];
    let mut all = json!({ "expected_cost": cost, "saved_by_label": cost, "saved_by_data": data });
    if labelled {
        let y = model.encoder.decode_target(&encoded.data.y);
        let total = |a: &dyn Fn(usize) -> f64| y.iter().enumerate().map(|(i, y)| loss.of(a(i), *y)).sum::<f64>() / n;
        let (decided, means) = (total(&|i| decisions[i].action), total(&|i| real[i]));
        facts.push((
            "realised cost",
            format!("{} a row on {}; {} by the mean", number(decided), count(y.len(), "row"), number(means)),
        ));
        all["realised"] = json!({ "rows": y.len(), "cost": decided, "mean": means });
    }
    let rows = decisions.iter().zip(&encoded.kept_rows).map(|(d, row)| Row {
        row: *row,
        action: Action::Number(d.action),
        expected_cost: d.expected_cost,
        saved_by_label: d.saved_by_label,
        saved_by_data: d.saved_by_data,
    });
    Ok((rows.collect(), Summary { facts, json: all }))
}

impl Row {
    fn json(&self) -> Value {
        let action = match &self.action {
            Action::Named(name) => json!(name),
            Action::Number(v) => json!(v),
        };
        json!({
            "row": self.row, "action": action, "expected_cost": self.expected_cost,
            "saved_by_label": self.saved_by_label, "saved_by_data": self.saved_by_data,
        })
    }

    fn csv(&self) -> String {
        let action = match &self.action {
            Action::Named(name) => {
                let safe = guarded(name).unwrap_or_else(|| name.clone());
                if safe.contains([',', '"', '\n', '\r']) { format!("\"{}\"", safe.replace('"', "\"\"")) } else { safe }
            }
            Action::Number(v) => v.to_string(),
        };
        format!("{action},{},{},{}\n", self.expected_cost, self.saved_by_label, self.saved_by_data)
    }
}
