//! `posterior suggest DATA --target y --goal max`: which experiments to try next. The file is the state.

use super::read;
use crate::cli::{Data, Suggest};
use crate::output::{count, json, number, print, table};
use crate::progress::notes;
use anyhow::{Context, bail};
use posterior::data::{Column, Table};
use posterior::decide::{Acquisition, Dimension, Goal, Optimiser, Point, Space};
use posterior::settings::{OptionValue, Value};
use serde_json::json;
use std::path::Path;

pub fn run(args: &Suggest) -> anyhow::Result<()> {
    // A header alone is a state too: nothing has been tried.
    let header = args.space.as_ref().and_then(|_| only_header(&args.data.data));
    let data = if header.is_some() { None } else { Some(read(&args.data, None)?) };
    let names =
        header.or_else(|| data.as_ref().map(|d| d.column_names().map(str::to_owned).collect())).unwrap_or_default();
    let values = match &data {
        Some(data) => target(args, data)?,
        None if names.contains(&args.target) => Vec::new(),
        None => bail!("{} has no column '{}'", args.data.data.display(), args.target),
    };
    let left_out = |c: &String| *c == args.target || args.ignore.contains(c);
    let columns: Vec<String> = names.into_iter().filter(|c| !left_out(c)).collect();
    if columns.is_empty() {
        bail!(
            "{} has no input column beside '{}'; add what can be set in an experiment",
            args.data.data.display(),
            args.target
        );
    }
    let pool = match &args.pool {
        Some(path) => Some(read(&Data { data: path.clone(), labels: None, text: args.data.text.clone() }, None)?),
        None => None,
    };
    let mut said = Vec::new();
    let space = space(args, data.as_ref(), pool.as_ref(), &columns, &mut said)?;
    let Some(acquisition) = Acquisition::of_value(&Value::Text(args.acquisition.clone())) else {
        bail!("'{}' is no acquisition", args.acquisition)
    };
    let goal = if args.goal == "max" { Goal::Max } else { Goal::Min };
    let mut optimiser = Optimiser::new(space, goal, acquisition, args.common.seed.unwrap_or(0));
    if let Some(epsilon) = args.within {
        optimiser = optimiser.within(epsilon);
    }
    let (mut tried, mut pending) = (0, 0);
    for (row, value) in values.iter().enumerate() {
        let Some(data) = &data else { break };
        let Some(point) = optimiser.space().point(data, row, true)? else {
            bail!(
                "{}, line {}: an input is empty; fill it in, or leave the row out",
                args.data.data.display(),
                data.line(row)
            );
        };
        match value {
            Some(value) => {
                optimiser.tell(point, *value)?;
                tried += 1;
            }
            None => {
                optimiser.pend(point)?;
                pending += 1;
            }
        }
    }
    if tried == 0 && args.space.is_none() && pool.is_none() {
        bail!(
            "no row of {} has a value of '{}'; give results, or a --space to begin in",
            args.data.data.display(),
            args.target
        );
    }
    let n = args.n as usize;
    let points: Option<Vec<Point>> = pool.as_ref().map(|p| points_of(&optimiser, p)).transpose()?;
    let found = match &points {
        Some(points) => optimiser.ask_of(points, n)?,
        None => optimiser.ask(n)?,
    };
    if found.rows.len() < n {
        said.push(format!("only {} left to try", count(found.rows.len(), "point")));
    }
    if found.stop.is_none() {
        said.push(
            "there are too few values to learn from (one more than there are inputs): these points fill the space"
                .to_owned(),
        );
    }
    notes(&args.common, &said);
    let space = optimiser.space();
    if args.common.json {
        let rows: Vec<_> = found
            .rows
            .iter()
            .map(|s| {
                json!({
                    "row": s.row,
                    "inputs": inputs(space, &s.point),
                    "acquisition": s.acquisition,
                    "mean": s.expected.map(|e| e.0),
                    "std": s.expected.map(|e| e.1),
                })
            })
            .collect();
        let stop = found.stop.map(|s| {
            json!({
                "expected_gain": s.expected_gain, "epsilon": s.epsilon, "probability": s.probability,
                "stop": s.stop, "sentence": s.sentence(),
            })
        });
        let best = optimiser.best().map(|(point, value)| json!({ "inputs": inputs(space, point), "value": value }));
        return json(&json!({ "rows": rows, "stop": stop, "best": best, "tried": tried, "pending": pending }));
    }
    let mut head: Vec<&str> = space.names().iter().map(String::as_str).collect();
    head.extend(["mean", "std"]);
    if points.is_some() {
        head.insert(0, "row");
    }
    let cells = |s: &posterior::decide::Suggestion| {
        let row = points.is_some().then(|| s.row.map_or(String::new(), |r| r.to_string()));
        let numbers = s.expected.map_or([String::new(), String::new()], |(m, sd)| [number(m), number(sd)]);
        row.into_iter().chain(space.text(&s.point)).chain(numbers).collect::<Vec<String>>()
    };
    print(&table(&head, &found.rows.iter().map(cells).collect::<Vec<_>>()))?;
    if let Some((_, value)) = optimiser.best() {
        print(&format!("Best of {} so far: {} {}.\n", count(tried, "value"), args.target, number(value)))?;
    }
    found.stop.map_or(Ok(()), |s| print(&format!("{}\n", s.sentence())))
}

