"""Runs on MNIST: nets of several seeds, explained from the left and the right, one job per image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import torch

from lrp_companion.checks import choose, whole
from lrp_companion.lab.digit_invariance import (
    EXPLAINERS,
    NET_VARIANTS,
    invariance_table,
    of_images,
    train_pair,
)
from lrp_companion.lab.execute import Jobs
from lrp_companion.lab.folder import RunFolder
from lrp_companion.lab.load import SPAN
from lrp_companion.sources import Dataset
from lrp_companion.toys.linear_attention import LinearAttention

TESTED = {"accuracy": pa.float64(), "tested": pa.int32()}
"""Columns of every net: its accuracy, and on how many images."""


class DigitJobs(Jobs):
    """The common part of runs on digits: data, images in random order, and nets, which are trained when they
    are first needed: with the same seed they are the same.
    """

    def __init__(
        self, train: Dataset, test: Dataset, *, nets: int, limit: int | None, seed: int, device: str
    ) -> None:
        self.nets = whole("run", "nets", nets, hint="the nets have the seeds 0, 1, ...")
        self.train, self.test, self.device = train, test, device
        self.images, self.sample = of_images(test), test.order(limit, seed=seed)
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
        return self._net(seed, net) if table == "nets" else self._image(net, row)

    def _net(self, seed: int, left: LinearAttention) -> pa.Table:
        right = left.with_association("right")
        with torch.no_grad():
            batches = torch.as_tensor(self.images.copy()).split(256)
            gaps = [float((left(batch) - right(batch)).abs().max()) for batch in batches]
        net = {"seed": seed, **self.tested(left), "logit_gap": max(gaps)}
        kinds = {"seed": pa.int32(), **TESTED, "logit_gap": pa.float64()}
        return pa.Table.from_pylist([net], pa.schema(kinds))

    def _image(self, net: LinearAttention, row: int) -> pa.Table:
        image = self.images[row : row + 1]
        rows = invariance_table(net, image, progress=False).rows
        kinds = {"image": pa.int32(), "label": pa.int8(), "target": pa.int8(), "explainer": pa.string()}
        kinds |= {name: pa.float32() for name in rows[0] if name not in kinds}
        of_image = {"image": row, "label": int(self.test.labels[row])}
        return pa.Table.from_pylist([{**each, **of_image} for each in rows], pa.schema(kinds))
