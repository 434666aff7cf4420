"""Agreement with LOO as one labelled array, and means with intervals over any of its axes. No torch.

`r_with_loo` reads the r of single examples from a run, under any part of the protocols; arithmetic, `sel` and
`groupby` are xarray's; `mean` gives the interval of what is left:

>>> r = r_with_loo(run, ["cp-lrp", "attnlrp"], tokens="no-special", map="raw")  # doctest: +SKIP
>>> lead = r.sel(explainer="cp-lrp") - r.sel(explainer="attnlrp")  # doctest: +SKIP
>>> at = {"removal": "delete", "target": "logit", "statistic": "pearson"}
>>> print(mean(lead.sel(site="word", **at)))  # doctest: +SKIP
-0.021 [-0.028, -0.014], n = 872
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from lrp_companion.checks import InputError, choose
from lrp_companion.lab.base_run import Explanation, points
from lrp_companion.lab.text_run import TextRun
from lrp_companion.metrics import Interval
from lrp_companion.metrics.statistics import bootstrap_columns, mean_over, side_of_zero
from lrp_companion.schema import Protocol

SAMPLES = ("training", "example")
"""The axes that are samples: what a mean is taken over, and what its interval is about."""


def r_with_loo(
    run: TextRun | Sequence[TextRun],
    explainers: Sequence[str] | Mapping[str, Explanation] | None = None,
    **at: str | Sequence[str],
) -> xr.DataArray:
    """r of every example with LOO, with the axes explainer, site, tokens, map, removal, target, statistic and
    example; of several trainings that explain the same examples, training first.

    Parameters
    ----------
    run : a run on texts, or one of each training.
    explainers : methods of the run, or names for methods and masks (sets of bypassed layers), which were run
        with Pearson's r only; None: all methods.
    at : a choice of `Protocol` by its name. An option keeps only that one and drops the axis; several options
        in a list keep the axis. What is not named keeps every option that the run was made with.

    Raises
    ------
    InputError : no run on texts, a choice or option that the run was not made with, or trainings of other
        examples.
    """
    if not isinstance(run, TextRun):
        return _of_trainings(list(run), explainers, at)
    axes = run.options
    for name, option in at.items():
        choose("r_with_loo", "choice", name, tuple(axes))
        several = [option] if isinstance(option, str) else list(option)
        axes[name] = tuple(choose("r_with_loo", name, one, axes[name]) for one in several)
    named = (
        explainers if isinstance(explainers, Mapping) else {name: name for name in explainers or run.methods}
    )
    cells = [Protocol(**point) for point in points(axes)]
    values = np.stack([[run.r(explanation, cell) for cell in cells] for explanation in named.values()])
    shape = (len(named), *map(len, axes.values()), run.n)
    coords = {"explainer": list(named), **{name: list(options) for name, options in axes.items()}}
    r = xr.DataArray(
        values.reshape(shape), {**coords, "example": run.examples}, [*coords, "example"], name="r"
    )
    return r.isel({name: 0 for name, option in at.items() if isinstance(option, str)}, drop=True)


def _of_trainings(runs: list[Any], explainers: Any, at: Mapping[str, Any]) -> xr.DataArray:
    if not runs or not all(isinstance(run, TextRun) for run in runs):
        got, hint = f"{len(runs)} runs", "read them with load_run"
        raise InputError("r_with_loo", got=got, expected="one run on texts or more", hint=hint)
    if any(not np.array_equal(run.examples, runs[0].examples) for run in runs):
        got = f"runs of other examples: {', '.join(run.name for run in runs)}"
        raise InputError(
            "r_with_loo", got=got, expected="trainings that explain the same", hint="take one apart"
        )
    return xr.concat(
        [r_with_loo(run, explainers, **at) for run in runs], "training", join="exact"
    ).assign_coords(training=[run.name for run in runs])


def mean(r: xr.DataArray) -> Any:
    """Mean over examples with its 95 % bootstrap interval; over trainings, too, as `over_trainings` has it.

    NaN is left out and counted.

    Returns
    -------
    An `Interval` if `r` has no other axis; else an array of intervals with the other axes. `side` and
    `xr.DataArray.sel` work on it.

    Raises
    ------
    InputError : no axis of examples.

    >>> r = xr.DataArray([[0.2, 0.4], [0.5, 0.7]], {"site": ["word", "embedding"]}, ["site", "example"])
    >>> print(mean(r.sel(site="word")), "|", mean(r).sel(site="embedding").item())
    0.300 [0.200, 0.400], n = 2 | 0.600 [0.500, 0.700], n = 2
    """
    if "example" not in r.dims:
        got = f"the axes {', '.join(map(str, r.dims)) or 'none'}"
        raise InputError("mean", got=got, expected="an axis example", hint="pass what r_with_loo gives")
    rest = [name for name in r.dims if name not in SAMPLES]
    out: list[Interval]
    if "training" in r.dims:
        columns = r.transpose("training", "example", *rest).values
        flat = columns.reshape(*columns.shape[:2], -1)
        out = [mean_over(dict(enumerate(flat[..., cell]))) for cell in range(flat.shape[-1])]
    else:
        values = r.transpose("example", *rest).values
        out = bootstrap_columns(list(values.reshape(len(values), -1).T))
    if not rest:
        return out[0]
    cells = np.empty(len(out), dtype=object)
    cells[:] = out
    shape = [r.sizes[name] for name in rest]
    coords = {name: r.coords[name] for name in rest if name in r.coords}
    return xr.DataArray(cells.reshape(shape), coords, rest)


def side(means: xr.DataArray) -> xr.DataArray:
    """Where each whole interval lies: "above" 0, "below" it, "across" it, or "undefined"."""
    return xr.apply_ufunc(np.vectorize(side_of_zero, otypes=[object]), means)
