//! Half-written files: named so that they are recognised, locked while somebody writes to them, removed when nobody does.
//!
//! `.NAME.posterior-PID-N.part` stands beside `NAME` and is locked by the process that writes it. A lock ends with its process,
//! however that ends, so a temporary file without one belongs to nobody: the next write to the folder removes it. That holds across
//! containers and machines that share a folder, where process numbers say nothing. Where the file system has no locks, nothing
//! is removed.

use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

const MARK: &str = ".posterior-";
const ENDING: &str = ".part";
/// Bytes of a name that a temporary one repeats: both together stay below the 255 that file systems allow.
const LONGEST: usize = 200;

/// The temporary files of this process, for [`abandon_writes`].
static LIVE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes this process's half-written files and holds up every write from now on: for a handler of Ctrl-C, right before it ends the process.
pub fn abandon_writes() {
    let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
    live.drain(..).for_each(|path| drop(fs::remove_file(path)));
    // A write that is about to rename waits for this lock, and must not get it any more.
    std::mem::forget(live);
}

/// A file that is being written; dropped before it is renamed, it is removed.
pub(super) struct Temporary {
    path: PathBuf,
    file: File,
}

impl Temporary {
    /// A new one in the folder of `path`, with the permissions of the file that it will replace. Those of dead processes are removed.
    pub(super) fn beside(path: &Path, old: Option<&Metadata>) -> io::Result<Temporary> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let end = (0..=LONGEST.min(name.len())).rev().find(|i| name.is_char_boundary(*i)).unwrap_or(0);
        let name = &name[..end];
        remove_stale(path.parent().unwrap_or(Path::new(".")));
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = path.with_file_name(format!(".{name}{MARK}{}-{number}{ENDING}", std::process::id()));
            // Known before it exists: an interruption in between leaves nothing.
            LIVE.lock().unwrap_or_else(PoisonError::into_inner).push(path.clone());
            let file = match create(&path, old) {
                Err(e) => {
                    forget(&path);
                    if e.kind() == ErrorKind::AlreadyExists {
                        continue;
                    }
                    return Err(e);
                }
                Ok(file) => file,
            };
            let temporary = Temporary { path, file };
            let _ = temporary.file.lock();
            // Between its creation and its lock, somebody else may have taken it for a stale one.
            if fs::symlink_metadata(&temporary.path).is_ok() {
                if let Some(old) = old {
                    take_over(&temporary.file, old)?;
                }
                return Ok(temporary);
            }
        }
    }

    pub(super) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Puts the file in its place.
    pub(super) fn rename(self, to: &Path) -> io::Result<()> {
        let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
        fs::rename(&self.path, to)?;
        live.retain(|p| *p != self.path);
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if forget(&self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Takes a path off the list; false where it was not on it, since it was renamed.
fn forget(path: &Path) -> bool {
    let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = live.len();
    live.retain(|p| p != path);
    live.len() < before
}

/// Creates a file that was not there, no more open to others than the one it will replace.
fn create(path: &Path, old: Option<&Metadata>) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if old.is_some() {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    let _ = old;
    options.open(path)
}

/// Owner, where the system allows it, and permissions of the old file.
fn take_over(file: &File, old: &Metadata) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, fchown};
        let new = file.metadata()?;
        if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
            let _ = fchown(file, Some(old.uid()), Some(old.gid()));
        }
    }
    match file.set_permissions(old.permissions()) {
        // File systems without permissions.
        Err(e) if matches!(e.kind(), ErrorKind::PermissionDenied | ErrorKind::Unsupported) => Ok(()),
        done => done,
    }
}

/// Whether a name is one that [`Temporary::beside`] gives.
fn is_temporary(name: &str) -> bool {
    let numbers = |text: &str| {
        let (pid, number) = text.split_once('-')?;
        let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
        (digits(pid) && digits(number)).then_some(())
    };
    let inner = name.strip_prefix('.').and_then(|n| n.strip_suffix(ENDING));
    inner.and_then(|n| n.rsplit_once(MARK)).and_then(|(_, n)| numbers(n)).is_some()
}

/// Removes the temporary files of a folder that nobody writes to any more.
fn remove_stale(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let regular = entry.file_type().is_ok_and(|t| t.is_file());
        if !regular || !entry.file_name().to_str().is_some_and(is_temporary) {
            continue;
        }
        let Ok(file) = OpenOptions::new().write(true).open(entry.path()) else { continue };
        match file.try_lock() {
            Ok(()) => drop(fs::remove_file(entry.path())),
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::write_file;
    use super::*;

    #[test]
    fn only_our_own_names_are_recognised() {
        assert!(is_temporary(".a.csv.posterior-12-0.part") && is_temporary("..posterior-1-2.part"));
        for other in [
            "a.csv.posterior-12-0.part",
            ".a.csv.12.part",
            ".a.posterior-.part",
            ".a.posterior-1.part",
            ".a.posterior-x-1.part",
            ".a.posterior-1-1.part~",
            ".part",
        ] {
            assert!(!is_temporary(other), "{other}");
        }
    }

    #[test]
    fn what_nobody_writes_to_is_removed_at_the_next_write() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at(".m.st.posterior-1-0.part"), b"of a process that was killed").unwrap();
        fs::write(at(".m.st.part"), b"somebody else's").unwrap();
        let mut busy = Temporary::beside(&at("busy"), None).unwrap();
        write_file(&at("other"), b"x").unwrap();
        let mut left: Vec<String> =
            fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        let own = busy.path.file_name().unwrap().to_str().unwrap().to_owned();
        assert_eq!(left, [own.as_str(), ".m.st.part", "other"].map(str::to_owned));
        // The one that was being written is whole all the same.
        io::Write::write_all(busy.file(), b"y").unwrap();
        busy.rename(&at("busy")).unwrap();
        assert_eq!(fs::read(at("busy")).unwrap(), b"y");
    }
}
