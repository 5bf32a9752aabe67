"""The extension module: arrays in, arrays and JSON out."""

from collections.abc import Callable
from os import PathLike
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

_Array: TypeAlias = NDArray[np.float64]
_Column: TypeAlias = tuple[str, Any]
_Inputs: TypeAlias = NDArray[np.float32] | NDArray[np.float64] | list[_Column]

__version__: str

class Model:
    @staticmethod
    def load(path: str | PathLike[str]) -> Model: ...
    @staticmethod
    def from_bytes(bytes: bytes) -> Model: ...
    def save(self, path: str | PathLike[str]) -> None: ...
    def to_bytes(self) -> bytes: ...
    def describe(self) -> str: ...
    def predict(
        self, names: list[str], x: _Inputs, draws: int, jobs: int = 0, seed: int | None = None
    ) -> list[_Array]: ...
    def quantiles(
        self, names: list[str], x: _Inputs, levels: list[float], draws: int, jobs: int = 0, seed: int | None = None
    ) -> list[_Array]: ...
    def conformal(
        self, names: list[str], x: _Inputs, level: float, draws: int, jobs: int = 0, seed: int | None = None
    ) -> _Array | None: ...
    def sample(self, names: list[str], x: _Inputs, samples: int, seed: int, jobs: int = 0) -> list[_Array]: ...
    def log_prob(
        self, names: list[str], x: _Inputs, y: _Column, draws: int, jobs: int = 0, seed: int | None = None
    ) -> _Array: ...
    def evaluate(
        self, names: list[str], x: _Inputs, y: _Column, draws: int, jobs: int = 0, seed: int | None = None
    ) -> str: ...
    def calibrate(self, names: list[str], x: _Inputs, y: _Column, draws: int, jobs: int = 0) -> Model: ...
    def uncertainty_scores(
        self, names: list[str], x: _Inputs, draws: int, jobs: int = 0, seed: int | None = None
    ) -> dict[str, _Array]: ...
    def diagnose(
        self, rows: tuple[list[str], _Inputs, _Column] | None = None, draws: int = 1000, jobs: int = 0
    ) -> str: ...
    def draws(
        self, count: int | None = None, seed: int | None = None
    ) -> tuple[NDArray[np.float32], list[tuple[str, list[int]]], int]: ...

def fit(
    names: list[str],
    x: _Inputs,
    target: str,
    y: _Column,
    asked: str,
    task: str,
    missing: str,
    seed: int,
    jobs: int = 0,
    weights: _Array | None = None,
    progress: Callable[[int, int, float], object] | None = None,
    start: Model | None = None,
) -> tuple[Model, list[str], BaseException | None]: ...
def sample(
    logp_and_grad: Callable[[_Array], tuple[float, _Array]],
    dim: int,
    method: str,
    settings: str,
    seed: int,
    jobs: int = 0,
    start: list[float] | None = None,
    progress: Callable[[int, int, float], object] | None = None,
) -> tuple[_Array, str, list[str]]: ...
def detect(known: _Array, other: _Array) -> str: ...
def select(
    names: list[str],
    x: _Inputs,
    target: str,
    y: _Column,
    asked: list[str],
    task: str,
    missing: str,
    held_out: float,
    prior_weights: list[float],
    draws: int,
    seed: int,
    jobs: int = 0,
) -> tuple[str, list[str]]: ...
def import_weights(
    names: list[str],
    x: _Inputs,
    target: str,
    y: _Column,
    asked: str,
    task: str,
    state: bytes,
    modules: list[str],
    jobs: int = 0,
) -> Model: ...
def tables() -> str: ...
def main(args: list[str]) -> int: ...
