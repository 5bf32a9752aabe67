//! Text files as programs write them: UTF-8, UTF-16 with a byte order mark, Latin-1 (Windows-1252); comment lines before the header.
//!
//! What is not UTF-8 and holds no control characters is Windows-1252, which has a character for every byte: no other guess is made. Cost: O(bytes).

use super::table::request;
use crate::error::{Error, Result};

/// What Windows-1252 has in the places 0x80 to 0x9f.
const WINDOWS: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}', '\u{90}', '‘', '’',
    '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// The text as UTF-8, and what a user should know of how it was read. Comment lines at its start are blank.
pub(super) fn utf8(bytes: Vec<u8>) -> Result<(Vec<u8>, Option<String>)> {
    let (mut bytes, note) = match &bytes[..] {
        [0xff, 0xfe, rest @ ..] => (utf16(rest, u16::from_le_bytes)?, None),
        [0xfe, 0xff, rest @ ..] => (utf16(rest, u16::from_be_bytes)?, None),
        _ if std::str::from_utf8(&bytes).is_ok() => (bytes, None),
        // Control characters: no text at all, which the reader says with its line.
        _ if bytes.iter().any(|b| *b < 32 && !matches!(b, b'\t' | b'\n' | b'\r')) => (bytes, None),
        _ => {
            request(2 * bytes.len() as u128)?;
            let character = |b: u8| match b {
                0x80..=0x9f => WINDOWS[usize::from(b) - 0x80],
                b => char::from(b),
            };
            let text: String = bytes.iter().map(|b| character(*b)).collect();
            (text.into_bytes(), Some("the text is not UTF-8 and was read as Latin-1 (Windows-1252)".to_owned()))
        }
    };
    blank_comments(&mut bytes);
    Ok((bytes, note))
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<Vec<u8>> {
    request(3 * bytes.len() as u128)?;
    let units: Vec<u16> = bytes.chunks_exact(2).map(|p| unit([p[0], p[1]])).collect();
    match String::from_utf16(&units) {
        Ok(text) if bytes.len().is_multiple_of(2) => Ok(text.into_bytes()),
        _ => Err(Error::data("the UTF-16 text is damaged", "save the file as UTF-8")),
    }
}

/// Lines that begin with # before the header become blank, so that all others keep their numbers. The last of them is the header itself where it has the
/// separators of the line after it, as numpy writes it; then its # goes.
fn blank_comments(bytes: &mut [u8]) {
    let (mut at, mut last) = (0, None);
    let line_end =
        |bytes: &[u8], at: usize| bytes[at..].iter().position(|b| *b == b'\n').map_or(bytes.len(), |n| at + n);
    while bytes.get(at) == Some(&b'#') {
        let end = line_end(bytes, at);
        if end == bytes.len() {
            return; // nothing but comments: the reader says that it is empty, or takes it as a header
        }
        last = Some(at..end);
        at = end + 1;
    }
    let Some(last) = last else { return };
    let separators = |line: &[u8]| [b',', b';', b'\t'].map(|s| line.iter().filter(|b| **b == s).count());
    let next = &bytes[at..line_end(bytes, at)];
    let is_header = separators(next) == separators(&bytes[last.clone()]) && separators(next) != [0; 3];
    let comments = if is_header { last.start } else { at };
    bytes[..comments].iter_mut().filter(|b| !matches!(b, b'\n' | b'\r')).for_each(|b| *b = b' ');
    if is_header {
        bytes[last.start] = b' ';
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> (String, bool) {
        let (bytes, note) = utf8(bytes.to_vec()).unwrap();
        (String::from_utf8(bytes).unwrap(), note.is_some())
    }

    #[test]
    fn encodings() {
        assert_eq!(read("größe\n1\n".as_bytes()), ("größe\n1\n".into(), false));
        assert_eq!(read(b"gr\xf6\xdfe,\x80\n"), ("größe,€\n".into(), true));
        for mark in [[0xff, 0xfe], [0xfe, 0xff]] {
            let unit = |u: u16| if mark[0] == 0xff { u.to_le_bytes() } else { u.to_be_bytes() };
            let text: Vec<u8> = mark.into_iter().chain("größe\n".encode_utf16().flat_map(unit)).collect();
            assert_eq!(read(&text), ("größe\n".into(), false));
            assert!(utf8(text[..text.len() - 1].to_vec()).is_err());
        }
        assert_eq!(utf8(b"a\x00\xff".to_vec()).unwrap().0, b"a\x00\xff");
    }

    #[test]
    fn comments_before_the_header() {
        assert_eq!(read(b"# made by x\n#\na,b\n1,2\n").0, "           \n \na,b\n1,2\n");
        assert_eq!(read(b"# note\n# a,b\n1,2\n").0, "      \n  a,b\n1,2\n");
        assert_eq!(read(b"#id\n1\n").0, "   \n1\n");
        assert_eq!(read(b"a,b\n#1,2\n").0, "a,b\n#1,2\n");
    }
}
