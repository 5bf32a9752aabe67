//! Every system call of a write fails once: the program says so, and what stood under the name before is still there, or the whole new file.
//!
//! The program runs under `ptrace`; the n-th call that opens a file for writing, writes to one, flushes, sizes or renames it is answered
//! with an error, for every n up to the number of such calls. Linux on x86-64; where tracing is not allowed the test says so and passes.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::collections::HashMap;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

/// What came of a run.
struct Run {
    code: Option<i32>,
    stderr: String,
    /// The call that failed, if the run had so many.
    failed: Option<&'static str>,
    /// Such calls in all.
    calls: usize,
}

/// The name of a call that is part of writing a file, and the error it gets.
fn part_of_writing(pid: i32, regs: &libc::user_regs_struct) -> Option<(&'static str, i32)> {
    let is_file = |fd: u64| {
        let target = std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).unwrap_or_default();
        target.starts_with("/") && !target.starts_with("/dev") && !target.starts_with("/proc")
    };
    let writes = |flags: u64| flags as i32 & (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT) != 0;
    match regs.orig_rax as i64 {
        libc::SYS_open if writes(regs.rsi) => Some(("open", libc::EACCES)),
        libc::SYS_openat if writes(regs.rdx) => Some(("open", libc::EACCES)),
        libc::SYS_write | libc::SYS_pwrite64 | libc::SYS_writev | libc::SYS_pwritev if is_file(regs.rdi) => {
            Some(("write", libc::ENOSPC))
        }
        libc::SYS_copy_file_range | libc::SYS_sendfile => Some(("copy", libc::ENOSPC)),
        libc::SYS_ftruncate | libc::SYS_fallocate => Some(("size", libc::ENOSPC)),
        libc::SYS_fsync | libc::SYS_fdatasync => Some(("sync", libc::EIO)),
        libc::SYS_rename | libc::SYS_renameat | libc::SYS_renameat2 => Some(("rename", libc::EACCES)),
        libc::SYS_link | libc::SYS_linkat => Some(("link", libc::EACCES)),
        libc::SYS_fchmod | libc::SYS_fchown | libc::SYS_chmod => Some(("permissions", libc::EPERM)),
        _ => None,
    }
}

/// Runs the program with its n-th such call answered by an error (n = 0: none); nothing if tracing is not allowed.
fn run(dir: &Path, args: &[&str], n: usize) -> Option<Run> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posterior"));
    command.current_dir(dir).args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    // SAFETY: the only call between fork and exec is one that is allowed there.
    unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        })
    };
    let mut child = command.spawn().ok()?;
    let mut pipe = child.stderr.take().unwrap();
    let stderr = std::thread::spawn(move || {
        let mut text = String::new();
        pipe.read_to_string(&mut text).map(|_| text)
    });
    let main = child.id() as i32;
    let (mut status, mut count, mut failed, mut options) = (0, 0, None, false);
    // Whether a thread is inside a call, and the error that call is to end with.
    let mut inside: HashMap<i32, Option<i32>> = HashMap::new();
    let code = loop {
        // SAFETY: plain system calls on threads that this one traces, with pointers to live variables.
        unsafe {
            let pid = libc::waitpid(-1, &mut status, libc::__WALL | libc::__WNOTHREAD);
            assert!(pid > 0, "{}", std::io::Error::last_os_error());
            if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
                if pid == main {
                    break ExitStatus::from_raw(status).code();
                }
                continue;
            }
            if !options {
                let wanted = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL;
                assert_ne!(libc::ptrace(libc::PTRACE_SETOPTIONS, pid, 0, wanted), -1);
                options = true;
            }
            let signal = libc::WSTOPSIG(status);
            let mut hand_on = 0;
            if signal == libc::SIGTRAP | 0x80 {
                let mut regs: libc::user_regs_struct = std::mem::zeroed();
                libc::ptrace(libc::PTRACE_GETREGS, pid, 0, &mut regs);
                match inside.remove(&pid) {
                    None => {
                        let mut error = None;
                        if let Some((name, errno)) = part_of_writing(main, &regs) {
                            count += 1;
                            if count == n {
                                (failed, error) = (Some(name), Some(errno));
                                regs.orig_rax = u64::MAX; // no such call: nothing happens
                                libc::ptrace(libc::PTRACE_SETREGS, pid, 0, &regs);
                            }
                        }
                        inside.insert(pid, error);
                    }
                    Some(error) => {
                        if let Some(errno) = error {
                            regs.rax = i64::from(-errno) as u64;
                            libc::ptrace(libc::PTRACE_SETREGS, pid, 0, &regs);
                        }
                    }
                }
            } else if signal != libc::SIGTRAP && signal != libc::SIGSTOP {
                hand_on = signal;
            }
            libc::ptrace(libc::PTRACE_SYSCALL, pid, 0, hand_on);
        }
    };
    Some(Run { code, stderr: stderr.join().unwrap().unwrap(), failed, calls: count })
}

