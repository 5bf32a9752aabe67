//! Columns that are no inputs though they look like some: indices, identifiers, free text; and words for yes and no.
//!
//! A column is judged by its name and by whether its values repeat: what differs in every row says nothing of another row. Cost: O(rows) for each column.

use super::table::Column;
use std::collections::HashSet;

/// A text whose values all differ is a name if there are more of them than this.
const MOST_DISTINCT: usize = 20;
/// A text with more different values than this, most of which do not repeat, is no category.
const MANY: usize = 50;
/// Mean number of words from which values are sentences.
const SENTENCE: f64 = 4.0;

/// Why a column is left out, as what follows "column 'x'"; none if it may serve as an input. `place` is its number in the file.
pub(super) fn no_input(name: &str, place: usize, column: &Column) -> Option<&'static str> {
    match column {
        Column::Bool(_) => None,
        Column::Number(values) => index(name, place, values),
        Column::Text(cells) => text(name, cells),
    }
}

fn index(name: &str, place: usize, values: &[f64]) -> Option<&'static str> {
    let pandas = name.starts_with("__index_level_") || name.starts_with("Unnamed: ");
    let unnamed = place == 0 && name == "column_1";
    let (identifier, counter) = (is_identifier(name), is_counter(name));
    if !(pandas || unnamed || identifier || counter) || values.iter().any(|v| v.fract() != 0.0) {
        return None; // NaN has a fraction too
    }
    if counts_rows(values) && (pandas || unnamed || counter) {
        return Some("is an index: it counts the rows");
    }
    let mut seen = HashSet::with_capacity(values.len());
    let distinct = (pandas || identifier) && values.iter().all(|v| seen.insert(v.to_bits()));
    distinct.then_some(if pandas { "is an index: its numbers are all different" } else { "is an identifier" })
}

/// Whether a column of numbers counts the rows one by one.
pub(super) fn counts_rows(values: &[f64]) -> bool {
    values.len() > 1 && values.windows(2).all(|w| w[1] - w[0] == 1.0)
}

fn text(name: &str, cells: &[Option<String>]) -> Option<&'static str> {
    let mut distinct: HashSet<&str> = HashSet::new();
    let (mut present, mut words) = (0usize, 0usize);
    for cell in cells.iter().flatten() {
        present += 1;
        words += cell.split_whitespace().count();
        distinct.insert(cell);
    }
    let sentences = words as f64 >= SENTENCE * present as f64;
    let mostly = 2 * distinct.len() > present;
    if sentences && mostly && distinct.len() > MOST_DISTINCT {
        return Some("is free text");
    }
    let all = distinct.len() == present && present > MOST_DISTINCT;
    if all || (mostly && is_identifier(name) && distinct.len() > MOST_DISTINCT) {
        return Some("is an identifier: its values do not repeat");
    }
    (distinct.len() > MANY && 10 * distinct.len() > 9 * present).then_some("has values that hardly repeat")
}

/// `id`, `user_id`, `userId`, `UUID` …
fn is_identifier(name: &str) -> bool {
    let lower = name.to_lowercase();
    let whole = ["id", "ids", "uid", "uuid", "guid", "identifier", "rowid"].contains(&lower.as_str());
    let ends = ["_id", "-id", " id", ".id"].iter().any(|e| lower.ends_with(e));
    let camel =
        (name.ends_with("Id") || name.ends_with("ID")) && name.chars().rev().nth(2).is_some_and(|c| c.is_lowercase());
    whole || ends || camel
}

/// Names of columns that number the rows, where they do.
fn is_counter(name: &str) -> bool {
    ["index", "row", "rownames", "row_number", "rownum", "row.names", "record", "obs", "nr", "no"]
        .contains(&name.to_lowercase().as_str())
}

/// A word for yes or no.
pub(super) fn yes_or_no(word: &str) -> Option<bool> {
    let is = |words: &[&str]| words.iter().any(|w| word.eq_ignore_ascii_case(w));
    match () {
        () if is(&["true", "yes", "y", "t"]) => Some(true),
        () if is(&["false", "no", "n", "f"]) => Some(false),
        () => None,
    }
}

/// Whether a text column holds words for yes and for no, and nothing else.
pub(super) fn holds_yes_and_no(column: &Column, rows: &[usize]) -> bool {
    let Column::Text(cells) = column else { return false };
    let (mut yes, mut no) = (false, false);
    for cell in rows.iter().filter_map(|r| cells[*r].as_deref()) {
        match yes_or_no(cell.trim()) {
            Some(true) => yes = true,
            Some(false) => no = true,
            None => return false,
        }
    }
    yes && no
}

/// Fewest rows from which a target may be said to look like counts.
const COUNTS_FROM: usize = 30;

/// Whether numbers look like counts: whole, from 0 or 1, more of them than classes would be, and often the same.
pub(super) fn look_like_counts(values: impl Iterator<Item = f64> + Clone) -> bool {
    let rows = values.clone().count();
    let least = values.clone().fold(f64::INFINITY, f64::min);
    if rows < COUNTS_FROM || !(0.0..=1.0).contains(&least) || values.clone().any(|v| v.fract() != 0.0) {
        return false;
    }
    let distinct: HashSet<u64> = values.map(f64::to_bits).collect();
    distinct.len() > 10 && 2 * distinct.len() <= rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_and_identifiers_go_and_numbers_stay() {
        let counting = || Column::Number((0..30).map(f64::from).collect());
        let shuffled = || Column::Number((0..30).map(|i| f64::from(i * 7 % 30)).collect());
        for (name, place) in [("__index_level_0__", 5), ("Unnamed: 0", 0), ("column_1", 0), ("rownames", 3)] {
            assert_eq!(no_input(name, place, &counting()), Some("is an index: it counts the rows"), "{name}");
        }
        assert!(no_input("__index_level_0__", 0, &shuffled()).is_some());
        assert_eq!(no_input("customer_id", 4, &shuffled()), Some("is an identifier"));
        for (name, place) in [("year", 0), ("x", 0), ("column_1", 1), ("humid", 0), ("paid", 0), ("grid", 1)] {
            assert_eq!(no_input(name, place, &counting()), None, "{name}");
        }
        assert_eq!(no_input("column_1", 0, &shuffled()), None);
        // An identifier that comes again is a group, and may be an input.
        assert_eq!(no_input("id", 0, &Column::Number((0..30).map(|i| f64::from(i / 2)).collect())), None);
        let names = Column::Text((0..30).map(|i| Some(format!("n{i}"))).collect());
        assert_eq!(no_input("name", 0, &names), Some("is an identifier: its values do not repeat"));
        let talk = Column::Text((0..30).map(|i| Some(format!("it was about {i} of them"))).collect());
        assert_eq!(no_input("note", 0, &talk), Some("is free text"));
        let kinds = Column::Text((0..30).map(|i| Some(format!("k{}", i % 5))).collect());
        assert_eq!(no_input("kind", 0, &kinds), None);
    }

    #[test]
    fn counts_are_whole_small_and_repeat() {
        assert!(look_like_counts((0..60).map(|i| f64::from(i % 12))));
        assert!(!look_like_counts((0..60).map(|i| f64::from(i % 5))));
        assert!(!look_like_counts((0..60).map(f64::from)));
        assert!(!look_like_counts((0..60).map(|i| f64::from(i % 12) + 0.5)));
    }
}
