"""``PosteriorRegressor`` and ``PosteriorClassifier``: scikit-learn estimators over the core."""

from __future__ import annotations

import inspect
import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from . import _data, _posterior, _tables
from ._base import BaseEstimator, ClassifierMixin, NotFittedError, PosteriorWarning, RegressorMixin

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from ._settings import Settings

_E = TypeVar("_E", bound="_Estimator")
_Array = NDArray[np.float64]


class Uncertainty(NamedTuple):
    """How unsure predictions are, split into noise in the data and what more data would teach.

    Standard deviations for real and count outcomes (total² = aleatoric² + epistemic²); entropies in nats for classes (total = aleatoric + epistemic).
    """

    total: _Array
    aleatoric: _Array
    epistemic: _Array


def _seed(random_state: Any) -> int:
    if random_state is None:
        return int(np.random.randint(np.iinfo(np.int32).max))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(np.iinfo(np.int32).max))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(np.iinfo(np.int32).max))
    if isinstance(random_state, (int, np.integer)) and random_state >= 0:
        return int(random_state)
    raise ValueError(f"{random_state!r} cannot be used to seed; give random_state a number of at least 0 or None")


def threads(n_jobs: int | None) -> int:
    """Threads for the core; 0 is one per core. Workers of joblib are told their share by OMP_NUM_THREADS."""
    if n_jobs is None:
        share = os.environ.get("OMP_NUM_THREADS", "")
        return int(share) if share.isdigit() else 0
    if n_jobs > 0:
        return int(n_jobs)
    if n_jobs == 0:
        raise ValueError("n_jobs cannot be 0; give the number of threads, or -1 for one per core")
    return max(1, (os.cpu_count() or 1) + 1 + int(n_jobs))


class _WithSettings:
    """Settings of the tables, beside the attributes: one of them is called like a method ("draws")."""

    __slots__ = ("_settings",)

    _settings: dict[str, Any]


