"""Bayesian neural networks with any inference method, and predictions that know how sure they are.

>>> import numpy as np
>>> from posterior import PosteriorRegressor
>>> X = np.linspace(-1, 1, 100).reshape(-1, 1)
>>> y = np.sin(3 * X[:, 0])
>>> model = PosteriorRegressor(method="laplace", network=(20,), epochs=300, random_state=0).fit(X, y)
>>> mean, std = model.predict([[0.5], [3.0]], return_std=True)
>>> bool(std[1] > std[0])  # less is known where there are no data
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._posterior import __version__

if TYPE_CHECKING:
    from ._base import NotFittedError as NotFittedError
    from ._base import PosteriorWarning as PosteriorWarning
    from ._estimators import PosteriorClassifier as PosteriorClassifier
    from ._estimators import PosteriorRegressor as PosteriorRegressor
    from ._estimators import Uncertainty as Uncertainty
    from ._estimators import load as load
    from ._functions import Comparison as Comparison
    from ._functions import Detection as Detection
    from ._functions import Draws as Draws
    from ._functions import Selection as Selection
    from ._functions import calibrate as calibrate
    from ._functions import compare as compare
    from ._functions import evaluate as evaluate
    from ._functions import methods as methods
    from ._functions import ood as ood
    from ._functions import sample as sample
    from ._functions import select as select
    from ._torch import from_torch as from_torch

# scikit-learn takes a second to import: what needs it is imported when it is asked for.
_LAZY = {
    "NotFittedError": "_base",
    "PosteriorWarning": "_base",
    "PosteriorClassifier": "_estimators",
    "PosteriorRegressor": "_estimators",
    "Uncertainty": "_estimators",
    "load": "_estimators",
    "Comparison": "_functions",
    "Detection": "_functions",
    "Draws": "_functions",
    "Selection": "_functions",
    "calibrate": "_functions",
    "compare": "_functions",
    "evaluate": "_functions",
    "methods": "_functions",
    "ood": "_functions",
    "sample": "_functions",
    "select": "_functions",
    "from_torch": "_torch",
}

__all__ = ["__version__", *_LAZY]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'posterior' has no attribute '{name}'")
    import importlib

    value = getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
