"""Networks trained in PyTorch: ``nn.Sequential`` becomes layers of the core, with its weights."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from . import _data, _posterior, _tables
from ._estimators import PosteriorClassifier, PosteriorRegressor, threads, wrap

_ACTIVATIONS = {
    "ReLU": "relu",
    "Tanh": "tanh",
    "Sigmoid": "sigmoid",
    "GELU": "gelu",
    "SiLU": "silu",
    "Identity": "identity",
}


def _one(value: Any, what: str) -> int:
    """A size that is the same in both directions."""
    values = set(value) if isinstance(value, (tuple, list)) else {value}
    if len(values) != 1 or not isinstance(next(iter(values)), int):
        raise ValueError(f"{what} is {value!r}, which is not the same in both directions; it cannot be taken over")
    return int(next(iter(values)))


def layers(modules: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """Layers of the core, the last Linear as its output layer not among them, and the names of modules with weights."""
    found: list[dict[str, Any]] = []
    names: list[str] = []
    for name, module in modules.named_children():
        kind = type(module).__name__
        if kind == "Linear":
            if module.bias is None:
                raise ValueError(f"module {name} ({kind}) has no bias; give it one")
            found.append({"kind": "dense", "units": module.out_features})
        elif kind == "Conv2d":
            if module.bias is None or module.groups != 1 or module.padding_mode != "zeros":
                raise ValueError(f"module {name} (Conv2d) has no bias, groups, or a padding other than zeros")
            found.append(
                {
                    "kind": "conv",
                    "channels": module.out_channels,
                    "kernel": _one(module.kernel_size, f"the kernel of module {name}"),
                    "stride": _one(module.stride, f"the stride of module {name}"),
                    "padding": _one(module.padding, f"the padding of module {name}"),
                    "dilation": _one(module.dilation, f"the dilation of module {name}"),
                }
            )
        elif kind in ("MaxPool2d", "AvgPool2d"):
            size = _one(module.kernel_size, f"the window of module {name}")
            if _one(module.stride or size, f"the stride of module {name}") != size or _one(module.padding, "padding") != 0:
                raise ValueError(f"module {name} ({kind}) has windows that overlap or are padded; it cannot be taken over")
            found.append({"kind": "max-pool" if kind == "MaxPool2d" else "avg-pool", "size": size})
        elif kind == "Flatten":
            found.append({"kind": "flatten"})
        elif kind == "Dropout":
            found.append({"kind": "dropout", "rate": float(module.p)})
        elif kind == "GELU" and module.approximate != "tanh":
            raise ValueError(f'module {name} (GELU) is not approximate="tanh", the one that can be taken over')
        elif kind in _ACTIVATIONS:
            found.append({"kind": "activation", "activation": _ACTIVATIONS[kind]})
        else:
            known = "Linear, Conv2d, MaxPool2d, AvgPool2d, Flatten, Dropout, " + ", ".join(_ACTIVATIONS)
            raise ValueError(f"module {name} ({kind}) cannot be taken over; these can: {known}")
        if kind in ("Linear", "Conv2d"):
            names.append(name)
    if not found or found[-1]["kind"] != "dense":
        raise ValueError("the network does not end with a Linear module; leave the softmax or the last activation to the likelihood")
    return found[:-1], names


def _safetensors(state: dict[str, Any]) -> bytes:
    """A state dict in the safetensors format, as float32."""
    header: dict[str, Any] = {}
    parts: list[bytes] = []
    at = 0
    for name, tensor in state.items():
        array = np.ascontiguousarray(tensor.detach().cpu().numpy(), dtype="<f4")
        part = array.tobytes()
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [at, at + len(part)]}
        parts.append(part)
        at += len(part)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(parts)


def from_torch(
    network: Any, X: Any, y: Any, *, classify: bool = False, likelihood: str = "auto", n_jobs: int | None = None
) -> PosteriorRegressor | PosteriorClassifier:
    """A fitted estimator with the architecture and weights of an ``nn.Sequential``; inputs and a real y are taken as they are.

    The rows give the classes, or the noise that the network leaves. Its predictions are the network's to single precision.
    ``model.refit(X, y, method="laplace")`` then gives it a posterior.
    """
    specs, names = layers(network)
    if likelihood == "auto" and classify and list(network.children())[-1].out_features == 2:
        likelihood = "categorical"
    kind = PosteriorClassifier if classify else PosteriorRegressor
    shape = kind(method="map", network=specs, likelihood=likelihood, n_jobs=n_jobs)
    found = _data.inputs(X, allow_nan=False)
    column = shape._outcomes(y, found.rows)
    known = _tables.tables()["likelihoods"].get(likelihood, {})
    task = "classification" if classify else "count" if known.get("outcome") == "count" else "regression"
    model = _posterior.import_weights(
        found.names,
        found.x,
        _data.target_name(y, found.names),
        column,
        shape._asked(),
        task,
        _safetensors(network.state_dict()),
        names,
        threads(n_jobs),
    )
    return wrap(model)