class _Estimator(_WithSettings, BaseEstimator):
    _model: _posterior.Model

    _OWN = (
        "method",
        "network",
        "activation",
        "likelihood",
        "prior",
        "missing",
        "n_draws",
        "random_state",
        "n_jobs",
        "progress",
    )

    def __init__(
        self,
        method: str = "auto",
        network: Any = (50,),
        activation: str = "tanh",
        likelihood: str = "auto",
        prior: str = "auto",
        missing: str = "error",
        n_draws: int = 100,
        random_state: Any = None,
        n_jobs: int | None = None,
        progress: Callable[[int, int, float], object] | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        known = _tables.settings()
        for name in settings:
            if name not in known:
                near = _tables.nearest(name, [*known, *self._OWN])
                raise TypeError(f"{type(self).__name__}() got an unexpected keyword argument '{name}'{near}")
        self.method = method
        self.network = network
        self.activation = activation
        self.likelihood = likelihood
        self.prior = prior
        self.missing = missing
        self.n_draws = n_draws
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.progress = progress
        self._settings = dict(settings)

    # Parameters

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters and settings; a setting that is None has the default of its method, prior or likelihood."""
        own = {name: getattr(self, name) for name in self._OWN}
        return own | dict.fromkeys(sorted(_tables.settings())) | self._settings

    def set_params(self, **params: Any) -> Self:
        """Changes parameters and settings; None takes a setting back to its default."""
        for name, value in params.items():
            if name in self._OWN:
                setattr(self, name, value)
            elif name in _tables.settings():
                self._settings[name] = value
            else:
                near = _tables.nearest(name, [*_tables.settings(), *self._OWN])
                raise ValueError(f"Invalid parameter {name!r} for estimator {self}{near}")
        return self

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        model = state.pop("_model", None)
        state["_settings"] = self._settings
        state["_model_bytes"] = None if model is None else model.to_bytes()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        self._settings = state.pop("_settings")
        model = state.pop("_model_bytes")
        self.__dict__.update(state)
        if model is not None:
            self._model = _posterior.Model.from_bytes(model)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        tags.target_tags.required = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    # Data

    def _asked(self) -> str:
        sections = _tables.choices(self._settings)

        def choice(name: str, section: str) -> dict[str, Any]:
            return sections[section] | ({} if name == "auto" else {"name": str(name)})

        return json.dumps(
            _tables.network(self.network, self.activation)
            | {
                "method": choice(self.method, "methods"),
                "likelihood": choice(self.likelihood, "likelihoods"),
                "prior": choice(self.prior, "priors"),
            }
        )

    def _inputs(self, X: Any, reset: bool) -> _data.Inputs:
        if not reset and not hasattr(self, "_model"):
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments before "
                "using this estimator."
            )
        found = _data.inputs(X, allow_nan=self.missing != "error")
        if reset:
            self._remember(found)
        else:
            self._recognise(found)
            if not isinstance(found.x, list):
                found = found._replace(names=self._names)
        return found

    def _remember(self, found: _data.Inputs) -> None:
        self._names = found.names
        if isinstance(found.x, list) or found.x.ndim == 2:
            self.n_features_in_ = len(found.names)
        else:
            self.n_features_in_ = int(np.prod(found.x.shape[1:]))
        if found.given_names is not None:
            self.feature_names_in_ = np.array(found.given_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _recognise(self, found: _data.Inputs) -> None:
        given, known = found.given_names, getattr(self, "feature_names_in_", None)
        if given is not None and known is not None and given != list(known):
            unseen, gone = sorted(set(given) - set(known)), sorted(set(known) - set(given))
            message = "The feature names should match those that were passed during fit.\n"
            for head, names in (
                ("Feature names unseen at fit time:", unseen),
                ("Feature names seen at fit time, yet now missing:", gone),
            ):
                if names:
                    shown = "".join(f"- {n}\n" for n in names[:5]) + ("- ...\n" if len(names) > 5 else "")
                    message += f"{head}\n{shown}"
            if not unseen and not gone:
                message += "Feature names must be in the same order as they were in fit.\n"
            raise ValueError(message)
        if given is None and known is not None:
            warnings.warn(
                f"X does not have valid feature names, but {type(self).__name__} was fitted with feature names",
                UserWarning,
                stacklevel=4,
            )
        if given is not None and known is None:
            warnings.warn(
                f"X has feature names, but {type(self).__name__} was fitted without feature names",
                UserWarning,
                stacklevel=4,
            )
        features = int(np.prod(found.x.shape[1:])) if not isinstance(found.x, list) else len(found.names)
        # A model file names the columns that are used: a frame may have others beside them.
        if features != getattr(self, "n_features_in_", features):
            raise ValueError(
                f"X has {features} features, but {type(self).__name__} is expecting {self.n_features_in_} features as "
                "input"
            )
        if isinstance(found.x, list) and known is None:
            found.names[:] = self._names

    def _fit(
        self,
        found: _data.Inputs,
        y: _data.Column,
        name: str,
        task: str,
        sample_weight: Any,
        start: _posterior.Model | None = None,
    ) -> None:
        if found.rows < _data.FEWEST_ROWS:
            raise ValueError(f"Found n_samples={found.rows} rows, and at least {_data.FEWEST_ROWS} are needed; add rows")
        weights = _data.weights(sample_weight, found.rows)
        model, notes, interrupted = _posterior.fit(
            found.names,
            found.x,
            name,
            y,
            self._asked(),
            task,
            self.missing,
            _seed(self.random_state),
            threads(self.n_jobs),
            weights,
            self.progress,
            start,
        )
        for note in notes:
            warnings.warn(note, PosteriorWarning, stacklevel=3)
        self._model = model
        self._describe()
        if interrupted is not None:
            # What was drawn is kept: predictions work after the interruption.
            raise interrupted

    def _describe(self) -> None:
        found = json.loads(self._model.describe())
        self.summary_: dict[str, Any] = found
        self.method_: str = found["recipe"]["method"]["name"]
        self.likelihood_: str = found["recipe"]["likelihood"]["name"]
        self.log_evidence_: float | None = found["log_evidence"]

    def _draws(self) -> int:
        if not isinstance(self.n_draws, (int, np.integer)) or self.n_draws < 1:
            raise ValueError(f"n_draws cannot be {self.n_draws!r}; give a whole number of at least 1")
        return int(self.n_draws)

    def _predict(self, X: Any) -> list[_Array]:
        found = self._inputs(X, reset=False)
        return self._model.predict(found.names, found.x, self._draws(), threads(self.n_jobs))

    def _outcomes(self, y: Any, rows: int) -> _data.Column:
        raise NotImplementedError

    # What is known after a fit

    def log_prob(self, X: Any, y: Any) -> _Array:
        """log p(y | x, data) of every row, in the units of y."""
        found = self._inputs(X, reset=False)
        y = self._outcomes(y, found.rows)
        return self._model.log_prob(found.names, found.x, y, self._draws(), threads(self.n_jobs))

    def draws(self, n_draws: int | None = None, random_state: Any = None) -> dict[str, NDArray[np.float32]]:
        """Draws from the posterior of the weights, by parameter: arrays of (draws, *shape).

        Chains give the draws that they kept, chain after chain, unless ``n_draws`` says how many.
        """
        if not hasattr(self, "_model"):
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet.")
        seed = None if random_state is None else _seed(random_state)
        values, blocks, _ = self._model.draws(n_draws, seed)
        found, at = {}, 0
        for name, shape in blocks:
            size = int(np.prod(shape))
            found[name] = values[:, at : at + size].reshape(len(values), *shape)
            at += size
        return found

    def diagnose(self, X: Any = None, y: Any = None) -> dict[str, Any]:
        """Whether the posterior may be believed: ``trust`` is all, predictions or nothing; ``sentence`` says why.

        Chains need no rows; other posteriors are judged on the rows they were fitted to.
        """
        rows = None
        if X is not None:
            found = self._inputs(X, reset=False)
            rows = (found.names, found.x, self._outcomes(y, found.rows))
        elif not hasattr(self, "_model"):
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet.")
        answer: dict[str, Any] = json.loads(self._model.diagnose(rows, 1000, threads(self.n_jobs)))
        return answer

    def refit(self, X: Any, y: Any, method: str, **settings: Any) -> Self:
        """Another method that begins at these weights: ``laplace`` takes them as the mode, chains begin at them.

        Network and likelihood stay what they are. Returns a new estimator.
        """
        found = self._inputs(X, reset=False)
        column = self._outcomes(y, found.rows)
        about = self.summary_
        params = {name: getattr(self, name) for name in self._OWN}
        params |= {"method": method, "network": about["recipe"]["network"]["layers"] or (), "likelihood": self.likelihood_}
        kept = {k: v for k, v in self._settings.items() if _tables.settings()[k][0] != "methods"}
        answer = type(self)(**(params | kept | settings))
        for name in ("_names", "n_features_in_", "feature_names_in_", "classes_"):
            if hasattr(self, name):
                setattr(answer, name, getattr(self, name))
        answer._fit(found, column, about["target"], about["kind"], None, self._model)
        return answer

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a model file, the same as the program's."""
        if not hasattr(self, "_model"):
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet.")
        self._model.save(Path(path))

    def to_arviz(self) -> Any:
        """The draws as an ArviZ data tree (extra ``arviz``): group ``posterior`` with dimensions chain and draw."""
        import arviz_base

        values, blocks, chains = self._model.draws(None, None)
        stacked = values.reshape(chains, -1, values.shape[1])
        found, at = {}, 0
        for name, shape in blocks:
            size = int(np.prod(shape))
            found[name] = stacked[:, :, at : at + size].reshape(*stacked.shape[:2], *shape)
            at += size
        return arviz_base.from_dict({"posterior": found})


def _signature() -> inspect.Signature:
    """Of the estimators, with every setting spelled out: scikit-learn and help() read it."""
    plain = inspect.signature(_Estimator.__init__)
    own = [p for p in plain.parameters.values() if p.kind is not p.VAR_KEYWORD]
    every = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=None) for n in sorted(_tables.settings())]
    return plain.replace(parameters=[*own, *every])


