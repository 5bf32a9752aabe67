//! One of three sentences: trust, trust the predictions but not the weights, do not trust; with the reason and what to try.

use serde::Serialize;

/// What may be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Trust {
    /// Everything.
    All,
    /// Predictions, but not what the weights say.
    Predictions,
    /// Nothing.
    Nothing,
}

/// Something that was found, and how much belief it costs.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// What is left to believe.
    pub leaves: Trust,
    /// What was found, as a clause.
    pub reason: String,
    /// What to try, as a clause.
    pub advice: String,
}

/// What all findings come to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// What may be believed.
    pub trust: Trust,
    /// Why.
    pub reason: String,
    /// What to try; empty where nothing is wrong.
    pub advice: String,
}

impl Verdict {
    /// The gravest findings decide; without any that costs belief, `otherwise` is the reason to trust.
    pub fn of(findings: &[Finding], otherwise: String) -> Verdict {
        let trust = findings.iter().map(|f| f.leaves).max().unwrap_or(Trust::All);
        if trust == Trust::All {
            return Verdict { trust, reason: otherwise, advice: String::new() };
        }
        let decisive: Vec<&Finding> = findings.iter().filter(|f| f.leaves == trust).collect();
        let joined = |of: fn(&Finding) -> &str, between: &str| {
            let mut parts: Vec<&str> = decisive.iter().map(|f| of(f)).filter(|t| !t.is_empty()).collect();
            parts.dedup();
            parts.join(between)
        };
        Verdict { trust, reason: joined(|f| &f.reason, "; "), advice: joined(|f| &f.advice, "; or ") }
    }

    /// Whether the answer is yes: predictions, at least, can be used.
    pub fn is_yes(&self) -> bool {
        self.trust != Trust::Nothing
    }

    /// The whole verdict in one sentence.
    pub fn sentence(&self) -> String {
        let head = match self.trust {
            Trust::All => "Trust",
            Trust::Predictions => "Trust the predictions but not the weights",
            Trust::Nothing => "Do not trust",
        };
        let advice = match (self.trust, &*self.advice) {
            (Trust::Predictions, "") => " No action needed if you only use predictions.".to_owned(),
            (_, "") => String::new(),
            (_, advice) => format!(" Try {advice}."),
        };
        format!("{head}: {}.{advice}", self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gravest_finding_decides() {
        let finding = |leaves, reason: &str, advice: &str| Finding {
            leaves,
            reason: reason.to_owned(),
            advice: advice.to_owned(),
        };
        let weights = finding(Trust::Predictions, "signs flip", "one mode alone");
        let chains = finding(Trust::Nothing, "chains disagree", "longer chains");
        let energy = finding(Trust::Nothing, "the tails are missing", "longer chains");
        let say = |f: &[Finding]| Verdict::of(f, "all is well".to_owned()).sentence();
        assert_eq!(say(&[]), "Trust: all is well.");
        let one = "Trust the predictions but not the weights: signs flip. Try one mode alone.";
        assert_eq!(say(std::slice::from_ref(&weights)), one);
        let both = "Do not trust: chains disagree; the tails are missing. Try longer chains.";
        assert_eq!(say(&[weights, chains.clone(), energy]), both);
        assert!(!Verdict::of(&[chains], String::new()).is_yes());
    }
}
