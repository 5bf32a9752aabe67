"""Methods, likelihoods and priors with their settings: the tables of the core."""

from __future__ import annotations

import difflib
import functools
import json
import typing
from collections.abc import Iterable, Mapping
from typing import Any

from . import _posterior


@functools.cache
def tables() -> dict[str, dict[str, dict[str, Any]]]:
    """``{"methods": {name: row}, "likelihoods": …, "priors": …}``; a row's settings are by name."""
    found = json.loads(_posterior.tables())
    for rows in found.values():
        for row in rows:
            row["settings"] = {s["name"]: s for s in row["settings"]}
    return {kind: {row["name"]: row for row in rows} for kind, rows in found.items()}


# Parameters of the estimators that are no settings: a method's setting of that name is ``method_activation`` and the like.
_RESERVED = frozenset({"activation", "likelihood", "method", "missing", "network", "prior", "random_state"})


@functools.cache
def settings() -> dict[str, tuple[str, str]]:
    """Every keyword for a setting: ``epochs`` of a method, ``prior_weight_std``, ``likelihood_noise`` → (section, name)."""
    found: dict[str, tuple[str, str]] = {}
    for kind, prefix in (("methods", ""), ("priors", "prior_"), ("likelihoods", "likelihood_")):
        for row in tables()[kind].values():
            for name in row["settings"]:
                keyword = prefix + name
                found.setdefault(f"method_{name}" if keyword in _RESERVED else keyword, (kind, name))
    return found


def nearest(name: str, known: Iterable[str]) -> str:
    """What was probably meant, as the end of a sentence."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def plain(value: Any) -> Any:
    """A number, word or bool that JSON can hold; a ValueError for anything else."""
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        value = value.item()
    if isinstance(value, (bool, int, float, str)):
        return value
    raise ValueError(f"a setting cannot be {value!r}; give a number, a word, True or False")


def choices(given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Settings by section."""
    found: dict[str, dict[str, Any]] = {"methods": {}, "priors": {}, "likelihoods": {}}
    for keyword, value in given.items():
        if value is not None:
            section, name = settings()[keyword]
            found[section][name] = plain(value)
    return found


def network(given: Any, activation: str | None) -> dict[str, Any]:
    """The network as the core reads it: widths, a name, or layers."""
    if isinstance(given, str):
        text = given
    elif isinstance(given, (list, tuple)) and any(isinstance(layer, dict) for layer in given):
        return {"network": list(given)}
    else:
        widths = given if isinstance(given, typing.Iterable) else (given,)
        text = ",".join(str(plain(w)) for w in widths)
        if text == "":
            return {"network": ""}
    named = not text.strip()[:1].isdigit()
    return {"network": text, "activation": None if named else activation}