/// Names in a folder, sorted.
fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn every_call_of_a_write_fails_once() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/houses.csv");
    std::fs::copy(data, dir.join("houses.csv")).unwrap();
    let fit = ["fit", "houses.csv", "--target", "price", "--method", "map", "--set", "epochs=2", "-q", "--out", "m.st"];
    let Some(first) = run(dir, &fit, 0) else {
        eprintln!("skipped: processes cannot be traced here");
        return;
    };
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    for args in [
        &["fit", "houses.csv", "--target", "price", "--method", "map", "--set", "epochs=2", "-q", "--out", "new"][..],
        &["predict", "m.st", "houses.csv", "--out", "new"],
        &["draws", "m.st", "--out", "new"],
        &["calibrate", "m.st", "houses.csv", "-q", "--out", "new"],
    ] {
        let out = dir.join("new");
        let old = b"what stood here before";
        std::fs::write(&out, old).unwrap();
        let whole = run(dir, args, 0).unwrap();
        assert_eq!(whole.code, Some(0), "{args:?}: {}", whole.stderr);
        let size = std::fs::metadata(&out).unwrap().len();
        let before = names(dir);
        let mut errors = Vec::new();
        // Of many small writes one like the other, some in the middle stand for the rest.
        let last = whole.calls;
        for n in (1..=last).filter(|n| *n <= 20 || n + 20 > last || n % 16 == 0) {
            std::fs::write(&out, old).unwrap();
            let run = run(dir, args, n).unwrap();
            let failed = run.failed.expect("as many calls as before");
            let what = format!("{args:?}, call {n} ({failed}): exit {:?}, {}", run.code, run.stderr);
            assert_eq!(names(dir), before, "{what}: no other file may be left");
            let now = std::fs::read(&out).unwrap();
            if run.code == Some(0) {
                // Only what does not touch the content may be passed over.
                assert!(!["open", "write", "copy", "size"].contains(&failed), "{what}");
            } else {
                assert_eq!(run.code, Some(2), "{what}");
                assert!(run.stderr.contains("cannot write") && run.stderr.trim_end().lines().count() == 1, "{what}");
                errors.push(failed);
            }
            // A fit's seconds differ in length from run to run.
            let is_whole = now != old && now.len().abs_diff(size as usize) < 100;
            assert!(if run.code == Some(0) { is_whole } else { now == old || is_whole }, "{what}: {} bytes", now.len());
        }
        assert!(errors.contains(&"open") && errors.contains(&"write"), "{args:?}: {errors:?}");
    }
}

/// Devices that are full, folders that take no files: one sentence, exit 2, nothing left behind.
#[test]
fn places_that_cannot_be_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/houses.csv");
    std::fs::copy(data, dir.join("houses.csv")).unwrap();
    let fit = ["fit", "houses.csv", "--target", "price", "--method", "map", "--set", "epochs=2", "-q", "--out"];
    let program = |args: &[&str]| {
        let out = Command::new(env!("CARGO_BIN_EXE_posterior")).current_dir(dir).args(args).output().unwrap();
        (out.status.code(), String::from_utf8(out.stderr).unwrap())
    };
    assert_eq!(program(&[&fit[..], &["m.st"]].concat()).0, Some(0));
    let before = names(dir);
    for place in ["/proc/m.st", "missing/m.st", "houses.csv/m.st", "."] {
        for args in [&fit[..], &["predict", "m.st", "houses.csv", "--out"], &["draws", "m.st", "--out"]] {
            let (code, told) = program(&[args, &[place]].concat());
            assert!(code == Some(2) && told.trim_end().lines().count() == 1, "{args:?} {place}: {code:?} {told}");
            assert!(told.contains("cannot") || told.contains("folder"), "{args:?} {place}: {told}");
        }
    }
    assert_eq!(names(dir), before);
    // Standard output that is full.
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_posterior"));
    let run = command.current_dir(dir).args(["predict", "m.st", "houses.csv"]).stdout(full).output().unwrap();
    assert_eq!(run.status.code(), Some(2), "{}", String::from_utf8_lossy(&run.stderr));
}
