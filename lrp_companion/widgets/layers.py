"""Relevance by layers: switches, levels from the logit down to the words, and a text box that feeds them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import ipywidgets
import numpy as np
import traitlets

from lrp_companion.attribution import Attribution, differences
from lrp_companion.checks import CompanionError, InputError
from lrp_companion.metrics.faithfulness import cross_correlation
from lrp_companion.schema import TOKEN_CHOICES, Lattice, counted
from lrp_companion.show.palette import styles
from lrp_companion.show.tokens import decimals, token_heatmap
from lrp_companion.terminal import visible
from lrp_companion.widgets.base import LEAST, Widget, bars, embed, packed

READ_AT = ("word", "word+position")
ENDS = ("attnlrp", "cp-lrp")
STEPS = 32767  # r and scores are carried in so many steps on each side of 0; as r -32768 means "undefined"


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

    The page gets scores as they are printed, and the r of every mask to 3e-5.

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
        step = _step(scores)
        r = {}
        for tokens in TOKEN_CHOICES:
            kept = counted(loo.special, tokens)
            values = np.full(len(scores), np.nan)
            if kept.sum() >= LEAST:
                values = cross_correlation(scores[:, kept], loo.scores[None, kept], "pearson")[:, 0]
            r[tokens] = packed(np.rint(np.nan_to_num(values * STEPS, nan=-STEPS - 1)), "int16")
        packed_sites[site] = {"scores": packed(np.rint(scores / step), "int16"), "step": step, "r": r}
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


def _step(scores: np.ndarray) -> float:
    """The step of scores in 16 bits: an odd part of the last decimal, so that no printed one changes."""
    sizes = np.abs(scores).max(axis=1)
    last, most = 10.0 ** -decimals(sizes.min()), sizes.max() or 1.0
    parts = int(STEPS * last / most)
    return last / (parts - 1 + parts % 2) if parts else most / STEPS


BESIDES = ("loo", "key-cut")


class LayerFlow(Widget, front="layer_flow"):
    """Relevance of every token at every layer, from the top down, for two methods on one scale.

    Parameters
    ----------
    flows : one mapping per text, method to `methods.lrp.LayerRelevance`; every text with the same
        two methods, of one model. Under "loo" it may hold LOO of the text, an `Attribution`, and under
        "key-cut" what a switch puts in place of the first method, as `layer_relevance` gives it with `cut`.
    labels : names of the classes, to say which one is explained.
    address : the widget's name in the page.

    Attributes
    ----------
    text : which text, from 0.
    step : how far down: 0 is the output of the last layer, the last step the words, where it begins.
    without : whether the first special token is left out of colours and r.
    cut : whether the keys of special tokens are off.

    >>> LayerFlow([{"attnlrp": layer_relevance(clf, text), "cp-lrp": ...}])  # doctest: +SKIP
    LayerFlow(6 texts; attnlrp, cp-lrp; 14 levels)
    """

    links = ("text", "step", "without", "cut")
    text = traitlets.Int(0).tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)
    without = traitlets.Bool(False).tag(sync=True)
    cut = traitlets.Bool(False).tag(sync=True)

    def __init__(
        self, flows: Sequence[Mapping[str, Any]], *, labels: Sequence[str] = (), address: str = "flow"
    ) -> None:
        self._labels = tuple(labels)
        self._names, data = self._take(flows)
        step = len(data["levels"]) - 1
        super().__init__(data=data, step=step, address=address)

    def show(self, flow: Mapping[str, Any]) -> None:
        """Replace the texts by one, as the live text box does; the level stays if the levels are the same."""
        names, data = self._take([flow])
        with self.hold_sync():
            same = data["levels"] == self.data["levels"]
            self.step = self.step if same else 0
            self._names, self.text, self.data = names, 0, data
            self.step = self.step if same else len(data["levels"]) - 1

    def _take(self, flows: Sequence[Mapping[str, Any]]) -> tuple[list[str], dict[str, Any]]:
        """The methods' names, and what the front end shows."""
        besides = [[of_text.get(name) for name in BESIDES] for of_text in flows]
        shapes = {tuple(flow.levels) for of_text in flows for name, flow in of_text.items() if name != "loo"}
        pairs = [{name: of_text[name] for name in of_text if name not in BESIDES} for of_text in flows]
        methods = list(pairs[0]) if pairs else []
        if len(methods) != 2 or len(shapes) != 1 or any(list(pair) != methods for pair in pairs):
            got = f"{len(flows)} texts, with methods {', '.join(methods) or 'none'}"
            expected = "one or more, each with the same two methods of one model"
            raise InputError("LayerFlow", got=got, expected=expected, hint="use layer_relevance")
        (levels,) = shapes
        whole = zip(pairs, besides, strict=True)
        texts = [_plain(list(pair.values()), loo, cut, self._labels) for pair, (loo, cut) in whole]
        labels = [styles(methods)[name].label for name in methods]
        return methods, {"methods": labels, "levels": list(levels), "texts": texts}

    def fallback(self) -> str:
        """Return a picture of the first text's words at the lowest level."""
        first, (one, other) = self.data["texts"][0], self.data["methods"]
        shown = dict(zip((one, other), first["scores"], strict=True))
        shown |= {f"{one}, keys off": first["cut"]} if "cut" in first else {}
        rows = {name: levels[-1] for name, levels in shown.items()}
        return bars(rows, first["tokens"], f"Relevance of the words for {first['label']}, first text")

    def summary(self) -> str:
        """Return how many texts and levels there are, and the methods."""
        texts, levels = len(self.data["texts"]), len(self.data["levels"])
        return f"{texts} texts; {', '.join(self._names)}; {levels} levels"


