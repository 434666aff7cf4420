"""By how much each method moves under the exact symmetries of a model (`families.symmetries`).

Does an explanation explain the function, or how it is written down? A symmetry writes the same function with
other parameters. A method that depends on the function alone (is *implementation-invariant*, Sundararajan et
al. 2017) gives the same scores to both.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from lrp_companion.attribution import SITES, Attribution
from lrp_companion.checks import choose
from lrp_companion.families.symmetries import SYMMETRIES, DoesNotFit, Draw
from lrp_companion.loading.classifier import Classifier
from lrp_companion.methods import attribute, method_call, options_of
from lrp_companion.methods.common import check_classifier, replacements
from lrp_companion.registry import label_of

SAME = 1e-5
"""A score that moves by less, relative to the largest of its map, does not move. Rounding of float64 is far
below, but IG runs the network, which may keep its norms and rotations in float32.
"""
GATE = "flat"
"""The other grouping of gates: a third for each of three factors."""


@dataclass(frozen=True)
class Symmetries:
    """By how much the scores of each method move under each symmetry of a model.

    Attributes
    ----------
    model : its name.
    texts : number of texts.
    moves : symmetry to column to the largest move of a score, relative to the largest score of its map (or
        of its parts). A column is a method, with its options and its site.
    logits : symmetry to the largest move of a logit: rounding.
    left_out : symmetry that the model does not have to the reason.
    """

    model: str
    texts: int
    moves: Mapping[str, Mapping[str, float]]
    logits: Mapping[str, float]
    left_out: Mapping[str, str] = field(default_factory=dict)

    def moved(self, symmetry: str) -> dict[str, float]:
        """The columns that a symmetry moves."""
        return {name: by for name, by in self.moves[symmetry].items() if by > SAME}

    def __str__(self) -> str:
        width = max(map(len, [*self.moves, *self.left_out]))
        largest = max(self.logits.values(), default=0.0)
        lines = [f"{self.model}, {self.texts} texts: no logit moves by more than {largest:.0e}"]
        for name in self.moves:
            moved = [f"{column} {by:.2g}" for column, by in self.moved(name).items()]
            lines.append(f"{name:<{width}}  moves {', '.join(moved) or 'no score'}")
        lines += [f"{name:<{width}}  does not fit: {why}" for name, why in self.left_out.items()]
        return "\n".join(lines)

    def to_markdown(self) -> str:
        """One row for each column, a column for each symmetry; `-` where a score does not move."""
        names = list(self.moves)
        lines = ["| | " + " | ".join(names) + " |", "| --- |" + " --- |" * len(names)]
        for column in next(iter(self.moves.values())):
            cells = [self.moves[name][column] for name in names]
            shown = " | ".join(f"{by:.2g}" if by > SAME else "-" for by in cells)
            lines.append(f"| {column} | {shown} |")
        return "\n".join(lines)

    def to_json(self) -> str:
        """Everything, as JSON."""
        return json.dumps(vars(self), indent=1)


def symmetries(
    clf: Classifier,
    texts: Any = "not a film of rare grace",
    *,
    methods: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    seed: int = 0,
) -> Symmetries:
    """Apply every exact symmetry that a model has to copies of it, in float64, and tell which scores move.

    Each copy has the logits of the model; this is checked. The copies need the memory of the model in
    float64 twice.

    Parameters
    ----------
    clf : the model; it is not changed.
    texts : a text or several, or images; short ones suffice.
    methods : as in `lrp-companion run`, such as "attnlrp:epsilon=0.01"; by default those of the package,
        LOO by every removal. One without a `site` is read at every site.
    names : some of `SYMMETRIES`; by default all.
    seed : of the random numbers that the symmetries need.

    Raises
    ------
    InputError : texts that cannot be explained; unknown methods or options.
    KeyError : an unknown symmetry.
    ModelError : something else than a `Classifier`.

    >>> import lrp_companion as lrp
    >>> clf = lrp.load_classifier("companion")
    >>> print(symmetries(clf, methods=["loo", "attnlrp"], names=["key bias", "from positions to words"]))
    ... # doctest: +ELLIPSIS
    companion, 1 texts: no logit moves by more than ...
    key bias                 moves no score
    from positions to words  moves AttnLRP, word ...
    """
    check_classifier("symmetries", clf)
    wanted = [choose("symmetries", "name", one, tuple(SYMMETRIES)) for one in names or SYMMETRIES]
    calls = [method_call(name) for name in (default_methods(clf) if methods is None else methods)]
    here = exact_copy(clf)
    maps = maps_by(here, texts, calls)
    moves, logits, left_out = {}, {}, {}
    for name in wanted:
        prepare, edit = SYMMETRIES[name].prepare, SYMMETRIES[name].edit
        first, before = here, maps
        try:
            with torch.no_grad():
                if prepare is not None:
                    prepare((first := exact_copy(here)).encoder.wiring)
                    before = maps_by(first, texts, calls)
                there = exact_copy(first)
                edit(there.encoder.wiring, Draw(seed, there.device))
        except DoesNotFit as reason:
            left_out[name] = str(reason)
            continue
        after = maps_by(there, texts, calls, gate=GATE if name == "grouping of gates" else None)
        moves[name], logits[name] = moves_between(before, after), _gap(first, there, texts)
        if logits[name] > 1e-6:
            left_out[name] = f"a logit moves by {logits.pop(name):.1g}"
            del moves[name]
    return Symmetries(clf.card.name, len(here.encode(texts)), moves, logits, left_out)


def default_methods(clf: Classifier) -> list[str]:
    """The methods of the package as far as a model and the installation have what they need."""
    names = ["gradient-x-input", "attnlrp", "cp-lrp", "pa-lrp", "rollout"]
    names += ["ig:n_steps=8:baseline=zero"] * (find_spec("captum") is not None)
    if find_spec("captum") is not None and "pad-token" in replacements(clf):
        names.append("ig:n_steps=8")
    removals = ["attention-mask", *replacements(clf), *([] if clf.reads_images else ["delete"])]
    names += ["mask-gradient", "mask-gradient:groups=8", *(f"loo:removal={name}" for name in removals)]
    return [*names, "shapley:exact=0:permutations=4"]


def exact_copy(clf: Classifier) -> Classifier:
    """A copy of a model in float64."""
    card = replace(clf.card, dtype="float64")
    return Classifier(copy.deepcopy(clf.network).double(), clf.tokenizer, card=card)


@torch.no_grad()
def _gap(here: Classifier, there: Classifier, texts: Any) -> float:
    """The largest difference of a logit."""
    rows = [here.padded([text]) for text in here.encode(texts)]
    both = [
        [clf.encoder.forward(ids, real, **more).logits for clf in (here, there)] for ids, real, more in rows
    ]
    return max(float((a - b).abs().max()) for a, b in both)


Maps = dict[str, list[tuple[np.ndarray, float]]]
"""By column, a method with its options and site: the scores of each text, and its largest score or part."""


def maps_by(clf: Classifier, texts: Any, calls: Any, *, gate: str | None = None) -> Maps:
    """What methods with options, as `method_call` reads them, say of texts, at every site."""
    out: Maps = {}
    for method, options in calls:
        more = {} if gate is None or "gate" not in options_of(method) else {"gate": gate}
        records = attribute(clf, texts, method=method, progress=False, **{**options, **more})
        chosen = ", ".join(f"{key} {value}" for key, value in options.items())
        name = label_of(method) + (f" ({chosen})" if chosen else "")
        for site in _sites(records[0], options):
            scores = [record.scores if site is None else record.scores_at(site) for record in records]
            column = name if site is None else f"{name}, {site}"
            out[column] = list(zip(scores, map(_size, records), strict=True))
    return out


def _sites(record: Attribution, options: Mapping[str, Any]) -> list[str | None]:
    """The sites at which a map is read; one (None) where it has no parts, or a site was chosen."""
    if record.choices.get("site") != "word" or "site" in options or len(record.parts) < 2:
        return [None]
    needs = {"word": "word", "word+position": "position", "embedding": "type"}
    return [site for site in SITES if needs[site] in record.parts]


def _size(record: Attribution) -> float:
    return max(float(np.abs(values).max()) for values in (record.scores, *record.parts.values()))


def moves_between(here: Maps, there: Maps) -> dict[str, float]:
    """By column the largest move of a score, relative to the largest score or part of its text."""
    out = {}
    for name, maps in here.items():
        pairs = zip(maps, there[name], strict=True)
        out[name] = max(float(np.abs(b - a).max()) / (size or 1.0) for (a, size), (b, _) in pairs)
    return out
