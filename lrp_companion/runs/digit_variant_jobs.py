"""A run over variants of the paper's MNIST nets: every choice that its text leaves open, one job per net."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from lrp_companion.methods import attribute
from lrp_companion.metrics import agreement
from lrp_companion.runs.digit_invariance import EXPLAINERS, invariance_table
from lrp_companion.runs.digit_jobs import DigitJobs
from lrp_companion.runs.folder import RunFolder
from lrp_companion.schema import Protocol
from lrp_companion.sources import Dataset

VARIANT_AXES: dict[str, tuple[Any, ...]] = {
    "bias": (False, True),
    "position_embedding": (False, True),
    "embedding": (False, True),
    "readout": ("all", "mean"),
    "scaled": (True, False),
}
"""Options of `LinearAttention`, the plainest net first. Training is the paper's: Adam, 1e-3, 5 epochs."""
EXPLAINED = ("LOO", "IG", "AttnLRP")
IMAGES = 100  # explained under each net where no limit is given
IG_IMAGES = 20  # the first of the sample: 512 steps from four baselines take a minute or two a net
IG_STEPS = (8, 16, 32, 64, 128, 256, 512)
IG_BASELINES = ("zero", "mean image", "black and white")


def variants(choices: Mapping[str, Sequence[Any]] = VARIANT_AXES) -> list[dict[str, Any]]:
    """All combinations of the choices, the plainest first.

    >>> len(variants()), variants()[0]["readout"]
    (32, 'all')
    """
    return [dict(zip(choices, point, strict=True)) for point in itertools.product(*choices.values())]


