//! The state of a computation as named arrays with their exact bits: what a checkpoint is made of.
//!
//! A type says once what its state consists of ([`Stateful::state`]); the same description saves and resumes, so that the two cannot disagree. Random numbers
//! are keyed by (seed, step), so that a step number is all of a generator's state. Buffers that a step writes before it reads are no state.
//!
//! ```
//! use posterior::snapshot::{State, Stateful};
//!
//! #[derive(Default)]
//! struct Average { sum: f64, count: u64 }
//! impl Stateful for Average {
//!     fn state(&mut self, state: &mut State<'_>) -> posterior::Result<()> {
//!         state.number("sum", &mut self.sum)?;
//!         state.count("count", &mut self.count)
//!     }
//! }
//!
//! # fn main() -> posterior::Result<()> {
//! let snapshot = Average { sum: 3.5, count: 2 }.snapshot()?;
//! let mut again = Average::default();
//! again.resume(&snapshot)?;
//! assert_eq!((again.sum, again.count), (3.5, 2));
//! # Ok(())
//! # }
//! ```

use crate::error::{Error, Result};
use std::collections::BTreeMap;

/// An array of a snapshot.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Array {
    /// Single precision.
    F32(Vec<f32>),
    /// Double precision.
    F64(Vec<f64>),
    /// Whole numbers.
    U64(Vec<u64>),
}

/// A number of a snapshot: `f32`, `f64` or `u64`.
pub trait Element: Copy + sealed::Sealed {
    /// As an array.
    fn wrap(values: Vec<Self>) -> Array;
    /// The numbers of an array of this kind.
    fn of(array: &Array) -> Option<&[Self]>;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! element {
    ($kind:ty, $variant:ident) => {
        impl sealed::Sealed for $kind {}
        impl Element for $kind {
            fn wrap(values: Vec<Self>) -> Array {
                Array::$variant(values)
            }
            fn of(array: &Array) -> Option<&[Self]> {
                match array {
                    Array::$variant(values) => Some(values),
                    _ => None,
                }
            }
        }
    };
}
element!(f32, F32);
element!(f64, F64);
element!(u64, U64);

/// Named arrays.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Snapshot {
    arrays: BTreeMap<String, Array>,
}

impl Snapshot {
    /// The arrays, by name.
    pub fn arrays(&self) -> impl Iterator<Item = (&str, &Array)> {
        self.arrays.iter().map(|(name, array)| (name.as_str(), array))
    }

    /// Adds an array, in place of one of the same name.
    pub fn insert(&mut self, name: impl Into<String>, array: Array) {
        self.arrays.insert(name.into(), array);
    }
}

/// Something whose state can be kept and come back to.
pub trait Stateful {
    /// Hands every part of the state to `state`, which reads or writes it. What is not handed over has to follow from how the object was made.
    fn state(&mut self, state: &mut State<'_>) -> Result<()>;

    /// The state as it is now.
    fn snapshot(&mut self) -> Result<Snapshot> {
        let mut snapshot = Snapshot::default();
        self.state(&mut State { prefix: String::new(), side: Side::Save(&mut snapshot) })?;
        Ok(snapshot)
    }

    /// Goes on from a snapshot of an object that was made in the same way. After an error the state is neither the one nor the other.
    fn resume(&mut self, snapshot: &Snapshot) -> Result<()> {
        self.state(&mut State { prefix: String::new(), side: Side::Load(snapshot) })
    }
}

/// Reads or writes the parts of a state.
pub struct State<'s> {
    prefix: String,
    side: Side<'s>,
}

