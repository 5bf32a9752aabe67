//! Suggested experiments on functions with a known minimum, and on tables of real experiments: `optimise` and `pools`.
//!
//! Branin and Hartmann6 from max(5, 2D) points of a first design; the regret is the median over seeds of best − optimum. Pools (Liang et al. 2021) from two random rows, repeats
//! of the same inputs averaged; counted are experiments until the first row of the best 5 % and until half of them are found, beside random search on the same first rows.

use posterior::data::{Column, ReadOptions, Table};
use posterior::decide::{Acquisition, Dimension, Goal, Optimiser, Point, Space};
use posterior::rng::{Key, Stream};
use serde_json::json;
use std::path::Path;
use std::time::Instant;

fn branin(p: &[f64]) -> f64 {
    let pi = std::f64::consts::PI;
    let bend = p[1] - 5.1 / (4.0 * pi * pi) * p[0] * p[0] + 5.0 / pi * p[0] - 6.0;
    bend * bend + 10.0 * (1.0 - 1.0 / (8.0 * pi)) * p[0].cos() + 10.0
}

const A: [[f64; 6]; 4] = [
    [10.0, 3.0, 17.0, 3.5, 1.7, 8.0],
    [0.05, 10.0, 17.0, 0.1, 8.0, 14.0],
    [3.0, 3.5, 1.7, 10.0, 17.0, 8.0],
    [17.0, 8.0, 0.05, 10.0, 0.1, 14.0],
];
const P: [[f64; 6]; 4] = [
    [0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886],
    [0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991],
    [0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650],
    [0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381],
];

fn hartmann6(p: &[f64]) -> f64 {
    let term = |i: usize| {
        let far: f64 = (0..6).map(|d| A[i][d] * (p[d] - P[i][d]).powi(2)).sum();
        [1.0, 1.2, 3.0, 3.2][i] * (-far).exp()
    };
    -(0..4).map(term).sum::<f64>()
}

struct Case {
    name: &'static str,
    bounds: &'static [(f64, f64)],
    f: fn(&[f64]) -> f64,
    optimum: f64,
    at: &'static [usize],
}

const CASES: &[Case] = &[
    Case {
        name: "branin",
        bounds: &[(-5.0, 10.0), (0.0, 15.0)],
        f: branin,
        optimum: 0.397887357729738,
        at: &[20, 25, 40],
    },
    Case {
        name: "hartmann6",
        bounds: &[(0.0, 1.0); 6],
        f: hartmann6,
        optimum: -3.322368011415515,
        at: &[40, 50, 80, 100],
    },
];

fn setting(settings: &[String], key: &str, default: usize) -> usize {
    let found = settings.iter().find_map(|s| s.strip_prefix(key)?.strip_prefix('=')?.parse().ok());
    found.unwrap_or(default)
}

fn median(mut v: Vec<f64>) -> f64 {
    v.sort_by(f64::total_cmp);
    let m = v.len() / 2;
    if v.len() % 2 == 1 { v[m] } else { 0.5 * (v[m - 1] + v[m]) }
}

pub fn run(_: &Path, settings: &[String]) -> Result<(), String> {
    let seeds = setting(settings, "seeds", 20);
    for case in CASES {
        let budget = setting(settings, "budget", *case.at.last().unwrap_or(&40));
        let mut regrets: Vec<Vec<f64>> = Vec::new();
        let mut seconds = Vec::new();
        for seed in 0..seeds {
            let dimension =
                |(d, b): (usize, &(f64, f64))| (format!("x{d}"), Dimension::Real { low: b.0, high: b.1, log: false });
            let space =
                Space::new(case.bounds.iter().enumerate().map(dimension).collect()).map_err(|e| e.to_string())?;
            let mut optimiser = Optimiser::new(space, Goal::Min, Acquisition::LogEi, seed as u64);
            let mut history = Vec::new();
            let mut first = optimiser.ask((2 * case.bounds.len()).max(5)).map_err(|e| e.to_string())?.rows;
            while history.len() < budget {
                let point = match first.pop() {
                    Some(s) => s.point,
                    None => {
                        let start = Instant::now();
                        let point = optimiser.ask(1).map_err(|e| e.to_string())?.rows.remove(0).point;
                        seconds.push(start.elapsed().as_secs_f64());
                        point
                    }
                };
                let value = (case.f)(&point);
                optimiser.tell(point, value).map_err(|e| e.to_string())?;
                history.push(optimiser.best().map_or(f64::NAN, |b| b.1 - case.optimum));
            }
            regrets.push(history);
        }
        let at: serde_json::Map<String, serde_json::Value> = case
            .at
            .iter()
            .filter(|n| **n <= budget)
            .map(|n| (n.to_string(), json!(median(regrets.iter().map(|h| h[n - 1]).collect()))))
            .collect();
        let worst = regrets.iter().map(|h| h[budget - 1]).fold(0.0, f64::max);
        println!(
            "{}",
            json!({ "published": "optimise", "case": case.name, "seeds": seeds, "median_regret": at, "worst_regret": worst, "median_ask_ms": 1e3 * median(seconds) })
        );
    }
    Ok(())
}