class MnistGridJobs(DigitJobs):
    """The jobs of a run over variants; see `execute`. Each job is a net: seed * len(variants) + variant."""

    def __init__(
        self,
        train: Dataset,
        test: Dataset,
        *,
        nets: int = 5,
        limit: int | None = None,
        seed: int = 0,
        device: str = "cpu",
        epochs: int = 5,
        choices: Mapping[str, Sequence[Any]] = VARIANT_AXES,
        ig_steps: Sequence[int] = IG_STEPS,
    ) -> None:
        limit = min(IMAGES, len(test)) if limit is None else limit
        super().__init__(train, test, nets=nets, limit=limit, seed=seed, device=device)
        self.variants, self.ig_steps, self.epochs = variants(choices), tuple(ig_steps), epochs
        self.config = {
            "task": "mnist-grid",
            "split": test.split,
            "source": test.source,
            "data": test.fingerprint,
            "train": train.fingerprint,
            "seed": seed,
            "images": len(self.sample),
            "epochs": epochs,
            "choices": {name: list(options) for name, options in choices.items()},
            "explainers": {name: dict(EXPLAINERS[name]) for name in EXPLAINED},
            "ig": {"n_steps": list(ig_steps), "baselines": list(IG_BASELINES), "images": IG_IMAGES},
        }

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest's entries besides the configuration."""
        return self._manifest(f"{len(self.variants)} variants")

    @property
    def tables(self) -> tuple[str, ...]:
        """Nets; images under each, from the left and the right; IG of the plainest and fullest variant."""
        return ("nets", "images", "ig")

    def jobs(self, table: str) -> list[int]:
        """Nets, all variants with one seed before the next seed."""
        count = len(self.variants)
        chosen = (0, self._fullest) if table == "ig" else range(count)
        return [variant + count * seed for seed in range(self.nets) for variant in chosen]

    @property
    def _fullest(self) -> int:
        """The variant furthest from a homogeneous function: with biases, positions and an embedding."""
        wanted = {name: name in ("bias", "position_embedding", "embedding") for name in self.variants[0]}
        wanted |= {name: self.variants[0][name] for name in ("readout", "scaled") if name in self.variants[0]}
        return self.variants.index(wanted)

    def cost(self, table: str, job: int) -> float:
        """The approximate cost of a job, in images explained."""
        return {"nets": len(self.train) * self.epochs / 300, "images": len(self.sample), "ig": 300.0}[table]

    def run(self, table: str, job: int, folder: RunFolder) -> pa.Table:
        """The rows of one net."""
        return {"nets": self._net, "images": self._images, "ig": self._ig}[table](job, folder)

    def _options(self, job: int) -> tuple[int, dict[str, Any]]:
        """Seed and options of the net of a job."""
        seed, variant = divmod(job, len(self.variants))
        return seed, {**self.variants[variant], "epochs": self.epochs}

    def _net(self, job: int, folder: RunFolder) -> pa.Table:
        seed, options = self._options(job)
        right = self._trained(job, folder, seed, options).with_association("right")
        return pa.table(
            {
                "variant": pa.array([job % len(self.variants)], pa.int32()),
                "seed": pa.array([seed], pa.int32()),
                "accuracy": pa.array([right.accuracy(self.images, self.test.labels)], pa.float64()),
                "tested": pa.array([len(self.test)], pa.int32()),
            }
        )

    def _images(self, job: int, folder: RunFolder) -> pa.Table:
        net = self._load(job, folder, *self._options(job))
        explainers = {name: EXPLAINERS[name] for name in EXPLAINED}
        images = self.images[self.sample]
        rows = invariance_table(net, images, explainers=explainers, one_loo=True, progress=False).rows
        r = {
            name: pa.array([_rounded(row[name]) for row in rows], pa.float32())
            for name in ("r left-right", "r left-LOO", "r right-LOO")
        }
        negative = {
            f"negative {side}": pa.array([row[f"sum {side}"] < 0 for row in rows], pa.bool_())
            for side in ("left", "right")
        }
        return pa.table(
            {
                "image": pa.array([self.sample[row["image"]] for row in rows], pa.int32()),
                "explainer": pa.array([row["explainer"] for row in rows], pa.string()).dictionary_encode(),
                **r,
                **negative,
            }
        )

    def _ig(self, job: int, folder: RunFolder) -> pa.Table:
        """Agreement of IG with LOO, and the largest convergence delta, by baseline and number of steps."""
        assert self.train.images is not None
        net = self._load(job, folder, *self._options(job)).with_association("right")
        sample = self.sample[:IG_IMAGES]
        images = self.images[sample]
        with torch.no_grad():
            target = net(images).argmax(-1).tolist()
        loo = attribute(net, images, method="loo", target=target, progress=False)
        starts = {
            "zero": [np.zeros_like(images[0])],
            "mean image": [self.train.images.mean(0)],
            "black and white": [np.zeros_like(images[0]), np.ones_like(images[0])],
        }
        out: dict[str, list[Any]] = {name: [] for name in ("image", "baseline", "n_steps", "r", "delta")}
        for name, baselines in starts.items():
            for steps in self.ig_steps:
                options: dict[str, Any] = {"method": "ig", "target": target, "n_steps": steps}
                maps = [attribute(net, images, baseline=baseline, **options) for baseline in baselines]
                for k, row in enumerate(sample):
                    scores = np.mean([records[k].scores for records in maps], axis=0)
                    deltas = [abs(records[k].details["convergence_delta"]) for records in maps]
                    out["image"].append(row)
                    out["baseline"].append(name)
                    out["n_steps"].append(steps)
                    out["r"].append(agreement(scores, loo[k].scores, loo[k].special, Protocol(tokens="all")))
                    out["delta"].append(max(deltas))
        kinds = {"image": pa.int32(), "n_steps": pa.int32(), "r": pa.float32(), "delta": pa.float32()}
        return pa.table(
            {name: pa.array(column, kinds.get(name, pa.string())) for name, column in out.items()}
        )


def _rounded(r: float) -> float | None:
    """r to the next multiple of 2**-16; None where it is undefined."""
    return round(r * 65536) / 65536 if np.isfinite(r) else None
