//! Errors of the library as exceptions, with its options in Python's words.

use posterior::remedy::{OptionName, Suggestion};
use posterior::{Error, ErrorKind};
use pyo3::PyErr;
use pyo3::exceptions::{
    PyArithmeticError, PyFileNotFoundError, PyKeyboardInterrupt, PyMemoryError, PyOSError, PyRuntimeError, PyValueError,
};
use std::any::Any;
use std::io;

/// `missing="mean"`, `prior_weight_std=2`; a task is an estimator's class.
fn keyword(suggestion: &Suggestion) -> String {
    let value = suggestion.value.as_deref();
    let name = match (&suggestion.option, value) {
        (OptionName::Task, Some("classification")) => return "PosteriorClassifier".to_owned(),
        (OptionName::Task, Some("count")) => return "PosteriorRegressor with likelihood=\"poisson\"".to_owned(),
        (OptionName::Task, Some(_)) => return "PosteriorRegressor".to_owned(),
        (OptionName::Task, None) => return "PosteriorRegressor or PosteriorClassifier".to_owned(),
        (OptionName::Ignore, _) => return "X without that column".to_owned(),
        (OptionName::Text, _) => return "astype(str)".to_owned(),
        (option, _) => option.name().replace('.', "_"),
    };
    match value {
        None => name,
        Some("true") => format!("{name}=True"),
        Some("false") => format!("{name}=False"),
        Some(v) if v.parse::<f64>().is_ok() => format!("{name}={v}"),
        Some(v) => format!("{name}=\"{v}\""),
    }
}

/// The library's sentence in the exception that a Python user expects.
pub fn to_python(error: Error) -> PyErr {
    let mut text = error.worded(&keyword);
    match error.kind() {
        ErrorKind::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => PyFileNotFoundError::new_err(text),
        ErrorKind::Io { .. } => PyOSError::new_err(text),
        ErrorKind::Memory { .. } => PyMemoryError::new_err(text),
        ErrorKind::Numerical { .. } => PyArithmeticError::new_err(text),
        ErrorKind::Interrupted => PyKeyboardInterrupt::new_err(text),
        ErrorKind::Data { at, .. } => {
            if at.file.is_none()
                && let Some(rest) = text.strip_prefix("line ")
            {
                text = format!("row {rest}");
            }
            PyValueError::new_err(text)
        }
        _ => PyValueError::new_err(text),
    }
}

/// A fault of the library itself: never the user's, and never an abort.
pub fn of_panic(panic: Box<dyn Any + Send>) -> PyErr {
    let what =
        panic.downcast_ref::<&str>().map(|s| (*s).to_owned()).or_else(|| panic.downcast_ref::<String>().cloned());
    let what = what.unwrap_or_else(|| "no reason was given".to_owned());
    PyRuntimeError::new_err(format!("an error inside posterior ({what}); report this as a bug"))
}
