"""scikit-learn's base classes where it is installed, and the little of them that is needed where it is not."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.exceptions import DataConversionWarning, NotFittedError
except ImportError:

    class NotFittedError(ValueError, AttributeError):  # type: ignore[no-redef]
        """The estimator is used before it is fitted."""

    class DataConversionWarning(UserWarning):  # type: ignore[no-redef]
        """The input was taken in another shape than it was given in."""

    class BaseEstimator:  # type: ignore[no-redef]
        """Parameters are what ``__init__`` was given."""

        def __repr__(self) -> str:
            defaults = {p.name: p.default for p in inspect.signature(type(self)).parameters.values()}
            params = getattr(self, "get_params")(deep=False)
            given = ", ".join(f"{k}={v!r}" for k, v in params.items() if v is not defaults[k] and v != defaults[k])
            return f"{type(self).__name__}({given})"

        def __sklearn_tags__(self) -> Any:
            raise AttributeError("scikit-learn is not installed")

    class RegressorMixin:  # type: ignore[no-redef]
        """R², as scikit-learn has it."""

        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
            y, f = np.asarray(y, dtype=float), np.asarray(getattr(self, "predict")(X))
            w = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
            residual = float(np.sum(w * (y - f) ** 2))
            return 1.0 - residual / float(np.sum(w * (y - np.average(y, weights=w)) ** 2))

    class ClassifierMixin:  # type: ignore[no-redef]
        """Accuracy, as scikit-learn has it."""

        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
            return float(np.average(getattr(self, "predict")(X) == np.asarray(y), weights=sample_weight))


class PosteriorWarning(UserWarning):
    """Something about the data or the fit that a user should know."""


__all__ = [
    "BaseEstimator",
    "ClassifierMixin",
    "DataConversionWarning",
    "NotFittedError",
    "PosteriorWarning",
    "RegressorMixin",
]
