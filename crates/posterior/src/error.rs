//! Errors that say what is wrong, where, and what to do about it — in one sentence.

use crate::remedy::{Remedy, Suggestion};
use std::fmt::{self, Write};
use std::path::{Path, PathBuf};

/// The result of everything here that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the library. One pointer wide; [`Error::kind`] tells what it is.
#[derive(Debug)]
pub struct Error(Box<ErrorKind>);

/// Where in a user's file something stands. Lines and columns count from 1, as editors do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The file, if the data came from one.
    pub file: Option<PathBuf>,
    /// Line of the file (text formats) or row of the table.
    pub line: Option<u64>,
    /// Name of the column.
    pub column: Option<String>,
}

/// What went wrong; shown without what to do about it, which is [`Error::remedy`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused: reading, writing, renaming.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// `read`, `write`, `create` …
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's own words.
        source: std::io::Error,
    },
    /// The user's data cannot be used as it is.
    #[error("{at}{what}")]
    Data {
        /// File, line, column.
        at: Place,
        /// What is wrong.
        what: String,
        /// What to do.
        fix: Remedy,
    },
    /// A setting has an unknown name or a value out of range.
    #[error("{what}")]
    Setting {
        /// What is wrong.
        what: String,
        /// The nearest name or the allowed range.
        fix: Remedy,
    },
    /// A model file is damaged, of another kind, or of a newer format.
    #[error("{}: {what}", path.display())]
    Artifact {
        /// The model file.
        path: PathBuf,
        /// What is wrong.
        what: String,
        /// What to do.
        fix: Remedy,
    },
    /// The arithmetic broke down: not finite, not positive definite, diverged.
    #[error("{what}")]
    Numerical {
        /// What happened.
        what: String,
        /// What to try.
        fix: Remedy,
    },
    /// The work needs more memory than is allowed (see [`memory`](crate::memory)).
    #[error(
        "{at}{what} takes {} of memory{} and {} of {} are left",
        show_bytes(*needed),
        if *open_ended { " or more" } else { "" },
        show_bytes((*left).into()),
        show_bytes((*limit).into())
    )]
    Memory {
        /// File, line, column.
        at: Place,
        /// What needs it.
        what: String,
        /// Bytes needed.
        needed: u128,
        /// Bytes that could be had.
        left: u64,
        /// Bytes allowed in all.
        limit: u64,
        /// Whether more than `needed` may turn out to be needed.
        open_ended: bool,
        /// How to need less.
        fix: Remedy,
    },
    /// An observer asked to stop.
    #[error("stopped at the caller's request; nothing was written")]
    Interrupted,
}

impl Error {
    /// What kind of error this is, with its data.
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }

    /// What to do about it, where something can be said.
    pub fn remedy(&self) -> Option<&Remedy> {
        match self.kind() {
            ErrorKind::Data { fix, .. }
            | ErrorKind::Setting { fix, .. }
            | ErrorKind::Artifact { fix, .. }
            | ErrorKind::Numerical { fix, .. }
            | ErrorKind::Memory { fix, .. } => Some(fix),
            ErrorKind::Io { .. } | ErrorKind::Interrupted => None,
        }
    }

    /// The whole sentence, with the options it names in the words that `word` has for them.
    pub fn worded(&self, word: &dyn Fn(&Suggestion) -> String) -> String {
        self.with_remedy(self.remedy().map(|r| r.worded(word)))
    }

    fn with_remedy(&self, remedy: Option<String>) -> String {
        let more = if matches!(self.kind(), ErrorKind::Memory { .. }) { ", or allow more memory" } else { "" };
        let text = remedy.map_or_else(|| self.0.to_string(), |r| format!("{}; {r}{more}", self.0));
        let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
        if !text.contains(breaks) {
            return text;
        }
        let mut shown = String::with_capacity(text.len());
        for c in text.chars() {
            // Writing to a string cannot fail.
            let _ = if breaks(c) { write!(shown, "{}", c.escape_default()) } else { shown.write_char(c) };
        }
        shown
    }

    /// An operating-system error on `path`.
    pub fn io(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        ErrorKind::Io { action, path: path.to_owned(), source }.into()
    }

    /// The user's data cannot be used: what, and what to do. Add the place with [`Error::at`].
    pub fn data(what: impl Into<String>, fix: impl Into<Remedy>) -> Self {
        ErrorKind::Data { at: Place::default(), what: what.into(), fix: fix.into() }.into()
    }

    /// A setting is wrong.
    pub fn setting(what: impl Into<String>, fix: impl Into<Remedy>) -> Self {
        ErrorKind::Setting { what: what.into(), fix: fix.into() }.into()
    }

    /// A model file cannot be used.
    pub fn artifact(path: &Path, what: impl Into<String>, fix: impl Into<Remedy>) -> Self {
        ErrorKind::Artifact { path: path.to_owned(), what: what.into(), fix: fix.into() }.into()
    }

    /// The arithmetic broke down.
    pub fn numerical(what: impl Into<String>, fix: impl Into<Remedy>) -> Self {
        ErrorKind::Numerical { what: what.into(), fix: fix.into() }.into()
    }

    /// Fills in what `place` knows and the error does not know yet.
    pub fn at(mut self, place: Place) -> Self {
        if let ErrorKind::Data { at, .. } | ErrorKind::Memory { at, .. } = &mut *self.0 {
            at.file = at.file.take().or(place.file);
            at.line = at.line.take().or(place.line);
            at.column = at.column.take().or(place.column);
        }
        self
    }

    /// Fills in the file, if the error does not know it yet.
    pub fn in_file(self, path: &Path) -> Self {
        self.at(Place { file: Some(path.to_owned()), ..Place::default() })
    }

    /// Fills in the line, if the error does not know it yet.
    pub fn on_line(self, line: u64) -> Self {
        self.at(Place { line: Some(line), ..Place::default() })
    }

    /// Fills in the column, if the error does not know it yet.
    pub fn in_column(self, column: &str) -> Self {
        self.at(Place { column: Some(column.to_owned()), ..Place::default() })
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Error(Box::new(kind))
    }
}

