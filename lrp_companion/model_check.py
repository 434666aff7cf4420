"""Is it right? Measurements of an explanation for any supported model on a user's own texts, and a report;
and by how much each method moves under the exact symmetries of a model (`families.symmetries`).

A symmetry writes the same function with other parameters. A method that depends on the function alone (is
*implementation-invariant*, Sundararajan et al. 2017) gives the same scores to both.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from lrp_companion.attribution import Attribution
from lrp_companion.checks import SITES, choose
from lrp_companion.families.symmetries import SYMMETRIES, DoesNotFit, Draw
from lrp_companion.families.tasks import TOKEN_CLASSES
from lrp_companion.loading.classifier import Classifier, EncodedText
from lrp_companion.loading.comparison import NEAR, gap, our_logits, own_logits, tolerance
from lrp_companion.loading.texts import beside_ids
from lrp_companion.methods import attribute, layer_relevance, method_call, options_of
from lrp_companion.methods.common import check_classifier, replacements, switch, to_numpy, watch
from lrp_companion.methods.lrp import LayerRelevance
from lrp_companion.methods.perturbation import kept_logits
from lrp_companion.metrics import agreement, bootstrap_mean
from lrp_companion.registry import label_of
from lrp_companion.schema import ModelCard
from lrp_companion.show.tables import table
from lrp_companion.tape.encoder import as_recorded

METHODS = ("attnlrp", "cp-lrp", "mask-gradient")
MANY_TEXTS = 3
"""Number of texts on which the `transformers` network repeats LOO, token by token."""
LEVELS = "relevance at every level and what was lost before it"


@dataclass(frozen=True)
class Figure:
    """One number and its meaning; `right` is None if it cannot be right or wrong."""

    name: str
    value: float
    says: str
    right: bool | None
    most: float | None = None

    @property
    def verdict(self) -> str:
        return {None: "measured", True: "right", False: "BROKEN"}[self.right]


@dataclass(frozen=True)
class ModelCheck:
    """The figures of a model on some texts, and the relevance of every level by method (mean over texts).

    `layers` has for each method a row per level: the sum of relevance there and what was lost before it, by
    cause, as fractions of the mean |logit|; "rest" is what no cause explains. `inputs` names what the model
    reads.
    """

    card: ModelCard
    texts: int
    figures: tuple[Figure, ...]
    layers: Mapping[str, Sequence[Mapping[str, float | str]]]
    inputs: str = "texts"

    @property
    def broken(self) -> bool:
        """Whether any figure is wrong."""
        return any(figure.right is False for figure in self.figures)

    @property
    def verdict(self) -> str:
        """The verdict in one sentence."""
        judged = [figure for figure in self.figures if figure.right is not None]
        wrong = [figure.name for figure in judged if not figure.right]
        name = f"{self.card.name} ({self.card.family}, {self.card.layers} layers, {self.card.dtype})"
        if wrong:
            return f"{name}: BROKEN: {', '.join(wrong)}; do not trust its explanations"
        return f"{name}: {len(judged)} of {len(judged)} checks right on {self.texts} {self.inputs}"

    def __str__(self) -> str:
        width = max(len(figure.name) for figure in self.figures)
        lines = [self.verdict, ""]
        for one in self.figures:
            lines.append(f"{one.name:<{width}}  {_short(one.value):>9}  {one.verdict:<8}  {one.says}")
        for name, rows in self.layers.items():
            lines += ["", f"{name}: {LEVELS}, of the mean |logit|"]
            heads = [key for key in rows[0] if key != "level"]
            first = max(len(str(row["level"])) for row in rows)
            lines.append(" " * first + "".join(f"{head:>10}" for head in heads))
            for row in rows:
                lines.append(f"{row['level']:<{first}}" + "".join(f"{row[head]:>+10.3f}" for head in heads))
        return "\n".join(lines)

    def to_json(self) -> str:
        """Everything as JSON; NaN becomes null."""
        model = {key: value for key, value in asdict(self.card).items() if key != "labels"}
        record: dict[str, Any] = {"verdict": self.verdict, "broken": self.broken, "texts": self.texts}
        figures = [{**asdict(figure), "verdict": figure.verdict} for figure in self.figures]
        for figure in figures:
            figure["value"] = None if math.isnan(figure["value"]) else figure["value"]
        record |= {"model": model, "figures": figures, "layers": dict(self.layers)}
        return json.dumps(record, ensure_ascii=False, indent=1)

    def _repr_html_(self) -> str:
        heads = ("figure", "value", "verdict", "what it is")
        cells = [(one.name, _short(one.value), one.verdict, one.says) for one in self.figures]
        tables = [table([dict(zip(heads, row, strict=True)) for row in cells], caption=self.verdict)]
        for name, levels in self.layers.items():
            tables.append(table([dict(level) for level in levels], caption=f"{name}: {LEVELS}", digits=3))
        return "".join(one._repr_html_() for one in tables)


def _short(value: float) -> str:
    return "undefined" if math.isnan(value) else f"{value:.2g}" if abs(value) < 0.01 else f"{value:.3f}"


def check(
    model: Classifier,
    texts: Any,
    *,
    truncate: bool = False,
    position: Any = None,
    progress: bool | None = None,
) -> ModelCheck:
    """Check a model and its explanations on texts: figures, each with what it means and whether it is broken.

    - The tape's logits against those of the `transformers` network; if they differ, nothing else is measured.
    - LOO by the package, which does not run removed tokens, against the network's with its attention mask.
    - AttnLRP and CP-LRP, epsilon 0: how much of the logit arrives at the words, and how much every layer
      loses to biases, norms and the softmax, Eq. (5). What none of these explains is an error.
    - Pearson's r with LOO on the words, with a bootstrap interval over the texts.
    - The share of |relevance| on the first token and on special tokens.

    Parameters
    ----------
    model : a `Classifier` from `load_classifier`.
    texts : texts or images as for `attribute`; the predicted class of each is explained. With one text
        or image there is no interval.
    truncate : cut texts beyond the model's length.
    position : of a model of token classes the token or word that is explained, as in `attribute`; by default
        the first one that is not special.

    Raises
    ------
    CompanionError : a model that `load_classifier` did not make; texts that `attribute` refuses.

    >>> from lrp_companion import load_classifier
    >>> done = check(load_classifier("companion"), ["a fine film", "a dull , slow film"])
    >>> done.broken, [figure.name for figure in done.figures][:2]
    (False, ['logits', 'leave-one-out'])
    """
    check_classifier("check", model)
    truncate = switch("truncate", truncate)
    tags = model.encoder.wiring.task == TOKEN_CLASSES
    if tags and position is None:
        first = model.encode(texts, truncate=truncate, position=0)
        position = [int(np.flatnonzero(~text.special)[0]) for text in first]
    encoded = model.encode(texts, truncate=truncate, position=position)
    given = [text.source for text in encoded]
    read = [text.read if tags else None for text in encoded]
    figures, layers = [_logits(model, encoded)], dict[str, list[dict[str, Any]]]()
    if not figures[0].right:  # no method explains other logits than the network's
        return ModelCheck(model.card, len(encoded), tuple(figures), layers, model.inputs)
    figures.append(_loo(model, encoded[:MANY_TEXTS]))
    for name, bypass in (("attnlrp", ()), ("cp-lrp", range(1, model.card.layers + 1))):
        pairs = list(zip(given, read, strict=True))
        flows = [
            layer_relevance(model, text, bypass=list(bypass), truncate=truncate, position=place)
            for text, place in watch(pairs, progress=progress, label=f"conservation of {name}")
        ]
        figure, layers[name] = _conservation(model, name, flows)
        figures.append(figure)
    options: dict[str, Any] = {"truncate": truncate, "progress": progress}
    options |= {"position": read} if tags else {}
    loo = attribute(model, given, method="loo", **options)
    targets = [record.target for record in loo]
    for name in METHODS:
        records = attribute(model, given, method=name, target=targets, **options)
        figures.append(_agreement(name, records, loo, units=model.units))
        figures.append(_shares(name, records))
    figures.append(_shares("loo", loo))
    return ModelCheck(model.card, len(encoded), tuple(figures), layers, model.inputs)


def _logits(clf: Classifier, texts: Sequence[EncodedText]) -> Figure:
    """The tape's logits against the network's, including its head."""
    gaps = []
    for text in texts:
        theirs = to_numpy(own_logits(clf, text))
        gaps += [gap(to_numpy(ours), theirs) for ours in our_logits(clf, text).values()]
    says = "largest difference between our logits and the network's own, as a part of 1 + the largest logit"
    return _judged("logits", float(np.max(gaps)), min(NEAR[clf.dtype], tolerance(clf)), says)


def _loo(clf: Classifier, texts: Sequence[EncodedText]) -> Figure:
    """LOO by the package against the network with its attention mask."""
    gaps = []
    for text in texts:
        first = 1 if clf.encoder.wiring.causal else 0  # its row may attend to nothing: transformers gives NaN
        keep = ~np.eye(len(text), dtype=bool)[first:]
        ours = to_numpy(kept_logits(clf, [(text, row) for row in keep], progress=False))
        one = clf.padded([text])[0]
        ids = one.expand(len(keep), *one.shape[1:])
        mask = torch.as_tensor(keep.astype(int), device=clf.device)
        gaps.append(gap(ours, _masked_logits(clf, text, ids, mask)))
    says = "largest difference between logits after removals, by the package and by the network with its "
    says += f"attention mask ({len(texts)} {clf.inputs})"
    return _judged("leave-one-out", float(np.max(gaps)), NEAR[clf.dtype], says)


def _masked_logits(clf: Classifier, text: EncodedText, ids: torch.Tensor, mask: torch.Tensor) -> np.ndarray:
    """The network's logits with tokens masked; a causal one still reads the last token, masked or not."""
    wiring = clf.encoder.wiring
    with as_recorded(clf.device, clf.network), torch.no_grad():
        if wiring.base is None:
            return to_numpy(clf.logits(ids, mask, **beside_ids([text] * len(ids), clf.device)))
        read = -1 if text.read is None else text.read
        hidden = wiring.base(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state[:, read]
        return to_numpy(wiring.logits_of(hidden))


def _conservation(
    clf: Classifier, name: str, flows: Sequence[LayerRelevance]
) -> tuple[Figure, list[dict[str, Any]]]:
    """The fraction of the logit that arrives at words or patches, and where the rest is; mean over inputs."""
    size = float(np.mean([abs(flow.logit) for flow in flows])) or 1.0
    above = np.stack([[flow.logit, *flow.sums[:-1]] for flow in flows])
    below = np.stack([flow.sums for flow in flows])
    lost = {cause: np.stack([flow.lost[cause] for flow in flows]) for cause in flows[0].lost}
    unexplained = above - below - sum(lost.values())
    rows = []
    for k, level in enumerate(flows[0].levels):
        row: dict[str, Any] = {cause: float(values[:, k].mean()) / size for cause, values in lost.items()}
        rest = float(np.abs(unexplained[:, k]).mean()) / size
        rows.append({"level": level, "sum": float(below[:, k].mean()) / size, **row, "rest": rest})
    worst = float(np.max(np.abs(unexplained).mean(0) / (size + np.abs(below.mean(0)))))
    says = "largest part of the relevance that vanishes between two levels and that neither biases nor norms "
    says += f"nor the softmax explains; at the {flows[0].levels[-1]} arrive "
    says += f"{rows[-1]['sum']:+.2f} of the mean |logit|"
    return _judged(f"conservation of {name}", worst, NEAR[clf.dtype], says), rows


def _agreement(
    name: str, records: Sequence[Attribution], loo: Sequence[Attribution], *, units: str
) -> Figure:
    """r with LOO on the words, or on the patches."""
    r = np.array([agreement(ours, theirs) for ours, theirs in zip(records, loo, strict=True)], dtype=float)
    title = f"r of {name} with LOO"
    if np.isnan(r).all():
        return Figure(title, math.nan, f"undefined: in no input do two {units} differ", None)
    mean = bootstrap_mean(r)
    text = str(mean) if len(r) > 1 else f"{mean.mean:.3f}, n = 1, no interval"
    return Figure(title, float(mean.mean), f"Pearson, {units} only: {text}", None)


def _shares(name: str, records: Sequence[Attribution]) -> Figure:
    """The share of |relevance| on the first token and on special tokens; mean over texts."""
    sizes = [np.abs(record.scores) for record in records]
    first = float(np.mean([size[0] / size.sum() for size in sizes if size.sum()]))
    special = [size[record.special].sum() / size.sum() for size, record in zip(sizes, records, strict=True)]
    says = f"mean share of |score|; special tokens have {float(np.mean(special)):.2f}"
    return Figure(f"first token's share in {name}", first, says, None)


def _judged(name: str, value: float, most: float, says: str) -> Figure:
    """A figure that is broken above `most` or if it is NaN."""
    return Figure(name, value, says, value <= most, most)


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
