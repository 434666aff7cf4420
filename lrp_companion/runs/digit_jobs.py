"""A run on MNIST: nets of several seeds, explained from the left and the right, one job per image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import torch

from lrp_companion.checks import InputError, choose, whole
from lrp_companion.methods import IMAGE_METHODS, attribute, method_call
from lrp_companion.runs.digit_invariance import EXPLAINERS, NET_VARIANTS, invariance_table, train_pair
from lrp_companion.runs.folder import RunFolder
from lrp_companion.sources import Dataset
from lrp_companion.toys.linear_attention import LinearAttention

SPAN = 1_000_000  # jobs of one net: seed * SPAN + row of the image


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
            "task": "mnist",
            "split": test.split,
            "source": test.source,
            "data": test.fingerprint,
            "train": train.fingerprint,
            "seed": seed,
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
        return pa.table(
            {
                "seed": pa.array([seed], pa.int32()),
                "accuracy": pa.array([left.accuracy(self.images, self.test.labels)], pa.float64()),
                "tested": pa.array([len(self.test)], pa.int32()),
                "logit_gap": pa.array([max(gaps)], pa.float64()),
            }
        )

    def _image(self, net: LinearAttention, row: int) -> pa.Table:
        image = self.images[row : row + 1]
        rows = invariance_table(net, image, explainers=self.explainers, progress=False).rows
        names = [name for name in rows[0] if name not in ("image", "explainer", "target", "constant")]
        return pa.table(
            {
                "image": pa.array([row] * len(rows), pa.int32()),
                "label": pa.array([int(self.test.labels[row])] * len(rows), pa.int8()),
                "target": pa.array([each["target"] for each in rows], pa.int8()),
                "explainer": pa.array([each["explainer"] for each in rows], pa.string()),
                **{name: pa.array([each[name] for each in rows], pa.float32()) for name in names},
            }
        )


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
