"""Axes of the numbers that a run stores for each row, and the only place with their order.

A column holds a list of one length per row. `Axes` says what its entries mean, writes the lists and reads
them by name. (xarray would do the same, but would need pandas for this one lookup.)
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lrp_companion.attribution import SITES
from lrp_companion.checks import InputError
from lrp_companion.metrics.grid import AXES as AGREEMENT
from lrp_companion.schema import STATISTICS, TARGET_CHOICES, TOKEN_CHOICES

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

    def read(self, column: Any, **chosen: Any) -> np.ndarray:
        """A column as float64, at one option of each axis that is named; the other axes stay, in their order.

        Several options of an axis, in a list, keep that axis, too.
        """
        lists = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        values = lists.flatten().to_numpy(zero_copy_only=False).reshape(len(lists), *self.shape)
        for axis, name in reversed(list(enumerate(self.options, start=1))):
            if name in chosen:
                values = values[(slice(None),) * axis + (self._place(name, chosen[name]),)]
        return values.astype(np.float64)

    def _place(self, name: str, option: Any) -> int | list[int]:
        options = self.options[name]
        if isinstance(option, list):
            return [options.index(each) for each in option]
        if option not in options:
            expected = f"one of {', '.join(map(str, options))}"
            hint = f"choose a {name} from this list"
            raise InputError("Run", got=f"{name} {option!r}", expected=expected, hint=hint)
        return options.index(option)


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