setattr(_Estimator.__init__, "__signature__", _signature())


class PosteriorRegressor(RegressorMixin, _Estimator):
    """Bayesian regression with a neural network.

    Parameters
    ----------
    method : inference method, or "auto"; ``posterior.methods()`` lists them with their settings.
    network : widths of the hidden layers, a name, or a list of layers as dicts.
    activation : of hidden layers given by their widths.
    likelihood, prior : by name, or "auto".
    missing : "error", "auto" (mean and indicator; a level of their own), "mean" or "drop": what is done about missing values.
    n_draws : draws of the posterior in a prediction.
    random_state : the same number gives the same bits.
    n_jobs : threads; None is one per core.
    progress : called with (step, steps, objective) during a fit.
    **settings : of the method by name, of the prior and likelihood with their word before it (``prior_weight_std``, ``likelihood_noise``).

    >>> import numpy as np
    >>> X = np.linspace(0, 1, 60).reshape(-1, 1)
    >>> y = 2 * X[:, 0] + 0.1 * np.sin(40 * X[:, 0])
    >>> model = PosteriorRegressor(method="linear").fit(X, y)
    >>> low, high = model.predict_interval([[0.5]], coverage=0.9)[0]
    >>> bool(low < 1 < high)
    True
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fits the posterior; a weight of 2 counts a row twice."""
        found = self._inputs(X, reset=True)
        values = _data.numbers(y, found.rows)
        name = _data.target_name(y, found.names)
        known = _tables.tables()["likelihoods"].get(self.likelihood, {})
        task = "count" if known.get("outcome") == "count" else "regression"
        self._fit(found, ("number", values), name, task, sample_weight)
        return self

    def _outcomes(self, y: Any, rows: int) -> _data.Column:
        return "number", _data.numbers(y, rows)

    def predict(self, X: Any, return_std: bool = False, return_parts: bool = False) -> Any:
        """The mean of every row; with ``return_std`` also its standard deviation, with ``return_parts`` its `Uncertainty`."""
        mean, epistemic, aleatoric = (part[:, 0] for part in self._predict(X))
        if return_parts:
            return mean, Uncertainty(np.sqrt(epistemic + aleatoric), np.sqrt(aleatoric), np.sqrt(epistemic))
        return (mean, np.sqrt(epistemic + aleatoric)) if return_std else mean

    def predict_uncertainty(self, X: Any) -> Uncertainty:
        """Standard deviations: total, aleatoric, epistemic."""
        found: Uncertainty = self.predict(X, return_parts=True)[1]
        return found

    def predict_quantiles(self, X: Any, alpha: Any) -> _Array:
        """Quantiles of the predictive distribution, (rows, len(alpha))."""
        found = self._inputs(X, reset=False)
        levels = np.atleast_1d(np.asarray(alpha, dtype=np.float64))
        if ((levels <= 0) | (levels >= 1)).any():
            raise ValueError("a level of alpha is not between 0 and 1; give levels such as [0.05, 0.5, 0.95]")
        arrays = self._model.quantiles(found.names, found.x, levels.tolist(), self._draws(), threads(self.n_jobs))
        return arrays[0]

    def predict_interval(self, X: Any, coverage: float = 0.9) -> _Array:
        """The central interval that holds an outcome with this probability, (rows, 2); conformal where the model is calibrated."""
        if not 0 < coverage < 1:
            raise ValueError(f"coverage cannot be {coverage!r}; give a number between 0 and 1, such as 0.9")
        if getattr(self, "summary_", {}).get("calibrated"):
            found = self._inputs(X, reset=False)
            conformal = self._model.conformal(found.names, found.x, coverage, self._draws(), threads(self.n_jobs))
            if conformal is None:
                raise ValueError(f"the rows of the calibration are too few for a coverage of {coverage}; lower it")
            return conformal
        tail = (1 - coverage) / 2
        return self.predict_quantiles(X, [tail, 1 - tail])

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> _Array:
        """Outcomes drawn from the predictive distribution, (rows, n_samples); a column is one function of the posterior with noise."""
        found = self._inputs(X, reset=False)
        return self._model.sample(found.names, found.x, int(n_samples), _seed(random_state), threads(self.n_jobs))[0]


