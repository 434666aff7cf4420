"""The base of every run: its manifest, its tables, and cached results from them."""

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
