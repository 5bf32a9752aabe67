//! CSV: comma, semicolon or tab; what a column holds is told from its cells.
//!
//! One pass over the text keeps every cell as a number and counts what is none; a second one gathers text and true or false, where there are such columns. Beside the
//! text of the file that takes 8 bytes a cell.

use super::numerals::{Numeral, Numerals};
use super::table::{CORRECT, Column, ReadOptions, Table, not_finite, request, show, text_among_numbers};
use crate::error::{Error, Result};
use crate::memory::array;
use std::collections::HashSet;

/// Share of a column's cells that must be numbers for the rest to be taken as slips rather than as text.
const MOSTLY_NUMBERS: f64 = 0.9;

/// What one cell is by itself.
#[derive(Clone, Copy, PartialEq)]
enum Cell {
    Missing,
    Number(f64),
    Infinite,
    Bool(bool),
    Text,
}

/// What is known of a column before its cells are seen.
#[derive(Clone, Copy, PartialEq)]
enum Declared {
    Text,
    Number,
    /// No one asked for it as numbers: cells of all kinds may stand in it.
    Anything,
    Nothing,
}

pub(super) fn read(bytes: &[u8], options: &ReadOptions) -> Result<Table> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if let Err(e) = std::str::from_utf8(bytes) {
        let line = 1 + count(&bytes[..e.valid_up_to()], b'\n');
        return Err(Error::data("the text is not UTF-8", "save the file as UTF-8").on_line(line));
    }
    let delimiter = delimiter(bytes);
    // The text once more, and of every cell, of which no more can be than separators, its end and its value.
    let most = bytes.iter().filter(|b| **b == delimiter || **b == b'\n' || **b == b'\r').count() + 1;
    request(bytes.len() as u128 + array::<(usize, f64)>(&[most]))?;
    let (text, numeric): (HashSet<&String>, HashSet<&String>) =
        (options.text.iter().collect(), options.numeric.iter().collect());
    let declared = |name: &String| match (text.contains(name), numeric.contains(name)) {
        (true, _) => Declared::Text,
        (_, true) => Declared::Number,
        _ if options.optional => Declared::Anything,
        _ => Declared::Nothing,
    };
    let (mut columns, mut lines): (Vec<Seen>, Vec<u64>) = (Vec::new(), Vec::new());
    let names = records(bytes, delimiter, &mut |names, record, line| {
        if columns.is_empty() {
            columns = names.iter().map(|name| Seen::new(declared(name))).collect();
        }
        columns.iter_mut().zip(record).for_each(|(column, cell)| column.add(cell.trim(), line, delimiter));
        lines.push(line);
    })?;
    if lines.is_empty() {
        return Err(Error::data("the file has a header line and no rows", "add rows of data"));
    }
    let mut columns = names.iter().zip(columns).map(|(name, seen)| seen.column(name)).collect::<Result<Vec<Kept>>>()?;
    if columns.iter().any(|c| !matches!(c, Kept::Number(_))) {
        // No more than the cells' text, and for each where it stands.
        let words: u128 =
            columns.iter().map(|c| if let Kept::Text(_, bytes) = c { u128::from(*bytes) } else { 0 }).sum();
        let of_text = columns.iter().filter(|c| matches!(c, Kept::Text(..))).count();
        request(words + array::<(Option<String>, usize)>(&[lines.len(), of_text]))?;
        records(bytes, delimiter, &mut |_, record, _| {
            columns.iter_mut().zip(record).for_each(|(column, cell)| column.add(cell.trim(), delimiter));
        })?;
    }
    let columns = names.into_iter().zip(columns.into_iter().map(Kept::done)).collect();
    Ok(Table::from_columns(columns)?.on_lines(lines))
}

fn count(bytes: &[u8], byte: u8) -> u64 {
    bytes.iter().filter(|b| **b == byte).count() as u64
}

/// The separator that stands most often in the header line outside quotes; a comma if none does.
fn delimiter(bytes: &[u8]) -> u8 {
    let (mut quoted, mut counts, mut seen) = (false, [0usize; 3], false);
    for &b in bytes {
        match b {
            b'"' => quoted = !quoted,
            b'\n' | b'\r' if !quoted && seen => break,
            b',' if !quoted => counts[0] += 1,
            b';' if !quoted => counts[1] += 1,
            b'\t' if !quoted => counts[2] += 1,
            _ => {}
        }
        seen |= !b.is_ascii_whitespace();
    }
    // Of equals, a tab is the least likely to stand in a name.
    let [comma, semicolon, tab] = counts;
    if tab > 0 && tab >= comma.max(semicolon) {
        b'\t'
    } else if semicolon > comma {
        b';'
    } else {
        b','
    }
}

