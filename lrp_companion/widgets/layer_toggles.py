"""Twelve switches, one per layer: 4,096 explanations of a sentence, and every mixture between them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import traitlets

from lrp_companion.attribution import Attribution
from lrp_companion.checks import InputError
from lrp_companion.metrics.grid import cross_correlation
from lrp_companion.schema import TOKEN_CHOICES, Lattice, counted
from lrp_companion.show.tokens import token_heatmap
from lrp_companion.terminal import visible
from lrp_companion.widgets.base import LEAST, Widget, embed, packed

READ_AT = ("word", "word+position")
ENDS = ("attnlrp", "cp-lrp")
R_STEPS = 32767  # r is carried in so many steps on each side of 0; -32768 means "undefined"


class LayerToggles(Widget, front="layer_toggles"):
    """A switch per layer, AttnLRP or CP-LRP: the explanation, its r with LOO, and its rank among all masks.

    Parameters
    ----------
    lattice : one `Lattice` (from `layer_lattice`) or several, one per sentence; none where a page has a model
        that computes its masks.
    loo : LOO of the same sentences, from `attribute(..., method="loo")`.
    others : further maps of each sentence, which get rows of their own; read at the words.
    live : what a page says of a model that is staged beside it (`lrp_companion.page`): with it, the page
        explains what a reader types.
    address : the widget's name in the page.
    reduced : only switches and rows, for the words, as a first look.

    Attributes
    ----------
    bypassed : the layers (from 1) whose attention is held constant, as in CP-LRP.
    amounts : one number from 0 (AttnLRP) to 1 (CP-LRP) per layer, in the mode of half-open layers.
    mode : "switches" or "half-open".
    sentence, site, tokens : which sentence; where relevance is read; whether special tokens count for r.
    removed : the token whose removal is put in words; -1 for none.
    text, other, compare, target : with a model in the page, the reader's text in place of the sentence, a
        second one, whether both are shown, and the class (-1: the predicted one).

    In a Jupyter Book of your own, list `lrp_companion.page.assets` among the Sphinx extensions, so that
    its pages need no CDN (the book's API page, "Widgets", has the lines); or `save` the widget as a page.

    The page gets scores in 8-bit steps of each mask's largest score, and the r of every mask to 3e-5.

    >>> LayerToggles(lattices, loo)  # doctest: +SKIP
    LayerToggles(6 sentences, 12 layers)
    """

    links = (
        *("sentence", "text", "other", "compare", "mode", "bypassed", "amounts"),
        *("site", "tokens", "target", "removed"),
    )
    sentence = traitlets.Int(0).tag(sync=True)
    text = traitlets.Unicode("").tag(sync=True)
    other = traitlets.Unicode("").tag(sync=True)
    compare = traitlets.Bool(False).tag(sync=True)
    bypassed = traitlets.List(traitlets.Int()).tag(sync=True)
    amounts = traitlets.List(traitlets.Float()).tag(sync=True)
    mode = traitlets.Enum(["switches", "half-open"], "switches").tag(sync=True)
    site = traitlets.Enum(list(READ_AT), "word").tag(sync=True)
    tokens = traitlets.Enum(list(TOKEN_CHOICES), "no-special").tag(sync=True)
    target = traitlets.Int(-1).tag(sync=True)
    removed = traitlets.Int(-1).tag(sync=True)
    live = traitlets.Dict(default_value=None, allow_none=True).tag(sync=True)  # apart from what pages share

    def __init__(
        self,
        lattice: Lattice | Sequence[Lattice],
        loo: Attribution | Sequence[Attribution],
        *,
        others: Sequence[Sequence[Attribution]] = (),
        live: Mapping[str, Any] | None = None,
        address: str = "layers",
        reduced: bool = False,
    ) -> None:
        self.reduced = reduced
        data = self._take(lattice, loo, others, live)
        super().__init__(
            data=data,
            live=dict(live) if live else None,
            amounts=[0.0] * data["layers"],
            site=data["sites"][0],
            other=second_text(data) if live else "",
            address=address,
        )

    def linked(self) -> tuple[str, ...]:
        """Return the traits that the address keeps: of a reduced widget, the sentence and its layers."""
        return ("sentence", "bypassed") if self.reduced else self.links

    def show(self, lattice: Lattice | Sequence[Lattice], loo: Attribution | Sequence[Attribution]) -> None:
        """Replace the sentences, as the live text box does; layers keep their state if their number stays."""
        data = self._take(lattice, loo, live=self.live)
        with self.hold_sync():
            if data["layers"] != self.data["layers"]:
                self.bypassed, self.amounts = [], [0.0] * data["layers"]
            if self.site not in data["sites"]:
                self.site = data["sites"][0]
            self.sentence, self.removed, self.data = 0, -1, data

    def _take(
        self,
        lattice: Lattice | Sequence[Lattice],
        loo: Attribution | Sequence[Attribution],
        others: Sequence[Sequence[Attribution]] = (),
        live: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        lattices = [lattice] if isinstance(lattice, Lattice) else list(lattice)
        maps = [loo] if isinstance(loo, Attribution) else list(loo)
        tables: list[Lattice | None] = [*lattices] or [None] * len(maps)
        alone = live is not None and not lattices and len(others) == len(maps)
        texts = [(lattice.tokens, lattice.target) for lattice in lattices]
        kinds = {(lattice.layers, lattice.site, bool(lattice.parts)) for lattice in lattices}
        if not alone and (texts != [(s.tokens, s.target) for s in maps] or len(kinds) != 1):
            raise InputError(
                "LayerToggles",
                got=f"{len(lattices)} lattices and {len(maps)} LOO maps",
                expected="one LOO map per lattice, of the same tokens and target, and one model",
                hint="make both from the same texts",
            )
        self._first = (tables[0], maps[0]), list(others[0]) if others else []
        whole = alone or bool(lattices[0].parts)
        sites = [lattices[0].site] if self.reduced or not whole else list(READ_AT)
        methods = [record.method for record in self._first[1] if record.method not in ENDS]
        kept = ENDS if lattices else ()  # the lattice has both
        more = [[row for row in of if row.method not in kept] for of in others or [()] * len(maps)]
        return {
            "reduced": self.reduced,
            "layers": live["layers"] if live else lattices[0].layers,
            "sites": sites,
            "rows": ["loo", "lrp", *(ENDS if others or self.reduced else ()), *methods],
            "sentences": [_sentence(*of, sites) for of in zip(tables, maps, more, strict=True)],
        }

    def fallback(self) -> str:
        """Return both extremes of the switches for the first sentence, and LOO."""
        (lattice, loo), others = self._first
        if lattice is None:
            return token_heatmap(others, titles=[record.method for record in others], loo=loo).html()
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


def second_text(data: Mapping[str, Any]) -> str:
    """Return the text that a comparison begins with: that of the second sentence, where there is one."""
    sentences = data["sentences"]
    return str(sentences[1 % len(sentences)]["text"])


def with_live(markup: str, live: Mapping[str, Any]) -> str:
    """Return a page's `LayerToggles` with a model that is staged beside the page, for what a reader types."""
    found = re.search(r'<script type="application/json">(.*?)</script>', markup, re.DOTALL)
    if found is None:
        return markup
    page = json.loads(found[1])
    page["state"]["live"] = {**live, "folded": True}
    page["state"]["other"] = second_text(page["state"]["data"])
    return markup[: found.start(1)] + embed(page) + markup[found.end(1) :]


def _sentence(
    lattice: Lattice | None, loo: Attribution, others: Sequence[Attribution], sites: Sequence[str]
) -> dict[str, Any]:
    """One sentence: LOO, further maps, and its 2**L explanations, packed, with their r by site and tokens."""
    packed_sites = {}
    for site in sites if lattice else ():
        scores = lattice.at(site).scores  # type: ignore[union-attr]
        scale = np.abs(scores).max(axis=1)
        steps = np.rint(127 * scores / np.where(scale == 0, 1, scale)[:, None])
        r = {}
        for tokens in TOKEN_CHOICES:
            kept = counted(loo.special, tokens)
            values = np.full(len(scores), np.nan)
            if kept.sum() >= LEAST:
                values = cross_correlation(scores[:, kept], loo.scores[None, kept], "pearson")[:, 0]
            r[tokens] = packed(_r_steps(values), "int16")
        packed_sites[site] = {"scores": packed(steps, "int8"), "scale": packed(scale, "float32"), "r": r}
    label = lattice.label if lattice else str(loo.details.get("label", ""))
    return {
        "text": loo.text,
        "tokens": [visible(token) for token in loo.pieces],
        "special": loo.special.tolist(),
        "target": loo.target,
        "label": visible(label or f"class {loo.target}"),
        "logit": loo.logit,
        "loo": loo.scores.tolist(),
        "maps": {row.method: row.scores.round(6).tolist() for row in others},
        "sites": packed_sites,
    }


def _r_steps(values: np.ndarray) -> np.ndarray:
    return np.rint(np.nan_to_num(values * R_STEPS, nan=-R_STEPS - 1))
