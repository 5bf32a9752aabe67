//! What people and machines read: aligned tables, CSV, JSON.

use posterior::artifact;
use posterior::error::{ErrorKind, steers};
use posterior::remedy::{OptionName, Suggestion};
use serde_json::json;
use std::borrow::Cow;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Text with what would steer a terminal written out: names, categories and paths come from files that anybody may have made.
pub fn shown(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c.escape_default().to_string(), false)
}

fn escaped(text: &str, written: impl Fn(char) -> String, lines: bool) -> Cow<'_, str> {
    let harmless = |c: char| !steers(c) || (lines && c == '\n');
    if text.chars().all(harmless) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    text.chars().for_each(|c| if harmless(c) { out.push(c) } else { out.push_str(&written(c)) });
    Cow::Owned(out)
}

/// Prints text for people to standard output, line breaks as they are and all else that steers a terminal written out; a closed pipe comes
/// back as an error that the program takes as the end.
pub fn print(text: &str) -> anyhow::Result<()> {
    write(&for_terminal(text))
}

/// Text as [`print`] shows it.
pub fn for_terminal(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c.escape_default().to_string(), true)
}

fn write(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Prints an error as one line; under --json also as the one JSON document on standard output. Our errors say what the system said, so the
/// chain of causes is not repeated.
pub fn error(e: &anyhow::Error, as_json: bool) {
    let message = worded(e);
    note(&format!("posterior: {message}"));
    if as_json {
        let _ = json(&json!({ "error": described(e, &message) }));
    }
}

/// What the program calls an option that an error suggests.
pub fn flag(suggestion: &Suggestion) -> String {
    let value = suggestion.value.as_deref();
    match &suggestion.option {
        OptionName::Setting(key) => value.map_or_else(|| format!("--set {key}"), |v| format!("--set {key}={v}")),
        OptionName::Text | OptionName::Ignore => {
            format!("--{} {}", suggestion.option.name(), value.unwrap_or("COLUMN"))
        }
        OptionName::Labels => format!("--labels {}", value.unwrap_or("FILE")),
        option => value.map_or_else(|| format!("--{}", option.name()), |v| format!("--{} {v}", option.name())),
    }
}

/// The whole sentence; where memory was refused, with the flag that allows more.
fn worded(e: &anyhow::Error) -> String {
    let ours = e.downcast_ref::<posterior::Error>();
    let mut text = ours.map_or_else(|| e.to_string(), |e| e.worded(&flag));
    if let Some(ErrorKind::Memory { needed, left, limit, open_ended, .. }) = ours.map(posterior::Error::kind) {
        // What is in use already counts too, and a little goes to what is not asked for.
        let all = needed.saturating_add(u128::from(limit - left)) / 20 * 21;
        let size = posterior::memory::show(all).replace(' ', "");
        text += &if *open_ended || all > 1 << 50 { " with --memory".into() } else { format!(" with --memory {size}") };
    }
    text
}

/// An error for machines: the whole sentence, and the parts of it that are known.
fn described(e: &anyhow::Error, message: &str) -> serde_json::Value {
    let mut all = serde_json::Map::from_iter([("message".to_owned(), json!(message))]);
    let mut put = |key: &str, value: serde_json::Value| all.insert(key.to_owned(), value);
    match e.downcast_ref::<posterior::Error>().map(posterior::Error::kind) {
        Some(ErrorKind::Data { at, what, fix }) => {
            put("what", json!(what));
            put("fix", json!(fix.worded(&flag)));
            put("file", json!(at.file.as_ref().map(|f| f.display().to_string())));
            put("line", json!(at.line));
            put("column", json!(at.column));
        }
        Some(ErrorKind::Artifact { path, what, fix }) => {
            put("what", json!(what));
            put("fix", json!(fix.worded(&flag)));
            put("file", json!(path.display().to_string()));
        }
        Some(ErrorKind::Setting { what, fix } | ErrorKind::Numerical { what, fix }) => {
            put("what", json!(what));
            put("fix", json!(fix.worded(&flag)));
        }
        Some(ErrorKind::Io { path, source, .. }) => {
            put("what", json!(source.to_string()));
            put("file", json!(path.display().to_string()));
        }
        _ => {}
    }
    all.into()
}

/// A line on standard error; where nobody reads it, it is lost.
pub fn note(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", shown(line));
}

/// Whether a file can be written here, and is none of the files that the command reads: to be known before a long fit, not after it.
pub fn check_writable(path: &Path, inputs: impl IntoIterator<Item = PathBuf>) -> anyhow::Result<()> {
    if let Some(input) = inputs.into_iter().find(|input| artifact::overwrites(path, input)) {
        let same = if input == path { String::new() } else { format!(" (the same file as {})", input.display()) };
        anyhow::bail!("cannot write {}: it is an input of this command{same}; give another file", path.display());
    }
    Ok(artifact::check_writable(path)?)
}

/// Prints JSON, indented.
pub fn json(value: &serde_json::Value) -> anyhow::Result<()> {
    write(&json_text(&format!("{value:#}\n")))
}

/// JSON with what would steer a terminal as escapes, which mean the same: it can only stand within strings.
pub fn json_text(text: &str) -> Cow<'_, str> {
    escaped(text, |c| format!("\\u{:04x}", u32::from(c)), true)
}

