"""Twelve switches, one per layer: 4,096 explanations of a sentence, and every mixture between them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import traitlets

from lrp_companion.attribution import Attribution
from lrp_companion.checks import InputError, whole
from lrp_companion.metrics.grid import cross_correlation
from lrp_companion.schema import TOKEN_CHOICES, Lattice, check_layers, counted
from lrp_companion.show.tokens import token_heatmap
from lrp_companion.terminal import visible
from lrp_companion.widgets.base import Widget, check_address, packed
from lrp_companion.widgets.saved_page import save_widget

READ_AT = ("word", "word+position")
R_STEPS = 32767  # r is carried in so many steps on each side of 0; -32768 means "undefined"


class LayerToggles(Widget, front="layer_toggles"):
    """A switch per layer, AttnLRP or CP-LRP: the explanation, its r with LOO, and its rank among all masks.

    Parameters
    ----------
    lattice : one `Lattice` (from `layer_lattice`) or several, one per sentence.
    loo : LOO of the same sentences, from `attribute(..., method="loo")`.
    address : the widget's name in the page.
    reduced : only switches and rows, for the words, as a first look.

    Attributes
    ----------
    bypassed : the layers (from 1) whose attention is held constant, as in CP-LRP.
    amounts : one number from 0 (AttnLRP) to 1 (CP-LRP) per layer, in the mode of half-open layers.
    mode : "switches" or "half-open".
    sentence, site, tokens : which sentence; where relevance is read; whether special tokens count for r.

    In a Jupyter Book of your own, list `lrp_companion.page.assets` among the Sphinx extensions, so that
    its pages need no CDN (the book's API page, "Widgets", has the lines); or `save` the widget as a page.

    The page gets scores in 8-bit steps of each mask's largest score, and the r of every mask to 3e-5.

    >>> LayerToggles(lattices, loo)  # doctest: +SKIP
    LayerToggles(6 sentences, 12 layers)
    """

    links = ("sentence", "mode", "bypassed", "amounts", "site", "tokens")
    sentence = traitlets.Int(0).tag(sync=True)
    bypassed = traitlets.List(traitlets.Int()).tag(sync=True)
    amounts = traitlets.List(traitlets.Float()).tag(sync=True)
    mode = traitlets.Enum(["switches", "half-open"], "switches").tag(sync=True)
    site = traitlets.Enum(list(READ_AT), "word").tag(sync=True)
    tokens = traitlets.Enum(list(TOKEN_CHOICES), "no-special").tag(sync=True)

    def __init__(
        self,
        lattice: Lattice | Sequence[Lattice],
        loo: Attribution | Sequence[Attribution],
        *,
        address: str = "layers",
        reduced: bool = False,
    ) -> None:
        self.reduced = reduced
        data = self._take(lattice, loo)
        super().__init__(
            data=data,
            amounts=[0.0] * data["layers"],
            site=data["sites"][0],
            address=check_address("LayerToggles", address),
        )

    def linked(self) -> tuple[str, ...]:
        """Return the traits that the address keeps: of a reduced widget, the sentence and its layers."""
        return ("sentence", "bypassed") if self.reduced else self.links

    def show(self, lattice: Lattice | Sequence[Lattice], loo: Attribution | Sequence[Attribution]) -> None:
        """Replace the sentences, as the live text box does; layers keep their state if their number stays."""
        data = self._take(lattice, loo)
        with self.hold_sync():
            if data["layers"] != self.data["layers"]:
                self.bypassed, self.amounts = [], [0.0] * data["layers"]
            if self.site not in data["sites"]:
                self.site = data["sites"][0]
            self.sentence, self.data = 0, data

    def save(self, path: str | os.PathLike) -> None:
        """Save the widget as one page (`.html`) that works without a kernel, a server or a network.

        Raises
        ------
        InputError : a path that does not end in .html, or a folder that does not exist.
        """
        save_widget(self, path)

    def _take(
        self, lattice: Lattice | Sequence[Lattice], loo: Attribution | Sequence[Attribution]
    ) -> dict[str, Any]:
        lattices = [lattice] if isinstance(lattice, Lattice) else list(lattice)
        maps = [loo] if isinstance(loo, Attribution) else list(loo)
        texts = [(lattice.tokens, lattice.target) for lattice in lattices]
        kinds = {(lattice.layers, lattice.site, bool(lattice.parts)) for lattice in lattices}
        if texts != [(scores.tokens, scores.target) for scores in maps] or len(kinds) != 1:
            raise InputError(
                "LayerToggles",
                got=f"{len(lattices)} lattices and {len(maps)} LOO maps",
                expected="one LOO map per lattice, of the same tokens and target, and one model",
                hint="make both from the same texts",
            )
        self._first = lattices[0], maps[0]
        sites = list(READ_AT) if lattices[0].parts and not self.reduced else [lattices[0].site]
        return {
            "reduced": self.reduced,
            "layers": lattices[0].layers,
            "sites": sites,
            "sentences": [_sentence(*pair, sites) for pair in zip(lattices, maps, strict=True)],
        }

    @traitlets.validate("bypassed")
    def _check_bypassed(self, proposal: Any) -> list[int]:
        if not self.data:
            return proposal["value"]
        return sorted(check_layers("LayerToggles.bypassed", proposal["value"], self.data["layers"]))

    @traitlets.validate("amounts")
    def _check_amounts(self, proposal: Any) -> list[float]:
        value = proposal["value"]
        if self.data and (len(value) != self.data["layers"] or not all(0 <= amount <= 1 for amount in value)):
            raise InputError(
                "LayerToggles.amounts",
                got=f"{value!r}",
                expected=f"{self.data['layers']} numbers from 0 to 1",
                hint="give one amount per layer",
            )
        return value

    @traitlets.validate("sentence")
    def _check_sentence(self, proposal: Any) -> int:
        count = len(self.data.get("sentences", ())) or 1
        hint = "sentences count from 0 here"
        return whole("LayerToggles", "sentence", proposal["value"], least=0, most=count - 1, hint=hint)

    def fallback(self) -> str:
        """Return both extremes of the switches for the first sentence, and LOO."""
        lattice, loo = self._first
        ends = [
            Attribution(
                lattice.tokens, lattice.scores_for(mask), lattice.target, lattice.logit, lattice.special, name
            )
            for name, mask in (
                ("AttnLRP (no layer bypassed)", ()),
                ("CP-LRP (all layers bypassed)", range(1, lattice.layers + 1)),
            )
        ]
        return token_heatmap(ends, titles=[row.method for row in ends], loo=loo).html()

    def summary(self) -> str:
        """Return how many sentences and layers there are."""
        count = len(self.data["sentences"])
        return f"{count} sentence{'s' * (count != 1)}, {self.data['layers']} layers"


def _sentence(lattice: Lattice, loo: Attribution, sites: Sequence[str]) -> dict[str, Any]:
    """One sentence's 2**L explanations, packed: scores, and r with LOO by site and tokens."""
    packed_sites = {}
    for site in sites:
        scores = lattice.at(site).scores
        scale = np.abs(scores).max(axis=1)
        steps = np.rint(127 * scores / np.where(scale == 0, 1, scale)[:, None])
        r = {}
        for tokens in TOKEN_CHOICES:
            kept = counted(lattice.special, tokens)
            values = np.full(len(scores), np.nan)
            if kept.sum() >= 2:
                values = cross_correlation(scores[:, kept], loo.scores[None, kept], "pearson")[:, 0]
            r[tokens] = packed(_r_steps(values), "int16")
        packed_sites[site] = {"scores": packed(steps, "int8"), "scale": packed(scale, "float32"), "r": r}
    return {
        "tokens": [visible(token) for token in lattice.pieces],
        "special": lattice.special.tolist(),
        "label": visible(lattice.label or f"class {lattice.target}"),
        "logit": lattice.logit,
        "loo": loo.scores.tolist(),
        "sites": packed_sites,
    }


def _r_steps(values: np.ndarray) -> np.ndarray:
    return np.rint(np.nan_to_num(values * R_STEPS, nan=-R_STEPS - 1))
