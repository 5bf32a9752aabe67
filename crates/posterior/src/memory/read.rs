//! Reading with an eye on the limit: what comes out of a stream is counted as it comes, not believed from a header.

use super::{Budget, IN_USE};
use crate::error::{Error, ErrorKind, Place, Result};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Bytes asked for at a time, at least and at most.
const STEPS: (usize, usize) = (1 << 16, 1 << 26);

/// Why a stream was not read to its end.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The stream failed.
    Io(io::Error),
    /// It is longer than memory allows.
    Memory(Error),
}

impl Refusal {
    /// As an error about a file.
    pub(crate) fn of(self, path: &Path) -> Error {
        match self {
            Refusal::Io(e) => Error::io("read", path, e),
            Refusal::Memory(e) => e.in_file(path),
        }
    }
}

/// All bytes of a stream, which `what` names; an error where they are more than the budget allows.
pub(crate) fn read_all(mut stream: impl Read, what: &str, fix: &str) -> std::result::Result<Vec<u8>, Refusal> {
    let mut bytes = Vec::new();
    loop {
        let step = bytes.len().clamp(STEPS.0, STEPS.1);
        let budget = Budget::current();
        // What was read so far is in use already, where that is known.
        let needed = step + if IN_USE.get().is_some() { 0 } else { bytes.len() };
        if needed as u64 > budget.left() {
            let kind = ErrorKind::Memory {
                at: Place::default(),
                what: what.to_owned(),
                needed: (bytes.len() + step) as u128,
                left: budget.left(),
                limit: budget.limit,
                open_ended: true,
                fix: fix.into(),
            };
            return Err(Refusal::Memory(kind.into()));
        }
        bytes.reserve_exact(step);
        let before = bytes.len();
        stream.by_ref().take(step as u64).read_to_end(&mut bytes).map_err(Refusal::Io)?;
        if bytes.len() - before < step {
            return Ok(bytes);
        }
    }
}

/// The bytes of a file, within the budget: also of a device that has no end.
pub fn read_file(path: &Path) -> Result<Vec<u8>> {
    let file = File::open(path).map_err(|e| Error::io("read", path, e))?;
    let size = file.metadata().map_or(0, |m| if m.is_file() { m.len() } else { 0 });
    let fix = "give a smaller file";
    super::request(u128::from(size), "the file", fix).map_err(|e| e.in_file(path))?;
    read_all(file, "the file", fix).map_err(|e| e.of(path))
}

/// The text of a file, within the budget.
pub fn read_text(path: &Path) -> Result<String> {
    String::from_utf8(read_file(path)?)
        .map_err(|_| Error::data("the text is not UTF-8", "save the file as UTF-8").in_file(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::with_limit;

    #[test]
    fn a_stream_without_an_end_is_refused() {
        let e = with_limit(1 << 20, || read_all(io::repeat(1), "the unpacked file", "give a smaller one")).unwrap_err();
        let Refusal::Memory(e) = e else { panic!("{e:?}") };
        assert_eq!(
            e.to_string(),
            "the unpacked file takes 2 MB of memory or more and 1 MB of 1 MB are left; give a smaller one, or allow more memory"
        );
    }

    #[test]
    fn what_fits_is_read_whole() {
        for n in [0, 1, STEPS.0 - 1, STEPS.0, STEPS.0 + 1, 5 * STEPS.0 + 3] {
            let read = with_limit(1 << 20, || read_all(io::repeat(7).take(n as u64), "it", "")).unwrap();
            assert!(read.len() == n && read.iter().all(|b| *b == 7));
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), [0xff, 0xfe]).unwrap();
        assert!(read_text(&dir.path().join("a")).unwrap_err().to_string().contains("not UTF-8"));
        assert!(with_limit(1, || read_file(&dir.path().join("a"))).unwrap_err().to_string().contains("are left"));
    }
}
