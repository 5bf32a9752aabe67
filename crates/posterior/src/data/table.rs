//! A table as it stands in a user's file: named columns of raw values, or a block of images with their labels.

use super::numerals::{Numeral, Numerals};
use super::{csv, idx, json_lines, npy, parquet, text};
use crate::error::{Error, Place, Result, steers, suggest};
use crate::memory;
use crate::nn::Shape;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The values of one column.
#[derive(Debug, Clone, PartialEq)]
pub enum Column {
    /// Finite numbers; NaN where a value is missing.
    Number(Vec<f64>),
    /// Text.
    Text(Vec<Option<String>>),
    /// Yes or no.
    Bool(Vec<Option<bool>>),
}

impl Column {
    /// How many rows.
    pub fn len(&self) -> usize {
        match self {
            Column::Number(v) => v.len(),
            Column::Text(v) => v.len(),
            Column::Bool(v) => v.len(),
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the value of a row is missing.
    pub fn is_missing(&self, row: usize) -> bool {
        match self {
            Column::Number(v) => v[row].is_nan(),
            Column::Text(v) => v[row].is_none(),
            Column::Bool(v) => v[row].is_none(),
        }
    }

    /// The value of a row as text, so that 3.0 is "3"; none where it is missing.
    pub fn text(&self, row: usize) -> Option<String> {
        match self {
            Column::Number(v) => (!v[row].is_nan()).then(|| number_text(v[row])),
            Column::Text(v) => v[row].clone(),
            Column::Bool(v) => v[row].map(|b| b.to_string()),
        }
    }

    fn select(&self, rows: &[usize]) -> Column {
        match self {
            Column::Number(v) => Column::Number(rows.iter().map(|&r| v[r]).collect()),
            Column::Text(v) => Column::Text(rows.iter().map(|&r| v[r].clone()).collect()),
            Column::Bool(v) => Column::Bool(rows.iter().map(|&r| v[r]).collect()),
        }
    }
}

/// A block of images, one per row.
#[derive(Debug, Clone, PartialEq)]
pub struct Images {
    /// Shape of one image: always [`Shape::Image`].
    pub shape: Shape,
    /// `rows × shape.len()` brightnesses; bytes become 0 to 1, other numbers stay as they are.
    pub pixels: Vec<f32>,
}

/// How to read a file.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// File of the labels of IDX images; otherwise the one beside it is found by its name.
    pub labels: Option<PathBuf>,
    /// Columns that must hold numbers: text in them is an error.
    pub numeric: Vec<String>,
    /// Columns to take as text, whatever is in them.
    pub text: Vec<String>,
    /// Whether the file is read for a model that names its columns: `numeric` and `text` may name columns that the file does not
    /// have, and in columns they do not name anything may stand.
    pub optional: bool,
}

/// Named columns, or images, with the place in the file where each row stands.
#[derive(Debug, Clone)]
pub struct Table {
    names: Vec<String>,
    /// Where a name stands: a file may have many thousands of columns, and each is looked up.
    index: Arc<HashMap<String, usize>>,
    columns: Vec<Column>,
    images: Option<Images>,
    rows: usize,
    source: Option<PathBuf>,
    lines: Option<Vec<u64>>,
    /// Columns that were asked for as text, whatever they look like.
    as_text: Arc<HashSet<String>>,
    /// What a user should know of how the file was read.
    notes: Vec<String>,
}

impl Table {
    /// Reads CSV, JSON lines, Parquet, NPY, NPZ or IDX; what a file is, its first bytes tell.
    ///
    /// Also compressed: CSV, JSON lines and IDX with gzip, the first two with Zstandard.
    pub fn read(path: &Path, options: &ReadOptions) -> Result<Table> {
        let io = |e| Error::io("read", path, e);
        let file = File::open(path).map_err(io)?;
        let size = file.metadata().map_err(io)?.len();
        Table::read_stream(file, Some(size), path, options)
    }

    /// Reads what [`Table::read`] reads, but no Parquet, from a stream that `name` stands for in messages.
    pub fn read_from(stream: impl Read, name: &str, options: &ReadOptions) -> Result<Table> {
        Table::read_stream(stream, None, Path::new(name), options)
    }

