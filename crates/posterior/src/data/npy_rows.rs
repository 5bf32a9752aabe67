//! Rows of two NPY files that stay on disk: inputs of rows × …, outcomes of rows or rows × targets, read a mini-batch at a time.
//!
//! The files are those of `numpy.save` with float32 or float64 numbers in C order. Only headers are read when they are opened; that rows hold finite
//! numbers is found when they are asked for. Memory: a batch. The inputs should be standardised before they are saved, since nothing here does it.

use super::dataset::Dataset;
use super::npy::{Numbers, open};
use super::source::{Batch, Source};
use crate::error::{Error, Result};
use crate::nn::Shape;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Inputs and outcomes in two files.
#[derive(Debug)]
pub struct NpyRows {
    x: NpyArray,
    y: NpyArray,
    shape: Shape,
}

/// An array in C order whose first dimension is the rows.
#[derive(Debug)]
struct NpyArray {
    path: PathBuf,
    /// The file, and room for what is read of it.
    file: Mutex<(File, Vec<u8>)>,
    /// Where the numbers begin.
    start: u64,
    rows: usize,
    shape: Vec<usize>,
    numbers: Numbers,
}

impl NpyArray {
    fn open(path: &Path) -> Result<NpyArray> {
        let refused = |e| Error::io("read", path, e);
        let mut file = File::open(path).map_err(refused)?;
        let length = file.metadata().map_err(refused)?.len();
        let header = open(&mut file, length).map_err(|e| e.in_file(path))?;
        let (path, file) = (path.to_owned(), Mutex::new((file, Vec::new())));
        let (rows, shape) = (header.shape[0], header.shape[1..].to_vec());
        Ok(NpyArray { path, file, start: header.start, rows, shape, numbers: header.numbers })
    }

    fn width(&self) -> usize {
        self.shape.iter().product()
    }

    /// Calls `take` with the bytes of every row.
    fn read(&self, rows: &[u32], mut take: impl FnMut(&[u8])) -> Result<()> {
        let bytes = self.width() * self.numbers.size();
        let refused = |e| Error::io("read", &self.path, e);
        let mut guard = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, buffer) = &mut *guard;
        let mut i = 0;
        while i < rows.len() {
            // Rows that stand side by side are read at once.
            let run = 1 + rows[i..].windows(2).take_while(|w| w[0] + 1 == w[1]).count();
            buffer.resize(run * bytes, 0);
            file.seek(SeekFrom::Start(self.start + u64::from(rows[i]) * bytes as u64)).map_err(refused)?;
            file.read_exact(buffer).map_err(refused)?;
            buffer.chunks_exact(bytes.max(1)).for_each(&mut take);
            i += run;
        }
        Ok(())
    }
}

impl NpyRows {
    /// Opens both files and checks that they fit together.
    pub fn open(x: &Path, y: &Path) -> Result<NpyRows> {
        let (x, y) = (NpyArray::open(x)?, NpyArray::open(y)?);
        let shape = match x.shape[..] {
            [] => Shape::Flat(1),
            [inputs] => Shape::Flat(inputs),
            [height, width] => Shape::Image { channels: 1, height, width },
            [channels, height, width] => Shape::Image { channels, height, width },
            _ => {
                let what = format!("an array of {} dimensions holds no rows of inputs", x.shape.len() + 1);
                let fix = "give rows × inputs, rows × height × width or rows × channels × height × width";
                return Err(Error::data(what, fix).in_file(&x.path));
            }
        };
        if y.shape.len() > 1 {
            let what = format!("an array of {} dimensions holds no outcomes", y.shape.len() + 1);
            return Err(Error::data(what, "give rows, or rows × targets").in_file(&y.path));
        }
        if x.rows != y.rows {
            let what = format!("there are {} outcomes for the {} rows of {}", y.rows, x.rows, x.path.display());
            return Err(Error::data(what, "save arrays of one length").in_file(&y.path));
        }
        Ok(NpyRows { x, y, shape })
    }
}

impl Source for NpyRows {
    fn rows(&self) -> usize {
        self.x.rows
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn targets(&self) -> usize {
        self.y.width()
    }

    fn gather(&self, rows: &[u32], into: &mut Batch) -> Result<()> {
        if let Some(row) = rows.iter().find(|r| **r as usize >= self.x.rows) {
            let what = format!("row {row} was asked for, and there are {}", self.x.rows);
            return Err(Error::data(what, "ask for rows from 0 to one less than that"));
        }
        into.begin();
        self.x.read(rows, |bytes| match self.x.numbers {
            Numbers::F32 => into.extend_f32(bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b))),
            Numbers::F64 => into.extend_f64(bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b))),
        })?;
        self.y.read(rows, |bytes| match self.y.numbers {
            Numbers::F32 => into.extend_y(bytes.as_chunks().0.iter().map(|b| f64::from(f32::from_le_bytes(*b)))),
            Numbers::F64 => into.extend_y(bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b))),
        })
    }

    fn whole(&self) -> Option<&Dataset> {
        None
    }
}