/// Header names; every row goes to `row`, with the names and the line it begins on.
fn records(
    bytes: &[u8],
    delimiter: u8,
    row: &mut dyn FnMut(&[String], &::csv::StringRecord, u64),
) -> Result<Vec<String>> {
    let mut reader =
        ::csv::ReaderBuilder::new().delimiter(delimiter).has_headers(false).flexible(true).from_reader(bytes);
    let mut record = ::csv::StringRecord::new();
    let mut names: Option<Vec<String>> = None;
    let (mut line, mut counted) = (1, 0);
    let damaged = |e: ::csv::Error| Error::data(super::table::one_line(e), "correct the file");
    while reader.read_record(&mut record).map_err(damaged)? {
        // The reader's own line number stands before the blank lines it skipped.
        let end = (reader.position().byte() as usize).min(bytes.len());
        let mut start = record.position().map_or(0, |p| p.byte() as usize).min(end);
        while start < end && matches!(bytes[start], b'\n' | b'\r') {
            start += 1;
        }
        line += count(&bytes[counted..start], b'\n');
        counted = start;
        if end == bytes.len() && record.iter().any(|c| c.contains('\n')) && count(&bytes[start..], b'"') % 2 == 1 {
            let what = "a quote is opened and never closed";
            return Err(Error::data(what, "close it, or remove it").on_line(line));
        }
        let blank = record.iter().all(|c| c.trim().is_empty());
        match &names {
            None if blank && record.len() == 1 => {}
            None => names = Some(header(&record).map_err(|e| e.on_line(line))?),
            Some(names) if record.len() == names.len() => row(names, &record, line),
            Some(_) if blank && record.len() == 1 => {}
            Some(names) => {
                let what = format!("the header has {} cells and this row has {}", names.len(), record.len());
                return Err(Error::data(what, "correct the row").on_line(line));
            }
        }
    }
    names.ok_or_else(|| Error::data("the file is empty", "give a file with a header line and rows"))
}

fn header(record: &::csv::StringRecord) -> Result<Vec<String>> {
    let mut seen = HashSet::new();
    let mut names = Vec::with_capacity(record.len());
    for (i, cell) in record.iter().enumerate() {
        let name = match cell.trim() {
            "" => format!("column_{}", i + 1),
            name => name.to_owned(),
        };
        if !seen.insert(name.clone()) {
            return Err(Error::data("two columns have this name", "rename one of them").in_column(&show(&name)));
        }
        names.push(name);
    }
    Ok(names)
}

fn classify(cell: &str, delimiter: u8) -> Cell {
    if matches!(cell, "" | "NA" | "N/A" | "NaN" | "nan" | "null" | "NULL" | "?") {
        return Cell::Missing;
    }
    let number = cell.parse().ok().or_else(|| {
        let decimal_comma = delimiter == b';' && !cell.contains('.') && cell.matches(',').count() == 1;
        decimal_comma.then(|| cell.replace(',', ".").parse().ok()).flatten()
    });
    match number {
        Some(v) if f64::is_nan(v) => Cell::Missing,
        Some(v) if v.is_infinite() => Cell::Infinite,
        Some(v) => Cell::Number(v),
        None if cell.eq_ignore_ascii_case("true") => Cell::Bool(true),
        None if cell.eq_ignore_ascii_case("false") => Cell::Bool(false),
        None => Cell::Text,
    }
}

/// A column as the first pass sees it: its numbers, and how many cells were of which kind.
struct Seen {
    declared: Declared,
    /// NaN where a cell is no number; none of a column that is text by declaration.
    numbers: Vec<f64>,
    present: usize,
    finite: usize,
    numeric: usize,
    bools: usize,
    /// Bytes of the cells.
    bytes: u64,
    /// The first cell that no column of numbers may hold, and its line.
    odd: Option<(Cell, String, u64)>,
    /// Numbers with currencies, percent signs or separated thousands, and the first of them.
    numerals: Numerals,
    first_numeral: Option<(Cell, String, u64)>,
}

/// A number that is not plain. Files with semicolons have decimal commas, and points between thousands.
fn numeral(cell: &str, delimiter: u8) -> Option<Numeral> {
    let swapped = || {
        let swap = |c| match c {
            '.' => ',',
            ',' => '.',
            c => c,
        };
        Numeral::read(&cell.chars().map(swap).collect::<String>(), false)
    };
    let swapped = if delimiter == b';' && cell.contains(',') { swapped() } else { None };
    swapped.or_else(|| Numeral::read(cell, delimiter == b'\t'))
}