/// Inputs and value of every design, repeats averaged.
fn designs(table: &Table) -> Result<(Space, Vec<Point>, Vec<f64>), String> {
    let mut names: Vec<String> = table.column_names().map(str::to_owned).collect();
    let target = names.pop().ok_or("no column")?;
    let space = Space::from_tables(&[table], &names).map_err(|e| e.to_string())?;
    let Some(Column::Number(y)) = table.get(&target) else { return Err(format!("'{target}' holds no numbers")) };
    let (mut points, mut sums): (Vec<Point>, Vec<(f64, f64)>) = (Vec::new(), Vec::new());
    for (row, value) in y.iter().enumerate() {
        let point = space.point(table, row, false).map_err(|e| e.to_string())?.ok_or("an empty cell")?;
        match points.iter().position(|p| *p == point) {
            Some(i) => sums[i] = (sums[i].0 + value, sums[i].1 + 1.0),
            None => {
                points.push(point);
                sums.push((*value, 1.0));
            }
        }
    }
    Ok((space, points, sums.iter().map(|s| s.0 / s.1).collect()))
}

pub fn pools(folder: &Path, settings: &[String]) -> Result<(), String> {
    let seeds = setting(settings, "seeds", 50);
    for name in ["p3ht", "autoam", "crossed_barrel"] {
        let path = folder.join("bo_pools").join(format!("{name}.csv"));
        let table = Table::read(&path, &ReadOptions::default()).map_err(|e| e.to_string())?;
        let (space, points, values) = designs(&table)?;
        let count = (values.len() as f64 * 0.05).ceil() as usize;
        let mut sorted = values.clone();
        sorted.sort_by(|a, b| b.total_cmp(a));
        let level = sorted[count - 1];
        let good = |i: &usize| values[*i] >= level;
        let mut found: [Vec<f64>; 4] = Default::default();
        for seed in 0..seeds {
            let mut order: Vec<usize> = (0..values.len()).collect();
            Stream::new(Key::new(seed as u64)).shuffle(&mut order);
            let counts = |tried: &[usize], n: usize| {
                let at = tried.iter().enumerate().filter(|(_, i)| good(i)).map(|(k, _)| k + 1).nth(n - 1);
                at.unwrap_or(values.len()) as f64
            };
            let mut optimiser = Optimiser::new(space.clone(), Goal::Max, Acquisition::LogEi, seed as u64);
            let mut tried: Vec<usize> = order[..2].to_vec();
            for i in &tried {
                optimiser.tell(points[*i].clone(), values[*i]).map_err(|e| e.to_string())?;
            }
            while tried.iter().filter(|i| good(i)).count() < count.div_ceil(2) {
                let next = optimiser.ask_of(&points, 1).map_err(|e| e.to_string())?.rows[0].row.ok_or("no row")?;
                tried.push(next);
                optimiser.tell(points[next].clone(), values[next]).map_err(|e| e.to_string())?;
            }
            let half = count.div_ceil(2);
            for (k, v) in
                [counts(&tried, 1), counts(&tried, half), counts(&order, 1), counts(&order, half)].iter().enumerate()
            {
                found[k].push(*v);
            }
        }
        let [first, half, random_first, random_half] = found.map(median);
        println!(
            "{}",
            json!({ "published": "pools", "pool": name, "designs": values.len(), "seeds": seeds, "best_5_percent": first, "half_of_best_5_percent": half, "random_best_5_percent": random_first, "random_half_of_best_5_percent": random_half })
        );
    }
    Ok(())
}
