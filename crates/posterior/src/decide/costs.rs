//! The action of least expected cost, and what knowing more would save.
//!
//! a* = argmin_a Σ_y C[a, y] p̄(y). A label would save E[C] − Σ_y p̄(y) min_a C[a, y] (the value of perfect information); knowing the function would save
//! E[C] − (1/S) Σₛ min_a Σ_y C[a, y] pₛ(y), the part that more data can bring. The second is never above the first. Chow (1970) is the case of equal costs with a price of
//! rejecting. Reference: Raiffa & Schlaifer (1961), Applied Statistical Decision Theory. Cost: draws × actions × outcomes a row.

use super::draws::ClassDraws;
use crate::data::{Column, Table};
use crate::error::{Error, Result, suggest};
use rayon::prelude::*;

/// C[action, outcome].
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// Names of the actions.
    pub actions: Vec<String>,
    /// Actions × outcomes, outcomes in the order of the model's classes.
    pub cost: Vec<f64>,
    /// How many outcomes.
    pub outcomes: usize,
}

/// What to do with a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    /// Which action; the first of those that cost the same.
    pub action: usize,
    /// Its expected cost.
    pub expected_cost: f64,
    /// What knowing the outcome would save on average.
    pub saved_by_label: f64,
    /// What knowing the function would save on average: the part that more data can bring.
    pub saved_by_data: f64,
}

/// Actions that leave the row to somebody else.
const FALLBACK: [&str; 2] = ["ask", "abstain"];

impl Costs {
    /// From a table with a column `action` and a column for every class.
    pub fn from_table(table: &Table, classes: &[String]) -> Result<Costs> {
        let actions: Vec<String> = match table.get("action") {
            Some(column) => (0..table.rows()).map(|r| column.text(r).unwrap_or_default()).collect(),
            None => {
                let what = "the table of costs has no column 'action'";
                return Err(Error::data(what, "give a column 'action' and one column of costs for every class"));
            }
        };
        if actions.is_empty() {
            return Err(Error::data("the table of costs has no action", "give a row for every action"));
        }
        for (i, name) in actions.iter().enumerate() {
            if name.is_empty() || actions[..i].contains(name) {
                let what = if name.is_empty() {
                    "an action has no name".to_owned()
                } else {
                    format!("the action '{name}' is there twice")
                };
                let at = table.place(i, "action");
                return Err(Error::data(what, "give every action a row and a name of its own").at(at));
            }
        }
        for name in table.column_names().filter(|n| *n != "action") {
            if !classes.iter().any(|c| c == name) {
                let what = format!("the table of costs has a column '{name}', which is no class of the model");
                return Err(Error::data(what, suggest(name, classes.iter().map(String::as_str))));
            }
        }
        let mut cost = vec![0.0; actions.len() * classes.len()];
        for (c, class) in classes.iter().enumerate() {
            let Some(column) = table.get(class) else {
                let what = format!("the table of costs has no column for the class '{class}'");
                return Err(Error::data(what, "give a column of costs for every class"));
            };
            for a in 0..actions.len() {
                let value = match column {
                    Column::Number(v) => v[a],
                    _ => f64::NAN,
                };
                if !value.is_finite() {
                    let what = format!("the cost of the action '{}' under '{class}' is no number", actions[a]);
                    return Err(Error::data(what, "give a number for every action and class").at(table.place(a, class)));
                }
                cost[a * classes.len() + c] = value;
            }
        }
        Ok(Costs { actions, cost, outcomes: classes.len() })
    }

    fn of(&self, action: usize) -> &[f64] {
        &self.cost[action * self.outcomes..(action + 1) * self.outcomes]
    }

    /// The action of least expected cost, and that cost.
    pub fn best(&self, p: &[f64]) -> (usize, f64) {
        let expected = |a: usize| self.of(a).iter().zip(p).map(|(c, p)| c * p).sum::<f64>();
        (1..self.actions.len()).fold((0, expected(0)), |best, a| {
            let cost = expected(a);
            if cost < best.1 { (a, cost) } else { best }
        })
    }

    /// The action `ask` or `abstain`, where there is one.
    pub fn fallback(&self) -> Option<usize> {
        self.actions.iter().position(|a| FALLBACK.contains(&a.as_str()))
    }

    /// Without the action `ask` or `abstain`, with the numbers of the actions that are left.
    pub fn acting(&self) -> (Costs, Vec<usize>) {
        let left: Vec<usize> = (0..self.actions.len()).filter(|a| Some(*a) != self.fallback()).collect();
        let cost = left.iter().flat_map(|a| self.of(*a)).copied().collect();
        let actions = left.iter().map(|a| self.actions[*a].clone()).collect();
        (Costs { actions, cost, outcomes: self.outcomes }, left)
    }