impl Seen {
    fn new(declared: Declared) -> Seen {
        Seen {
            declared,
            numbers: Vec::new(),
            present: 0,
            finite: 0,
            numeric: 0,
            bools: 0,
            bytes: 0,
            odd: None,
            numerals: Numerals::default(),
            first_numeral: None,
        }
    }

    fn add(&mut self, cell: &str, line: u64, delimiter: u8) {
        self.bytes += cell.len() as u64;
        if self.declared == Declared::Text {
            return;
        }
        let kind = classify(cell, delimiter);
        self.present += usize::from(kind != Cell::Missing);
        self.finite += usize::from(matches!(kind, Cell::Number(_)));
        self.numeric += usize::from(matches!(kind, Cell::Number(_) | Cell::Infinite));
        self.bools += usize::from(matches!(kind, Cell::Bool(_)));
        if let Some(numeral) = (kind == Cell::Text).then(|| numeral(cell, delimiter)).flatten() {
            self.numerals.add(self.numbers.len(), numeral);
            self.numbers.push(numeral.value);
            self.first_numeral.get_or_insert_with(|| (kind, cell.to_owned(), line));
            return;
        }
        self.numbers.push(if let Cell::Number(v) = kind { v } else { f64::NAN });
        if self.odd.is_none() && !matches!(kind, Cell::Number(_) | Cell::Missing) {
            self.odd = Some((kind, cell.to_owned(), line));
        }
    }

    /// What it holds, or the cell that does not go with the others.
    fn column(mut self, name: &str) -> Result<Kept> {
        if self.numerals.settle(self.finite, &mut self.numbers) {
            self.finite += self.numerals.count();
            self.numeric += self.numerals.count();
        } else {
            let line = |odd: &Option<(Cell, String, u64)>| odd.as_ref().map_or(u64::MAX, |o| o.2);
            if line(&self.first_numeral) < line(&self.odd) {
                self.odd = self.first_numeral;
            }
        }
        let looks_numeric = match self.declared {
            Declared::Anything => self.finite == self.present,
            _ => self.finite > 0 && self.numeric as f64 >= MOSTLY_NUMBERS * self.present as f64,
        };
        let numeric = self.declared == Declared::Number || self.present == 0 || looks_numeric;
        if self.declared == Declared::Text || (!numeric && self.bools < self.present) {
            return Ok(Kept::Text(Vec::new(), self.bytes));
        }
        if !numeric {
            return Ok(Kept::Bool(Vec::new()));
        }
        let fix = match self.declared {
            Declared::Number => CORRECT,
            _ => "correct the cell, or declare the column as text with ⟨text⟩",
        };
        match self.odd {
            None => Ok(Kept::Number(self.numbers)),
            Some((kind, cell, line)) => {
                let error = if kind == Cell::Infinite { not_finite(&cell) } else { text_among_numbers(&cell, fix) };
                Err(error.on_line(line).in_column(&show(name)))
            }
        }
    }
}

/// A column that is known to hold numbers, text (of so many bytes) or true and false; the second pass fills the latter two.
enum Kept {
    Number(Vec<f64>),
    Text(Vec<Option<String>>, u64),
    Bool(Vec<Option<bool>>),
}

impl Kept {
    fn add(&mut self, cell: &str, delimiter: u8) {
        match self {
            Kept::Number(_) => {}
            Kept::Text(all, _) => {
                all.push((classify(cell, delimiter) != Cell::Missing).then(|| cell.to_owned()));
            }
            Kept::Bool(all) => {
                all.push(if let Cell::Bool(b) = classify(cell, delimiter) { Some(b) } else { None });
            }
        }
    }

