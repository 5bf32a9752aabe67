"""From what users have (arrays, pandas and polars frames) to what the core reads, with the checks that scikit-learn's users expect.

Arrays of float32 and float64 are handed on as they are; frames column by column: numbers with NaN, texts and booleans with None where a value is missing.
"""

from __future__ import annotations

import datetime
import warnings
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ._base import DataConversionWarning

Column: TypeAlias = tuple[str, Any]

FEWEST_ROWS = 5
_DATES = "turn them into numbers (days since a date, hour of the day), or leave them out"


class Inputs(NamedTuple):
    """Rows of inputs: the names of the columns, and an array or columns."""

    names: list[str]
    x: Any
    rows: int
    given_names: list[str] | None


def is_frame(X: Any) -> bool:
    """Whether X has named columns that can be taken one by one: pandas, polars, pyarrow."""
    return hasattr(X, "columns") and hasattr(X, "__getitem__") and (hasattr(X, "dtypes") or hasattr(X, "schema"))


def _missing(series: Any) -> NDArray[np.bool_]:
    found = series.isna() if hasattr(series, "isna") else series.is_null()
    return np.asarray(found, dtype=bool)


def column(series: Any) -> Column:
    """A column of a frame by its kind."""
    if hasattr(series, "to_pylist"):
        return _by_values(series.to_pylist())
    missing = _missing(series)
    dtype = str(series.dtype).lower()
    values = np.asarray(series.to_numpy())
    if values.dtype.kind in "Mm":
        raise ValueError(f"column '{series.name}' holds dates or times; {_DATES}")
    categorical = dtype.startswith(("category", "categorical", "enum"))
    if values.dtype.kind in "fiu" and not categorical:
        number = values.astype(np.float64)
        number[missing] = np.nan
        return "number", number
    present = [None if gone else v for v, gone in zip(values.tolist(), missing)]
    return _by_values([None if v is None else str(v) for v in present] if categorical else present)


def _by_values(values: list[Any]) -> Column:
    """A column of Python values: booleans, numbers, or else text."""
    known = [v for v in values if v is not None]
    if known and all(isinstance(v, (bool, np.bool_)) for v in known):
        return "bool", [None if v is None else bool(v) for v in values]
    if all(isinstance(v, (int, float, np.number)) for v in known):
        return "number", np.array([np.nan if v is None else float(v) for v in values])
    if isinstance(known[0], (datetime.date, datetime.time, datetime.timedelta)):
        raise ValueError(f"a column of X holds dates or times; {_DATES}")
    return "text", [None if v is None else str(v) for v in values]


def _finite(x: NDArray[Any], what: str, allow_nan: bool) -> None:
    # A sum is finite where all numbers are, and needs no second array.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.sum(x, dtype=np.float64)):
            return
    if np.isnan(x).any() and not allow_nan:
        fix = "; fill them in, or use missing=\"mean\" or missing=\"drop\"" if what == "X" else "; leave those rows out"
        raise ValueError(f"Input {what} contains NaN{fix}.")
    if np.isinf(x).any():
        raise ValueError(f"Input {what} contains infinity or a value too large for dtype('{x.dtype}').")


def _array(X: Any, allow_nan: bool) -> NDArray[Any]:
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise TypeError("Sparse data was passed for X, but dense data is required. Use '.toarray()' to convert it.")
    x = np.asarray(X)
    if x.dtype.kind == "c":
        raise ValueError(f"Complex data not supported\n{X}\n")
    if x.ndim == 4:
        pixels = x.astype(np.float32) / 255 if x.dtype == np.uint8 else x.astype(np.float32, copy=False)
        _finite(pixels, "X", allow_nan=False)
        return np.ascontiguousarray(pixels)
    if x.dtype not in (np.float32, np.float64) or not x.dtype.isnative:
        x = x.astype(np.float64)
    if x.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {x.ndim}D array instead:\narray={x}.\nReshape your data either using "
            "array.reshape(-1, 1) if your data has a single feature or array.reshape(1, -1) if it contains a single "
            "sample; images are 4D: rows, channels, height, width."
        )
    _finite(x, "X", allow_nan)
    return x


