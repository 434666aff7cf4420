"""Chapter 4, the softmax rule inside a model: each head's read-out as one softmax step, against exact LOO.

A step is one (text, layer, head, query). Its logits are the model's scores `Z_ji = q_j . k_i / sqrt(d)`. Its
values are numbers, `v_i = V_i . df/dO_j`: a token's value vector in the direction of the true gradient of the
target's logit f at this head's output, a neutral choice, because it uses no rule. So `LOO_i` of a step says
how f changes, to first order in O, if this one head no longer reads token i for this one query. It is not the
LOO of the whole model; it isolates Eq. (3) and (5) in one place.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.axes import Axes

from lrp_book.labels import finished
from lrp_companion.checks import InputError, choose, whole
from lrp_companion.loading.classifier import Classifier, EncodedText
from lrp_companion.methods import attribute
from lrp_companion.methods.common import (
    check_bert_order,
    check_targets,
    classes_of,
    read_output,
    to_numpy,
    watch,
)
from lrp_companion.metrics import Interval, bootstrap_mean, invariance_gap
from lrp_companion.metrics.faithfulness import ranks
from lrp_companion.registry import Style
from lrp_companion.show import canvas
from lrp_companion.show.palette import INK, styles
from lrp_companion.toys.softmax_step import SoftmaxStep

Rules = Mapping[str, Callable[[SoftmaxStep], np.ndarray]]
RULES: Rules = {
    "attnlrp": SoftmaxStep.attnlrp,
    "attnlrp, logits": SoftmaxStep.logit_relevance,
    "attnlrp, centred": lambda step: step.centred().attnlrp(),
    "cp-lrp": SoftmaxStep.cp_lrp,
    "logit set to 0": SoftmaxStep.logit_zeroed,
    "mask-gradient": SoftmaxStep.mask_gradient,
}
"""What is compared with a step's LOO: two rules, AttnLRP at the logits alone and with centred logits, and
LOO's relatives.
"""
ROW_FEATURES = ("spread", "level", "entropy")
MEASURES = ("error", "r", "rank")


def head_steps(
    clf: Classifier, text: str | EncodedText, *, target: int | None = None, value_bias: bool = True
) -> list[SoftmaxStep]:
    """All softmax steps of one text, one entry per layer: logits and values (heads, queries, tokens).

    Parameters
    ----------
    target : the explained class; None is the predicted one.
    value_bias : whether `V_i` includes the value projection's bias. The bias is the same for all tokens, so
        LOO does not see it; under the epsilon rule it keeps its share, and without it the values are what the
        tokens below receive from.
    """
    check_bert_order("head_steps", clf)
    encoded = clf.encode(text)[0] if isinstance(text, str) else text
    ids = torch.tensor([encoded.input_ids], device=clf.device)
    with torch.enable_grad():
        tape = clf.tape(encoded, word=clf.encoder.embed(ids).detach().requires_grad_(True))
        chosen = classes_of(check_targets(target, 1, clf.labels), tape.logits)
        explained = read_output(tape.logits, chosen, "logit", multi_label=clf.multi_label).sum()
        gradients = torch.autograd.grad(explained, [layer.attend.read for layer in tape.layers])
    steps = []
    for block, g in zip(tape.layers, gradients, strict=True):
        layer: Any = block.attend

        def by_head(x: torch.Tensor, heads: int = layer.context.heads) -> np.ndarray:
            return to_numpy(x).reshape(len(x), heads, -1).swapaxes(0, 1)  # (T, D) to (H, T, D/H)

        query, key, value = (by_head(x.y[0]) for x in (layer.query, layer.key, layer.value))
        if not value_bias:
            value = value - by_head(layer.value.linear.bias[None])
        logits = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
        steps.append(SoftmaxStep(logits, to_numpy(g)[0] @ value.swapaxes(-1, -2)))
    return steps


def strongest_query(steps: Sequence[SoftmaxStep]) -> tuple[int, int, int, SoftmaxStep]:
    """Layer and head (from 1), query (from 0) and step of the query whose one-step LOO is largest in norm."""
    sizes = [np.linalg.norm(step.loo(), axis=-1) for step in steps]
    layer = int(np.argmax([size.max() for size in sizes]))
    head, query = (int(k) for k in np.unravel_index(sizes[layer].argmax(), sizes[layer].shape))
    step = SoftmaxStep(steps[layer].logits[head, query], steps[layer].values[head, query])
    return layer + 1, head + 1, query, step


def compare_step(step: SoftmaxStep, *, rules: Rules = RULES) -> dict[str, np.ndarray]:
    """Per rule, `error = |R - LOO| / |LOO|` (norms over tokens), Pearson's `r` with LOO, and by `rank`.

    Each has the shape (...), NaN where LOO is zero for all tokens; r and rank also where R or LOO is
    constant.

    >>> step = SoftmaxStep([1.0, 1.0], [2.0, 0.0])
    >>> columns = compare_step(step, rules={"cp-lrp": SoftmaxStep.cp_lrp})
    >>> {name: float(column.round(6)) for name, column in columns.items()}
    {'error cp-lrp': 0.707107, 'r cp-lrp': 1.0, 'rank cp-lrp': 1.0}
    """
    loo = step.loo()
    judges = {"r": _unit(loo), "rank": _unit(ranks(loo))}
    size = np.linalg.norm(loo, axis=-1)
    out = {}
    for name, rule in rules.items():
        scores = rule(step)
        error = np.full(size.shape, np.nan)
        np.divide(np.linalg.norm(scores - loo, axis=-1), size, out=error, where=size > 0)
        out[f"error {name}"] = error
        constant = (np.ptp(scores, axis=-1) == 0) | (np.ptp(loo, axis=-1) == 0)
        for measure, judge in judges.items():
            r = (_unit(scores if measure == "r" else ranks(scores)) * judge).sum(-1).clip(-1, 1)
            out[f"{measure} {name}"] = np.where(constant, np.nan, r)
    return out


def _unit(a: np.ndarray) -> np.ndarray:
    """Centred, norm 1, and scaled by the largest entry first, as values may be tiny; zeros where constant."""
    for centre in (False, True):
        a = a - a.mean(-1, keepdims=True) if centre else a
        size = np.abs(a).max(-1, keepdims=True)
        a = a / np.where(size > 0, size, 1)
    norm = np.linalg.norm(a, axis=-1, keepdims=True)
    return a / np.where(norm > 0, norm, 1)


@dataclass(frozen=True)
class SoftmaxRows:
    """Columns of numbers with one entry per step: `text`, `layer`, `head` (both from 1), `query`, `tokens`;
    the features `spread` (standard deviation of the logits), `level` (their mean), `entropy` (of A, over log
    T); and per rule `MEASURES` as `compare_step` gives them.

    Attributes
    ----------
    columns : name to array, all of one length.
    rules : the names of the rules.
    texts : how many texts were read. Intervals draw texts, not steps: steps of one text are not independent.
    skipped : steps that no gradient reaches (in the last layer all but the first token's), so that every
        score is 0.
    """

    columns: dict[str, np.ndarray]
    rules: tuple[str, ...]
    texts: int
    skipped: int

    def __len__(self) -> int:
        return len(self.columns["text"])

    def typical(self, column: str, *, where: np.ndarray | None = None) -> Interval:
        """The median over a text's steps, then the mean over texts with its 95 % bootstrap interval.

        The median is used because `error` divides by LOO and has a long tail. `where` (one truth value per
        step) selects steps; a text without any counts as undefined.
        """
        choose("SoftmaxRows", "column", column, tuple(self.columns))
        keep = ~np.isnan(self.columns[column]) & (True if where is None else where)
        values, text = self.columns[column][keep], self.columns["text"][keep]
        by_text = [values[text == k] for k in range(self.texts)]
        return bootstrap_mean([np.median(steps) if len(steps) else np.nan for steps in by_text])

    def table(self, measure: str = "error") -> list[dict[str, Any]]:
        """One row per layer: entropy of attention, spread and level of the logits, each rule's `measure`."""
        names = (*ROW_FEATURES, *(f"{measure} {rule}" for rule in self.rules))
        out = []
        for layer in np.unique(self.columns["layer"]):
            steps = self.columns["layer"] == layer
            row: dict[str, Any] = {"layer": int(layer), "steps": int(steps.sum())}
            out.append(row | {name: self.typical(name, where=steps) for name in names})
        return out

    def flattest(self, share: float = 1 / 3) -> np.ndarray:
        """Which steps are among this share of all with the flattest attention, by its entropy."""
        entropy = self.columns["entropy"]
        return entropy >= np.quantile(entropy, 1 - share)

    def summary(self) -> list[dict[str, Any]]:
        """One row per rule over all steps: error, r and rank."""
        return [
            {"rule": rule, **{measure: self.typical(f"{measure} {rule}") for measure in MEASURES}}
            for rule in self.rules
        ]

    def binned(
        self,
        feature: str,
        measure: str = "error",
        *,
        bins: int = 6,
        rules: Sequence[str] | None = None,
        where: np.ndarray | None = None,
    ) -> dict[str, dict[float, Interval]]:
        """Each rule's `measure` in bins of a feature: rule to {median of the feature in the bin: interval}.

        The bins hold equally many steps: they are cut at quantiles over all steps, or over those that `where`
        selects; the lower edge belongs to a bin, the upper to the next. Steps where a measure is NaN are left
        out only of that measure. Bins that coincide (many equal values of the feature) are merged.
        """
        choose("SoftmaxRows.binned", "feature", feature, ROW_FEATURES)
        whole("SoftmaxRows.binned", "bins", bins, hint="6 is the default")
        x = self.columns[feature]
        among = np.ones(len(x), dtype=bool) if where is None else where
        edges = np.unique(np.quantile(x[among], np.linspace(0, 1, bins + 1)[1:-1]))
        place = np.where(among, np.searchsorted(edges, x, side="right"), -1)
        groups = {float(np.median(x[place == k])): place == k for k in np.unique(place[among])}
        return {
            rule: {centre: self.typical(f"{measure} {rule}", where=steps) for centre, steps in groups.items()}
            for rule in (rules or self.rules)
        }


def softmax_rows(
    clf: Classifier,
    texts: Sequence[str],
    *,
    max_queries: int = 64,
    value_bias: bool = True,
    seed: int = 0,
    progress: bool | None = None,
) -> SoftmaxRows:
    """Measure every softmax step of every text, for its predicted class; special tokens count as queries.

    Parameters
    ----------
    max_queries : the most queries per text, drawn with `seed` (the first token stays), the same for all
        layers and heads.
    value_bias : as in `head_steps`.
    """
    whole("softmax_rows", "max_queries", max_queries, hint="try 64")
    generator = np.random.default_rng(seed)
    parts: list[dict[str, np.ndarray]] = []
    skipped = 0
    encoded = clf.encode(list(texts), truncate=True)
    for k, text in enumerate(watch(encoded, progress=progress, label="softmax steps")):
        queries = np.arange(len(text))
        if len(queries) > max_queries:
            rest = generator.choice(queries[1:], size=max_queries - 1, replace=False)
            queries = np.sort(np.concatenate([queries[:1], rest]))
        for layer, steps in enumerate(head_steps(clf, text, value_bias=value_bias), start=1):
            logits, values = steps.logits[:, queries], steps.values[:, queries]
            reached = np.any(values != 0, axis=-1)
            skipped += int((~reached).sum())
            if not reached.any():
                continue
            head, query = np.nonzero(reached)
            step = SoftmaxStep(logits[reached], values[reached])
            fixed = {"text": k, "layer": layer, "tokens": len(text)}
            parts.append(
                {name: np.full(len(head), value) for name, value in fixed.items()}
                | {"head": head + 1, "query": queries[query]}
                | {"spread": step.spread(), "level": step.logits.mean(-1), "entropy": step.entropy()}
                | compare_step(step)
            )
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return SoftmaxRows(columns, tuple(RULES), len(encoded), skipped)


def sweep(
    change: Callable[[float], SoftmaxStep],
    points: Sequence[float],
    *,
    rules: Rules = RULES,
    measure: str = "error",
) -> dict[str, dict[float, float]]:
    """A rule's error (or r) in one query as its logits change, as {rule: {point: number}}; values are kept.

    Parameters
    ----------
    change : `step.scaled` multiplies the logits by a point; `step.shifted` adds it to all, so that the
        function stays the same.
    measure : one of `MEASURES`.
    """
    choose("sweep", "measure", measure, MEASURES)
    columns = {float(point): compare_step(change(float(point)), rules=rules) for point in points}
    return {
        rule: {point: float(column[f"{measure} {rule}"]) for point, column in columns.items()}
        for rule in rules
    }


def key_bias_shift(
    clf: Classifier, texts: Sequence[str], *, size: float = 2.0, seed: int = 0
) -> list[dict[str, Any]]:
    """Shift the logits of every query by a constant, through the key biases: what changes, one row per text.

    A random vector b of standard deviation `size` is added to each layer's key bias, so `Z_ji` gains
    `q_j . b / sqrt(d)`, the same for all tokens i. A row holds the relative gaps (as `invariance_gap`)
    between before and after, of the class `logits`, of AttnLRP `at the scores` of the first token's queries
    (all heads and layers together), and of AttnLRP `at the tokens`.
    """
    shifted = Classifier(copy.deepcopy(clf.network), clf.tokenizer, card=clf.card)
    draw = torch.Generator().manual_seed(seed)
    wired: Any = shifted.encoder.wiring
    for layer in wired.layers:
        noise = torch.randn(layer.key.bias.shape, generator=draw, dtype=torch.float64)
        layer.key.bias.data += (size * noise).to(layer.key.bias)
    pair = (clf, shifted)
    before, after = (attribute(model, list(texts), method="attnlrp", truncate=True) for model in pair)
    rows = []
    for k, text in enumerate(clf.encode(list(texts), truncate=True)):
        ids = torch.tensor([text.input_ids], device=clf.device)
        logits = [to_numpy(model.logits(ids, torch.ones_like(ids)))[0] for model in pair]
        steps = [head_steps(model, text, target=before[k].target) for model in pair]
        scores = [np.concatenate([s.logit_relevance()[:, 0].ravel() for s in layers]) for layers in steps]
        compared = {"logits": logits, "at the scores": scores}
        compared["at the tokens"] = [before[k].scores, after[k].scores]
        rows.append({name: invariance_gap(*both).relative for name, both in compared.items()})
    return rows


# -- the figure ------------------------------------------------------------------------------------------

Lines = Mapping[str, Mapping[float, Any]]


@mpl.rc_context(canvas.LOOK)
def binned_lines(
    panels: Mapping[str, Lines],
    *,
    along: str | Mapping[str, str],
    quantity: str,
    mark: float | None = None,
    level: float | None = None,
    title: str | None = None,
) -> canvas.Drawing:
    """Draw one line per rule, panel by panel, with markers at the bins; bands are the intervals.

    Parameters
    ----------
    panels : panel title to rule to {place on the horizontal axis: `Interval` or number}. An undefined mean
        leaves a gap.
    along : what the horizontal axis shows, one text for all panels or one per panel.
    quantity : what the vertical axis shows, the same in all panels.
    mark : where a vertical line is drawn, such as the model's place in a sweep.
    level : where a horizontal line is drawn.
    """
    if not panels or not all(lines and all(lines.values()) for lines in panels.values()):
        got, hint = "no panel, or one without points", "bin at least one rule"
        raise InputError("binned_lines", got=got, expected="panel to rule to points", hint=hint)
    looks = styles(dict.fromkeys(rule for lines in panels.values() for rule in lines))
    names = {panel: along if isinstance(along, str) else along[panel] for panel in panels}
    shared = len(set(names.values())) == 1
    sentences = [f"{title}."] if title else []
    for panel, lines in panels.items():
        walks = "; ".join(_walk(rule_label(rule), points) for rule, points in lines.items())
        sentences.append(f"{panel + ': ' if panel else ''}{quantity} along {names[panel]}: {walks}.")
    size: dict[str, Any] = {"rows": len(panels), "height": 1.0 + 2.15 * len(panels)}
    figure, axes_of = canvas.drawing(" ".join(sentences), **size, sharey=True, sharex=shared)
    for axes, (panel, lines) in zip(axes_of, panels.items(), strict=True):
        ends = [_line(axes, points, looks[rule], rule_label(rule)) for rule, points in lines.items()]
        canvas.label_ends(axes, ends)
        if mark is not None:
            axes.axvline(mark, color=INK, linewidth=0.9, linestyle=(0, (1, 1.5)))
        if level is not None:
            axes.axhline(level, color=INK, linewidth=0.9)
        if panel:
            axes.set_title(panel)
        axes.set_ylabel(quantity)
        if axes is axes_of[-1] or not shared:
            axes.set_xlabel(names[panel])
    return finished(figure, title)


def _line(axes: Axes, points: Mapping[float, Any], look: Style, label: str) -> canvas.Name:
    """One rule's means over the bins, with its band and about eight markers; its name at its last mean."""
    x = np.array(list(points))
    mean, low, high = canvas.limits(map(_interval, points.values()))
    axes.fill_between(x, low, high, color=look.colour, alpha=0.18, linewidth=0)
    line: dict[str, Any] = {"color": look.colour, "linestyle": look.dash, "marker": look.marker}
    axes.plot(x, mean, markevery=max(1, len(x) // 8), label=label, **line)
    last, height = max(zip(x[np.isfinite(mean)], mean[np.isfinite(mean)], strict=True), default=(0.0, 0.0))
    return canvas.Name(label, float(last), float(height), look.colour)


def rule_label(rule: str) -> str:
    """The method's label; "attnlrp, logits" is a variant of "attnlrp" and is named like it."""
    method, *variant = rule.split(", ")
    return ", ".join([styles([method])[method].label, *variant])


def _interval(point: Any) -> Interval:
    """A point as an interval; a number is one without width."""
    return point if isinstance(point, Interval) else Interval(float(point), float(point), float(point), 1)


def _walk(label: str, points: Mapping[float, Any]) -> str:
    (first, start), *_, (last, end) = [*points.items(), *points.items()]
    start, end = _interval(start).mean, _interval(end).mean
    return f"{label} from {start:.2f} at {first:.2f} to {end:.2f} at {last:.2f}"