    fn done(self) -> Column {
        match self {
            Kept::Number(all) => Column::Number(all),
            Kept::Text(all, _) => Column::Text(all),
            Kept::Bool(all) => Column::Bool(all),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        read(text.as_bytes(), &ReadOptions::default()).unwrap()
    }

    fn message(text: &[u8]) -> String {
        read(text, &ReadOptions::default()).unwrap_err().to_string()
    }

    fn some(words: &[&str]) -> Column {
        Column::Text(words.iter().map(|w| Some((*w).to_owned())).collect())
    }

    #[test]
    fn separators_are_told_from_the_header() {
        for (text, second) in
            [("\u{feff}a,\"b;c;d\"\r\n1,2\r\n", "b;c;d"), ("a;b\n1,5;2\n", "b"), ("\na\tb,c\n1\t2\n", "b,c")]
        {
            let t = table(text);
            assert_eq!(t.column_names().nth(1), Some(second));
            assert_eq!(t.column(second).unwrap(), &Column::Number(vec![2.0]));
        }
        assert_eq!(table("a;b\n1,5;2\n").column("a").unwrap(), &Column::Number(vec![1.5]));
        assert_eq!(table("a\n1\n").rows(), 1);
    }

    #[test]
    fn columns_are_told_from_their_cells() {
        let t = table("id;p;q;s\n1;1.304,50 €;12,5%;a1\n2;2 €;3%;7\n");
        assert_eq!(t.column("p").unwrap(), &Column::Number(vec![1304.5, 2.0]));
        assert_eq!(t.column("q").unwrap(), &Column::Number(vec![12.5, 3.0]));
        assert_eq!(t.column("s").unwrap(), &some(&["a1", "7"]));
        let t = table("p,n,m\n$130,\"3,504\",5%\n$5,12,5\n,,\n");
        let numbers = |name: &str| match t.column(name).unwrap() {
            Column::Number(v) => v[..2].to_vec(),
            other => panic!("{other:?}"),
        };
        assert_eq!((numbers("p"), numbers("n")), (vec![130.0, 5.0], vec![3504.0, 12.0]));
        assert!(matches!(t.column("m").unwrap(), Column::Text(_)));
        let t = table("n,t,b,,m\n1e3,x,True,1,\n NA ,3,false,2,?\n-.5,inf,,3,NULL\n");
        let Column::Number(n) = t.column("n").unwrap() else { panic!() };
        assert!(n[0] == 1000.0 && n[1].is_nan() && n[2] == -0.5);
        assert_eq!(t.column("t").unwrap(), &some(&["x", "3", "inf"]));
        assert_eq!(t.column("b").unwrap(), &Column::Bool(vec![Some(true), Some(false), None]));
        assert_eq!(t.column("column_4").unwrap(), &Column::Number(vec![1.0, 2.0, 3.0]));
        assert!(t.column("m").unwrap().is_missing(0) && t.column("m").unwrap().is_missing(2));
    }

    #[test]
    fn declared_columns_are_what_they_are_declared_to_be() {
        let options = ReadOptions { text: vec!["zip".into()], ..ReadOptions::default() };
        assert_eq!(read(b"zip,x\n01,1\n02,2\n", &options).unwrap().column("zip").unwrap(), &some(&["01", "02"]));
        let options = ReadOptions { numeric: vec!["x".into()], ..ReadOptions::default() };
        assert_eq!(
            read(b"x\na\nb\n", &options).unwrap_err().to_string(),
            "line 2, column 'x': text 'a' in a numeric column; correct the cell"
        );
    }

    #[test]
    fn lines_count_blank_lines_and_line_breaks_in_quotes() {
        let t = table("a,b\r\n\r\n1,\"x\ny\"\n  \n\n2,z\n");
        assert_eq!((t.line(0), t.line(1)), (3, 7));
    }

    #[test]
    fn slips_get_one_sentence_with_their_place() {
        let nine = "x\n1\n2\n3\n4\n5\n6\n7\n8\n9\n".to_owned();
        assert_eq!(
            message(format!("{nine}abc\n").as_bytes()),
            "line 11, column 'x': text 'abc' in a numeric column; correct the cell, or declare the column as text with text"
        );
        for (text, expected) in [
            (&b""[..], "the file is empty; give a file with a header line and rows"),
            (b" \n\n", "the file is empty; give a file with a header line and rows"),
            (b"a,b\n", "the file has a header line and no rows; add rows of data"),
            (b"a,b\n1,2\n\n1,2,3\n", "line 4: the header has 2 cells and this row has 3; correct the row"),
            (b"a,b\n1\n", "line 2: the header has 2 cells and this row has 1; correct the row"),
            (b"a,b\n1,2\n\xff,2\n", "line 3: the text is not UTF-8; save the file as UTF-8"),
            (b"\na,b,a\n1,2,3\n", "line 2, column 'a': two columns have this name; rename one of them"),
            (b"a,b\n1,x\n2,\"y\n3,z\n", "line 3: a quote is opened and never closed; close it, or remove it"),
        ] {
            assert_eq!(message(text), expected);
        }
        for inf in ["inf", "-Infinity", "1e999"] {
            assert_eq!(
                message(format!("a\n1\n{inf}\n").as_bytes()),
                format!(
                    "line 3, column 'a': {inf} is not finite; correct the cell, or leave it empty if the value is missing"
                )
            );
        }
    }
}
