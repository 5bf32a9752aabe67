"""What the program does beside fitting and predicting, as functions on arrays and frames."""

from __future__ import annotations

import copy
import itertools
import json
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from . import _data, _posterior, _tables
from ._base import NotFittedError, PosteriorWarning
from ._estimators import PosteriorClassifier, PosteriorRegressor, _seed, threads

_Array = NDArray[np.float64]
_E = TypeVar("_E", PosteriorRegressor, PosteriorClassifier)


def methods() -> dict[str, dict[str, Any]]:
    """Every inference method with its settings.

    >>> "laplace" in methods()
    True
    >>> methods()["map"]["settings"]["epochs"]["kind"]
    'int'
    """
    return copy.deepcopy(_tables.tables()["methods"])


def evaluate(model: PosteriorRegressor | PosteriorClassifier, X: Any, y: Any) -> dict[str, tuple[float, float | None]]:
    """Every metric of the outcomes on rows that are known: name → (value, bootstrap standard error)."""
    found = model._inputs(X, reset=False)
    y = model._outcomes(y, found.rows)
    rows = json.loads(model._model.evaluate(found.names, found.x, y, model._draws(), threads(model.n_jobs)))
    return {r["name"]: (r["value"], r["standard_error"]) for r in rows if r["value"] is not None}


def calibrate(model: _E, X: Any, y: Any) -> _E:
    """The same model, calibrated on rows that its fit has not seen: a temperature for classes, and conformal intervals and sets.

    >>> X = np.linspace(0, 1, 200).reshape(-1, 1)
    >>> y = X[:, 0] + 0.1 * np.sin(100 * X[:, 0])
    >>> fitted = PosteriorRegressor(method="linear").fit(X[::2], y[::2])
    >>> interval = calibrate(fitted, X[1::2], y[1::2]).predict_interval(X, coverage=0.9)
    >>> bool(((interval[:, 0] <= y) & (y <= interval[:, 1])).mean() >= 0.85)
    True
    """
    found = model._inputs(X, reset=False)
    column = model._outcomes(y, found.rows)
    answer = copy.copy(model)
    answer._model = model._model.calibrate(found.names, found.x, column, model._draws(), threads(model.n_jobs))
    answer._describe()
    return answer


@dataclass(frozen=True)
class Detection:
    """How well a measure of uncertainty tells other rows from known ones; numbers are None where it is the same for every row."""

    measure: str
    auroc: float | None
    aupr_out: float | None
    aupr_in: float | None
    fpr95: float | None
    tpr_at_fpr5: float | None


def ood(model: PosteriorRegressor | PosteriorClassifier, known: Any, other: Any) -> list[Detection]:
    """Whether the model is less sure of rows unlike those it was fitted to, by every measure of uncertainty."""
    scores = []
    for X in (known, other):
        found = model._inputs(X, reset=False)
        scores.append(
            model._model.uncertainty_scores(found.names, found.x, model._draws(), threads(model.n_jobs))
        )
    answers = []
    for measure, values in scores[0].items():
        row = json.loads(_posterior.detect(values[:, 0].copy(), scores[1][measure][:, 0].copy()))
        if row is None:
            continue
        constant = row.pop("constant")
        answers.append(Detection(measure, **{k: None if constant else v for k, v in row.items()}))
    return answers


@dataclass(frozen=True)
class Comparison:
    """Methods on the same splits: ``scores[method][metric]`` holds a value for every split."""

    scores: dict[str, dict[str, list[float]]]
    seconds: dict[str, list[float]]
    failures: dict[str, str]
    metric: str = "log_likelihood"

    @property
    def best(self) -> str:
        """The method with the highest mean log-likelihood of held-out rows."""
        return max(self.scores, key=lambda m: float(np.mean(self.scores[m][self.metric])))

    def rows(self) -> list[dict[str, Any]]:
        """One row per method: mean and standard error over splits, seconds of a fit."""
        answers = []
        for method, metrics in self.scores.items():
            row: dict[str, Any] = {"method": method, "seconds": float(np.mean(self.seconds[method]))}
            for name, values in metrics.items():
                row[name] = float(np.mean(values))
                row[f"{name}_error"] = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
            answers.append(row)
        return sorted(answers, key=lambda r: -float(r[self.metric]))

    def to_frame(self) -> Any:
        """`rows` as a pandas frame."""
        import pandas

        return pandas.DataFrame(self.rows())

    def _repr_html_(self) -> str:
        rows = self.rows()
        names = ["method", self.metric, f"{self.metric}_error", "seconds"]

        def shown(value: Any) -> str:
            return f"{value:.4g}" if isinstance(value, float) else str(value or "")

        lines = ["".join(f"<th>{n}</th>" for n in names)]
        lines += ["".join(f"<td>{shown(r[n])}</td>" for n in names) for r in rows]
        return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def compare(
    X: Any,
    y: Any,
    methods: Sequence[str],
    *,
    classify: bool = False,
    splits: int = 3,
    test_fraction: float = 0.2,
    random_state: int = 0,
    **params: Any,
) -> Comparison:
    """Fits several methods to the same random splits and scores them on the rows held out.

    A setting goes to every method that has it. A method that fails is listed in ``failures`` with the reason.
    """
    tables = _tables.tables()["methods"]
    for name in methods:
        if name not in tables:
            raise ValueError(f"there is no method '{name}'{_tables.nearest(name, tables)}")
    rows = len(X)
    held = max(1, int(round(test_fraction * rows)))
    generator = np.random.default_rng(random_state)
    parts = [generator.permutation(rows) for _ in range(splits)]
    kind = PosteriorClassifier if classify else PosteriorRegressor
    scores: dict[str, dict[str, list[float]]] = {}
    seconds: dict[str, list[float]] = {}
    failures: dict[str, str] = {}
    known = _tables.settings()
    for method in methods:
        own = {
            k: v
            for k, v in params.items()
            if k not in known or known[k][0] != "methods" or k in tables[method]["settings"]
        }
        try:
            for order in parts:
                test, train = order[:held], order[held:]
                model = kind(method=method, random_state=random_state, **own)
                begin = time.perf_counter()
                model.fit(_take(X, train), _take(y, train))
                seconds.setdefault(method, []).append(time.perf_counter() - begin)
                for name, (value, _) in evaluate(model, _take(X, test), _take(y, test)).items():
                    scores.setdefault(method, {}).setdefault(name, []).append(value)
        except (ValueError, ArithmeticError, MemoryError) as error:
            failures[method] = str(error)
            scores.pop(method, None)
    if not scores:
        raise ValueError(f"no method got through: {next(iter(failures.values()), 'none was given')}")
    return Comparison(scores, seconds, failures)


