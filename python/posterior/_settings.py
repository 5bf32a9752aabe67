"""Every setting of methods, priors and likelihoods with its type. Written by tests/test_package.py from the tables of the core."""

from __future__ import annotations

from typing import Literal, TypedDict


class Settings(TypedDict, total=False):
    """Keywords of the estimators; None is the default of the method, prior or likelihood."""

    anchored: bool | None
    batch_size: int | None
    beta: float | None
    beta1: float | None
    beta2: float | None
    chains: int | None
    control_variate: bool | None
    count: int | None
    cycles: int | None
    degree: int | None
    depth: int | None
    draws: int | None
    energy_error: float | None
    epochs: int | None
    estimator: Literal["auto", "direct", "flipout", "local"] | None
    features: Literal["fourier", "polynomial", "random", "raw"] | None
    features_seed: int | None
    frequencies: int | None
    friction: float | None
    hessian_init: float | None
    inducing: int | None
    inference: Literal["auto", "exact", "laplace", "nearest", "sparse"] | None
    initial_alpha: float | None
    initial_mean: Literal["map", "random", "zero"] | None
    initial_scaling: Literal["fan-in", "none"] | None
    initial_std: float | None
    input_rate: float | None
    kept: int | None
    kernel: None
    kl_warmup: float | None
    kron_bias: Literal["joint", "separate"] | None
    learn_prior: bool | None
    learning_rate: float | None
    leave_out: float | None
    length: float | None
    length_scale: float | None
    likelihood_degrees: float | None
    likelihood_noise: Literal["fixed", "learned"] | None
    likelihood_noise_prior_mean: float | None
    likelihood_noise_prior_std: float | None
    likelihood_noise_std: float | None
    likelihood_offset: float | None
    mass: Literal["diagonal", "low-rank"] | None
    max_depth: int | None
    max_steps: int | None
    members: int | None
    memory_mib: int | None
    method_activation: Literal["erf", "identity", "relu"] | None
    neighbours: int | None
    on: Literal["activations", "weights"] | None
    online: int | None
    parameters: Literal["auto", "optimised", "sampled"] | None
    path: float | None
    patience: int | None
    per: Literal["layer", "unit"] | None
    period: float | None
    polish: int | None
    precision: Literal["f32", "f64"] | None
    preconditioner: Literal["none", "rms"] | None
    predictive: Literal["linearised", "probit", "sampling"] | None
    prior_bias_std: float | None
    prior_lower: float | None
    prior_pi: float | None
    prior_precision: Literal["layer", "scalar"] | None
    prior_scaling: Literal["fan-in", "none"] | None
    prior_std1: float | None
    prior_std2: float | None
    prior_upper: float | None
    prior_weight_std: float | None
    proposal: Literal["full-covariance", "ivon", "laplace", "low-rank", "mean-field", "mixture", "prior", "swag"] | None
    rank: int | None
    rate: float | None
    removal: Literal["end", "training"] | None
    samples: int | None
    schedule: Literal["constant", "cosine", "cyclical", "exponential", "polynomial"] | None
    start: Literal["annealing", "modes", "prior", "tempered"] | None
    starts: int | None
    steps: int | None
    structure: Literal["auto", "diag", "full", "kron"] | None
    subset: Literal["all", "last-layer"] | None
    swag_epochs: int | None
    swag_rate: float | None
    target_accept: float | None
    temperature: float | None
    thin: int | None
    threshold: float | None
    tune: Literal["evidence", "none", "validation"] | None
    validation: float | None
    vi_epochs: int | None
    warmup: float | int | None
    with_prior: bool | None