    /// What an action costs under an outcome.
    pub fn at(&self, action: usize, outcome: usize) -> f64 {
        self.cost[action * self.outcomes + outcome]
    }

    /// A decision with another action put in its place: what knowing more would save is then counted from the cost of that action.
    pub fn forced(&self, d: &Decision, action: usize, p: &[f64]) -> Decision {
        let expected_cost: f64 = self.of(action).iter().zip(p).map(|(c, p)| c * p).sum();
        let more = expected_cost - d.expected_cost;
        Decision {
            action,
            expected_cost,
            saved_by_label: d.saved_by_label + more,
            saved_by_data: d.saved_by_data + more,
        }
    }

    /// What to do with every row.
    pub fn decide(&self, draws: &ClassDraws) -> Vec<Decision> {
        let one = |n: usize| {
            let mean = draws.mean(n);
            let (action, expected_cost) = self.best(&mean);
            let least = |y: usize| (0..self.actions.len()).map(|a| self.at(a, y)).fold(f64::INFINITY, f64::min);
            let known: f64 = mean.iter().enumerate().map(|(y, p)| p * least(y)).sum();
            let by_draw = draws.row(n).chunks_exact(self.outcomes).zip(&draws.weights);
            let learned: f64 = by_draw.map(|(p, w)| w * self.best(p).1).sum();
            // Rounding is kept from making them negative.
            let saved_by_label = (expected_cost - known).max(0.0);
            let saved_by_data = (expected_cost - learned).clamp(0.0, saved_by_label);
            Decision { action, expected_cost, saved_by_label, saved_by_data }
        };
        (0..draws.rows()).into_par_iter().map(one).collect()
    }
}

/// Mean cost of rows whose outcome is known, under the decisions and under simpler rules.
#[derive(Debug, Clone, PartialEq)]
pub struct Realised {
    /// Rows with a known outcome.
    pub rows: usize,
    /// Of the decisions.
    pub decided: f64,
    /// Of acting as if the most probable class were true: the action of its name. None where a class has no action of its name.
    pub most_probable: Option<f64>,
    /// Of two classes: of the threshold on the probability that is best on these very rows, with the threshold. It is chosen in hindsight.
    pub best_threshold: Option<(f64, f64)>,
    /// Of the action that is best for all rows, in hindsight.
    pub best_constant: f64,
}

/// Mean costs where outcomes are known; `y` holds numbers of classes.
pub fn realised(
    costs: &Costs,
    classes: &[String],
    draws: &ClassDraws,
    decisions: &[Decision],
    y: &[usize],
) -> Realised {
    let n = y.len().max(1) as f64;
    let named: Option<Vec<usize>> = classes.iter().map(|c| costs.actions.iter().position(|a| a == c)).collect();
    let means: Vec<Vec<f64>> = (0..y.len()).map(|i| draws.mean(i)).collect();
    let total = |action: &dyn Fn(usize) -> usize| (0..y.len()).map(|i| costs.at(action(i), y[i])).sum::<f64>() / n;
    let most = |p: &[f64]| (1..p.len()).fold(0, |best, c| if p[c] > p[best] { c } else { best });
    let best_threshold = named.as_ref().filter(|_| classes.len() == 2).map(|named| {
        let mut order: Vec<usize> = (0..y.len()).collect();
        order.sort_by(|a, b| means[*b][1].total_cmp(&means[*a][1]));
        // From no row called the second class to all of them, ties together.
        let mut cost: f64 = y.iter().map(|y| costs.at(named[0], *y)).sum();
        let mut best = (cost, f64::INFINITY);
        for (k, i) in order.iter().enumerate() {
            cost += costs.at(named[1], y[*i]) - costs.at(named[0], y[*i]);
            let last = order.get(k + 1).is_none_or(|next| means[*next][1] < means[*i][1]);
            if last && cost < best.0 {
                best = (cost, means[*i][1]);
            }
        }
        (best.0 / n, best.1)
    });
    Realised {
        rows: y.len(),
        decided: total(&|i| decisions[i].action),
        most_probable: named.as_ref().map(|named| total(&|i| named[most(&means[i])])),
        best_threshold,
        best_constant: (0..costs.actions.len()).map(|a| total(&|_| a)).fold(f64::INFINITY, f64::min),
    }
}