    fn read_stream(stream: impl Read, size: Option<u64>, path: &Path, options: &ReadOptions) -> Result<Table> {
        let io = |e| Error::io("read", path, e);
        let mut reader = BufReader::new(stream);
        let start = first_bytes(&mut reader, 8).map_err(io)?;
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("").to_lowercase();
        let whole = std::io::Cursor::new(start.clone()).chain(reader);
        let table = match &start[..] {
            [] => Err(Error::data("the file is empty", "give a file with a header line and rows")),
            [b'P', b'A', b'R', b'1', ..] if size.is_none() => {
                Err(Error::data("Parquet cannot be read from a stream", "give the file itself"))
            }
            [b'P', b'A', b'R', b'1', ..] => parquet::read(path),
            [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => npy::read_npy(&all(whole, path)?),
            [b'P', b'K', 3, 4, ..] => npy::read_npz(&all(whole, path)?),
            [0x1f, 0x8b, ..] => {
                let mut inner = flate2::read::MultiGzDecoder::new(whole);
                let start = first_bytes(&mut inner, 4).map_err(io)?;
                let whole = std::io::Cursor::new(start.clone()).chain(inner);
                match &start[..] {
                    [0, 0, 8, ..] => idx::read(whole, None, path, options),
                    [] => Err(Error::data("the file is empty", "give a file with a header line and rows")),
                    _ => written(unpacked(whole, path)?, options),
                }
            }
            [0x28, 0xb5, 0x2f, 0xfd, ..] => unzstd(whole, path).and_then(|bytes| written(bytes, options)),
            [0, 0, _, _, ..] => idx::read(whole, size, path, options),
            // The length of a safetensors header; no text has such bytes.
            [_, _, _, _, 0, 0, 0, 0] => Err(Error::data(
                "this is a model file, not data",
                "give a data file; a model stands before it, as in posterior predict MODEL DATA",
            )),
            _ => match extension.as_str() {
                "parquet" | "npy" | "npz" => Err(Error::data(
                    format!("this is not a {} file, or its first bytes are damaged", extension.to_uppercase()),
                    "write it again",
                )),
                _ => written(all(whole, path)?, options),
            },
        };
        let mut table = table.and_then(|t| t.declared(options)).map_err(|e| e.in_file(path))?;
        if table.rows == 0 {
            return Err(Error::data("the file has no rows", "add rows of data").in_file(path));
        }
        table.source = Some(path.to_owned());
        Ok(table)
    }

    /// A table from values in memory.
    pub fn from_columns(columns: Vec<(String, Column)>) -> Result<Table> {
        let rows = columns.first().map_or(0, |(_, c)| c.len());
        let mut seen = HashSet::new();
        for (name, column) in &columns {
            if !seen.insert(name.as_str()) {
                return Err(Error::data("two columns have this name", "rename one of them").in_column(&show(name)));
            }
            if column.len() != rows {
                let what = format!("it has {} rows and column '{}' has {rows}", column.len(), show(&columns[0].0));
                return Err(Error::data(what, "give columns of one length").in_column(&show(name)));
            }
            if let Column::Number(values) = column
                && let Some(row) = values.iter().position(|v| v.is_infinite())
            {
                return Err(not_finite(&values[row].to_string()).on_line(row as u64 + 1).in_column(&show(name)));
            }
        }
        let index = columns.iter().enumerate().map(|(i, (name, _))| (name.clone(), i)).collect();
        let (names, columns) = columns.into_iter().unzip();
        Ok(Table {
            names,
            index: Arc::new(index),
            columns,
            images: None,
            rows,
            source: None,
            lines: None,
            as_text: Arc::default(),
            notes: Vec::new(),
        })
    }

    /// A table of images, with a label column where there are labels.
    pub fn from_images(images: Images, label: Option<(String, Column)>) -> Result<Table> {
        let size = images.shape.len();
        if size == 0 || !matches!(images.shape, Shape::Image { .. }) || !images.pixels.len().is_multiple_of(size) {
            return Err(Error::data(
                "the images have no pixels, or pieces of them are missing",
                "write the file again",
            ));
        }
        if let Some(at) = images.pixels.iter().position(|p| !p.is_finite()) {
            return Err(not_finite("a pixel").on_line((at / size) as u64 + 1));
        }
        let rows = images.pixels.len() / size;
        let mut table = Table::from_columns(label.into_iter().collect())?;
        if let Some(column) = table.columns.first()
            && column.len() != rows
        {
            let what = format!("there are {rows} images and {} labels", column.len());
            return Err(Error::data(what, "give the label file that belongs to the images"));
        }
        table.rows = rows;
        table.images = Some(images);
        Ok(table)
    }

    /// The same table, its rows standing on these lines of the file.
    pub(super) fn on_lines(mut self, lines: Vec<u64>) -> Table {
        self.lines = Some(lines);
        self
    }

    /// Names and columns, to be written otherwise than they are: names are still found as they were.
    pub(super) fn names_and_columns_mut(&mut self) -> (&mut [String], &mut [Column]) {
        (&mut self.names, &mut self.columns)
    }

    /// How many rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The file the table was read from.
    pub fn source(&self) -> Option<&Path> {
        self.source.as_deref()
    }

    /// What a user should know of how the file was read.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The images, if the rows are images.
    pub fn images(&self) -> Option<&Images> {
        self.images.as_ref()
    }

    /// Names of the columns, in order.
    pub fn column_names(&self) -> impl Iterator<Item = &str> + Clone {
        self.names.iter().map(String::as_str)
    }

    /// All columns with their names, in order.
    pub fn columns(&self) -> impl Iterator<Item = (&str, &Column)> {
        self.column_names().zip(&self.columns)
    }

    /// The column of this name, if there is one.
    pub fn get(&self, name: &str) -> Option<&Column> {
        self.index.get(name).map(|i| &self.columns[*i])
    }

    /// The column of this name; the error names the nearest one.
    pub fn column(&self, name: &str) -> Result<&Column> {
        self.get(name).ok_or_else(|| {
            let fix = match (&self.images, self.names.is_empty()) {
                (Some(_), true) => "the images have no labels: give their file with ⟨labels⟩".to_owned(),
                (None, true) => "the table has no columns".to_owned(),
                _ => suggest(&show(name), self.names.iter().map(|n| show(n)).collect::<Vec<_>>().iter().map(|n| &**n)),
            };
            self.locate(Error::data(format!("there is no column '{}'", show(name)), fix))
        })
    }

    /// Whether a column was asked for as text.
    pub(super) fn is_declared_text(&self, name: &str) -> bool {
        self.as_text.contains(name)
    }

    /// Line of the file (or number of the row, from 1) where a row stands.
    pub fn line(&self, row: usize) -> u64 {
        self.lines.as_ref().and_then(|l| l.get(row).copied()).unwrap_or(row as u64 + 1)
    }

    /// File, line and column of a cell, for errors.
    pub fn place(&self, row: usize, column: &str) -> Place {
        Place { file: self.source.clone(), line: Some(self.line(row)), column: Some(show(column)) }
    }

    /// Fills in the file, if the table came from one.
    pub(super) fn locate(&self, error: Error) -> Error {
        error.at(Place { file: self.source.clone(), ..Place::default() })
    }

    /// The rows numbered `rows`, in this order; they keep the lines they came from.
    ///
    /// # Panics
    /// If a row does not exist.
    pub fn select(&self, rows: &[usize]) -> Table {
        Table {
            names: self.names.clone(),
            index: self.index.clone(),
            columns: self.columns.iter().map(|c| c.select(rows)).collect(),
            images: self.images.as_ref().map(|images| {
                let size = images.shape.len();
                let pixels = rows.iter().flat_map(|&r| &images.pixels[r * size..(r + 1) * size]).copied().collect();
                Images { shape: images.shape, pixels }
            }),
            rows: rows.len(),
            source: self.source.clone(),
            lines: Some(rows.iter().map(|&r| self.line(r)).collect()),
            as_text: self.as_text.clone(),
            notes: self.notes.clone(),
        }
    }

    /// Turns columns into what the options declare them to be.
    fn declared(mut self, options: &ReadOptions) -> Result<Table> {
        for name in options.text.iter().chain(&options.numeric) {
            if !options.optional {
                self.column(name)?;
            }
        }
        let (text, numeric): (HashSet<&String>, HashSet<&String>) =
            (options.text.iter().collect(), options.numeric.iter().collect());
        self.as_text = Arc::new(options.text.iter().cloned().collect());
        for i in 0..self.names.len() {
            let name = &self.names[i];
            if !options.optional && !text.contains(name) {
                // Files with types of their own hold numbers in words too.
                if let Some(numbers) = numerals(&self.columns[i]) {
                    self.columns[i] = Column::Number(numbers);
                }
            }
            if text.contains(name) && !matches!(self.columns[i], Column::Text(_)) {
                let column = &self.columns[i];
                self.columns[i] = Column::Text((0..column.len()).map(|r| column.text(r)).collect());
            } else if numeric.contains(name) {
                let column = &self.columns[i];
                let numbers: Result<Vec<f64>> = (0..column.len())
                    .map(|r| match column {
                        Column::Number(v) => Ok(v[r]),
                        _ => column.text(r).map_or(Ok(f64::NAN), |cell| {
                            let read = |cell: &str| Numeral::read(cell, false).map(|n| n.value);
                            let number = cell.trim().parse().ok().or_else(|| read(cell.trim()));
                            let number = number.filter(|v: &f64| v.is_finite());
                            number.ok_or_else(|| text_among_numbers(&cell, CORRECT).at(self.place(r, name)))
                        }),
                    })
                    .collect();
                self.columns[i] = Column::Number(numbers?);
            }
        }
        Ok(self)
    }
}

/// The numbers of a text column that holds numerals, such as $130, and nothing else.
fn numerals(column: &Column) -> Option<Vec<f64>> {
    let Column::Text(cells) = column else { return None };
    let mut all = Numerals::default();
    let mut values = Vec::new();
    for (row, cell) in cells.iter().enumerate() {
        values.push(match cell {
            None => f64::NAN,
            Some(cell) => {
                let numeral = Numeral::read(cell.trim(), false)?;
                all.add(row, numeral);
                numeral.value
            }
        });
    }
    (all.count() > 0 && all.is_written() && all.settle(0, &mut values)).then_some(values)
}

/// Up to `n` bytes from the start of a stream.
fn first_bytes(reader: &mut impl Read, n: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(n).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// All bytes of a stream that stands for a file, within the memory budget.
fn all(reader: impl Read, path: &Path) -> Result<Vec<u8>> {
    memory::read_all(reader, "the file", FEWER_ROWS).map_err(|e| e.of(path))
}

/// All bytes of what a compressed file unpacks to, within the memory budget.
fn unpacked(reader: impl Read, path: &Path) -> Result<Vec<u8>> {
    memory::read_all(reader, "the unpacked file", FEWER_ROWS).map_err(|e| e.of(path))
}

#[cfg(feature = "zstd")]
fn unzstd(reader: impl Read, path: &Path) -> Result<Vec<u8>> {
    let decoder = zstd::stream::read::Decoder::new(reader).map_err(|e| Error::io("read", path, e))?;
    unpacked(decoder, path)
}

#[cfg(not(feature = "zstd"))]
fn unzstd(_: impl Read, _: &Path) -> Result<Vec<u8>> {
    let what = "this build cannot read files compressed with Zstandard";
    Err(Error::data(what, "build it with the cargo feature 'zstd', or unpack the file"))
}

/// A table written as text: JSON lines if it begins with an object, else CSV.
fn written(bytes: Vec<u8>, options: &ReadOptions) -> Result<Table> {
    let (bytes, note) = text::utf8(bytes)?;
    let object = bytes.iter().find(|b| !b.is_ascii_whitespace() && !matches!(b, 0xef | 0xbb | 0xbf)) == Some(&b'{');
    let mut table = if object { json_lines::read(&bytes)? } else { csv::read(&bytes, options)? };
    table.notes.extend(note);
    Ok(table)
}

/// What to do about a table that is too large.
pub(super) const FEWER_ROWS: &str = "give a file with fewer rows";

/// Refuses values that do not fit into memory.
pub(super) fn request(bytes: u128) -> Result<()> {
    memory::request(bytes, "the table", FEWER_ROWS)
}

/// A number as people write it: 3.0 is "3".
pub(super) fn number_text(value: f64) -> String {
    (value + 0.0).to_string() // −0 + 0 = 0
}

/// A user's text within a one-line message: characters that would steer a terminal escaped, at most 40 characters.
pub(super) fn show(text: &str) -> String {
    let mut shown = String::new();
    for (i, c) in text.chars().enumerate() {
        if i == 40 {
            shown.push('…');
            break;
        }
        if steers(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Another library's words within a one-line message.
pub(super) fn one_line(error: impl std::fmt::Display) -> String {
    let text = error.to_string();
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().filter(|c| !c.is_control()).take(200).collect()
}

/// What is left to do where a column must hold numbers.
pub(super) const CORRECT: &str = "correct the cell";

pub(super) fn text_among_numbers(cell: &str, fix: &str) -> Error {
    Error::data(format!("text '{}' in a numeric column", show(cell)), fix)
}

pub(super) fn not_finite(cell: &str) -> Error {
    Error::data(format!("{} is not finite", show(cell)), "correct the cell, or leave it empty if the value is missing")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_keeps_its_lines() {
        let table = Table::from_columns(vec![("x".into(), Column::Number(vec![1.0, 2.0, 3.0]))]).unwrap();
        let part = table.select(&[2, 0]);
        assert_eq!((part.rows(), part.line(0), part.line(1)), (2, 3, 1));
        assert_eq!(part.column("x").unwrap(), &Column::Number(vec![3.0, 1.0]));
    }

    #[test]
    fn users_text_stays_on_one_line() {
        assert_eq!(show("a\nb"), "a\\nb");
        assert_eq!(show(&"x".repeat(50)), format!("{}…", "x".repeat(40)));
        assert_eq!((number_text(3.0), number_text(-0.0), number_text(0.5)), ("3".into(), "0".into(), "0.5".into()));
    }
}