/// Columns aligned with spaces; numbers, also grouped ones, to the right.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let columns = head.len();
    let cell = |row: &[String], c: usize| row.get(c).map(|t| shown(t).into_owned()).unwrap_or_default();
    let head: Vec<Cow<'_, str>> = head.iter().map(|h| shown(h)).collect();
    let width = |c: usize| {
        let cells = rows.iter().map(|r| cell(r, c).chars().count());
        cells.chain([head[c].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let is_number = |t: String| t.replace(' ', "").parse::<f64>().is_ok();
    let numeric: Vec<bool> =
        (0..columns).map(|c| rows.iter().map(|r| cell(r, c)).filter(|t| !t.is_empty()).all(is_number)).collect();
    let line = |cells: &[String]| {
        let text: Vec<String> = (0..columns)
            .map(|c| {
                let t = cell(cells, c);
                let pad = " ".repeat(widths[c] - t.chars().count());
                if numeric[c] { format!("{pad}{t}") } else { format!("{t}{pad}") }
            })
            .collect();
        text.join("  ").trim_end().to_owned() + "\n"
    };
    let mut out = line(&head.iter().map(|h| h.to_string()).collect::<Vec<_>>());
    out += &line(&widths.iter().map(|w| "─".repeat(*w)).collect::<Vec<_>>());
    rows.iter().for_each(|r| out += &line(r));
    out
}

/// `name  value` lines, names aligned.
pub fn facts(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(n, _)| n.chars().count()).max().unwrap_or(0);
    rows.iter().map(|(n, v)| format!("{n:<width$}  {}\n", shown(v))).collect()
}

/// A number with about four digits that matter.
pub fn number(v: f64) -> String {
    let size = v.abs();
    if v == 0.0 || !v.is_finite() {
        format!("{v}")
    } else if (1e-3..1e5).contains(&size) {
        let digits = (3 - size.log10().floor() as i32).clamp(0, 6) as usize;
        format!("{v:.digits$}")
    } else if (1e5..1e9).contains(&size) {
        format!("{v:.0}")
    } else {
        format!("{v:.3e}")
    }
}

/// 1234567 → 1 234 567
pub fn grouped(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(c);
    }
    out
}

/// 1 row, 2 rows
pub fn count(n: usize, what: &str) -> String {
    format!("{} {what}{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// Seconds as people say them.
pub fn seconds(s: f64) -> String {
    if s < 1e-3 {
        format!("{:.0} µs", s * 1e6)
    } else if s < 0.01 {
        format!("{:.2} ms", s * 1e3)
    } else if s < 1.0 {
        format!("{:.0} ms", s * 1e3)
    } else if s < 120.0 {
        format!("{s:.1} s")
    } else {
        format!("{:.0} min {:.0} s", (s / 60.0).floor(), s % 60.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_align() {
        let text = table(&["name", "x"], &[vec!["a".into(), "1.5".into()], vec!["long".into(), "10".into()]]);
        assert_eq!(text, "name    x\n────  ───\na     1.5\nlong   10\n");
        assert_eq!(table(&["n"], &[vec!["7".into()], vec![grouped(1234)]]), "    n\n─────\n    7\n1 234\n");
    }

    #[test]
    fn text_from_files_cannot_steer_a_terminal() {
        let hostile = "a\u{1b}[2Jb\u{9b}0m\nc\u{202e}d\u{7f}";
        let text = table(&["na\u{1b}me"], &[vec![hostile.into()]]) + &facts(&[("x", hostile.into())]);
        assert!(text.chars().all(|c| c == '\n' || !steers(c)), "{text:?}");
        assert_eq!(text.lines().count(), 4, "a line break in a name makes no line");
        assert!(text.contains("a\\u{1b}[2Jb\\u{9b}0m\\nc\\u{202e}d\\u{7f}"), "{text}");
        let value = json!({ "name": hostile });
        let text = json_text(&value.to_string()).into_owned();
        assert!(text.chars().all(|c| !steers(c)));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    #[test]
    fn numbers_keep_four_digits() {
        let cases = [(0.0, "0"), (1.23456, "1.235"), (-123.456, "-123.5"), (0.012345, "0.01235"), (123456.0, "123456")];
        for (v, text) in cases {
            assert_eq!(number(v), text);
        }
        assert_eq!(grouped(1234567), "1 234 567");
    }
}
