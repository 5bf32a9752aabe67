//! CSV: comma, semicolon or tab; what a column holds is told from its cells.

use super::table::{CORRECT, Column, ReadOptions, Table, not_finite, request, show, text_among_numbers};
use crate::error::{Error, Result};
use crate::memory::array;
use std::collections::HashSet;

/// Share of a column's cells that must be numbers for the rest to be taken as slips rather than as text.
const MOSTLY_NUMBERS: f64 = 0.9;

/// All cells of the rows in one piece of memory.
struct Cells {
    text: String,
    ends: Vec<usize>,
    width: usize,
    lines: Vec<u64>,
}

impl Cells {
    fn get(&self, row: usize, column: usize) -> &str {
        let i = row * self.width + column;
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        self.text[start..self.ends[i]].trim()
    }
}

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
    let (names, cells) = records(bytes, delimiter)?;
    if cells.lines.is_empty() {
        return Err(Error::data("the file has a header line and no rows", "add rows of data"));
    }
    let (text, numeric): (HashSet<&String>, HashSet<&String>) =
        (options.text.iter().collect(), options.numeric.iter().collect());
    let mut columns = Vec::with_capacity(names.len());
    for (i, name) in names.into_iter().enumerate() {
        let declared = match (text.contains(&name), numeric.contains(&name)) {
            (true, _) => Declared::Text,
            (_, true) => Declared::Number,
            _ if options.optional => Declared::Anything,
            _ => Declared::Nothing,
        };
        let column = column(&cells, i, declared, delimiter).map_err(|e| e.in_column(&show(&name)))?;
        columns.push((name, column));
    }
    Ok(Table::from_columns(columns)?.on_lines(cells.lines))
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

/// Header names and the cells of all rows.
fn records(bytes: &[u8], delimiter: u8) -> Result<(Vec<String>, Cells)> {
    let mut reader =
        ::csv::ReaderBuilder::new().delimiter(delimiter).has_headers(false).flexible(true).from_reader(bytes);
    let mut record = ::csv::StringRecord::new();
    let mut names: Option<Vec<String>> = None;
    let mut cells = Cells { text: String::new(), ends: Vec::new(), width: 0, lines: Vec::new() };
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
            None => {
                names = Some(header(&record).map_err(|e| e.on_line(line))?);
                cells.width = record.len();
            }
            Some(_) if record.len() == cells.width => {
                for cell in &record {
                    cells.text.push_str(cell);
                    cells.ends.push(cells.text.len());
                }
                cells.lines.push(line);
            }
            Some(_) if blank && record.len() == 1 => {}
            Some(names) => {
                let what = format!("the header has {} cells and this row has {}", names.len(), record.len());
                return Err(Error::data(what, "correct the row").on_line(line));
            }
        }
    }
    match names {
        Some(names) => Ok((names, cells)),
        None => Err(Error::data("the file is empty", "give a file with a header line and rows")),
    }
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

fn column(cells: &Cells, i: usize, declared: Declared, delimiter: u8) -> Result<Column> {
    request(array::<Cell>(&[cells.lines.len()]))?;
    let kinds: Vec<Cell> = (0..cells.lines.len()).map(|r| classify(cells.get(r, i), delimiter)).collect();
    let of = |test: fn(&Cell) -> bool| kinds.iter().filter(|k| test(k)).count();
    let present = of(|k| *k != Cell::Missing);
    let finite = of(|k| matches!(k, Cell::Number(_)));
    let numbers = of(|k| matches!(k, Cell::Number(_) | Cell::Infinite));
    let bools = of(|k| matches!(k, Cell::Bool(_)));
    let looks_numeric = match declared {
        Declared::Anything => finite == present,
        _ => finite > 0 && numbers as f64 >= MOSTLY_NUMBERS * present as f64,
    };
    let numeric = declared == Declared::Number || present == 0 || looks_numeric;
    if declared == Declared::Text || (!numeric && bools < present) {
        let longest = (0..cells.lines.len()).map(|r| cells.get(r, i).len() as u128).sum::<u128>();
        request(longest + array::<(Option<String>, usize)>(&[cells.lines.len()]))?;
        let text = |(r, kind): (usize, &Cell)| (*kind != Cell::Missing).then(|| cells.get(r, i).to_owned());
        return Ok(Column::Text(kinds.iter().enumerate().map(text).collect()));
    }
    if !numeric {
        let value = |kind: &Cell| if let Cell::Bool(b) = kind { Some(*b) } else { None };
        return Ok(Column::Bool(kinds.iter().map(value).collect()));
    }
    let fix = match declared {
        Declared::Number => CORRECT,
        _ => "correct the cell, or declare the column as text with ⟨text⟩",
    };
    let number = |(r, kind): (usize, &Cell)| match kind {
        Cell::Number(v) => Ok(*v),
        Cell::Missing => Ok(f64::NAN),
        Cell::Infinite => Err(not_finite(cells.get(r, i)).on_line(cells.lines[r])),
        Cell::Bool(_) | Cell::Text => Err(text_among_numbers(cells.get(r, i), fix).on_line(cells.lines[r])),
    };
    Ok(Column::Number(kinds.iter().enumerate().map(number).collect::<Result<_>>()?))
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
