"""Estimators: what they predict, keep and refuse."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import posterior
from posterior import NotFittedError, PosteriorClassifier, PosteriorRegressor


def waves(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    return X, np.sin(3 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=n)


def blobs(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.where(X[:, 0] + X[:, 1] > 0, "up", "down")


@pytest.fixture(scope="module")
def regressor():
    X, y = waves()
    return PosteriorRegressor(method="laplace", network=(20,), epochs=300, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def classifier():
    X, y = blobs()
    return PosteriorClassifier(method="laplace", network=(10,), epochs=200, random_state=0).fit(X, y)


def test_parts_add_up(regressor):
    X, y = waves(50, 1)
    mean, std = regressor.predict(X, return_std=True)
    same, parts = regressor.predict(X, return_parts=True)
    assert np.array_equal(mean, same) and np.array_equal(std, parts.total)
    np.testing.assert_allclose(parts.total**2, parts.aleatoric**2 + parts.epistemic**2, rtol=1e-12)
    assert regressor.score(X, y) > 0.9
    assert parts._asdict().keys() == {"total", "aleatoric", "epistemic"}


def test_quantiles_intervals_and_densities_agree(regressor):
    X, y = waves(400, 2)
    low, median, high = regressor.predict_quantiles(X, [0.05, 0.5, 0.95]).T
    assert np.array_equal(regressor.predict_interval(X, coverage=0.9), np.stack([low, high], axis=1))
    assert (low < median).all() and (median < high).all()
    inside = ((low <= y) & (y <= high)).mean()
    assert 0.8 < inside <= 1.0
    # A normal predictive: its density at y from mean and standard deviation.
    mean, std = regressor.predict(X, return_std=True)
    normal = -0.5 * ((y - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi)
    assert abs(np.mean(regressor.log_prob(X, y) - normal)) < 0.05


def test_samples_have_the_moments_of_the_prediction(regressor):
    X = waves(5, 3)[0]
    mean, std = regressor.predict(X, return_std=True)
    drawn = regressor.sample_y(X, n_samples=4000, random_state=1)
    assert drawn.shape == (5, 4000)
    # 5 standard errors of a mean of 4000, and of a standard deviation; the linearised mean differs from the draws' a little.
    assert (np.abs(drawn.mean(axis=1) - mean) < 5 * std / np.sqrt(4000) + 0.05 * std).all()
    assert (np.abs(drawn.std(axis=1) / std - 1) < 0.15).all()
    assert np.array_equal(drawn, regressor.sample_y(X, n_samples=4000, random_state=1))


def test_classes(classifier):
    X, y = blobs(80, 1)
    p = classifier.predict_proba(X)
    assert classifier.classes_.tolist() == ["down", "up"]
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert classifier.score(X, y) > 0.9
    parts = classifier.predict_uncertainty(X)
    np.testing.assert_allclose(parts.total, parts.aleatoric + parts.epistemic, atol=1e-9)
    np.testing.assert_allclose(classifier.log_prob(X, y), np.log(p[np.arange(80), (y == "up").astype(int)]), atol=1e-9)
    drawn = classifier.sample_y(X[:3], 2000)
    assert np.abs((drawn == "up").mean(axis=1) - p[:3, 1]).max() < 0.06
    sets = classifier.predict_set(X, coverage=0.95)
    assert sets.any(axis=1).all()


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_keeps_the_bits(regressor, protocol):
    X = waves(20, 4)[0]
    again = pickle.loads(pickle.dumps(regressor, protocol))
    assert np.array_equal(again.predict(X), regressor.predict(X))
    assert again.get_params() == regressor.get_params()


def test_model_files_are_the_programs(regressor, classifier, tmp_path):
    for model, make in ((regressor, waves), (classifier, blobs)):
        path = tmp_path / "model.safetensors"
        model.save(path)
        again = posterior.load(path)
        X = make(20, 5)[0]
        assert np.array_equal(again.predict(X), model.predict(X))
        assert type(again) is type(model)
        again.save(tmp_path / "again.safetensors")
        assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()


def test_the_program_reads_it_and_we_read_the_programs(tmp_path):
    X, y = waves(60)
    table = tmp_path / "t.csv"
    table.write_text("a,b,y\n" + "".join(f"{r[0]!r},{r[1]!r},{v!r}\n" for r, v in zip(X.tolist(), y.tolist())))
    run = lambda *args: subprocess.run(
        [sys.executable, "-c", "from posterior._program import main; main()", *map(str, args)],
        capture_output=True, text=True, check=True, cwd=tmp_path,
    ).stdout
    run("fit", table, "--target", "y", "--method", "map", "--network", "10", "--set", "epochs=30", "--seed", "3",
        "--missing", "error", "--out", "program.safetensors", "--quiet")
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(table, float_precision="round_trip")
    ours = PosteriorRegressor(method="map", network=(10,), epochs=30, random_state=3).fit(frame[["a", "b"]], frame["y"])
    ours.save(tmp_path / "ours.safetensors")
    assert (tmp_path / "ours.safetensors").read_bytes() == (tmp_path / "program.safetensors").read_bytes()
    theirs = posterior.load(tmp_path / "program.safetensors")
    assert np.array_equal(theirs.predict(frame[["a", "b"]]), ours.predict(frame[["a", "b"]]))
    lines = run("predict", "ours.safetensors", table, "--json", "--quiet")
    assert len(json.loads(lines.splitlines()[0]) if lines.startswith("[") else lines.splitlines()) >= 1


def test_arrays_of_any_layout_give_the_same_bits(regressor):
    X = waves(3000, 6)[0]
    expected = regressor.predict(X)
    assert np.array_equal(regressor.predict(np.asfortranarray(X)), expected)
    assert np.array_equal(regressor.predict(X.tolist()), expected)
    assert np.array_equal(regressor.predict(np.repeat(X, 2, axis=0)[::2]), expected)
    narrow = X.astype(np.float32)
    assert np.array_equal(regressor.predict(narrow), regressor.predict(narrow.astype(np.float64)))


def test_threads_do_not_change_bits():
    X, y = waves()
    fit = lambda jobs: PosteriorRegressor(
        method="ensemble", members=3, network=(10,), epochs=20, random_state=0, n_jobs=jobs
    ).fit(X, y)
    assert np.array_equal(fit(1).predict(X), fit(2).predict(X))


def test_weights_count_rows():
    X, y = waves(40)
    twice = np.ones(40)
    twice[:10] = 2
    twice[-3:] = 0
    repeated = np.r_[np.arange(37), np.arange(10)]
    fit = lambda X, y, w=None: PosteriorRegressor(method="linear", likelihood="gaussian").fit(X, y, sample_weight=w)
    weighted, plain = fit(X, y, twice), fit(X[repeated], y[repeated])
    # Closed forms: the same sums in another order.
    np.testing.assert_allclose(weighted.predict(X), plain.predict(X), rtol=1e-9)
    np.testing.assert_allclose(weighted.log_evidence_, plain.log_evidence_, rtol=1e-9)
    assert not np.allclose(weighted.predict(X), fit(X, y).predict(X), rtol=1e-6)


def test_frames(tmp_path):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    colour = rng.choice(["red", "blue"], 80)
    frame = pandas.DataFrame(
        {"x": rng.normal(size=80), "colour": pandas.Categorical(colour), "old": rng.random(80) > 0.5}
    )
    y = pandas.Series(frame["x"] + (colour == "red") + frame["old"], name="price")
    model = PosteriorRegressor(method="linear").fit(frame, y)
    assert model.summary_["inputs"] == ["x", "colour=blue", "colour=red", "old"]
    assert model.summary_["target"] == "price"
    assert model.feature_names_in_.tolist() == ["x", "colour", "old"]
    assert model.score(frame, y) > 0.99
    model.save(tmp_path / "m.safetensors")
    assert np.array_equal(posterior.load(tmp_path / "m.safetensors").predict(frame), model.predict(frame))
    frame.loc[3, "x"] = np.nan
    with pytest.raises(ValueError, match='missing="mean"'):
        PosteriorRegressor(method="linear").fit(frame, y)
    filled = PosteriorRegressor(method="linear", missing="mean").fit(frame, y)
    assert np.isfinite(filled.predict(frame)).all()
    dropped = PosteriorRegressor(method="linear", missing="drop").fit(frame, y)
    assert np.isnan(dropped.predict(frame)).tolist() == [i == 3 for i in range(80)]
    assert np.isfinite(filled.predict(frame.assign(colour="green"))).all()  # a category that training never met
    with pytest.raises(ValueError, match="dates"):
        PosteriorRegressor(method="linear").fit(frame.assign(x=pandas.Timestamp("2020-01-01")), y)


def test_polars_frames():
    polars = pytest.importorskip("polars")
    X, y = waves(60)
    frame = polars.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": ["u", "v"] * 30})
    model = PosteriorRegressor(method="linear").fit(frame, polars.Series("y", y))
    assert model.summary_["inputs"] == ["a", "b", "c=u", "c=v"]
    assert np.isfinite(model.predict(frame)).all()


def test_images():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = (rng.integers(0, 100, (60, 1, 8, 8)) + 100 * y[:, None, None, None]).astype(np.uint8)
    layers = [{"kind": "conv", "channels": 2, "kernel": 3, "activation": "relu"}, {"kind": "flatten"}]
    model = PosteriorClassifier(method="map", network=layers, epochs=30, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9


def test_counts():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 2, (100, 1))
    y = rng.poisson(np.exp(X[:, 0]))
    model = PosteriorRegressor(method="map", likelihood="poisson", network=(10,), epochs=200, random_state=0).fit(X, y)
    assert (model.predict(X) > 0).all() and (model.sample_y(X, 3) % 1 == 0).all()


def test_draws_and_diagnosis():
    X, y = waves(40)
    model = PosteriorRegressor(method="hmc", network=(3,), draws=20, warmup=20, chains=2, random_state=0).fit(X, y)
    draws = model.draws()
    assert draws["0.weight"].shape == (40, 2, 3)
    assert model.draws(7)["0.weight"].shape == (7, 2, 3)
    found = model.diagnose()
    assert found["trust"] in ("all", "predictions", "nothing") and found["chains"]["chains"] == 2
    linear = PosteriorRegressor(method="linear").fit(X, y)
    assert np.isfinite(linear.log_evidence_)
    assert "Pareto" in linear.diagnose(X, y)["sentence"] or linear.diagnose(X, y)["pareto_k"] is None


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda X, y: PosteriorRegressor(method="mpa").fit(X, y), ValueError, "did you mean 'map'"),
        (lambda X, y: PosteriorRegressor(method="map", epochs=-1).fit(X, y), ValueError, "epochs"),
        (lambda X, y: PosteriorRegressor(method="map", epochs=[1]).fit(X, y), ValueError, "a setting cannot be"),
        (lambda X, y: PosteriorRegressor(epoch=3), TypeError, "did you mean 'epochs'"),
        (lambda X, y: PosteriorRegressor(method="hmc", epochs=3).fit(X, y), ValueError, "epochs"),
        (lambda X, y: PosteriorRegressor(network="lenet6").fit(X, y), ValueError, "lenet-5"),
        (lambda X, y: PosteriorRegressor(missing="maen").fit(X, y), ValueError, "error, mean, drop"),
        (lambda X, y: PosteriorRegressor(likelihood="categorical").fit(X, y), ValueError, "PosteriorClassifier"),
        (lambda X, y: PosteriorRegressor().fit(X, np.array(["a"] * len(y))), ValueError, "PosteriorClassifier"),
        (lambda X, y: PosteriorRegressor().fit(X[:1], y[:1]), ValueError, "n_samples=1"),
        (lambda X, y: PosteriorRegressor().fit(X, np.ones(len(y))), ValueError, "in every row"),
        (lambda X, y: PosteriorClassifier().fit(X, np.ones(len(y))), ValueError, "one class"),
        (lambda X, y: PosteriorClassifier().fit(X, y), ValueError, "Unknown label type"),
        (lambda X, y: PosteriorRegressor().predict(X), NotFittedError, "not fitted yet"),
        (lambda X, y: PosteriorRegressor().fit(X, y[:-1]), ValueError, "inconsistent"),
        (lambda X, y: PosteriorRegressor().fit(X, y, -np.ones(len(y))), ValueError, "Negative"),
        (lambda X, y: posterior.load("nowhere.safetensors"), FileNotFoundError, "nowhere"),
    ],
)
def test_errors_say_what_to_do(call, error, match):
    X, y = waves(30)
    with pytest.raises(error, match=match):
        call(X, y)


def test_a_damaged_file_is_a_value_error(regressor, tmp_path):
    path = tmp_path / "m.safetensors"
    regressor.save(path)
    whole = path.read_bytes()
    for bytes_ in (b"", whole[:100], whole[:-5], b"x" * 200, b"{}" + whole):
        path.write_bytes(bytes_)
        with pytest.raises(ValueError):
            posterior.load(path)


@pytest.mark.parametrize("method", ["hmc", "nuts", "map", "ensemble", "laplace", "mean-field", "metropolis", "sgld"])
def test_ctrl_c_stops_within_a_second(method):
    X, y = waves(2000)
    long = {"draws": 100_000} if method in ("hmc", "nuts", "metropolis", "sgld") else {"epochs": 1_000_000}
    if method in ("ensemble", "laplace"):
        long = {"epochs": 1_000_000}
    model = PosteriorRegressor(method=method, network=(50,), random_state=0, **long)
    pressed = []

    def press():
        pressed.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(1.0, press)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    # A second, and what a busy machine needs to run this thread.
    assert time.monotonic() - pressed[0] < 1.5


def test_progress_is_told_and_may_raise():
    X, y = waves(500)
    seen = []
    PosteriorRegressor(
        method="map", network=(50,), epochs=2000, patience=0, random_state=0, progress=lambda *p: seen.append(p)
    ).fit(X, y)
    assert seen and all(0 <= step <= steps for step, steps, _ in seen)

    def stop(*_):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        PosteriorRegressor(method="map", epochs=1_000_000, random_state=0, progress=stop).fit(X, y)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_after_a_fit_does_not_hang(regressor):
    X = waves(30)[0]
    expected = regressor.predict(X)
    child = os.fork()
    if child == 0:
        same = np.array_equal(regressor.predict(X), expected)
        os._exit(0 if same else 1)
    for _ in range(200):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert status == 0
            return
        time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError("the child hangs")


def test_the_lock_is_released():
    X, y = waves(500)
    ticks = []
    stop = threading.Event()

    def count():
        while not stop.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.005)

    thread = threading.Thread(target=count)
    thread.start()
    PosteriorRegressor(method="map", network=(50,), epochs=500, random_state=0).fit(X, y)
    stop.set()
    thread.join()
    assert len(ticks) > 5


def test_import_is_light():
    code = (
        "import numpy, time; t = time.perf_counter(); import posterior; s = time.perf_counter() - t; "
        "import sys; print(s, 'sklearn' in sys.modules)"
    )
    best = min(
        (subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
         for _ in range(5)),
        key=lambda out: float(out[0]),
    )
    assert best[1] == "False"
    assert float(best[0]) < 0.05


def test_arrow_tables():
    arrow = pytest.importorskip("pyarrow")
    X, y = waves(40)
    table = arrow.table({"a": X[:, 0], "b": X[:, 1], "c": ["u", None] * 20})
    model = PosteriorRegressor(method="linear", missing="mean").fit(table, y)
    assert model.summary_["inputs"] == ["a", "b", "c=(missing)", "c=u"]
    assert np.isfinite(model.predict(table)).all()


def test_what_was_drawn_is_kept():
    X, y = waves(300)

    def stop(step, steps, objective):
        # Two chains, each with 5 transitions of warm-up.
        if step > 2 * 5 + 10:
            raise KeyboardInterrupt

    model = PosteriorRegressor(
        method="hmc", network=(20,), warmup=5, draws=50_000, chains=2, random_state=0, progress=stop
    )
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.summary_["incomplete"]
    assert len(model.draws()["0.weight"]) < 100_000
    assert np.isfinite(model.predict(X)).all()
