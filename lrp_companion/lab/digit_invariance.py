"""Linear-attention nets on MNIST: one function in two orders of multiplication, as in the paper's Table 1;
and runs of these, nets of several seeds, one job per image.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from lrp_companion.attribution import Attribution
from lrp_companion.checks import choose, whole
from lrp_companion.lab.execute import Jobs
from lrp_companion.lab.folder import RunFolder
from lrp_companion.lab.load import SPAN
from lrp_companion.methods import attribute
from lrp_companion.metrics import agreement, bootstrap_mean, invariance_gap
from lrp_companion.schema import Protocol
from lrp_companion.sources.dataset import Dataset
from lrp_companion.toys.linear_attention import LinearAttention

EXPLAINERS: dict[str, dict[str, Any]] = {
    "LOO": {"method": "loo"},
    "IG": {"method": "ig", "n_steps": 8},
    "AttnLRP": {"method": "attnlrp"},
    "gradient x input": {"method": "gradient-x-input"},
    "equal shares": {"method": "lrp", "shares": "flat"},
    "values only": {"method": "cp-lrp"},
}
"""The rows of Table 1, and three more. For IG 8 nodes are as exact as 50: the integrand is quadratic."""

NET_VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "biases": {"bias": True},
    "positions": {"position_embedding": True},
    "positions, mean": {"position_embedding": True, "readout": "mean", "epochs": 15, "lr": 5e-3},
}
"""Ways to build the nets that the paper describes: options of `train_pair`. The mean learns slowly and is
trained for longer.
"""


def train_pair(
    train: Dataset, *, seed: int = 0, device: str = "cpu", epochs: int = 5, lr: float = 1e-3, **options: Any
) -> tuple[LinearAttention, LinearAttention]:
    """Train one net and return it as (left, right): the weights are shared, the graphs are not.

    `options` are those of `LinearAttention`. Training is in float64: another machine gets the same numbers.
    """
    left = LinearAttention(association="left", seed=seed, dtype=torch.float64, **options).to(device)
    left.train_on(np.asarray(train.images), train.labels, epochs=epochs, lr=lr, seed=seed)
    return left, left.sibling()


@dataclass(frozen=True)
class Invariance:
    """Measurements on the maps of both graphs: `rows`, one per image and explainer, with `r left-right`,
    `r left-LOO`, `r right-LOO` for raw maps, the same followed by ` (sum-to-one)`, the sums of both maps, and
    their relative distance.
    """

    rows: list[dict[str, Any]]

    def values(self, column: str, explainer: str) -> np.ndarray:
        """One column for one explainer, one value per image."""
        return np.array([row[column] for row in self.rows if row["explainer"] == explainer], dtype=np.float64)

    def table(self, map: str = "raw") -> list[dict[str, Any]]:
        """Table 1's columns as means over images with 95 % intervals, of maps "raw" or "sum-to-one"."""
        suffix, out = "" if map == "raw" else " (sum-to-one)", []
        for explainer in dict.fromkeys(row["explainer"] for row in self.rows):
            row: dict[str, Any] = {"explainer": explainer}
            for name in ("left-right", "left-LOO", "right-LOO"):
                row[name] = bootstrap_mean(self.values(f"r {name}{suffix}", explainer))
            out.append(row | {"negative left": float((self.values("sum left", explainer) < 0).mean())})
        return out


def invariance_table(
    net: LinearAttention,
    images: np.ndarray,
    *,
    explainers: Mapping[str, Mapping[str, Any]] = EXPLAINERS,
    one_loo: bool = False,
    progress: bool | None = None,
) -> Invariance:
    """Explain the predicted class of every image from the left and from the right, and compare both with LOO.

    `explainers` names calls of `attribute` (their options); LOO is always among them. With `one_loo` the
    right graph's LOO is used for both, at a fraction of the cost, because LOO depends only on the function.
    """
    sides = {side: net.with_association(side) for side in ("left", "right")}
    with torch.no_grad():  # batches, as the left graph keeps T x T numbers per image
        batches = [images[start : start + 256] for start in range(0, len(images), 256)]
        logits = torch.cat([sides["left"](batch) for batch in batches])
    calls = {"LOO": EXPLAINERS["LOO"], **explainers}
    target = logits.argmax(-1).tolist()  # the same class from both, also where rounding could decide
    maps: dict[tuple[str, str], list[Attribution]] = {}
    for name, call in calls.items():
        quiet: dict[str, Any] = {"progress": progress} if call["method"] == "loo" else {}
        for side in ("right", "left"):
            if name == "LOO" and one_loo and side == "left":
                maps[name, side] = maps[name, "right"]
            else:
                maps[name, side] = attribute(sides[side], images, target=target, **call, **quiet)
    rows = []
    for name in calls:
        each = (maps[key] for key in ((name, "left"), (name, "right"), ("LOO", "left"), ("LOO", "right")))
        for k, four in enumerate(zip(*each, strict=True)):
            rows.append({"image": k, "explainer": name, "target": target[k]} | _measured(*four))
    return Invariance(rows)


def _measured(
    left: Attribution, right: Attribution, loo_left: Attribution, loo_right: Attribution
) -> dict[str, Any]:
    """The columns of one image and explainer."""
    row: dict[str, Any] = {
        "sum left": float(left.scores.sum()),
        "sum right": float(right.scores.sum()),
        "gap": invariance_gap(left.scores, right.scores).relative,
    }
    pairs = {"left-right": (left, right), "left-LOO": (left, loo_left), "right-LOO": (right, loo_right)}
    for pair, (a, b) in pairs.items():
        for label, protocol in (("", RAW), (" (sum-to-one)", SUM_TO_ONE)):
            row[f"r {pair}{label}"] = agreement(a.scores, b.scores, left.special, protocol)
    return row


