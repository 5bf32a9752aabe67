//! Settings of methods, likelihoods and priors: one table each, checked in one place.
//!
//! A row of a table carries name, help, default and what is allowed; [`Settings::resolve`] turns what the user wrote into
//! checked values, and nothing runs on unchecked ones. Tables come from typed structs ([`options!`](crate::options!)) or are written by hand.

mod typed;

pub use typed::{Checked, NamedOptions, OptionValue, Options};
#[doc(hidden)]
pub use typed::{help_of, verify};

use crate::error::{Error, Result, suggest};
use serde::{Deserialize, Serialize};
use std::fmt;

/// One row of a table of settings.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// The key a user writes.
    pub name: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// The value when the user writes none.
    pub default: Default,
    /// What values are taken.
    pub allowed: Allowed,
}

/// A default, writable in a constant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Default {
    /// yes or no
    Bool(bool),
    /// a whole number
    Int(i64),
    /// a number
    Float(f64),
    /// a word
    Text(&'static str),
}

/// A checked value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// yes or no
    Bool(bool),
    /// a whole number
    Int(i64),
    /// a number
    Float(f64),
    /// a word
    Text(String),
}

/// What values a setting takes; numbers include both ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Allowed {
    /// true or false
    Bool,
    /// whole numbers from … to …
    Int(i64, i64),
    /// finite numbers from … to …
    Float(f64, f64),
    /// finite numbers above … up to …
    Above(f64, f64),
    /// one of these words
    OneOf(&'static [&'static str]),
    /// any text, which its owner reads
    Text,
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Allowed::Bool => write!(f, "true or false"),
            Allowed::Int(lo, i64::MAX) => write!(f, "a whole number of at least {lo}"),
            Allowed::Int(lo, hi) => write!(f, "a whole number from {lo} to {hi}"),
            Allowed::Float(lo, hi) if hi.is_infinite() && lo.is_infinite() => write!(f, "a number"),
            Allowed::Float(lo, hi) if hi.is_infinite() => write!(f, "a number of at least {lo}"),
            Allowed::Float(lo, hi) => write!(f, "a number from {lo} to {hi}"),
            Allowed::Above(lo, hi) if hi.is_infinite() => write!(f, "a number above {lo}"),
            Allowed::Above(lo, hi) => write!(f, "a number above {lo}, at most {hi}"),
            Allowed::OneOf(words) => write!(f, "one of: {}", words.join(", ")),
            Allowed::Text => write!(f, "a text"),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(v) => write!(f, "{v}"),
            Value::Int(v) => write!(f, "{v}"),
            Value::Float(v) => write!(f, "{v}"),
            Value::Text(v) => write!(f, "{v}"),
        }
    }
}

impl From<Default> for Value {
    fn from(d: Default) -> Self {
        match d {
            Default::Bool(v) => Value::Bool(v),
            Default::Int(v) => Value::Int(v),
            Default::Float(v) => Value::Float(v),
            Default::Text(v) => Value::Text(v.to_owned()),
        }
    }
}

impl Value {
    /// Reads what a user typed on a command line: a bool or a number where it looks like one, else a word.
    pub fn parse(text: &str) -> Value {
        let text = text.trim();
        if let Ok(v) = text.parse() {
            Value::Bool(v)
        } else if let Ok(v) = text.parse() {
            Value::Int(v)
        } else if let Ok(v) = text.parse() {
            Value::Float(v)
        } else {
            Value::Text(text.to_owned())
        }
    }
}

impl Setting {
    fn check(&self, value: &Value) -> Result<Value> {
        let wrong = || {
            Error::setting(
                format!("the setting '{}' cannot be '{value}'", self.name),
                format!("it takes {} (default {})", self.allowed, Value::from(self.default)),
            )
        };
        match (self.allowed, value) {
            (Allowed::Bool, Value::Bool(_)) => Ok(value.clone()),
            (Allowed::Int(lo, hi), Value::Int(v)) if (lo..=hi).contains(v) => Ok(value.clone()),
            (Allowed::Int(lo, hi), Value::Float(v)) if v.fract() == 0.0 && *v >= lo as f64 && *v <= hi as f64 => {
                Ok(Value::Int(*v as i64))
            }
            (Allowed::Float(lo, hi), Value::Int(_) | Value::Float(_)) => {
                let v = value.number();
                if v.is_finite() && v >= lo && v <= hi { Ok(Value::Float(v)) } else { Err(wrong()) }
            }
            (Allowed::Above(lo, hi), Value::Int(_) | Value::Float(_)) => {
                let v = value.number();
                if v.is_finite() && v > lo && v <= hi { Ok(Value::Float(v)) } else { Err(wrong()) }
            }
            (Allowed::OneOf(words), Value::Text(v)) if words.contains(&v.as_str()) => Ok(value.clone()),
            (Allowed::Text, Value::Text(_)) => Ok(value.clone()),
            _ => Err(wrong()),
        }
    }
}