def _enough(shape: tuple[int, ...]) -> None:
    if shape[0] == 0:
        raise ValueError(f"Found array with 0 sample(s) (shape={shape}) while a minimum of 1 is required.")
    if shape[1] == 0:
        raise ValueError(f"Found array with 0 feature(s) (shape={shape}) while a minimum of 1 is required.")


def inputs(X: Any, allow_nan: bool) -> Inputs:
    """X as the core reads it."""
    if is_frame(X):
        labels = list(getattr(X, "column_names", X.columns))
        text = all(isinstance(c, str) for c in labels)
        names = [str(c) for c in labels]
        if len(set(names)) < len(names):
            raise ValueError("two columns of X have the same name; rename one of them")
        _enough((len(X), len(names)))
        columns = [column(X[c]) for c in labels]
        for name, (kind, values) in zip(names, columns):
            if kind == "number":
                _finite(values, "X", allow_nan=allow_nan)
        return Inputs(names, columns, len(X), names if text else None)
    x = _array(X, allow_nan)
    _enough(x.shape)
    names = [] if x.ndim == 4 else [f"x{i}" for i in range(x.shape[1])]
    return Inputs(names, x, x.shape[0], None)


def _one_column(y: Any) -> NDArray[Any]:
    if y is None:
        raise ValueError("This estimator requires y to be passed, but the target y is None.")
    if is_frame(y):
        y = y[list(y.columns)[0]] if len(list(y.columns)) == 1 else np.asarray(y)
    array = np.asarray(y)
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported\n{y}\n")
    if array.ndim == 2 and array.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of y to (n_samples,), "
            "for example using ravel().",
            DataConversionWarning,
            stacklevel=4,
        )
        array = array.ravel()
    if array.ndim != 1:
        raise ValueError(f"y should be a 1d array, got an array of shape {array.shape} instead.")
    return array


def target_name(y: Any, names: list[str]) -> str:
    """The name of y where it has one, and none that a column of X has too."""
    name = getattr(y, "name", None)
    name = name if isinstance(name, str) and name else "y"
    while name in names:
        name += "_"
    return name


def numbers(y: Any, rows: int) -> NDArray[np.float64]:
    """A real or count target."""
    array = _one_column(y)
    if array.dtype.kind not in "fiub":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError("y holds text, not numbers; use PosteriorClassifier for classes") from None
    array = np.ascontiguousarray(array, dtype=np.float64)
    _finite(array, "y", allow_nan=False)
    _same_rows(rows, len(array))
    return array


def labels(y: Any, rows: int) -> NDArray[Any]:
    """A target of classes."""
    array = _one_column(y)
    if array.dtype.kind == "f":
        _finite(array, "y", allow_nan=False)
        if (array != np.floor(array)).any():
            raise ValueError(
                "Unknown label type: continuous. Maybe you are trying to fit a classifier, which expects discrete "
                "classes on a regression target with continuous values; use PosteriorRegressor."
            )
    _same_rows(rows, len(array))
    return array


def label_column(y: NDArray[Any]) -> Column:
    """Classes as the core reads them."""
    if y.dtype.kind == "b":
        return "bool", y.tolist()
    if y.dtype.kind in "fiu":
        return "number", np.ascontiguousarray(y, dtype=np.float64)
    return "text", [str(v) for v in y.tolist()]


def _same_rows(*counts: int) -> None:
    if len(set(counts)) > 1:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {list(counts)}")


def weights(sample_weight: Any, rows: int) -> NDArray[np.float64] | None:
    """Weights of rows; none where all are 1."""
    if sample_weight is None:
        return None
    array = np.asarray(sample_weight, dtype=np.float64)
    if array.ndim == 0:
        array = np.full(rows, float(array))
    if array.ndim != 1:
        raise ValueError("Sample weights must be 1D array or scalar")
    _same_rows(rows, len(array))
    _finite(array, "sample_weight", allow_nan=False)
    if (array < 0).any():
        raise ValueError("Negative values in data passed to `sample_weight`; give weights of 0 or more")
    some = np.count_nonzero(array)
    if some < min(rows, FEWEST_ROWS):
        what = f"all rows but {some} have a sample weight of zero, and at least {FEWEST_ROWS} are needed"
        raise ValueError(f"{what}; give more rows a weight")
    return None if (array == 1).all() else array