/// The names of a CSV that has a header and no row.
fn only_header(path: &Path) -> Option<Vec<String>> {
    let small = std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() < 1 << 16);
    let text = if small { std::fs::read_to_string(path).ok()? } else { return None };
    let mut lines = text.lines().filter(|l| !l.trim().is_empty());
    let (first, more) = (lines.next()?, lines.next());
    let names = first.split([',', ';', '\t']).map(|n| n.trim().trim_matches('"').to_owned());
    if more.is_none() { Some(names.collect()) } else { None }
}

/// The target of every row; none where it is empty.
fn target(args: &Suggest, data: &Table) -> anyhow::Result<Vec<Option<f64>>> {
    match data.column(&args.target)? {
        Column::Number(v) => Ok(v.iter().map(|v| v.is_finite().then_some(*v)).collect()),
        column if (0..data.rows()).all(|r| column.is_missing(r)) => Ok(vec![None; data.rows()]),
        _ => bail!(
            "the target '{}' holds text, and only numbers can be made large or small; name another --target",
            args.target
        ),
    }
}

fn space(
    args: &Suggest,
    data: Option<&Table>,
    pool: Option<&Table>,
    columns: &[String],
    said: &mut Vec<String>,
) -> anyhow::Result<Space> {
    if let Some(path) = &args.space {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        return Space::parse(&text, columns).map_err(|e| anyhow::anyhow!("{}: {e}", path.display()));
    }
    let tables: Vec<&Table> = data.into_iter().chain(pool).collect();
    let space = Space::from_tables(&tables, columns)?;
    if pool.is_none() {
        let said_of = |(name, d): (&String, &Dimension)| match d {
            Dimension::Real { low, high, .. } => format!("{name} {low} to {high}"),
            Dimension::Integer { low, high } => format!("{name} {low} to {high} in whole numbers"),
            Dimension::Category(values) => format!("{name} one of {}", values.join(", ")),
        };
        let all: Vec<String> = space.names().iter().zip(space.dimensions()).map(said_of).collect();
        said.push(format!("ranges are those of the data: {}; --space says otherwise", all.join("; ")));
    }
    Ok(space)
}

fn points_of(optimiser: &Optimiser, pool: &Table) -> anyhow::Result<Vec<Point>> {
    let of = |row: usize| match optimiser.space().point(pool, row, false)? {
        Some(point) => Ok(point),
        None => bail!("line {} of the pool has an empty input; fill it in, or leave the row out", pool.line(row)),
    };
    (0..pool.rows()).map(of).collect()
}

fn inputs(space: &Space, point: &[f64]) -> serde_json::Map<String, serde_json::Value> {
    let of = |((name, d), v): ((&String, &Dimension), &f64)| {
        let value = match d {
            Dimension::Category(values) => json!(values[*v as usize]),
            Dimension::Integer { .. } => json!(*v as i64),
            Dimension::Real { .. } => json!(v),
        };
        (name.clone(), value)
    };
    space.names().iter().zip(space.dimensions()).zip(point).map(of).collect()
}
