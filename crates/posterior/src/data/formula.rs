//! Text that a spreadsheet would run as a formula when it opens a CSV file, and how it is written so that it is shown instead.
//!
//! A cell that begins with = + - @, a tab or a line break is a formula or may become one; a ' before it makes it text. Numbers stay as they are.
//! Reference: OWASP, CSV injection. Cost: a look at the first character.

use super::table::{Column, Table};

/// The text with a ' before it where a spreadsheet would run it; none where it is harmless.
///
/// ```
/// use posterior::data::guarded;
/// assert_eq!(guarded("=1+1").as_deref(), Some("'=1+1"));
/// assert_eq!((guarded("-1.5"), guarded("a=b")), (None, None));
/// ```
pub fn guarded(text: &str) -> Option<String> {
    let runs = text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) && text.trim().parse::<f64>().is_err();
    runs.then(|| format!("'{text}"))
}

impl Table {
    /// The table with its names and text guarded for a CSV file that people may open in a spreadsheet, and how many of them had to be.
    #[must_use]
    pub fn guarded(mut self) -> (Table, usize) {
        let mut count = 0;
        let mut guard = |text: &mut String| {
            if let Some(safe) = guarded(text) {
                (*text, count) = (safe, count + 1);
            }
        };
        let (names, columns) = self.names_and_columns_mut();
        names.iter_mut().for_each(&mut guard);
        for column in columns {
            if let Column::Text(cells) = column {
                cells.iter_mut().flatten().for_each(&mut guard);
            }
        }
        (self, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_in_names_and_cells_become_text_and_numbers_stay() {
        for text in ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "-", "+x"] {
            assert_eq!(guarded(text), Some(format!("'{text}")));
        }
        for text in ["", "a", "-1", "+2.5e3", "1-1", " x", "north-east"] {
            assert_eq!(guarded(text), None, "{text}");
        }
        let cells = Column::Text(vec![Some("=1+1".into()), Some("b".into()), None]);
        let table =
            Table::from_columns(vec![("=name".into(), cells), ("x".into(), Column::Number(vec![-1.0, 2.0, 3.0]))]);
        let (safe, count) = table.unwrap().guarded();
        assert_eq!(count, 2);
        assert_eq!(String::from_utf8(safe.to_bytes().unwrap()).unwrap(), "'=name,x\n'=1+1,-1\nb,2\n,3\n");
    }
}
