//! A uniform mixture of posteriors of any kind: q(w) = 1/S Σ_k q_k(w).
//!
//! A draw picks a member by its key, each with the same chance, then draws from it. A set of draws takes the members in turn instead, so
//! that chance does not prefer one; and where all members are points, a set of S has each once and is all there is to know. In a model file the tensors of member k have
//! the prefix `k.`, `members` holds S, and an empty tensor `k.KIND` says by its name what member k is.

use super::{Draw, Form, POSTERIORS, Posterior, Tensor, restore, take};
use crate::error::{Error, Result};
use crate::rng::{Key, Stream};

/// Members of equal weight.
#[derive(Debug)]
pub struct MixturePosterior {
    members: Vec<Box<dyn Posterior>>,
    log_evidence: Option<f64>,
}

const KIND: &str = "mixture";

impl MixturePosterior {
    /// Of members over the same parameters; `log_evidence` is an estimate of log p(D), or a lower bound of it.
    ///
    /// # Panics
    /// If there is no member, if their numbers of parameters differ, or if one is itself a mixture.
    pub fn new(members: Vec<Box<dyn Posterior>>, log_evidence: Option<f64>) -> Self {
        assert!(!members.is_empty(), "a mixture has a member");
        assert!(members.iter().all(|m| m.dim() == members[0].dim()), "members are over the same parameters");
        assert!(members.iter().all(|m| m.kind() != KIND), "a mixture of mixtures is one mixture");
        MixturePosterior { members, log_evidence }
    }

    pub(super) fn restore(
        dim: usize,
        log_evidence: Option<f64>,
        tensors: &dyn Fn(&str) -> Option<Vec<f32>>,
    ) -> Result<Box<dyn Posterior>> {
        let damaged = |what: String| Error::setting(what, "the file is damaged: fit the model again");
        let count = take("members", 1, tensors)?[0];
        if !(count >= 1.0 && count.fract() == 0.0 && count < 16_777_216.0) {
            return Err(damaged(format!("a mixture cannot have {count} members")));
        }
        // Grows as members are found: the file's word for their number reserves nothing.
        let mut members = Vec::new();
        for k in 0..count as usize {
            // A mixture among the members could nest without end.
            let kinds = POSTERIORS.iter().map(|(kind, _)| *kind).filter(|kind| *kind != KIND);
            let kind = kinds.into_iter().find(|kind| tensors(&format!("{k}.{kind}")).is_some());
            let kind = kind.ok_or_else(|| damaged(format!("member {k} of the mixture is missing")))?;
            members.push(restore(kind, dim, None, &|name| tensors(&format!("{k}.{name}")))?);
        }
        Ok(Box::new(MixturePosterior { members, log_evidence }))
    }
}

impl Posterior for MixturePosterior {
    fn kind(&self) -> &'static str {
        KIND
    }
    fn dim(&self) -> usize {
        self.members[0].dim()
    }
    fn form(&self) -> Form<'_> {
        Form::Mixture(&self.members)
    }
    fn draw_into(&self, key: Key, draw: &mut Draw) {
        let k = Stream::new(key).below(self.members.len() as u64);
        self.members[k as usize].draw_into(key.derive(k), draw);
    }
    fn draw_of_into(&self, s: usize, of: usize, key: Key, draw: &mut Draw) {
        let members = self.members.len();
        // In turn; fewer draws than members are spread over all of them.
        let k = if of < members { s * members / of } else { s % members };
        self.members[k].draw_into(key, draw);
    }
    fn log_density(&self, w: &[f32]) -> Option<f64> {
        let of_members: Vec<f64> = self.members.iter().map(|m| m.log_density(w)).collect::<Option<_>>()?;
        let highest = of_members.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if !highest.is_finite() {
            return Some(highest);
        }
        let mean = of_members.iter().map(|l| (l - highest).exp()).sum::<f64>() / of_members.len() as f64;
        Some(highest + mean.ln())
    }
    fn log_evidence(&self) -> Option<f64> {
        self.log_evidence
    }
    fn tensors(&self) -> Vec<Tensor> {
        let mut all = vec![Tensor { name: "members".into(), shape: vec![1], data: vec![self.members.len() as f32] }];
        for (k, member) in self.members.iter().enumerate() {
            all.push(Tensor { name: format!("{k}.{}", member.kind()), shape: vec![0], data: Vec::new() });
            all.extend(member.tensors().into_iter().map(|t| Tensor { name: format!("{k}.{}", t.name), ..t }));
        }
        all
    }
    fn packed(&self) -> Vec<(String, Vec<u8>)> {
        let mut all = Vec::new();
        for (k, member) in self.members.iter().enumerate() {
            all.extend(member.packed().into_iter().map(|(name, bytes)| (format!("{k}.{name}"), bytes)));
        }
        all
    }
}
