//! When checkpoints of a fit are written, and where: the library hands over states, time and files are decided here.

use crate::cli::Fit;
use crate::commands::data_files;
use crate::output::check_writable;
use anyhow::bail;
use posterior::artifact::write_file;
use posterior::inference::Checkpoint;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Seconds between two checkpoints, where the user says nothing.
const EVERY: f64 = 60.0;

/// A checkpoint and the file it goes to.
pub struct CheckpointFile {
    checkpoint: Checkpoint,
    path: PathBuf,
    every: Duration,
    /// When states were last asked for.
    asked: Instant,
    /// Whether some of them are still to come.
    waiting: bool,
    /// Whether the last attempt to write failed.
    failed: bool,
}

impl CheckpointFile {
    /// As the flags say; none where they ask for none.
    pub fn of(args: &Fit) -> anyhow::Result<Option<CheckpointFile>> {
        let Some(path) = args.checkpoint.as_ref().or(args.resume.as_ref()) else {
            if args.every.is_some() {
                bail!("--every goes with --checkpoint or --resume; add one of them");
            }
            return Ok(None);
        };
        if *path == args.out {
            bail!("the checkpoint and the model cannot be the same file; give --out another name");
        }
        let checkpoint = match &args.resume {
            Some(resume) => Checkpoint::read(resume)?,
            None => Checkpoint::new(),
        };
        if args.resume.as_ref() != Some(path) && path.exists() {
            check_replaceable(path)?;
        }
        check_writable(
            path,
            data_files(&args.data.data, args.data.labels.as_ref()).into_iter().chain(args.start.clone()),
        )?;
        let every = Duration::from_secs_f64(args.every.unwrap_or(EVERY));
        let (path, asked) = (path.clone(), Instant::now());
        Ok(Some(CheckpointFile { checkpoint, path, every, asked, waiting: false, failed: false }))
    }

    pub fn checkpoint(&self) -> Checkpoint {
        self.checkpoint.clone()
    }

    /// Called many times a second: asks for states when it is time, writes them when they are there. Says so, once, where they cannot be written.
    pub fn look(&mut self) -> Option<String> {
        let due = self.asked.elapsed() >= self.every;
        // A unit whose step takes longer than that is not waited for: what it handed in before is kept.
        let written = if self.waiting && (due || self.checkpoint.is_complete()) {
            self.waiting = false;
            self.write()
        } else {
            Ok(())
        };
        if due {
            self.checkpoint.request();
            (self.asked, self.waiting) = (Instant::now(), true);
        }
        match written {
            Ok(()) => None,
            Err(_) if self.failed => None,
            Err(e) => {
                self.failed = true;
                Some(format!("{e}; the fit goes on, without a checkpoint until that is mended"))
            }
        }
    }

    fn write(&mut self) -> posterior::Result<()> {
        write_file(&self.path, &self.checkpoint.to_bytes()?)?;
        self.failed = false;
        Ok(())
    }

    /// The fit was stopped: the file from which it can go on.
    pub fn stopped(&mut self) -> posterior::Result<&Path> {
        self.write()?;
        Ok(&self.path)
    }

    /// The fit came to its end.
    pub fn finished(&mut self) -> posterior::Result<()> {
        self.checkpoint.finish();
        self.write()
    }
}

/// A file that is there already is not written over, unless it is the checkpoint of a fit that came to its end.
fn check_replaceable(path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    match Checkpoint::read(path) {
        Ok(old) if old.is_finished() => Ok(()),
        Ok(_) => bail!(
            "{shown} is the checkpoint of a fit that is not done; continue it with --resume {shown}, or remove it"
        ),
        Err(_) => bail!("{shown} is there already and is no checkpoint; give --checkpoint another name"),
    }
}