/// One line, whatever was quoted from a file: control characters and the separators of lines and paragraphs are escaped.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.with_remedy(self.remedy().map(Remedy::to_string)))
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if let Some(file) = &self.file {
            parts.push(file.display().to_string());
        }
        if let Some(line) = self.line {
            parts.push(format!("line {line}"));
        }
        if let Some(column) = &self.column {
            parts.push(format!("column '{column}'"));
        }
        if parts.is_empty() { Ok(()) } else { write!(f, "{}: ", parts.join(", ")) }
    }
}

/// Bytes as people say them.
pub fn show_bytes(bytes: u128) -> String {
    match bytes as f64 {
        b if b >= 1e15 => format!("{:.0e} GB", b / 1e9),
        b if b >= 1e9 => format!("{:.1} GB", b / 1e9),
        b if b >= 1e6 => format!("{:.0} MB", b / 1e6),
        b => format!("{:.0} kB", (b / 1e3).ceil()),
    }
}

/// Whether a character would steer a terminal or reorder a line instead of being shown: control characters (C0, DEL, C1), line and
/// paragraph separators, and the bidirectional controls with which text can be made to read otherwise than it is (Unicode UAX 9).
pub fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// The candidate most like `name`, if any is close enough to be a likely misspelling.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|c| (strsim::damerau_levenshtein(&name.to_lowercase(), &c.to_lowercase()), c))
        .filter(|(distance, c)| *distance <= name.len().max(c.len()).div_ceil(2))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, c)| c)
}

/// "did you mean 'x'?" or the whole list, for messages about an unknown name.
pub fn suggest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(name, candidates.clone()) {
        Some(close) => format!("did you mean '{close}'?"),
        None => {
            let all: Vec<_> = candidates.into_iter().collect();
            let shown = all.iter().take(20).copied().collect::<Vec<_>>().join(", ");
            format!("choose one of: {shown}{}", if all.len() > 20 { ", …" } else { "" })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_is_written_once_and_in_order() {
        let e = Error::data("the cell is empty", "fill it").in_column("age").on_line(7);
        let e = e.on_line(9).in_file(Path::new("a.csv"));
        assert_eq!(e.to_string(), "a.csv, line 7, column 'age': the cell is empty; fill it");
    }

    #[test]
    fn a_message_is_one_line_whatever_it_quotes() {
        let e = Error::setting("there is no prior 'a\r\n\u{1b}[2J\0\u{2028}é'", "choose another");
        assert_eq!(e.to_string(), "there is no prior 'a\\r\\n\\u{1b}[2J\\u{0}\\u{2028}é'; choose another");
    }

    #[test]
    fn nearest_name_is_found_and_nonsense_is_not() {
        assert_eq!(nearest("tagret", ["age", "target"]), Some("target"));
        assert_eq!(nearest("zzzzzz", ["age", "target"]), None);
    }
}
