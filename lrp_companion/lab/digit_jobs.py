"""Runs on MNIST: nets of several seeds, explained from the left and the right, one job per image; and
variants of these nets, every choice that the paper's text leaves open, one job per net.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from lrp_companion.checks import InputError, choose, whole
from lrp_companion.lab.base_run import points
from lrp_companion.lab.digit_invariance import EXPLAINERS, NET_VARIANTS, invariance_table, train_pair
from lrp_companion.lab.folder import RunFolder
from lrp_companion.methods import IMAGE_METHODS, attribute, method_call
from lrp_companion.metrics import agreement
from lrp_companion.schema import Protocol
from lrp_companion.sources import Dataset
from lrp_companion.toys.linear_attention import LinearAttention

SPAN = 1_000_000  # jobs of one net: seed * SPAN + row of the image
TESTED = {"accuracy": pa.float64(), "tested": pa.int32()}
"""Columns of every net: its accuracy, and on how many images."""


class DigitJobs:
    """The common part of runs on digits: data, images in random order, and nets that are trained once and
    kept.
    """

    def __init__(
        self, train: Dataset, test: Dataset, *, nets: int, limit: int | None, seed: int, device: str
    ) -> None:
        whole("run", "nets", nets, hint="the nets have the seeds 0, 1, ...")
        if train.images is None or test.images is None:
            got = f"{train.name}, which has no images"
            raise InputError("run", got=got, expected="a data set of images", hint="run mnist")
        self.train, self.test, self.nets, self.device = train, test, nets, device
        self.images, self.sample = test.images, test.order(limit, seed=seed)
        self._known: dict[int, LinearAttention] = {}

    def _config(self, task: str, seed: int) -> dict[str, Any]:
        """What every run on digits depends on."""
        test, train = self.test, self.train.fingerprint
        data = {"split": test.split, "source": test.source, "data": test.fingerprint, "train": train}
        return {"task": task, **data, "seed": seed}

    def _manifest(self, model: str) -> dict[str, Any]:
        data = f"{self.test.describe()}; trained on {self.train.describe()}"
        return {
            "model": {"name": model, "family": "linear attention"},
            "data": data,
            "examples": len(self.sample),
            "nets": self.nets,
        }

    def _trained(
        self, number: int, folder: RunFolder, seed: int, options: Mapping[str, Any]
    ) -> LinearAttention:
        """Train a net and keep its weights under this number."""
        net = train_pair(self.train, seed=seed, device=self.device, **options)[0]
        folder.add_weights(f"net-{number}.safetensors", net.state_dict())
        self._known[number] = net
        return net

    def _tested(self, net: LinearAttention) -> dict[str, Any]:
        """What `TESTED` names."""
        return {"accuracy": net.accuracy(self.images, self.test.labels), "tested": len(self.test)}

    def _load(self, number: int, folder: RunFolder, seed: int, options: Mapping[str, Any]) -> LinearAttention:
        """A net of this process or of the folder; trained again if only its row was kept."""
        if number not in self._known:
            weights = folder.weights(f"net-{number}.safetensors")
            if weights is None:
                self._known[number] = train_pair(self.train, seed=seed, device=self.device, **options)[0]
            else:
                shape = {name: value for name, value in options.items() if name not in ("epochs", "lr")}
                net = LinearAttention(association="left", seed=seed, dtype=torch.float64, **shape)
                net.to(self.device)
                net.load_state_dict(weights)
                self._known[number] = net
        return self._known[number]

    def summaries(self, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """None: every table of a report is made from the rows."""
        return {}


class MnistJobs(DigitJobs):
    """The jobs of a run on MNIST; see `execute`."""

    def __init__(
        self,
        train: Dataset,
        test: Dataset,
        *,
        variant: str = "plain",
        methods: Sequence[str] | None = None,
        nets: int = 5,
        limit: int | None = None,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        choose("run", "model", variant, tuple(NET_VARIANTS))
        super().__init__(train, test, nets=nets, limit=limit, seed=seed, device=device)
        self.variant = variant
        self.explainers = EXPLAINERS if methods is None else explainers_of(methods)
        self.config = {
            **self._config("mnist", seed),
            "model": variant,
            "options": NET_VARIANTS[variant],
            "explainers": {name: dict(call) for name, call in self.explainers.items()},
        }

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest's entries besides the configuration."""
        return self._manifest(self.variant)

    @property
    def tables(self) -> tuple[str, ...]:
        """First the nets, then the images under each."""
        return ("nets", "images")

    def jobs(self, table: str) -> list[int]:
        """Seeds, or seed and image."""
        seeds = range(self.nets)
        if table == "nets":
            return list(seeds)
        return [seed * SPAN + row for seed in seeds for row in self.sample]

    def cost(self, table: str, job: int) -> float:
        """The approximate cost of a job, in images explained."""
        return len(self.train) / 150 if table == "nets" else 1.0

    def run(self, table: str, job: int, folder: RunFolder) -> pa.Table:
        """The rows of one job."""
        if table == "nets":
            return self._net(job, folder)
        seed, row = divmod(job, SPAN)
        return self._image(self._load(seed, folder, seed, NET_VARIANTS[self.variant]), row)

    def _net(self, seed: int, folder: RunFolder) -> pa.Table:
        left = self._trained(seed, folder, seed, NET_VARIANTS[self.variant])
        right = left.with_association("right")
        with torch.no_grad():
            batches = torch.as_tensor(self.images.copy()).split(256)
            gaps = [float((left(batch) - right(batch)).abs().max()) for batch in batches]
        net = {"seed": seed, **self._tested(left), "logit_gap": max(gaps)}
        kinds = {"seed": pa.int32(), **TESTED, "logit_gap": pa.float64()}
        return pa.Table.from_pylist([net], pa.schema(kinds))

    def _image(self, net: LinearAttention, row: int) -> pa.Table:
        image = self.images[row : row + 1]
        rows = invariance_table(net, image, explainers=self.explainers, progress=False).rows
        kinds = {"image": pa.int32(), "label": pa.int8(), "target": pa.int8(), "explainer": pa.string()}
        kinds |= {name: pa.float32() for name in rows[0] if name not in (*kinds, "constant")}
        of_image = {"image": row, "label": int(self.test.labels[row])}
        return pa.Table.from_pylist([{**each, **of_image} for each in rows], pa.schema(kinds))