class PosteriorClassifier(ClassifierMixin, _Estimator):
    """Bayesian classification with a neural network; parameters are those of `PosteriorRegressor`.

    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 80).reshape(-1, 1)
    >>> y = np.where(X[:, 0] > 0, "right", "left")
    >>> model = PosteriorClassifier(method="laplace", network=(10,), epochs=200, random_state=0).fit(X, y)
    >>> model.predict([[-0.9], [0.9]]).tolist()
    ['left', 'right']
    >>> model.predict_proba([[0.9]]).shape
    (1, 2)
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fits the posterior; a weight of 2 counts a row twice."""
        found = self._inputs(X, reset=True)
        values = _data.labels(y, found.rows)
        weights = _data.weights(sample_weight, found.rows)
        classes = np.unique(values if weights is None else values[weights > 0])
        if len(classes) < 2 and found.rows >= _data.FEWEST_ROWS:
            raise ValueError(f"y holds one class ({classes.tolist()}), and a classifier needs at least two; add rows")
        self.classes_ = classes
        name = _data.target_name(y, found.names)
        self._fit(found, _data.label_column(values), name, "classification", sample_weight)
        return self

    def _outcomes(self, y: Any, rows: int) -> _data.Column:
        return _data.label_column(_data.labels(y, rows))

    def predict_proba(self, X: Any) -> _Array:
        """Probabilities of ``classes_``, averaged over the posterior."""
        return self._predict(X)[0]

    def predict_log_proba(self, X: Any) -> _Array:
        """The logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            logs: _Array = np.log(self.predict_proba(X))
        return logs

    def predict(self, X: Any, return_std: bool = False, return_parts: bool = False) -> Any:
        """The most probable class of every row; with ``return_std`` also its entropy in nats, with ``return_parts`` its `Uncertainty`."""
        probabilities, total, aleatoric, _ = self._predict(X)
        predicted = self.classes_[np.argmax(probabilities, axis=1)]
        if return_parts:
            parts = Uncertainty(total[:, 0], aleatoric[:, 0], np.maximum(total[:, 0] - aleatoric[:, 0], 0))
            return predicted, parts
        return (predicted, total[:, 0]) if return_std else predicted

    def predict_uncertainty(self, X: Any) -> Uncertainty:
        """Entropies in nats: total, aleatoric, epistemic (mutual information)."""
        found: Uncertainty = self.predict(X, return_parts=True)[1]
        return found

    def predict_set(self, X: Any, coverage: float = 0.9) -> NDArray[np.bool_]:
        """The classes that hold the outcome with this probability, (rows, classes); conformal where the model is calibrated."""
        found = self._inputs(X, reset=False)
        if self.summary_["calibrated"]:
            sets = self._model.conformal(found.names, found.x, coverage, self._draws(), threads(self.n_jobs))
            if sets is None:
                raise ValueError(f"the rows of the calibration are too few for a coverage of {coverage}; lower it")
            return sets > 0
        p = self.predict_proba(X)
        order = np.argsort(-p, axis=1)
        sorted_p = np.take_along_axis(p, order, axis=1)
        needed = np.cumsum(sorted_p, axis=1) - sorted_p < coverage
        chosen = np.zeros_like(needed)
        np.put_along_axis(chosen, order, needed, axis=1)
        return chosen

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> NDArray[Any]:
        """Classes drawn from the predictive distribution, (rows, n_samples)."""
        found = self._inputs(X, reset=False)
        drawn = self._model.sample(found.names, found.x, int(n_samples), _seed(random_state), threads(self.n_jobs))[0]
        return np.asarray(self.classes_[drawn.astype(int)])


def wrap(model: _posterior.Model) -> PosteriorRegressor | PosteriorClassifier:
    """An estimator around a model of the core."""
    about = json.loads(model.describe())
    recipe = about["recipe"]
    known = _tables.settings()
    settings: dict[str, Any] = {}
    for section, prefix in (("method", ""), ("prior", "prior_"), ("likelihood", "likelihood_")):
        settings |= {prefix + k: v for k, v in recipe[section].items() if k != "name" and prefix + k in known}
    chosen: dict[str, Any] = {
        "method": recipe["method"]["name"],
        "network": recipe["network"]["layers"] or (),
        "likelihood": recipe["likelihood"]["name"],
        "prior": recipe["prior"].get("name", "auto"),
        "missing": about["missing"],
        "random_state": about["seed"],
    }
    kind = PosteriorClassifier if about["kind"] == "classification" else PosteriorRegressor
    found: PosteriorRegressor | PosteriorClassifier = kind(**chosen, **settings)
    found._model = model
    used, every = about["features"], about["features"] + about["unused"]
    numbered = [f"x{i}" for i in range(len(every))]
    found._names = numbered if set(every) == set(numbered) else used
    if every and (found._names is numbered or not about["unused"]):
        found.n_features_in_ = len(found._names)
    if found._names is used and used and not about["unused"]:
        found.feature_names_in_ = np.array(used, dtype=object)
    if isinstance(found, PosteriorClassifier):
        names = about["classes"]
        if about["labels"] == "number":
            values = np.array([float(n) for n in names])
            found.classes_ = values.astype(np.int64) if (values == np.floor(values)).all() else values
        elif about["labels"] == "bool":
            found.classes_ = np.array([n == "true" for n in names])
        else:
            found.classes_ = np.array(names)
    found._describe()
    return found


def load(path: str | os.PathLike[str]) -> PosteriorRegressor | PosteriorClassifier:
    """Reads a model file, of this package or of the program, as a fitted estimator."""
    return wrap(_posterior.Model.load(Path(path)))