def _take(values: Any, rows: NDArray[np.intp]) -> Any:
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    if hasattr(values, "columns") or type(values).__module__.startswith("polars"):
        return values[rows.tolist()]
    return np.asarray(values)[rows]


@dataclass(frozen=True)
class Selection:
    """A model of several, with its evidence; ``probability`` is None where a method only bounds the evidence."""

    parameters: dict[str, Any]
    log_evidence: float
    evidence: str
    probability: float | None
    held_out_log_likelihood: float | None
    recipe: dict[str, Any] = field(repr=False)


def select(
    X: Any,
    y: Any,
    over: Mapping[str, Iterable[Any]],
    *,
    classify: bool = False,
    held_out: float = 0.2,
    **params: Any,
) -> list[Selection]:
    """Models over all combinations of values, the most probable first: p(M | data) ∝ p(data | M).

    >>> X = np.linspace(-1, 1, 50).reshape(-1, 1)
    >>> y = X[:, 0] ** 2 + 0.02 * np.sin(50 * X[:, 0])
    >>> best = select(X, y, {"degree": [1, 2, 6]}, method="linear", features="polynomial")[0]
    >>> best.parameters
    {'degree': 2}
    """
    kind = PosteriorClassifier if classify else PosteriorRegressor
    names = list(over)
    grid = [dict(zip(names, values)) for values in itertools.product(*over.values())]
    if len(grid) < 2:
        raise ValueError("there is one model and nothing to choose; give a parameter two values or more")
    params.setdefault("method", "mean-field")
    models = [kind(**(params | values)) for values in grid]
    first = models[0]
    found = _data.inputs(X, allow_nan=first.missing != "error")
    column = first._outcomes(y, found.rows)
    name = _data.target_name(y, found.names)
    likelihood = _tables.tables()["likelihoods"].get(first.likelihood, {})
    task = "classification" if classify else "count" if likelihood.get("outcome") == "count" else "regression"
    text, notes = _posterior.select(
        found.names,
        found.x,
        name,
        column,
        [m._asked() for m in models],
        task,
        first.missing,
        held_out,
        [],
        first._draws(),
        _seed(first.random_state),
        threads(first.n_jobs),
    )
    for note in notes:
        warnings.warn(note, PosteriorWarning, stacklevel=2)
    keys = ("log_evidence", "evidence", "probability", "held_out_log_likelihood", "recipe")
    rows = [(r["log_joint"], Selection(v, *(r[k] for k in keys))) for v, r in zip(grid, json.loads(text))]
    return [s for _, s in sorted(rows, key=lambda row: -row[0])]


@dataclass(frozen=True)
class Draws:
    """Draws of a density, (chains, draws, dim), and how good they are, parameter by parameter."""

    values: _Array
    log_density: _Array
    mean: _Array
    std: _Array
    r_hat: _Array
    ess_bulk: _Array
    ess_tail: _Array
    mcse_mean: _Array
    divergences: int
    step_size: list[float]
    acceptance: list[float]
    incomplete: bool
    fault: str | None


def sample(
    logp_and_grad: Callable[[_Array], tuple[float, Any]],
    dim: int,
    method: str = "nuts",
    *,
    start: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    progress: Callable[[int, int, float], object] | None = None,
    **settings: Any,
) -> Draws:
    """Samples any log density: ``logp_and_grad(w)`` returns log p(w) up to a constant, and its gradient.

    >>> draws = sample(lambda w: (-0.5 * float(w @ w), -w), dim=2, draws=200, random_state=1)
    >>> draws.values.shape
    (4, 200, 2)
    >>> bool(np.all(np.abs(draws.mean) < 5 * draws.mcse_mean))
    True
    """
    if int(dim) < 1:
        raise ValueError(f"dim cannot be {dim!r}; give the number of parameters")
    begin = None if start is None else np.asarray(start, dtype=np.float64).ravel().tolist()
    if begin is not None and len(begin) != dim:
        raise ValueError(f"start has {len(begin)} numbers, and dim is {dim}")
    chosen = json.dumps({k: _tables.plain(v) for k, v in settings.items()})
    values, text, notes = _posterior.sample(
        logp_and_grad, int(dim), method, chosen, _seed(random_state), threads(n_jobs), begin, progress
    )
    for note in notes:
        warnings.warn(note, PosteriorWarning, stacklevel=2)
    about: dict[str, Any] = json.loads(text)
    parameters = about.pop("parameters")
    for name in parameters[0]:
        about[name] = np.array([np.nan if p[name] is None else p[name] for p in parameters])
    about["log_density"] = np.array(about["log_density"])
    return Draws(values=values, **about)


__all__ = [
    "Comparison",
    "Detection",
    "Draws",
    "NotFittedError",
    "Selection",
    "calibrate",
    "compare",
    "evaluate",
    "methods",
    "ood",
    "sample",
    "select",
]
