//! Mean log predictive density, (1/N) Σₙ log p(yₙ | xₙ, D), in nats per row and in the user's units: a proper score.

use super::{Metric, Needs, Score, Scored, mean};

pub(super) const METRIC: Metric = Metric {
    name: "log_likelihood",
    summary: "mean log predictive density of the observed outcomes, in nats per row",
    larger_is_better: Some(true),
    short: true,
    functional,
    needs: Needs { log_likelihood: true, ..Needs::NONE },
};

fn functional(s: &Scored) -> Option<Score<'_>> {
    if s.log_likelihood.is_empty() {
        return None; // of one target of a likelihood that tells that of all alone
    }
    // Joint over the targets of a site, which all count alike.
    mean(|n| s.log_likelihood[n / s.targets()])
}
