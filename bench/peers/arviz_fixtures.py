"""Numbers that the diagnostics are held against, computed with ArviZ and kept in crates/posterior/tests/suite/fixtures/arviz.json.

Chains are made by integer arithmetic and sums in a fixed order, so that the test in Rust makes the same ones bit for bit
and only the answers are kept. Usage: python arviz_fixtures.py > crates/posterior/tests/suite/fixtures/arviz.json
(ArviZ 0.23, NumPy, SciPy).
"""

import json
import math
import sys
import warnings

warnings.simplefilter("ignore")
import arviz as az
import numpy as np

MASK = (1 << 64) - 1


class Stream:
    """SplitMix64."""

    def __init__(self, seed):
        self.state = seed

    def uniform(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return ((z ^ (z >> 31)) >> 11) * 2.0**-53

    def bell(self):
        """Sum of twelve uniforms minus six: mean 0, variance 1."""
        total = 0.0
        for _ in range(12):
            total += self.uniform()
        return total - 6.0


def ar1(stream, draws, phi):
    x, out = 0.0, []
    for _ in range(draws):
        x = phi * x + stream.bell()
        out.append(x)
    return out


# name, seed, chains, draws, chain(stream, number of the chain, draws)
KINDS = [
    ("independent", 1, 4, 100, lambda s, c, n: [s.bell() for _ in range(n)]),
    ("autocorrelated", 2, 4, 250, lambda s, c, n: ar1(s, n, 0.9)),
    ("antithetic", 3, 4, 100, lambda s, c, n: ar1(s, n, -0.6)),
    ("one stuck", 4, 4, 60, lambda s, c, n: [0.25] * n if c == 2 else [s.bell() for _ in range(n)]),
    ("all stuck", 5, 3, 40, lambda s, c, n: [float(c)] * n),
    ("constant", 6, 2, 20, lambda s, c, n: [1.5] * n),
    ("trending", 7, 3, 90, lambda s, c, n: [0.05 * i + s.bell() for i in range(n)]),
    ("shifted", 8, 4, 80, lambda s, c, n: [s.bell() + (2.0 if c == 0 else 0.0) for _ in range(n)]),
    ("other scale", 9, 4, 80, lambda s, c, n: [s.bell() * (4.0 if c == 0 else 1.0) for _ in range(n)]),
    ("heavy tails, odd", 10, 4, 101, lambda s, c, n: [s.bell() / s.bell() for _ in range(n)]),
    ("ties, odd", 11, 2, 75, lambda s, c, n: [float(math.floor(2.0 * v)) for v in ar1(s, n, 0.5)]),
    ("short, odd", 12, 2, 5, lambda s, c, n: [s.bell() for _ in range(n)]),
    ("slow", 13, 2, 400, lambda s, c, n: ar1(s, n, 0.995)),
]

# name, seed, how many, log weight(stream)
WEIGHTS = [
    ("light tail", 21, 1000, lambda s: 0.5 * s.bell()),
    ("heavy tail", 22, 1000, lambda s: 3.0 * s.bell()),
    ("bounded", 23, 500, lambda s: -abs(s.bell())),
    ("few", 24, 30, lambda s: s.bell()),
    ("too few", 25, 12, lambda s: s.bell()),
    ("far", 26, 2000, lambda s: -800.0 + 40.0 * s.bell()),
    ("ties", 27, 400, lambda s: float(math.floor(3.0 * s.bell()))),
]


def number(v):
    """JSON has no infinities."""
    v = float(v)
    return v if math.isfinite(v) else str(v)


def chains():
    for name, seed, count, draws, chain in KINDS:
        stream = Stream(seed)
        x = np.array([chain(stream, c, draws) for c in range(count)])
        yield {
            "name": name,
            "seed": seed,
            "chains": count,
            "draws": draws,
            "r_hat": number(az.rhat(x)),
            "ess_bulk": number(az.ess(x, method="bulk")),
            "ess_tail": number(az.ess(x, method="tail")),
            "ess_mean": number(az.ess(x, method="mean")),
            "ess_std": number(az.ess(x, method="sd")),
            "ess_median": number(az.ess(x, method="quantile", prob=0.5)),
            "mcse_mean": number(az.mcse(x, method="mean")),
            "mcse_std": number(az.mcse(x, method="sd")),
            "mcse_05": number(az.mcse(x, method="quantile", prob=0.05)),
            "mcse_50": number(az.mcse(x, method="quantile", prob=0.5)),
            "mcse_95": number(az.mcse(x, method="quantile", prob=0.95)),
            "bfmi": [number(v) for v in az.bfmi(x)],
        }


def weights():
    for name, seed, count, weight in WEIGHTS:
        stream = Stream(seed)
        x = np.array([weight(stream) for _ in range(count)])
        smooth, k = az.psislw(x.copy())
        smooth = np.asarray(smooth)
        yield {
            "name": name,
            "seed": seed,
            "count": count,
            "k": number(k),
            "largest": number(smooth.max()),
            "sum_of_squares": number(np.exp(2.0 * smooth).sum()),
            "first": [number(v) for v in smooth[:5]],
        }


json.dump({"arviz": az.__version__, "chains": list(chains()), "weights": list(weights())}, sys.stdout, indent=1)
print()
