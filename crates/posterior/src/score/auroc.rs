//! Area under the receiver operating characteristic: the probability that a row of a class gets a higher probability of it than a
//! row of another, ties counting half. For more than two classes the mean over classes, one against the rest.

use super::{Metric, Needs, Roc, Score, Scored};

pub(super) const METRIC: Metric = Metric {
    name: "auroc",
    summary: "AUROC: probability that a positive row scores above a negative one",
    larger_is_better: Some(true),
    short: false,
    functional,
    needs: Needs::NONE,
};

fn functional(s: &Scored) -> Option<Score<'_>> {
    let classes = s.classes.as_ref()?;
    let seen = |c: usize| s.y.contains(&(c as f64));
    let found = (0..classes.classes).filter(|c| seen(*c)).count();
    if found < classes.classes {
        return Some(Score::Undefined(format!(
            "it needs rows of every class, and these hold {found} of {}",
            classes.classes
        )));
    }
    // Two classes have one curve, whichever is called positive.
    let which = if classes.classes == 2 { 1..2 } else { 0..classes.classes };
    let orders: Vec<(Vec<(f64, usize)>, usize)> = which
        .map(|c| {
            let mut order: Vec<(f64, usize)> = (0..s.y.len()).map(|n| (classes.row(n)[c], n)).collect();
            order.sort_by(|a, b| b.0.total_cmp(&a.0));
            (order, c)
        })
        .collect();
    Some(Score::Of(Box::new(move |weights| {
        let of_class = |(order, c): &(Vec<(f64, usize)>, usize)| {
            let rows = order.iter().map(|(p, n)| (*p, s.y[*n] == *c as f64, weights[*n]));
            Roc::sorted(rows).auroc().unwrap_or(f64::NAN) // a resample may lack a class: it is left out
        };
        orders.iter().map(of_class).sum::<f64>() / orders.len() as f64
    })))
}
