"""What is stored for each row of a run: lists of one length, the axes of their entries, their precision.

`Axes` says what the entries of a list mean, writes the lists, and reads them as labelled arrays; it is the
only place with their order. No torch.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import xarray as xr

from lrp_companion.attribution import SITES
from lrp_companion.metrics.grid import AXES as AGREEMENT
from lrp_companion.schema import STATISTICS, TARGET_CHOICES, TOKEN_CHOICES

OWN_TASK, ANSWERS_TASK = "texts", "answers"
"""The tasks of runs on the user's own data, so that no file name makes one of them the paper's."""
DEFAULT_METHODS = ("loo", "ig", "rollout", "gradient-x-input", "attnlrp", "cp-lrp")
"""Default methods of a run, with default options. A run that names others also keeps its passes."""
EMBEDDING_PARTS = ("word", "position", "type")
EXAMPLES_OF = {"all": slice(None), "first half": slice(0, None, 2), "second half": slice(1, None, 2)}
"""The examples of each part of a run."""


@dataclass(frozen=True)
class Axes:
    """The axes of a column, by name, each with its options, in the order in which they are stored.

    >>> axes = Axes({"site": ("word", "embedding"), "k": (1, 3, 5)})
    >>> column = axes.column(np.arange(12.0).reshape(2, 2, 3))
    >>> axes.read(column).sel(site="embedding", k=5).values.tolist()
    [5.0, 11.0]
    """

    options: Mapping[str, Sequence[Hashable]]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(map(len, self.options.values()))

    def column(self, values: np.ndarray) -> pa.FixedSizeListArray:
        """Values (n, *shape) as a column of n lists, in float32."""
        assert values.shape[1:] == self.shape, (values.shape, self.options)
        flat = pa.array(np.ascontiguousarray(values).reshape(-1), pa.float32())
        return pa.FixedSizeListArray.from_arrays(flat, int(np.prod(self.shape)))

    def read(self, column: Any) -> xr.DataArray:
        """A column as float64, with the axis example first."""
        lists = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        values = lists.flatten().to_numpy(zero_copy_only=False).reshape(len(lists), *self.shape)
        coords = {name: list(options) for name, options in self.options.items()}
        return xr.DataArray(values.astype(np.float64), coords, ["example", *coords])


def points(choices: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """All combinations of the options, the last choice varying fastest.

    >>> points({"site": ["word", "embedding"], "k": [1, 3]})[1]
    {'site': 'word', 'k': 3}
    """
    return [dict(zip(choices, point, strict=True)) for point in itertools.product(*choices.values())]


def agreement_axes(removals: Sequence[str], statistics: Sequence[str] = STATISTICS) -> Axes:
    """Axes of the column `r` of methods, and of masks, which are stored for Pearson only."""
    return Axes({**AGREEMENT, "removal": tuple(removals), "statistic": tuple(statistics)})


def lattice_axes(layers: int) -> Axes:
    """Axes of the column `r` of all masks of the layers."""
    return Axes({"site": SITES, "tokens": TOKEN_CHOICES, "mask": range(2**layers)})


SUMS = Axes({"site": SITES, "tokens": TOKEN_CHOICES, "target": TARGET_CHOICES})
"""Axes of `sum` and `size`, sum R and sum |R|."""
PASSES = Axes({"direction": ("forward", "backward")})
"""Axes of `passes`."""


def round_r(r: np.ndarray) -> np.ndarray:
    """r to the next multiple of 2**-16 = 0.000015, which compresses to half the size."""
    return np.round(r * 65536) / 65536


def round_bits(values: np.ndarray) -> np.ndarray:
    """Values to 13 significant bits, with a relative error of at most 2**-13 = 0.00012, and a third smaller
    in a file; signs stay.

    >>> round_bits(np.array([1.0, -1.0001, 1000.3, 0.0])).tolist()
    [1.0, -1.0, 1000.25, 0.0]
    """
    mantissa, exponent = np.frexp(np.asarray(values, dtype=np.float32))
    return np.ldexp(np.round(mantissa * 8192) / 8192, exponent)
