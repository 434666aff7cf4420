"""What all runs share: tasks and methods, an estimate of their work, the axes of what is stored for each row,
and the base of a run that is read.

A column of a run holds a list of one length per row. `Axes` says what its entries mean, writes the lists and
reads them by name; it is the only place with their order.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from lrp_companion.attribution import SITES
from lrp_companion.checks import InputError
from lrp_companion.metrics.grid import AXES as AGREEMENT
from lrp_companion.schema import STATISTICS, TARGET_CHOICES, TOKEN_CHOICES

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


# -- axes ----------------------------------------------------------------------------------------------

EMBEDDING_PARTS = ("word", "position", "type")
TOP = (1, 3, 5)
"""How many tokens are compared in an overlap."""


@dataclass(frozen=True)
class Axes:
    """The axes of a column, by name, each with its options, in the order in which they are stored.

    >>> axes = Axes({"site": ("word", "embedding"), "k": (1, 3, 5)})
    >>> column = axes.column(np.arange(12.0).reshape(2, 2, 3))
    >>> axes.read(column, site="embedding").tolist()
    [[3.0, 4.0, 5.0], [9.0, 10.0, 11.0]]
    >>> axes.read(column, site="embedding", k=5).tolist()
    [5.0, 11.0]
    """

    options: Mapping[str, Sequence[Hashable]]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(map(len, self.options.values()))

    def column(self, values: np.ndarray) -> pa.FixedSizeListArray:
        """Values (n, *shape) as a column of n lists, in float32."""
        if values.shape[1:] != self.shape:
            got = f"values of shape {values.shape}"
            expected = f"(n, {', '.join(map(str, self.shape))}) for the axes {', '.join(self.options)}"
            raise InputError("Axes.column", got=got, expected=expected, hint="put the axes into this order")
        flat = pa.array(np.ascontiguousarray(values).reshape(-1), pa.float32())
        return pa.FixedSizeListArray.from_arrays(flat, int(np.prod(self.shape)))

    def places(self, **chosen: Any) -> np.ndarray:
        """Places in the list, at one option of each axis that is named; the other axes stay, in their order.

        Several options of an axis, in a list, keep that axis, too.
        """
        places = np.arange(int(np.prod(self.shape))).reshape(self.shape)
        for axis, name in reversed(list(enumerate(self.options))):
            if name in chosen:
                places = places[(slice(None),) * axis + (self._place(name, chosen[name]),)]
        return places

    def read(self, column: Any, **chosen: Any) -> np.ndarray:
        """A column as float64, at what `places` are chosen.

        Raises
        ------
        InputError : null, which a chapter's zip has where its notebook reads nothing.
        """
        lists = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        flat, places = lists.flatten(), self.places(**chosen)
        size = int(np.prod(self.shape))
        if flat.null_count and not all(flat.is_valid().to_numpy(False).reshape(-1, size)[:, places].flat):
            raise left_out(f"{chosen}")
        return flat.to_numpy(zero_copy_only=False).reshape(-1, size)[:, places].astype(np.float64)

    def _place(self, name: str, option: Any) -> int | list[int]:
        options = self.options[name]
        if isinstance(option, list):
            return [options.index(each) for each in option]
        if option not in options:
            expected = f"one of {', '.join(map(str, options))}"
            hint = f"choose a {name} from this list"
            raise InputError("Run", got=f"{name} {option!r}", expected=expected, hint=hint)
        return options.index(option)


def left_out(what: str) -> InputError:
    """The error where a record was cut to what its chapter reads."""
    hint = "open the record in a checkout of the project, or fetch it from a release"
    return InputError("Run", got=what, expected="what this chapter's notebook reads", hint=hint)


READ = "lrp_companion.read"
"""The audit event of values that are read: key, table, method or mask, column, places in its lists."""


@dataclass(frozen=True)
class Rows:
    """The rows of a table of a run, or those of one method or mask: all that is read passes here."""

    table: pa.Table
    of: tuple[str, str, str | int | None]

    def __getitem__(self, column: str) -> pa.ChunkedArray:
        """A column, whole."""
        sys.audit(READ, *self.of, column, None)
        if self.table[column].null_count:
            raise left_out(f"{column} of {self.of[2] or self.of[1]}")
        return self.table[column]

    def read(self, axes: Axes, column: str, **chosen: Any) -> np.ndarray:
        """A column of lists at the chosen options of its axes."""
        sys.audit(READ, *self.of, column, axes.places(**chosen).ravel().tolist())
        return axes.read(self.table[column], **chosen)


def points(choices: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """All combinations of the options, the last choice varying fastest.

    >>> points({"site": ["word", "embedding"], "k": [1, 3]})[1]
    {'site': 'word', 'k': 3}
    """
    return [dict(zip(choices, point, strict=True)) for point in itertools.product(*choices.values())]


def agreement_axes(removals: Sequence[str], statistics: Sequence[str] = STATISTICS) -> Axes:
    """Axes of the column `r` of methods, and of masks, which are stored for Pearson only."""
    return Axes({**AGREEMENT, "removal": tuple(removals), "statistic": tuple(statistics)})


EXAMPLES_OF = {"all": slice(None), "first half": slice(0, None, 2), "second half": slice(1, None, 2)}
"""The examples of each part of a run."""


def layer_game_axes(layers: int) -> Axes:
    """Axes of the column `r` of all masks of the layers."""
    return Axes({"site": SITES, "tokens": TOKEN_CHOICES, "mask": range(2**layers)})


SUMS = Axes({"site": SITES, "tokens": TOKEN_CHOICES, "target": TARGET_CHOICES})
"""Axes of `sum` and `size`, sum R and sum |R|."""
PARTS = Axes({"part": EMBEDDING_PARTS})
"""Axes of `first` and `last`, relevance of the first and the last token."""
OVERLAPS = Axes({"site": SITES, "tokens": TOKEN_CHOICES, "k": TOP})
"""Axes of `overlap`."""
ERRORS = Axes({"site": SITES, "tokens": TOKEN_CHOICES})
"""Axes of `error`."""
PASSES = Axes({"direction": ("forward", "backward")})
"""Axes of `passes`."""
