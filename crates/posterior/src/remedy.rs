//! What to do about an error, in words that a front end completes.
//!
//! The library offers options (`missing`, `task`, a setting of a method); the program calls them flags, Python keywords, a configuration keys.
//! A [`Remedy`] is a sentence in which every such option is a [`Suggestion`]: [`Remedy::worded`] writes the sentence with the front end's own words.
//!
//! ```
//! use posterior::remedy::{Suggestion, Remedy};
//!
//! let remedy = Remedy::from("fill it in, or use ⟨missing=mean⟩");
//! assert_eq!(remedy.to_string(), "fill it in, or use missing=mean");
//! let flag = |c: &Suggestion| format!("--{} {}", c.option.name(), c.value.as_deref().unwrap_or_default());
//! assert_eq!(remedy.worded(&flag), "fill it in, or use --missing mean");
//! ```

use std::fmt;

/// A sentence that says what to do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Remedy(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Suggestion(Suggestion),
}

/// An option that would help, with the value to give it if one is known.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Suggestion {
    /// Which option.
    pub option: OptionName,
    /// The value that helps.
    pub value: Option<String>,
}

/// Options of a fit that a remedy can name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionName {
    /// What is done about missing values.
    Missing,
    /// Columns that are text although they look like numbers.
    Text,
    /// Columns that are left out.
    Ignore,
    /// What kind of target it is.
    Task,
    /// The file with the labels of images.
    Labels,
    /// The network.
    Network,
    /// The prior.
    Prior,
    /// The likelihood.
    Likelihood,
    /// The inference method.
    Method,
    /// A setting by its key, as in `rank` or `prior.weight_std`.
    Setting(String),
}

const OPEN: char = '⟨';
const CLOSE: char = '⟩';

impl OptionName {
    /// The option's name in the library: the key of a setting, or the name of the option.
    pub fn name(&self) -> &str {
        match self {
            OptionName::Missing => "missing",
            OptionName::Text => "text",
            OptionName::Ignore => "ignore",
            OptionName::Task => "task",
            OptionName::Labels => "labels",
            OptionName::Network => "network",
            OptionName::Prior => "prior",
            OptionName::Likelihood => "likelihood",
            OptionName::Method => "method",
            OptionName::Setting(key) => key,
        }
    }

    fn parse(name: &str) -> Option<OptionName> {
        if let Some(key) = name.strip_prefix("set ") {
            return Some(OptionName::Setting(key.to_owned()));
        }
        let plain = [
            OptionName::Missing,
            OptionName::Text,
            OptionName::Ignore,
            OptionName::Task,
            OptionName::Labels,
            OptionName::Network,
            OptionName::Prior,
            OptionName::Likelihood,
            OptionName::Method,
        ];
        plain.into_iter().find(|c| c.name() == name)
    }
}

impl Suggestion {
    fn parse(marked: &str) -> Option<Suggestion> {
        let (name, value) = marked.split_once('=').map_or((marked, None), |(n, v)| (n, Some(v.to_owned())));
        Some(Suggestion { option: OptionName::parse(name)?, value })
    }
}

impl Remedy {
    /// The sentence, with every option in the words that `word` has for it.
    pub fn worded(&self, word: &dyn Fn(&Suggestion) -> String) -> String {
        let piece = |p: &Piece| match p {
            Piece::Text(text) => text.clone(),
            Piece::Suggestion(suggestion) => word(suggestion),
        };
        self.0.iter().map(piece).collect()
    }

    /// The options that the sentence names.
    pub fn suggestions(&self) -> impl Iterator<Item = &Suggestion> {
        self.0.iter().filter_map(|p| if let Piece::Suggestion(c) = p { Some(c) } else { None })
    }
}

/// Options stand in angle brackets: `⟨missing=mean⟩`, `⟨text⟩`, `⟨set rank=5⟩`. What is no option stays text.
impl From<&str> for Remedy {
    fn from(marked: &str) -> Remedy {
        let (mut pieces, mut rest) = (Vec::new(), marked);
        let mut text = String::new();
        while let Some((before, after)) = rest.split_once(OPEN) {
            text += before;
            match after.split_once(CLOSE).and_then(|(inside, rest)| Some((Suggestion::parse(inside)?, rest))) {
                Some((suggestion, after)) => {
                    pieces.push(Piece::Text(std::mem::take(&mut text)));
                    pieces.push(Piece::Suggestion(suggestion));
                    rest = after;
                }
                None => {
                    text.push(OPEN);
                    rest = after;
                }
            }
        }
        text += rest;
        pieces.push(Piece::Text(text));
        pieces.retain(|p| !matches!(p, Piece::Text(t) if t.is_empty()));
        Remedy(pieces)
    }
}

impl From<String> for Remedy {
    fn from(marked: String) -> Remedy {
        Remedy::from(&*marked)
    }
}

impl From<&String> for Remedy {
    fn from(marked: &String) -> Remedy {
        Remedy::from(&**marked)
    }
}

/// In the words of the library: `missing=mean`.
impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.worded(&|c| match &c.value {
            Some(value) => format!("{}={value}", c.option.name()),
            None => c.option.name().to_owned(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_found_and_worded() {
        let remedy = Remedy::from("lower it (⟨set rank=5⟩), or leave ⟨network⟩ out");
        assert_eq!(remedy.to_string(), "lower it (rank=5), or leave network out");
        assert_eq!(remedy.suggestions().count(), 2);
        let flag = |c: &Suggestion| match (&c.option, &c.value) {
            (OptionName::Setting(key), Some(v)) => format!("--set {key}={v}"),
            (option, _) => format!("--{}", option.name()),
        };
        assert_eq!(remedy.worded(&flag), "lower it (--set rank=5), or leave --network out");
    }

    #[test]
    fn what_is_no_option_stays_as_it_is() {
        for text in ["", "⟨", "a ⟩ b", "⟨colour⟩", "⟨⟨x⟩", "⟨set⟩ y", "plain"] {
            assert_eq!(Remedy::from(text).to_string(), text);
            assert_eq!(Remedy::from(text).suggestions().count(), 0);
        }
        assert_eq!(Remedy::from("⟨⟨task⟩").to_string(), "⟨task");
    }
}
