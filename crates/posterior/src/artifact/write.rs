//! The one writer of files: whole or not there, and never at the cost of something else.
//!
//! A regular file is written under a temporary name beside its place, flushed to disk, and renamed; then the folder is flushed, so
//! that after a crash either the old or the new file is there. An existing file keeps its permissions, and its owner where the
//! system allows it. A symbolic link stays: the file it leads to is replaced, in that file's own folder. Devices, pipes and what
//! lies under `/proc`, such as `/dev/stdout`, are written to directly, since a rename would put a file in their place. Folders
//! and write-protected files are refused.

use super::temporary::Temporary;
use crate::error::{Error, Result};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Links that are followed before they are taken for a circle, as Linux does it.
const MOST_LINKS: usize = 40;

/// Where the bytes for a path go.
enum Destination {
    /// A regular file, or one that is not there yet: the path behind all links.
    Regular(PathBuf),
    /// A device or a pipe, which is opened as it is.
    Stream(PathBuf),
}

/// Writes a file, whole or not at all. On failure nothing is left and an older file stays as it was.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    write_with(path, |file| file.write_all(bytes))
}

/// As [`write_file`], of what `fill` writes. The file cannot be sought in where it is a pipe.
pub fn write_with(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
    let write = || match destination(path)? {
        Destination::Stream(path) => {
            let mut file = OpenOptions::new().append(true).open(path)?;
            fill(&mut file)?;
            file.flush()
        }
        Destination::Regular(path) => {
            let old = existing(&path)?;
            let mut temporary = Temporary::beside(&path, old.as_ref())?;
            fill(temporary.file())?;
            sync(temporary.file())?;
            temporary.rename(&path)?;
            sync_folder(&path)
        }
    };
    write().map_err(|e| Error::io("write", path, e))
}

/// Whether [`write_file`] would be able to write here: to be known before long work, not after it. Leaves nothing behind.
pub fn check_writable(path: &Path) -> Result<()> {
    let check = || match destination(path)? {
        // Opening a pipe would tell its reader that the output begins, and waits where there is none.
        Destination::Stream(_) => Ok(()),
        Destination::Regular(path) => {
            existing(&path)?;
            Temporary::beside(&path, None).map(drop)
        }
    };
    check().map_err(|e| Error::io("write", path, e))
}

/// Whether writing to `path` would replace the file that `input` leads to, through links of either kind.
pub fn overwrites(path: &Path, input: &Path) -> bool {
    // A terminal may well be read from and written to.
    fs::metadata(path).is_ok_and(|m| m.is_file()) && same_file(path, input)
}

fn same_file(a: &Path, b: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let id = |path: &Path| fs::metadata(path).map(|m| (m.dev(), m.ino()));
        matches!((id(a), id(b)), (Ok(a), Ok(b)) if a == b)
    }
    #[cfg(not(unix))]
    matches!((fs::canonicalize(a), fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b)
}

fn destination(path: &Path) -> io::Result<Destination> {
    let mut at = path.to_owned();
    for _ in 0..MOST_LINKS {
        let folder = match at.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => fs::canonicalize(folder)?,
            _ => fs::canonicalize(".")?,
        };
        // Links there lead to open files, not to names: what is behind `/proc/self/fd/1` is standard output, whatever its name.
        if folder.starts_with("/proc") {
            return Ok(Destination::Stream(at));
        }
        match fs::symlink_metadata(&at) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let name = at.file_name().ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "it is no name"))?;
                return Ok(Destination::Regular(folder.join(name)));
            }
            Err(e) => return Err(e),
            Ok(found) if found.is_symlink() => at = folder.join(fs::read_link(&at)?),
            Ok(found) if found.is_dir() => return Err(io::Error::new(ErrorKind::IsADirectory, "it is a folder")),
            Ok(found) if found.is_file() => return Ok(Destination::Regular(fs::canonicalize(&at)?)),
            Ok(_) => return Ok(Destination::Stream(at)),
        }
    }
    Err(io::Error::other("its symbolic links lead in a circle"))
}

