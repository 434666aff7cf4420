"""The explanation of what a language model writes: one record for each token of a completion."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lrp_companion.attribution import Attribution
from lrp_companion.extras import extra

if TYPE_CHECKING:
    import xarray as xr


class Completion(list[Attribution]):
    """One record per token of a completion, each explained from all tokens before it; made by `attribute`.

    The record of token t has a score for each token of the prompt and for the t - 1 tokens of the
    completion before it (with another `unit`, for each unit of these).

    >>> more = {"details": {"label": " film"}}
    >>> first = Attribution(("a", " fine"), [0.5, 1.0], 7, 2.0, [False] * 2, "loo", **more)
    >>> tokens, more = ("a", " fine", " film"), {"details": {"label": "."}}
    >>> second = Attribution(tokens, [0.0, 0.25, 1.0], 3, 1.0, [False] * 3, "loo", **more)
    >>> answer = Completion([first, second])
    >>> answer.text, answer.sum().scores.tolist()
    (' film.', [0.5, 1.25, 1.0])
    """

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of the completion, as text."""
        return tuple(str(record.details["label"]) for record in self)

    @property
    def text(self) -> str:
        """The completion, as it was given or written."""
        return "".join(str(r.details.get("text", r.details["label"])) for r in self)

    def table(self) -> xr.DataArray:
        """The scores as a labelled array: token of the completion x token before it; NaN after it."""
        import xarray

        rows = np.full((len(self), len(self[-1].tokens)), np.nan)
        for row, record in zip(rows, self, strict=True):
            row[: len(record.scores)] = record.scores
        axes = {"completion": list(self.tokens), "token": list(self[-1].pieces)}
        return xarray.DataArray(rows, axes, ("completion", "token"), name=self[0].method)

    def sum(self) -> Attribution:
        """One map of the whole completion: the sum of its records, which explains the sum of what they
        explain; its `logit` is the sum of their logits.
        """
        last = self[-1]

        def total(of: Any) -> np.ndarray:
            out = np.zeros(len(last.tokens))
            for record in self:
                values = of(record)
                out[: len(values)] += values
            return out

        return replace(
            last,
            scores=total(lambda record: record.scores),
            parts={name: total(lambda record, name=name: record.parts[name]) for name in last.parts},
            logit=sum(record.logit for record in self),
            choices={**last.choices, "summed over": "completion"},
            details={**last.details, "label": self.text},
        )

    def to_json(self) -> str:
        """All records as one line of JSON."""
        return json.dumps([record.to_dict() for record in self], ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Completion:
        """Return the records from which `to_json` made this text."""
        return cls([Attribution.from_dict(row) for row in json.loads(text)])

    def save(self, path: str | os.PathLike) -> None:
        """Save as `.html` (click a token of the completion, or move to it with the arrow keys), `.svg`,
        `.png` or `.pdf` (the sum, then a row for each token), or the records as `.json`.

        Raises
        ------
        InputError : another ending, or a folder that does not exist.
        """
        with extra("Completion.save"):
            from lrp_companion.show import export, tokens  # upward, as `Attribution.save`

            kind = export.ending("Completion.save", path)
            if kind == ".json":
                export.write("Completion.save", path, (self.to_json() + "\n").encode())
            elif kind == ".html":
                from lrp_companion.widgets import token_heatmap

                widget = token_heatmap.TokenHeatmap(self)
                widget.save(path)
                widget.close()  # or it would when Python ends, without its modules
            else:
                tokens.token_heatmap(self).save(path)

    def __repr__(self) -> str:
        return f"Completion({self.text!r}, method={self[0].method!r}, tokens={len(self)})"
