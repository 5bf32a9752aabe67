//! Files that are whole or not there.

use crate::error::{Error, Result};
use std::fs;
use std::io::Write;
use std::path::Path;

/// Writes to a temporary name beside `path`, then renames. On failure nothing is left and an older file stays as it was.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    write_with(path, |file| file.write_all(bytes))
}

/// As [`write_file`], of what `fill` writes.
pub fn write_with(path: &Path, fill: impl FnOnce(&mut fs::File) -> std::io::Result<()>) -> Result<()> {
    if path.is_dir() {
        let e = std::io::Error::new(std::io::ErrorKind::IsADirectory, "it is a folder");
        return Err(Error::io("write", path, e));
    }
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let temporary = path.with_file_name(format!(".{name}.{}.part", std::process::id()));
    let write = || {
        let mut file = fs::File::create(&temporary)?;
        fill(&mut file)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|e| {
        let _ = fs::remove_file(&temporary);
        Error::io("write", path, e)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.bin");
        write_file(&path, b"one").unwrap();
        write_file(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert!(
            write_file(&dir.path().join("missing/a.bin"), b"x").unwrap_err().to_string().starts_with("cannot write")
        );
        assert!(write_file(dir.path(), b"x").unwrap_err().to_string().ends_with("it is a folder"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
    }
}