impl Value {
    fn number(&self) -> f64 {
        match self {
            Value::Int(v) => *v as f64,
            Value::Float(v) => *v,
            _ => f64::NAN,
        }
    }
}

/// Checked settings: every row of the table has a value within its range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Settings(std::collections::BTreeMap<String, Value>);

impl Settings {
    /// Checks what the user gave against the table and fills in the defaults.
    ///
    /// `owner` is named in the message about an unknown key, e.g. `method 'map'`.
    pub fn resolve(table: &[Setting], given: &[(String, Value)], owner: &str) -> Result<Settings> {
        let mut map: std::collections::BTreeMap<String, Value> =
            table.iter().map(|s| (s.name.to_owned(), s.default.into())).collect();
        for (name, value) in given {
            let Some(row) = table.iter().find(|s| s.name == name) else {
                let fix = if table.is_empty() {
                    "it has no settings".to_owned()
                } else {
                    suggest(name, table.iter().map(|s| s.name).collect::<Vec<_>>())
                };
                return Err(Error::setting(format!("{owner} has no setting '{name}'"), fix));
            };
            map.insert(name.clone(), row.check(value)?);
        }
        Ok(Settings(map))
    }

    /// All values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(k, v)| (k.as_str(), v))
    }

    /// As `(name, value)` pairs, to be resolved again: what the user gives can be laid over it.
    pub fn to_pairs(&self) -> Vec<(String, Value)> {
        self.0.iter().map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    /// A value as the type of an option; none where there is no such row or its values are of another type.
    pub fn typed<T: OptionValue>(&self, name: &str) -> Option<T> {
        self.0.get(name).and_then(T::of_value)
    }

    fn get(&self, name: &str) -> Result<&Value> {
        self.0.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.0.keys().map(String::as_str).collect();
            Error::setting(format!("the table of settings has no row '{name}'"), suggest(name, names))
        })
    }

    fn wrong_type(name: &str, wanted: &str) -> Error {
        Error::setting(format!("the setting '{name}' is not {wanted}"), "read it as what its table allows")
    }

    /// A number.
    pub fn float(&self, name: &str) -> Result<f64> {
        f64::of_value(self.get(name)?).ok_or_else(|| Settings::wrong_type(name, "a number"))
    }

    /// A whole number that is not negative.
    pub fn count(&self, name: &str) -> Result<usize> {
        usize::of_value(self.get(name)?).ok_or_else(|| Settings::wrong_type(name, "a whole number"))
    }

    /// Yes or no.
    pub fn flag(&self, name: &str) -> Result<bool> {
        bool::of_value(self.get(name)?).ok_or_else(|| Settings::wrong_type(name, "true or false"))
    }

    /// A word.
    pub fn text(&self, name: &str) -> Result<&str> {
        match self.get(name)? {
            Value::Text(v) => Ok(v),
            _ => Err(Settings::wrong_type(name, "a word")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Setting] = &[
        Setting { name: "rate", help: "", default: Default::Float(0.1), allowed: Allowed::Above(0.0, 1.0) },
        Setting { name: "steps", help: "", default: Default::Int(10), allowed: Allowed::Int(1, i64::MAX) },
        Setting { name: "kind", help: "", default: Default::Text("a"), allowed: Allowed::OneOf(&["a", "b"]) },
    ];

    fn resolve(name: &str, value: &str) -> Result<Settings> {
        Settings::resolve(TABLE, &[(name.to_owned(), Value::parse(value))], "method 'x'")
    }

    #[test]
    fn values_are_checked_and_defaults_filled() {
        let s = resolve("steps", "1e3").unwrap();
        assert_eq!((s.count("steps").unwrap(), s.float("rate").unwrap(), s.text("kind").unwrap()), (1000, 0.1, "a"));
        assert_eq!(resolve("rate", "1").unwrap().float("rate").unwrap(), 1.0);
    }

    /// Whoever writes a table by hand reads it by name.
    #[test]
    fn a_misspelt_key_is_an_error() {
        let s = resolve("steps", "3").unwrap();
        let message = s.float("rte").unwrap_err().to_string();
        assert_eq!(message, "the table of settings has no row 'rte'; did you mean 'rate'?");
        assert!(s.flag("rate").is_err() && s.count("kind").is_err() && s.text("steps").is_err());
        assert!(s.typed::<usize>("step").is_none());
    }

    #[test]
    fn wrong_names_and_values_get_one_sentence() {
        let message = |n, v| resolve(n, v).unwrap_err().to_string();
        assert_eq!(message("rte", "1"), "method 'x' has no setting 'rte'; did you mean 'rate'?");
        assert_eq!(
            message("rate", "0"),
            "the setting 'rate' cannot be '0'; it takes a number above 0, at most 1 (default 0.1)"
        );
        for (name, value) in [("rate", "nan"), ("rate", "inf"), ("steps", "0"), ("steps", "1.5"), ("kind", "c")] {
            assert!(message(name, value).contains("it takes"));
        }
    }
}
