//! A space as users write it: a TOML table for every input, with `low` and `high` (and `log` or `integer`), or `values`.

use super::space::{Dimension, Space};
use crate::error::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    low: Option<f64>,
    high: Option<f64>,
    #[serde(default)]
    log: bool,
    #[serde(default)]
    integer: bool,
    values: Option<Vec<toml::Value>>,
}

impl Space {
    /// Reads a space; inputs come in the order of `order`, which must name every one of them.
    pub fn parse(text: &str, order: &[String]) -> Result<Space> {
        let mut entries: std::collections::BTreeMap<String, Entry> = toml::from_str(text).map_err(|e| {
            let what = e.to_string().lines().next().unwrap_or_default().trim().to_owned();
            Error::setting(
                format!("the space cannot be read: {what}"),
                "give a table for every input, as in [x] low = 0 high = 1",
            )
        })?;
        let mut dimensions = Vec::with_capacity(order.len());
        for name in order {
            let Some(entry) = entries.remove(name) else {
                let what = format!("the space says nothing of the input '{name}'");
                return Err(Error::setting(what, "add a table for it, or leave the column out"));
            };
            let dimension = match entry {
                Entry { values: Some(values), low: None, high: None, log: false, integer: false } => {
                    let text = |v: &toml::Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
                    Dimension::Category(values.iter().map(text).collect())
                }
                Entry { values: None, low: Some(low), high: Some(high), log: false, integer: true } => {
                    Dimension::Integer { low, high }
                }
                Entry { values: None, low: Some(low), high: Some(high), log, integer: false } => {
                    Dimension::Real { low, high, log }
                }
                _ => {
                    let what = format!("the input '{name}' is neither a range nor a list");
                    return Err(Error::setting(what, "give low and high (with log or integer), or values"));
                }
            };
            dimensions.push((name.clone(), dimension));
        }
        if let Some(name) = entries.keys().next() {
            let what = format!("the space has an input '{name}', which is no column of the data");
            return Err(Error::setting(what, "add the column, or leave it out of the space"));
        }
        Space::new(dimensions)
    }
}
