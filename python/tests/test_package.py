"""Docstrings run, types hold, and the typed settings are those of the tables (``UPDATE_GOLDEN=1`` writes them)."""

from __future__ import annotations

import doctest
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import posterior
from posterior import _tables

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["posterior", "posterior._estimators", "posterior._functions"])
def test_docstrings_run(name):
    found = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted > 0 and found.failed == 0


def settings_source() -> str:
    lines = [
        '"""Every setting of methods, priors and likelihoods with its type. Written by tests/test_package.py from the tables of the core."""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Literal, TypedDict",
        "",
        "",
        "class Settings(TypedDict, total=False):",
        '    """Keywords of the estimators; None is the default of the method, prior or likelihood."""',
        "",
    ]
    types = {"bool": "bool", "int": "int", "float": "float"}
    for keyword, (section, name) in sorted(_tables.settings().items()):
        rows = [r["settings"][name] for r in _tables.tables()[section].values() if name in r["settings"]]
        kinds = sorted({types[r["kind"]] for r in rows if r["kind"] in types})
        words = sorted({w for r in rows for w in r["words"]})
        if words:
            kinds.append("Literal[" + ", ".join(f'"{w}"' for w in words) + "]")
        lines.append(f"    {keyword}: {' | '.join([*kinds, 'None'])}")
    return "\n".join(lines) + "\n"


def test_typed_settings_are_those_of_the_tables():
    path = ROOT / "python/posterior/_settings.py"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(settings_source())
    assert path.read_text() == settings_source()


def test_types():
    pytest.importorskip("mypy")
    run = subprocess.run([sys.executable, "-m", "mypy"], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_everything_that_is_promised_is_there():
    for name in posterior.__all__:
        assert getattr(posterior, name) is not None
    assert "no attribute 'nothing'" in str(pytest.raises(AttributeError, lambda: posterior.nothing).value)


def test_the_program_is_in_the_wheel():
    code = "from posterior._program import main; main()"
    run = lambda *args: subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True)
    assert run("--version").stdout == f"posterior {posterior.__version__}\n"
    wrong = run("fit", "nowhere.csv", "--target", "y")
    assert wrong.returncode == 2 and "nowhere.csv" in wrong.stderr


def test_without_scikit_learn():
    code = """
import sys
sys.modules["sklearn"] = sys.modules["sklearn.base"] = None
import numpy as np, pickle, posterior
X = np.linspace(-1, 1, 60).reshape(-1, 1)
model = posterior.PosteriorRegressor(method="linear", n_jobs=1)
try:
    model.predict(X)
except posterior.NotFittedError as error:
    assert "not fitted yet" in str(error)
model.fit(X, X[:, 0] + 0.1 * np.sin(30 * X[:, 0]))
assert 0.9 < model.score(X, X[:, 0]) <= 1
assert "method='linear'" in repr(model)
assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
sides = posterior.PosteriorClassifier(method="map", network=(5,), epochs=100, random_state=0).fit(X, X[:, 0] > 0)
assert sides.score(X, X[:, 0] > 0) > 0.9
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
