"""Numbers of laplace-torch 0.3 that `crates/posterior/tests/laplace_torch.rs` is held against.

usage: laplace_fixtures.py > crates/posterior/tests/suite/fixtures/laplace_torch.json

Two networks in double precision, with data by formula so that the test can make them again: `regression` is 1-50-1 tanh on 40 rows, `classification` is
4-8-3 relu on 60 rows. Weights are trained for some steps, rounded to six digits, and written down; then every structure is fitted at one prior
precision (and noise), and log marginal likelihood, functional variances and probit probabilities of five rows are written down.
"""
import json, math, warnings

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from laplace import Laplace

warnings.simplefilter("ignore")
torch.set_default_dtype(torch.float64)
PRECISION, SIGMA = 0.7, 0.3


def regression(rows, shift):
    x = [[-2 + 4 * (i + shift) / rows] for i in range(rows)]
    y = [[math.sin(2 * r[0]) + 0.3 * math.sin(37.0 * i)] for i, r in enumerate(x)]
    return torch.tensor(x), torch.tensor(y)


def classification(rows, shift):
    x = [[math.sin((j + 1.3) * (i + shift) + j) for j in range(4)] for i in range(rows)]
    y = [0 if r[0] + r[1] > 0.4 else 1 if r[2] - r[3] > 0 else 2 for r in x]
    return torch.tensor(x), torch.tensor(y)


def case(kind, net, data, loss):
    torch.manual_seed(0)
    for p in net.parameters():
        nn.init.normal_(p, std=0.7)
    x, y = data(40 if kind == "regression" else 60, 0.0)
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-2, weight_decay=1e-3)
    for _ in range(1500):
        optimiser.zero_grad()
        loss(net(x), y).backward()
        optimiser.step()
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.tensor([float(f"{v:.6g}") for v in p.flatten()]).reshape(p.shape))
    at, _ = data(5, 0.37)
    out = {"weights": [p.detach().flatten().tolist() for p in net.parameters()], "structures": {}}
    loader = DataLoader(TensorDataset(x, y), batch_size=len(x))
    for name, subset, structure in [("full", "all", "full"), ("kron", "all", "kron"), ("diag", "all", "diag"),
                                    ("last-full", "last_layer", "full"), ("last-kron", "last_layer", "kron"),
                                    ("last-diag", "last_layer", "diag")]:
        la = Laplace(net, kind, subset_of_weights=subset, hessian_structure=structure, prior_precision=PRECISION,
                     **(dict(sigma_noise=SIGMA) if kind == "regression" else {}))
        la.fit(loader)
        mean, variance = la._glm_predictive_distribution(at)
        row = {"log_evidence": la.log_marginal_likelihood().item(), "variance": variance.detach().flatten().tolist()}
        if kind == "classification":
            row["probit"] = la(at, pred_type="glm", link_approx="probit").detach().flatten().tolist()
        out["structures"][name] = row
        out["mean"] = mean.detach().flatten().tolist()
    return out


short = lambda v: float(f"{v:.9g}") if isinstance(v, float) else {k: short(w) for k, w in v.items()} if isinstance(v, dict) else [short(w) for w in v]
result = {
    "regression": case("regression", nn.Sequential(nn.Linear(1, 50), nn.Tanh(), nn.Linear(50, 1)), regression, nn.MSELoss()),
    "classification": case("classification", nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), classification, nn.CrossEntropyLoss()),
}
print(json.dumps(short(result)))