/// The file that is to be replaced, if there is one; an error where its permissions forbid to write to it.
fn existing(path: &Path) -> io::Result<Option<fs::Metadata>> {
    match OpenOptions::new().write(true).open(path) {
        Ok(file) => file.metadata().map(Some),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Flushes a file or a folder to disk.
fn sync(file: &File) -> io::Result<()> {
    #[cfg(test)]
    tests::SYNCED.with_borrow_mut(|s| s.push(file.metadata().map(|m| m.is_dir()).unwrap_or_default()));
    file.sync_all()
}

/// Makes the new name of a file outlast a crash.
fn sync_folder(path: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    match File::open(folder).and_then(|f| sync(&f)) {
        // File systems that cannot flush a folder, and folders that may be written but not read.
        Err(e)
            if matches!(e.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported | ErrorKind::PermissionDenied) =>
        {
            Ok(())
        }
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    thread_local! {
        /// What this thread has flushed: whether it was a folder.
        pub(super) static SYNCED: RefCell<Vec<bool>> = const { RefCell::new(Vec::new()) };
    }

    #[test]
    #[cfg(unix)]
    fn the_file_and_then_its_folder_are_flushed() {
        let dir = tempfile::tempdir().unwrap();
        write_file(&dir.path().join("a"), b"x").unwrap();
        assert_eq!(SYNCED.take(), [false, true]);
    }

    #[test]
    fn whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.bin");
        write_file(&path, b"one").unwrap();
        write_file(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        let failed = write_with(&path, |file| {
            file.write_all(b"half")?;
            Err(io::Error::other("the disk is full"))
        });
        assert!(failed.unwrap_err().to_string().ends_with("the disk is full"));
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert!(
            write_file(&dir.path().join("missing/a.bin"), b"x").unwrap_err().to_string().starts_with("cannot write")
        );
        assert!(write_file(dir.path(), b"x").unwrap_err().to_string().ends_with("it is a folder"));
        check_writable(&path).unwrap();
        check_writable(&dir.path().join("b.bin")).unwrap();
        assert!(check_writable(dir.path()).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn a_long_name_has_a_shorter_temporary_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("é".repeat(127));
        write_file(&path, b"x").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"x");
    }

    #[cfg(unix)]
    mod on_unix {
        use super::*;
        use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

        #[test]
        fn permissions_stay() {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a");
            for mode in [0o600, 0o664, 0o755] {
                write_file(&path, b"one").unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
                write_file(&path, b"two").unwrap();
                assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, mode);
            }
        }

        #[test]
        fn write_protection_is_respected() {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a");
            write_file(&path, b"one").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
            // The superuser may write to it, and then it stays as protected as it was.
            match write_file(&path, b"two") {
                Err(_) => assert_eq!(fs::read(&path).unwrap(), b"one"),
                Ok(()) => assert_eq!(fs::read(&path).unwrap(), b"two"),
            }
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o444);
        }

        #[test]
        fn a_link_stays_and_what_it_leads_to_is_written() {
            let dir = tempfile::tempdir().unwrap();
            let at = |name: &str| dir.path().join(name);
            fs::create_dir(at("real")).unwrap();
            fs::write(at("real/old"), b"old").unwrap();
            symlink("real/old", at("link")).unwrap();
            symlink("link", at("to-link")).unwrap();
            symlink("real/new", at("dangling")).unwrap();
            write_file(&at("to-link"), b"one").unwrap();
            write_file(&at("dangling"), b"two").unwrap();
            for link in ["link", "to-link", "dangling"] {
                assert!(fs::symlink_metadata(at(link)).unwrap().is_symlink(), "{link}");
            }
            assert_eq!(fs::read(at("real/old")).unwrap(), b"one");
            assert_eq!(fs::read(at("real/new")).unwrap(), b"two");
            symlink("round", at("circle")).unwrap();
            symlink("circle", at("round")).unwrap();
            assert!(write_file(&at("circle"), b"x").unwrap_err().to_string().ends_with("in a circle"));
            symlink("real", at("folder")).unwrap();
            assert!(write_file(&at("folder"), b"x").unwrap_err().to_string().ends_with("it is a folder"));
        }

        #[test]
        fn a_pipe_stays_a_pipe() {
            use std::os::unix::fs::FileTypeExt;
            let dir = tempfile::tempdir().unwrap();
            let pipe = dir.path().join("pipe");
            assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
            check_writable(&pipe).unwrap();
            let reader = std::thread::spawn({
                let pipe = pipe.clone();
                move || fs::read(pipe).unwrap()
            });
            write_file(&pipe, b"through").unwrap();
            assert_eq!(reader.join().unwrap(), b"through");
            assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
            assert!(!overwrites(&pipe, &pipe));
        }

        #[test]
        fn the_same_file_is_known_by_any_name() {
            let dir = tempfile::tempdir().unwrap();
            let at = |name: &str| dir.path().join(name);
            fs::write(at("a"), b"a").unwrap();
            fs::write(at("b"), b"a").unwrap();
            symlink("a", at("soft")).unwrap();
            fs::hard_link(at("a"), at("hard")).unwrap();
            for other in ["a", "./a", "soft", "hard"] {
                assert!(overwrites(&at("a"), &at(other)) && overwrites(&at(other), &at("a")), "{other}");
            }
            assert!(!overwrites(&at("a"), &at("b")) && !overwrites(&at("c"), &at("c")));
        }
    }
}
