"""Functions on arrays: evaluation, comparison, calibration, detection, selection, samplers, networks of PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import posterior
from posterior import PosteriorClassifier, PosteriorRegressor


def waves(n=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 1))
    return X, np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=n)


def test_evaluate_knows_the_metrics():
    X, y = waves()
    model = PosteriorRegressor(method="linear").fit(X, y)
    found = posterior.evaluate(model, X, y)
    mean = model.predict(X)
    assert found["rmse"][0] == pytest.approx(np.sqrt(np.mean((y - mean) ** 2)), rel=1e-9)
    assert found["log_likelihood"][0] == pytest.approx(model.log_prob(X, y).mean(), rel=1e-9)
    assert found["rmse"][1] > 0


def test_compare_ranks_methods():
    X, y = waves()
    found = posterior.compare(X, y, ["linear", "map"], splits=2, epochs=300, learning_rate=0.02)
    assert found.best == "map" and not found.failures
    assert [r["method"] for r in found.rows()] == ["map", "linear"]
    assert "<table>" in found._repr_html_()
    with pytest.raises(ValueError, match="did you mean 'linear'"):
        posterior.compare(X, y, ["lineaar"])


def test_calibrated_intervals_cover():
    X, y = waves(600)
    y = y + 0.3 * np.random.default_rng(1).standard_t(2, 600)
    model = PosteriorRegressor(method="linear").fit(X[:200], y[:200])
    calibrated = posterior.calibrate(model, X[200:400], y[200:400])
    low, high = calibrated.predict_interval(X[400:], coverage=0.9).T
    # 4 standard errors of a fraction of 200, twice: rows of the calibration vary too.
    assert abs(((low <= y[400:]) & (y[400:] <= high)).mean() - 0.9) < 4 * np.sqrt(2 * 0.09 / 200)
    assert not model.summary_["calibrated"]
    with pytest.raises(ValueError, match="too few"):
        calibrated.predict_interval(X, coverage=0.9999)


def test_temperature():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = (X[:, 0] + rng.normal(size=300) > 0).astype(int)
    model = PosteriorClassifier(method="ml", network=(50,), epochs=500, patience=0, random_state=0).fit(X[:60], y[:60])
    calibrated = posterior.calibrate(model, X[60:180], y[60:180])
    assert calibrated.log_prob(X[180:], y[180:]).mean() > model.log_prob(X[180:], y[180:]).mean()
    assert calibrated.predict_set(X[180:], coverage=0.9).any(axis=1).all()


def test_far_rows_are_told_apart():
    X, y = waves()
    model = PosteriorRegressor(method="laplace", network=(20,), epochs=300, random_state=0).fit(X, y)
    found = {d.measure: d for d in posterior.ood(model, X, X + 4)}
    assert found["epistemic"].auroc > 0.95
    assert found["aleatoric"].auroc is None


def test_select_orders_by_evidence():
    X, y = waves()
    found = posterior.select(X, y, {"degree": [1, 3, 9]}, method="linear", features="polynomial")
    assert [s.evidence for s in found] == ["exact"] * 3
    assert sum(s.probability for s in found) == pytest.approx(1)
    assert found[0].parameters["degree"] > 1


def test_sampling_a_correlated_normal():
    precision = np.linalg.inv(np.array([[1.0, 0.8], [0.8, 2.0]]))
    draws = posterior.sample(lambda w: (-0.5 * w @ precision @ w, -precision @ w), 2, draws=1000, random_state=0)
    assert (draws.r_hat < 1.02).all() and draws.divergences == 0
    assert (np.abs(draws.mean) < 5 * draws.mcse_mean).all()
    # 5 standard errors of a variance with so many effective draws.
    covariance = np.cov(draws.values.reshape(-1, 2).T)
    assert np.abs(covariance[0, 0] - 1) < 5 * np.sqrt(2 / draws.ess_bulk[0])
    assert np.abs(covariance[0, 1] - 0.8) < 5 * np.sqrt((2 + 0.64) / draws.ess_bulk.min())
    again = posterior.sample(
        lambda w: (-0.5 * w @ precision @ w, -precision @ w), 2, draws=1000, random_state=0, n_jobs=1
    )
    assert np.array_equal(again.values, draws.values)


def test_a_density_that_raises_says_so():
    def broken(w):
        raise KeyError("my own fault")

    with pytest.raises(KeyError, match="my own fault"):
        posterior.sample(broken, 2, draws=10)
    with pytest.raises(ValueError, match="the gradient has 1 numbers, not 2"):
        posterior.sample(lambda w: (0.0, [0.0]), 2, draws=10)
    with pytest.raises(ValueError, match="does not sample"):
        posterior.sample(lambda w: (0.0, w), 2, method="map")


class Module:
    """A stand-in for a module of PyTorch, with what is read of it."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


def kind(name, **attributes):
    return type(name, (Module,), {})(**attributes)


class Tensor:
    def __init__(self, values):
        self.values = values

    def detach(self):
        return self

    cpu = detach

    def numpy(self):
        return self.values


class Sequential:
    def __init__(self, *modules):
        self.modules = modules

    def named_children(self):
        return [(str(i), m) for i, m in enumerate(self.modules)]

    def children(self):
        return list(self.modules)

    def state_dict(self):
        return {
            f"{i}.{part}": Tensor(getattr(m, part))
            for i, m in enumerate(self.modules)
            for part in ("weight", "bias")
            if hasattr(m, part)
        }


def linear(rng, inputs, outputs):
    return kind(
        "Linear", out_features=outputs, weight=rng.normal(size=(outputs, inputs)).astype(np.float32),
        bias=rng.normal(size=outputs).astype(np.float32),
    )


def test_a_sequential_network_is_taken_over():
    rng = np.random.default_rng(0)
    first, last = linear(rng, 2, 8), linear(rng, 8, 1)
    network = Sequential(first, kind("Tanh"), kind("Dropout", p=0.1), last)
    X = rng.normal(size=(50, 2)) * 3 + 1
    f = np.tanh(X @ first.weight.T + first.bias) @ last.weight.T + last.bias
    y = f[:, 0] + 0.1 * rng.normal(size=50)
    model = posterior.from_torch(network, X, y)
    np.testing.assert_allclose(model.predict(X), f[:, 0], atol=1e-5)
    around = model.refit(X, y, method="laplace", random_state=0)
    np.testing.assert_allclose(around.predict(X), f[:, 0], atol=1e-3)
    assert (around.predict_uncertainty(X).epistemic > 0).all()
    with pytest.raises(ValueError, match=r"module 1 \(LSTM\)"):
        posterior.from_torch(Sequential(first, kind("LSTM"), last), X, y)


def test_real_torch():
    torch = pytest.importorskip("torch")
    nn = torch.nn
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(48, 7), nn.SiLU(), nn.Linear(7, 3)
    )
    X = torch.rand(30, 1, 8, 8)
    model = posterior.from_torch(network, X.numpy(), np.arange(30) % 3, classify=True)
    expected = torch.softmax(network(X), dim=1).detach().numpy()
    np.testing.assert_allclose(model.predict_proba(X.numpy()), expected, atol=1e-5)


def test_arviz():
    pytest.importorskip("arviz_base")
    X, y = waves(30)
    model = PosteriorRegressor(method="hmc", network=(2,), draws=5, warmup=5, chains=2, random_state=0).fit(X, y)
    tree = model.to_arviz()
    assert tree["posterior"]["0.weight"].shape == (2, 5, 1, 2)
