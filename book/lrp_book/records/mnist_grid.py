"""Variants of the MNIST nets, every choice that the paper's text leaves open: `results/mnist-grid`, a run.

`python -m lrp_book.records.mnist_grid --out results/mnist-grid`; repeated, it goes on with a stopped one.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lrp_companion.lab.digit_invariance import EXPLAINERS, TESTED, DigitJobs, invariance_table
from lrp_companion.lab.execute import execute
from lrp_companion.lab.folder import RunFolder, points, round_r
from lrp_companion.sources import Dataset, load_dataset

VARIANT_AXES: dict[str, tuple[Any, ...]] = {
    "bias": (False, True),
    "position_embedding": (False, True),
    "embedding": (False, True),
    "readout": ("all", "mean"),
    "scaled": (True, False),
}
"""Options of `LinearAttention`, the plainest net first. Training is the paper's: Adam, 1e-3, 5 epochs."""
EXPLAINED = ("LOO", "IG", "AttnLRP")


class MnistGridJobs(DigitJobs):
    """The jobs of a run over variants; see `execute`. Each job is a net: seed * len(variants) + variant."""

    tables = ("nets", "images")

    def __init__(
        self,
        train: Dataset,
        test: Dataset,
        *,
        nets: int = 5,
        limit: int = 100,
        seed: int = 0,
        device: str = "cpu",
        epochs: int = 5,
        choices: Mapping[str, Sequence[Any]] = VARIANT_AXES,
    ) -> None:
        super().__init__(train, test, nets=nets, limit=min(limit, len(test)), seed=seed, device=device)
        self.variants, self.epochs = points(choices), epochs
        self.config = {
            **self.identity("mnist-grid", seed),
            "images": len(self.sample),
            "epochs": epochs,
            "choices": {name: list(options) for name, options in choices.items()},
            "explainers": {name: dict(EXPLAINERS[name]) for name in EXPLAINED},
        }
        self.manifest = self.described(f"{len(self.variants)} variants")

    def jobs(self, table: str) -> list[int]:
        """Nets, all variants with one seed before the next seed."""
        return list(range(self.nets * len(self.variants)))

    def run(self, table: str, job: int, folder: RunFolder) -> pa.Table:
        """The rows of one net."""
        seed, variant = divmod(job, len(self.variants))
        net = self.net(job, seed, {**self.variants[variant], "epochs": self.epochs})
        if table == "images":
            return self._images(net)
        row = {"variant": variant, "seed": seed, **self.tested(net.with_association("right"))}
        kinds = {"variant": pa.int32(), "seed": pa.int32(), **TESTED}
        return pa.Table.from_pylist([row], pa.schema(kinds))

    def _images(self, net: Any) -> pa.Table:
        explainers = {name: EXPLAINERS[name] for name in EXPLAINED}
        images = self.images[self.sample]
        rows = invariance_table(net, images, explainers=explainers, one_loo=True, progress=False).rows
        pairs, sides = ("r left-right", "r left-LOO", "r right-LOO"), ("left", "right")
        kinds = {"image": pa.int32(), "explainer": pa.dictionary(pa.int32(), pa.string())}
        kinds |= {name: pa.float32() for name in pairs} | {f"negative {side}": pa.bool_() for side in sides}
        table = [
            {"image": self.sample[row["image"]], "explainer": row["explainer"]}
            | {name: float(round_r(np.array(row[name]))) for name in pairs}
            | {f"negative {side}": row[f"sum {side}"] < 0 for side in sides}
            for row in rows
        ]
        return pa.Table.from_pylist(table, pa.schema(kinds))


def main() -> None:
    """Make the record, or go on with it."""
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--out", required=True)
    given.add_argument("--data-dir")
    given.add_argument("--device", default="cpu")
    args = given.parse_args()
    train, test = (
        load_dataset("mnist", split=split, source="folder", data_dir=args.data_dir)
        for split in ("train", "test")
    )
    execute(MnistGridJobs(train, test, device=args.device), args.out)


if __name__ == "__main__":
    main()
