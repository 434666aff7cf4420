"""Reading runs on the answers of a language model. No torch."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import xarray as xr

from lrp_companion.runs.base_run import Run
from lrp_companion.runs.folder import JOB
from lrp_companion.schema import STATISTICS


@dataclass(frozen=True)
class AnswerRun(Run):
    """A run on prompts and their completions: r with LOO of every method, token by token and of the sum."""

    @property
    def n(self) -> int:
        """Prompts explained."""
        return len(set(self.tables["answers"][JOB].to_pylist()))

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(self.manifest["config"]["methods"])

    def r(self) -> xr.DataArray:
        """r with LOO, for `runs.labelled.mean`.

        Returns
        -------
        DataArray with the axes explainer, statistic, of and example. `of` is "tokens", the mean over the
        tokens of an answer, or "sum", r of the two maps summed over the answer. NaN where r is undefined.
        """

        def read() -> xr.DataArray:
            rows = self.tables["answers"].to_pylist()
            examples = sorted({row[JOB] for row in rows})
            axes = {"explainer": list(self.methods), "statistic": list(STATISTICS), "of": ["tokens", "sum"]}
            out = np.full((*map(len, axes.values()), len(examples)), np.nan)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # an answer of which no r is defined
                for row in rows:
                    r = np.array(row["r"], dtype=np.float64).reshape(len(STATISTICS), -1)
                    at = axes["explainer"].index(row["method"]), ..., examples.index(row[JOB])
                    out[at] = np.stack([np.nanmean(r[:, :-1], axis=1), r[:, -1]], axis=1)
            return xr.DataArray(out, {**axes, "example": examples}, [*axes, "example"], name="r")

        return self.once("r", read)

    def maps(self, method: str) -> list[list[np.ndarray]]:
        """Scores by example and token of the answer, where the run keeps them: of the prompt's tokens and
        of the answer's before it.
        """
        out = []
        for row in self.tables["answers"].sort_by(JOB).to_pylist():
            if row["method"] == method:
                ends = np.cumsum(row["tokens"] + np.arange(len(row["logits"])))
                out.append(np.split(np.array(row["map"]), ends[:-1]))
        return out
