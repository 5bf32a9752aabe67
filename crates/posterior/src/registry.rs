//! Tables that other crates can add to: built-in rows first, then what was registered, each found by its name.
//!
//! A row lives as long as the program, so that a name in a configuration or a model file means the same thing throughout. Names are taken once: a second
//! row of a name is refused and the first one stays. Register before the first fit or load, for example at the start of `main`.

use crate::error::{Error, Result, suggest};
use std::sync::{PoisonError, RwLock};

/// What was registered so far in all tables: kind and name. Methods and models share a kind in two tables.
static REGISTERED: RwLock<Vec<(&str, &str)>> = RwLock::new(Vec::new());

/// A table of rows with unique names.
#[derive(Debug)]
pub struct Registry<E: 'static> {
    what: &'static str,
    built_in: &'static [E],
    name: fn(&E) -> &'static str,
    added: RwLock<Vec<&'static E>>,
}

impl<E: Sync> Registry<E> {
    /// A table of `what` ("method", "likelihood") that begins with built-in rows.
    pub const fn new(what: &'static str, built_in: &'static [E], name: fn(&E) -> &'static str) -> Registry<E> {
        Registry { what, built_in, name, added: RwLock::new(Vec::new()) }
    }

    /// Adds a row. An error where its name is empty or taken.
    pub fn add(&self, entry: E) -> Result<()> {
        let name = (self.name)(&entry);
        let what = self.what;
        if name.is_empty() || name.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(Error::setting(
                format!("'{}' cannot be the name of a {what}", name.escape_debug()),
                "use letters, digits and hyphens",
            ));
        }
        let mut added = self.added.write().unwrap_or_else(PoisonError::into_inner);
        let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
        let built_in = self.built_in.iter().any(|e| (self.name)(e) == name);
        if built_in || registered.contains(&(what, name)) {
            return Err(Error::setting(
                format!("there is a {what} '{name}' already"),
                "give the new one another name, and register it once",
            ));
        }
        registered.push((what, name));
        added.push(Box::leak(Box::new(entry)));
        Ok(())
    }

    /// All rows, built-in ones first.
    pub fn all(&self) -> Vec<&'static E> {
        let added = self.added.read().unwrap_or_else(PoisonError::into_inner);
        self.built_in.iter().chain(added.iter().copied()).collect()
    }

    /// The row of that name, if there is one.
    pub fn get(&self, name: &str) -> Option<&'static E> {
        self.all().into_iter().find(|e| (self.name)(e) == name)
    }

    /// The row of that name; an unknown name is an error that tells the nearest one.
    pub fn find(&self, name: &str) -> Result<&'static E> {
        self.get(name).ok_or_else(|| self.unknown(name, &[]))
    }

    /// The error about an unknown name; `others` are names beyond this table that would have been understood too.
    pub(crate) fn unknown(&self, name: &str, others: &[&str]) -> Error {
        let all = self.all();
        let names: Vec<&str> = all.iter().map(|e| (self.name)(e)).chain(others.iter().copied()).collect();
        Error::setting(format!("there is no {} '{name}'", self.what), suggest(name, names))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_and_names_are_taken_once() {
        static WORDS: Registry<&'static str> = Registry::new("word", &["one", "two"], |e| e);
        assert!(WORDS.get("three").is_none());
        WORDS.add("three").unwrap();
        assert_eq!(WORDS.all(), [&"one", &"two", &"three"]);
        assert_eq!(*WORDS.find("three").unwrap(), "three");
        for (name, part) in [("two", "already"), ("three", "already"), ("", "cannot be the name"), ("a b", "cannot be")]
        {
            assert!(WORDS.add(name).unwrap_err().to_string().contains(part), "{name}");
        }
        assert!(WORDS.find("tow").unwrap_err().to_string().contains("did you mean 'two'?"));
    }
}
