//! JSON lines: an object on every line, its keys the columns.
//!
//! A key that a line does not have, or has as null, is a missing value. A column of numbers and of true and false is what JSON says it is; one that mixes
//! them with text is text. Cost: O(bytes).

use super::table::{Column, Table, number_text, request, show};
use crate::error::{self, Error};
use crate::memory::array;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use std::collections::HashMap;
use std::fmt;

/// An object with its keys in the order they are written in, which is that of the columns.
struct Object(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Object(pairs))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

enum Cell {
    Missing,
    Number(f64),
    Bool(bool),
    Text(String),
}

pub(super) fn read(bytes: &[u8]) -> error::Result<Table> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    request(4 * bytes.len() as u128)?;
    let (mut names, mut places): (Vec<String>, HashMap<String, usize>) = (Vec::new(), HashMap::new());
    let (mut columns, mut lines): (Vec<Vec<Cell>>, Vec<u64>) = (Vec::new(), Vec::new());
    for (number, line) in bytes.split(|b| *b == b'\n').enumerate() {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let line_number = number as u64 + 1;
        let Object(object) = serde_json::from_slice(line).map_err(|_| {
            Error::data("this line is no JSON object", "write one object on every line, as in {\"x\": 1}")
                .on_line(line_number)
        })?;
        for (name, value) in object {
            let place = *places.entry(name.clone()).or_insert_with(|| {
                names.push(name.clone());
                columns.push(Vec::new());
                columns.len() - 1
            });
            let cell = match value {
                Value::Null => Cell::Missing,
                Value::Number(n) => Cell::Number(n.as_f64().filter(|v| v.is_finite()).unwrap_or(f64::NAN)),
                Value::Bool(b) => Cell::Bool(b),
                Value::String(s) if s.trim().is_empty() => Cell::Missing,
                Value::String(s) => Cell::Text(s),
                Value::Array(_) | Value::Object(_) => {
                    let error =
                        Error::data("the value is a list or a record", "flatten it, or leave it out of the file");
                    return Err(error.on_line(line_number).in_column(&show(&name)));
                }
            };
            let column = &mut columns[place];
            // Lines before this one that did not have the key.
            if column.len() > lines.len() {
                let error = Error::data("the line has this key twice", "remove one of them");
                return Err(error.on_line(line_number).in_column(&show(&name)));
            }
            column.resize_with(lines.len(), || Cell::Missing);
            column.push(cell);
        }
        lines.push(line_number);
        request(array::<Cell>(&[lines.len(), names.len()]))?;
    }
    if lines.is_empty() {
        return Err(Error::data("the file is empty", "write an object on every line"));
    }
    for column in &mut columns {
        column.resize_with(lines.len(), || Cell::Missing);
    }
    let columns = names.into_iter().zip(columns.into_iter().map(column)).collect();
    Ok(Table::from_columns(columns)?.on_lines(lines))
}

fn column(cells: Vec<Cell>) -> Column {
    let any = |is: fn(&Cell) -> bool| cells.iter().any(is);
    let (numbers, bools) = (any(|c| matches!(c, Cell::Number(_))), any(|c| matches!(c, Cell::Bool(_))));
    if any(|c| matches!(c, Cell::Text(_))) || (numbers && bools) {
        let text = |cell| match cell {
            Cell::Missing => None,
            Cell::Number(v) => Some(number_text(v)),
            Cell::Bool(b) => Some(b.to_string()),
            Cell::Text(t) => Some(t),
        };
        return Column::Text(cells.into_iter().map(text).collect());
    }
    if bools {
        return Column::Bool(cells.into_iter().map(|c| if let Cell::Bool(b) = c { Some(b) } else { None }).collect());
    }
    Column::Number(cells.into_iter().map(|c| if let Cell::Number(v) = c { v } else { f64::NAN }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_become_columns() {
        let text = b"{\"x\": 1, \"s\": \"a\"}\n\n{\"s\": null, \"x\": 2.5, \"b\": true}\n{\"x\": 3, \"s\": 7}\n";
        let t = read(text).unwrap();
        assert_eq!(t.column_names().collect::<Vec<_>>(), ["x", "s", "b"]);
        assert_eq!(t.column("x").unwrap(), &Column::Number(vec![1.0, 2.5, 3.0]));
        assert_eq!(t.column("s").unwrap(), &Column::Text(vec![Some("a".into()), None, Some("7".into())]));
        assert_eq!(t.column("b").unwrap(), &Column::Bool(vec![None, Some(true), None]));
        assert_eq!(t.line(1), 3);
        let message = |text: &[u8]| read(text).unwrap_err().to_string();
        assert_eq!(
            message(b"{\"x\": 1}\n[1]\n"),
            "line 2: this line is no JSON object; write one object on every line, as in {\"x\": 1}"
        );
        assert_eq!(
            message(b"{\"x\": 1, \"x\": 2}\n"),
            "line 1, column 'x': the line has this key twice; remove one of them"
        );
        assert_eq!(
            message(b"{\"x\": [1]}\n"),
            "line 1, column 'x': the value is a list or a record; flatten it, or leave it out of the file"
        );
    }
}