def explainers_of(methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Calls of `attribute` by the names of a run, LOO always among them.

    >>> explainers_of(["attnlrp", "mask-gradient:groups=4"])["mask-gradient:groups=4"]
    {'method': 'mask-gradient', 'groups': 4}
    """
    if not methods or len(set(methods)) < len(methods):
        got = f"methods {', '.join(methods) or 'none'}"
        hint = f"choose from {', '.join(IMAGE_METHODS)}"
        raise InputError("run", got=got, expected="at least one, each once", hint=hint)
    out = {"LOO": EXPLAINERS["LOO"]}
    for name in methods:
        method, options = method_call(name, images=True)
        if "progress" in options or "batch_images" in options:
            expected = "options that change the numbers"
            raise InputError("run", got=f"method {name!r}", expected=expected, hint="leave out the others")
        if method != "loo":
            out[name] = {"method": method, **options}
    tiny = LinearAttention(tokens=4, dim=2, classes=2, dtype=torch.float64)
    for call in out.values():  # on one tiny image: refuses bad options before the run begins
        attribute(tiny, torch.zeros(1, 4, dtype=torch.float64), **call)
    return out


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
        self.variants, self.ig_steps, self.epochs = points(choices), tuple(ig_steps), epochs
        self.config = {
            **self._config("mnist-grid", seed),
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
        net = {"variant": job % len(self.variants), "seed": seed, **self._tested(right)}
        kinds = {"variant": pa.int32(), "seed": pa.int32(), **TESTED}
        return pa.Table.from_pylist([net], pa.schema(kinds))

    def _images(self, job: int, folder: RunFolder) -> pa.Table:
        net = self._load(job, folder, *self._options(job))
        explainers = {name: EXPLAINERS[name] for name in EXPLAINED}
        images = self.images[self.sample]
        rows = invariance_table(net, images, explainers=explainers, one_loo=True, progress=False).rows
        pairs, sides = ("r left-right", "r left-LOO", "r right-LOO"), ("left", "right")
        kinds = {"image": pa.int32(), "explainer": pa.dictionary(pa.int32(), pa.string())}
        kinds |= {name: pa.float32() for name in pairs} | {f"negative {side}": pa.bool_() for side in sides}
        table = [
            {"image": self.sample[row["image"]], "explainer": row["explainer"]}
            | {name: _rounded(row[name]) for name in pairs}
            | {f"negative {side}": row[f"sum {side}"] < 0 for side in sides}
            for row in rows
        ]
        return pa.Table.from_pylist(table, pa.schema(kinds))

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
        rows = []
        for name, baselines in starts.items():
            for steps in self.ig_steps:
                options: dict[str, Any] = {"method": "ig", "target": target, "n_steps": steps}
                maps = [attribute(net, images, baseline=baseline, **options) for baseline in baselines]
                for k, row in enumerate(sample):
                    scores = np.mean([records[k].scores for records in maps], axis=0)
                    deltas = [abs(records[k].details["convergence_delta"]) for records in maps]
                    r = agreement(scores, loo[k].scores, loo[k].special, Protocol(tokens="all"))
                    case = {"image": row, "baseline": name, "n_steps": steps}
                    rows.append({**case, "r": r, "delta": max(deltas)})
        kinds = {"image": pa.int32(), "baseline": pa.string(), "n_steps": pa.int32()}
        return pa.Table.from_pylist(rows, pa.schema({**kinds, "r": pa.float32(), "delta": pa.float32()}))


def _rounded(r: float) -> float | None:
    """r to the next multiple of 2**-16; None where it is undefined."""
    return round(r * 65536) / 65536 if np.isfinite(r) else None