enum Side<'s> {
    Save(&'s mut Snapshot),
    Load(&'s Snapshot),
}

/// Whole numbers that count something: larger ones are no counts, and would overflow when they go on.
const MOST: u64 = 1 << 53;

fn wrong(what: String) -> Error {
    Error::setting(what, "resume with a snapshot of the same computation")
}

impl State<'_> {
    /// Whether the state is being read from a snapshot.
    pub fn resumes(&self) -> bool {
        matches!(self.side, Side::Load(_))
    }

    fn exchange<T: Element>(&mut self, name: &str, save: impl FnOnce() -> Vec<T>) -> Result<Option<(String, &[T])>> {
        let full = format!("{}{name}", self.prefix);
        match &mut self.side {
            Side::Save(snapshot) => {
                snapshot.arrays.insert(full, T::wrap(save()));
                Ok(None)
            }
            Side::Load(snapshot) => match snapshot.arrays.get(&full).map(T::of) {
                Some(Some(values)) => Ok(Some((full, values))),
                Some(None) => Err(wrong(format!("'{full}' of the snapshot holds numbers of another kind"))),
                None => Err(wrong(format!("the snapshot holds no '{full}'"))),
            },
        }
    }

    /// An array whose length is fixed.
    pub fn array<T: Element>(&mut self, name: &str, values: &mut [T]) -> Result<()> {
        self.parts(name, std::iter::once(values))
    }

    /// Pieces of one array, one after another, each of a fixed length.
    pub fn parts<'v, T: Element + 'v>(
        &mut self,
        name: &str,
        parts: impl IntoIterator<Item = &'v mut [T]>,
    ) -> Result<()> {
        let mut parts: Vec<&mut [T]> = parts.into_iter().collect();
        let len: usize = parts.iter().map(|p| p.len()).sum();
        let saved = self.exchange(name, || {
            let mut all = Vec::with_capacity(len);
            parts.iter().for_each(|p| all.extend_from_slice(p));
            all
        })?;
        if let Some((full, mut from)) = saved {
            if from.len() != len {
                return Err(wrong(format!("'{full}' of the snapshot has {} numbers where {len} belong", from.len())));
            }
            for part in &mut parts {
                let (first, rest) = from.split_at(part.len());
                part.copy_from_slice(first);
                from = rest;
            }
        }
        Ok(())
    }

    /// An array of any length up to `most`.
    pub fn vector<T: Element>(&mut self, name: &str, values: &mut Vec<T>, most: usize) -> Result<()> {
        if let Some((full, from)) = self.exchange(name, || values.clone())? {
            if from.len() > most {
                return Err(wrong(format!("'{full}' of the snapshot has {} numbers, more than {most}", from.len())));
            }
            values.clear();
            values.extend_from_slice(from);
        }
        Ok(())
    }

    /// An array of this length that may also be empty.
    pub fn array_or_none<T: Element>(&mut self, name: &str, values: &mut Vec<T>, len: usize) -> Result<()> {
        self.vector(name, values, len)?;
        match values.len() {
            n if n == 0 || n == len => Ok(()),
            n => Err(wrong(format!(
                "'{}{name}' of the snapshot has {n} numbers where {len} or none belong",
                self.prefix
            ))),
        }
    }

    /// One number.
    pub fn number(&mut self, name: &str, value: &mut f64) -> Result<()> {
        self.array(name, std::slice::from_mut(value))
    }

    /// One whole number that counts something.
    pub fn count<N: Copy + TryFrom<u64> + TryInto<u64>>(&mut self, name: &str, value: &mut N) -> Result<()> {
        let mut number = (*value).try_into().unwrap_or(u64::MAX);
        self.array(name, std::slice::from_mut(&mut number))?;
        let fits = N::try_from(number).ok().filter(|_| number <= MOST);
        *value = fits.ok_or_else(|| wrong(format!("'{}{name}' is {number}, which is no count", self.prefix)))?;
        Ok(())
    }

    /// Yes or no.
    pub fn flag(&mut self, name: &str, value: &mut bool) -> Result<()> {
        let mut number = u64::from(*value);
        self.count(name, &mut number)?;
        *value = number != 0;
        Ok(())
    }

    /// A part with a state of its own.
    pub fn part(&mut self, name: &str, part: &mut (impl Stateful + ?Sized)) -> Result<()> {
        let before = self.prefix.len();
        self.prefix.push_str(name);
        self.prefix.push('.');
        let done = part.state(self);
        self.prefix.truncate(before);
        done
    }

    /// A part that may not be there; `make` makes one to be read into.
    pub fn optional<T: Stateful>(&mut self, name: &str, part: &mut Option<T>, make: impl FnOnce() -> T) -> Result<()> {
        let mut there = part.is_some();
        self.flag(&format!("{name}.there"), &mut there)?;
        if !there {
            *part = None;
            return Ok(());
        }
        self.part(name, part.get_or_insert_with(make))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq)]
    struct Inner {
        w: [f32; 3],
        parts: [[f64; 2]; 2],
    }

    impl Stateful for Inner {
        fn state(&mut self, state: &mut State<'_>) -> Result<()> {
            state.array("w", &mut self.w)?;
            state.parts("parts", self.parts.iter_mut().map(|p| &mut p[..]))
        }
    }

    #[derive(Debug, Default, PartialEq)]
    struct Outer {
        inner: Inner,
        kept: Option<Inner>,
        path: Vec<u64>,
        step: usize,
        on: bool,
    }

    impl Stateful for Outer {
        fn state(&mut self, state: &mut State<'_>) -> Result<()> {
            state.part("inner", &mut self.inner)?;
            state.optional("kept", &mut self.kept, Inner::default)?;
            state.vector("path", &mut self.path, 4)?;
            state.count("step", &mut self.step)?;
            state.flag("on", &mut self.on)
        }
    }

    #[test]
    fn what_is_saved_comes_back_bit_for_bit() {
        let inner = || Inner { w: [f32::MIN_POSITIVE / 3.0, -0.0, f32::INFINITY], parts: [[1e-310, 2.0], [3.0, 4.0]] };
        let mut from = Outer { inner: inner(), kept: Some(inner()), path: vec![7, u64::MAX], step: 5, on: true };
        let snapshot = from.snapshot().unwrap();
        let mut to = Outer { path: vec![1; 3], ..Outer::default() };
        to.resume(&snapshot).unwrap();
        assert_eq!(to, from);
        assert!(to.inner.w[1].is_sign_negative());
        // What was not there is not there again.
        let snapshot = Outer::default().snapshot().unwrap();
        to.resume(&snapshot).unwrap();
        assert_eq!(to, Outer::default());
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let good = Outer { path: vec![1], ..Outer::default() }.snapshot().unwrap();
        let told = |name: &str, array: Option<Array>| {
            let mut snapshot = good.clone();
            snapshot.arrays.remove(name);
            array.into_iter().for_each(|a| snapshot.insert(name, a));
            Outer::default().resume(&snapshot).unwrap_err().to_string()
        };
        assert!(told("inner.w", None).starts_with("the snapshot holds no 'inner.w'"));
        assert!(told("inner.w", Some(Array::F32(vec![0.0; 4]))).contains("4 numbers where 3 belong"));
        assert!(told("inner.w", Some(Array::F64(vec![0.0; 3]))).contains("another kind"));
        assert!(told("path", Some(Array::U64(vec![0; 5]))).contains("more than 4"));
        assert!(told("step", Some(Array::U64(vec![u64::MAX]))).contains("no count"));
    }
}
