"""The base of every run: its tasks and methods, an estimate of its work, its manifest, its tables, and cached
results from them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa

OWN_TASK, ANSWERS_TASK = "texts", "answers"
"""The tasks of runs on the user's own data, so that no file name makes one of them the paper's."""
Explanation = str | Iterable[int]
"""A method's name, or the layers that are bypassed (from 1)."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class Run:
    """A run and its rows, sorted by example; only examples that every table holds are read."""

    name: str
    manifest: Mapping[str, Any]
    tables: Mapping[str, pa.Table]
    _kept: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def once(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """The result of `make`, computed at the first call with this key and kept as long as the run."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    @property
    def task(self) -> str:
        return self.manifest["config"]["task"]

    @property
    def own(self) -> bool:
        """Whether it is on the user's own data."""
        return self.task in (OWN_TASK, ANSWERS_TASK)

    @property
    def data_name(self) -> str:
        """The name of the data: the task, or the name of the user's own data."""
        return self.manifest["config"].get("name", self.task)

    @property
    def model(self) -> str:
        return self.manifest["model"]["name"]

    @property
    def seconds(self) -> float:
        """Total time of all sessions; a killed session has none."""
        return float(sum(session["seconds"] or 0 for session in self.manifest["sessions"]))

    def describe(self) -> str:
        """Model, data, n and key in one line."""
        return f"{self.model} on {self.manifest['data']}, n = {self.n:,} (run {self.manifest['key']})"

    @property
    def n(self) -> int:
        raise NotImplementedError


DEFAULT_METHODS = ("loo", "ig", "rollout", "gradient-x-input", "attnlrp", "cp-lrp")
"""Default methods of a run, with default options. A run that names others also keeps cost and error."""


def text_work(
    tokens: int,
    *,
    passes: float,
    methods: int,
    removals: int,
    layers: int,
    chunk: int,
    curves: bool = True,
) -> dict[str, float]:
    """Tokens run forward for one text, by table of a run: an estimate from sizes, before the run begins.

    The unit is one token in one forward pass; a backward pass counts as two. The weights of the parts are
    rough. They serve estimates of time, and no result depends on them.

    Parameters
    ----------
    tokens : of the text, with the special ones.
    passes : of all methods together but LOO, see `registry.passes_of`.
    methods, removals : how many there are.
    chunk : tokens that a step of a perturbation curve removes.
    curves : whether there are perturbation curves.

    >>> text_work(10, passes=150, methods=6, removals=4, layers=12, chunk=1)["examples"]
    400.0
    """
    steps = 2 * tokens / chunk if curves else 0.0
    return {
        "examples": float(removals * tokens * tokens),
        "methods": passes * tokens + 0.35 * methods * steps * tokens,
        "masks": 100 * tokens + 0.15 * 3 * layers * steps * tokens,
        "lattice": 2.0**layers * tokens,
    }


def token_operations(tokens: int, *, layers: int, hidden: int) -> float:
    """Floating-point operations of one token in a forward pass of an encoder.

    In each layer 24 h^2 in the weights and 4 T h in attention.

    >>> f"{token_operations(128, layers=12, hidden=768):.3g}"
    '1.75e+08'
    """
    return float(layers * (24 * hidden**2 + 4 * tokens * hidden))