def _plain(
    flows: Sequence[Any], loo: Attribution | None, cut: Any | None, labels: Sequence[str]
) -> dict[str, Any]:
    """A text as the front end takes it; numbers to six digits, which is more than a cell shows."""
    first = flows[0]
    like = {"target": first.target, "logit": first.logit, "choices": {"output": "logit"}}
    if loo is not None and (loo.tokens != tuple(first.tokens) or differences(loo, replace(loo, **like))):
        got, hint = f"LOO of class {loo.target}, logit {loo.logit:.4g}", "explain the same text and logit"
        raise InputError("LayerFlow", got=got, expected="LOO of the same tokens and class", hint=hint)
    name = labels[first.target] if labels else f"class {first.target}"
    return {
        "tokens": [visible(token) for token in first.tokens],
        "special": np.asarray(first.special).tolist(),
        "label": visible(name),
        "logit": float(f"{first.logit:.6g}"),
        "scores": [_digits(flow.scores) for flow in flows],
        **({} if loo is None else {"loo": _digits([loo.scores])[0]}),
        **({} if cut is None else {"cut": _digits(cut.scores)}),
    }


def _digits(scores: Any) -> list[list[float]]:
    return [[float(f"{x:.6g}") for x in level] for level in np.asarray(scores).tolist()]


NO_KERNEL = "In Jupyter, with a kernel, a text box stands here that explains a sentence of your own."


class LiveSentence(ipywidgets.VBox):
    """`LayerToggles` or `LayerFlow` with a text box above: type a sentence, press Enter, and it is explained.

    Parameters
    ----------
    widget : the widget to feed.
    explain : text to what the widget's `show` takes: for `LayerToggles` its `Lattice` and its LOO, for
        `LayerFlow` a mapping of methods to `LayerRelevance`. It may raise `CompanionError`, whose message is
        shown.

    >>> def explain(text):  # doctest: +SKIP
    ...     return lrp.layer_lattice(clf, text), lrp.attribute(clf, text, method="loo")[0]
    >>> LiveSentence(toggles, explain)  # doctest: +SKIP
    """

    def __init__(self, widget: LayerToggles | LayerFlow, explain: Callable[[str], Any]) -> None:
        self.widget, self.explain, self._last = widget, explain, ""
        self.text = ipywidgets.Text(
            placeholder="a sentence of your own",
            description="Sentence",
            continuous_update=False,
            layout=ipywidgets.Layout(width="60%"),
        )
        self.button = ipywidgets.Button(description="Explain", tooltip="Compute this sentence")
        self.said = ipywidgets.Label("")
        self.button.on_click(lambda _: self.run())
        self.text.observe(lambda _: self.run(), names="value")
        super().__init__([ipywidgets.HBox([self.text, self.button]), self.said, widget])

    def run(self) -> None:
        """Explain the sentence in the text box; an error is shown below, and the widget stays the same."""
        if self.text.value == self._last:
            return  # a click also takes the focus from the box, which then reports the same text
        self._last, self.said.value = self.text.value, ""
        if not self._last.strip():
            return
        self.button.disabled, self.said.value = True, "Computing ..."
        self.widget.add_class("lrp-stale")
        try:
            made = self.explain(self.text.value)
            show: Callable[..., None] = self.widget.show
            show(*(made if isinstance(made, tuple) else (made,)))
            self.said.value = ""
        except CompanionError as error:
            self.said.value = str(error)
        finally:
            self.button.disabled = False
            self.widget.remove_class("lrp-stale")

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = super()._repr_mimebundle_(**options) or {}
        line = f'<p class="lrp-no-kernel" data-feeds="{self.widget.front}"><em>{NO_KERNEL}</em></p>'
        page = self.widget.page_html() + line
        return {**bundle, "text/plain": repr(self), "text/html": page}

    def __repr__(self) -> str:
        return f"LiveSentence({self.widget!r})"


class SentenceBox(Widget, front="sentence_box"):
    """A text box for the `LayerFlow` above it, in a page without a kernel but with a staged model.

    Parameters
    ----------
    live : as in `LayerToggles`.
    """

    def __init__(self, live: dict[str, Any]) -> None:
        super().__init__(data=live, address="own-layer_flow")

    def fallback(self) -> str:
        """Return a line for readers without scripts."""
        return "<p>With JavaScript, a text box stands here that explains a sentence of your own.</p>"

    def summary(self) -> str:
        """Return the model's name."""
        return str(self.data["name"])