RAW, SUM_TO_ONE = Protocol(tokens="all"), Protocol(tokens="all", map="sum-to-one")


def share_digits(
    net: LinearAttention, images: np.ndarray, labels: Sequence[int] | np.ndarray
) -> list[dict[str, Any]]:
    """Explain the predicted class of each image by the maps that any shares mix, for `SharesSimplex`.

    Parameters
    ----------
    images : (n, side, side) or (n, side * side), values in [0, 1].
    labels : n classes.

    Returns
    -------
    list
        A dict per image: `image` (side, side), `label`, `predicted`, `logit` of the predicted class, `maps`
        ("query", "key", "value": arrays of side * side, see `LinearAttention.share_maps`), `loo`, such an
        array.
    """
    side = round(net.tokens**0.5)
    x = net.check_images(images, "share_digits")
    with torch.no_grad():
        logits = net(x)
        target = logits.argmax(-1).tolist()
        maps = {name: scores.cpu().numpy() for name, scores in net.share_maps(x, target).items()}
    loo = attribute(net, x, method="loo", target=target, progress=False)
    return [
        {
            "image": x[k].reshape(side, side).cpu().numpy(),
            "label": label,
            "predicted": target[k],
            "logit": float(logits[k, target[k]]),
            "maps": {name: scores[k] for name, scores in maps.items()},
            "loo": loo[k].scores,
        }
        for k, label in zip(range(len(x)), map(operator.index, labels), strict=True)
    ]


TESTED = {"accuracy": pa.float64(), "tested": pa.int32()}
"""Columns of every net: its accuracy, and on how many images."""


class DigitJobs(Jobs):
    """The common part of runs on digits: data, images in random order, nets that are trained when needed."""

    def __init__(
        self, train: Dataset, test: Dataset, *, nets: int, limit: int | None, seed: int, device: str
    ) -> None:
        self.nets = whole("run", "nets", nets, hint="the nets have the seeds 0, 1, ...")
        self.train, self.test, self.device = train, test, device
        self.images, self.sample = np.asarray(test.images), test.order(limit, seed=seed)
        self._trained: dict[int, LinearAttention] = {}

    def identity(self, task: str, seed: int) -> dict[str, Any]:
        """What every run on digits depends on."""
        test, train = self.test, self.train.fingerprint
        data = {"split": test.split, "source": test.source, "data": test.fingerprint, "train": train}
        return {"task": task, **data, "seed": seed}

    def described(self, model: str) -> dict[str, Any]:
        """The manifest's entries besides the configuration."""
        return {
            "model": {"name": model, "family": "linear attention"},
            "data": f"{self.test.describe()}; trained on {self.train.describe()}",
            "examples": len(self.sample),
            "nets": self.nets,
        }

    def net(self, number: int, seed: int, options: Mapping[str, Any]) -> LinearAttention:
        """A net by its number, trained once in each session."""
        if number not in self._trained:
            self._trained[number] = train_pair(self.train, seed=seed, device=self.device, **options)[0]
        return self._trained[number]

    def tested(self, net: LinearAttention) -> dict[str, Any]:
        """What `TESTED` names."""
        return {"accuracy": net.accuracy(self.images, self.test.labels), "tested": len(self.test)}


class MnistJobs(DigitJobs):
    """The jobs of a run on MNIST; see `execute`. First the nets, by seed, then the images under each."""

    tables = ("nets", "images")

    def __init__(
        self,
        train: Dataset,
        test: Dataset,
        *,
        variant: str = "plain",
        nets: int = 5,
        limit: int | None = None,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        self.options = NET_VARIANTS[choose("run", "model", variant, tuple(NET_VARIANTS))]
        super().__init__(train, test, nets=nets, limit=limit, seed=seed, device=device)
        self.config = {
            **self.identity("mnist", seed),
            "model": variant,
            "options": self.options,
            "explainers": {name: dict(call) for name, call in EXPLAINERS.items()},
        }
        self.manifest = self.described(variant)

    def jobs(self, table: str) -> list[int]:
        """Seeds, or seed and image."""
        seeds = list(range(self.nets))
        return seeds if table == "nets" else [seed * SPAN + row for seed in seeds for row in self.sample]

    def run(self, table: str, job: int, folder: RunFolder) -> pa.Table:
        """The rows of one job."""
        seed, row = (job, 0) if table == "nets" else divmod(job, SPAN)
        net = self.net(seed, seed, self.options)
        if table == "nets":
            right = net.with_association("right")
            with torch.no_grad():
                batches = torch.as_tensor(self.images.copy()).split(256)
                gaps = [float((net(batch) - right(batch)).abs().max()) for batch in batches]
            of_net = {"seed": seed, **self.tested(net), "logit_gap": max(gaps)}
            kinds = {"seed": pa.int32(), **TESTED, "logit_gap": pa.float64()}
            return pa.Table.from_pylist([of_net], pa.schema(kinds))
        rows = invariance_table(net, self.images[row : row + 1], progress=False).rows
        kinds = {"image": pa.int32(), "label": pa.int8(), "target": pa.int8(), "explainer": pa.string()}
        kinds |= {name: pa.float32() for name in rows[0] if name not in kinds}
        of_image = {"image": row, "label": int(self.test.labels[row])}
        return pa.Table.from_pylist([{**each, **of_image} for each in rows], pa.schema(kinds))
