"""Why the effect moves with the protocol: special tokens, signs of sums, gains of layers. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lrp_companion.checks import choose
from lrp_companion.masks import NONE, mask_label, path_masks
from lrp_companion.metrics import Interval, bootstrap_mean, paired_difference
from lrp_companion.metrics.statistics import (
    bootstrap_columns,
    intervals,
    limits,
    resampled,
    side_of_zero,
)
from lrp_companion.paper.protocol_grid import (
    DISTINCT,
    PROTOCOL_AXES,
    Row,
    axes_of,
    counts,
    grid,
    nearer_of,
    needs_text,
    protocols_of,
    title,
)
from lrp_companion.paper.tables import needs_masks
from lrp_companion.registry import label_of
from lrp_companion.runs.load import Explanation, TextRun
from lrp_companion.schema import DEFAULT_PROTOCOL, PROTOCOLS, Protocol


def special_shares(run: TextRun, *, path: str = "back-to-front") -> list[Row]:
    """The share of relevance on [CLS] and [SEP] as layers are bypassed, AttnLRP first.

    Shares are fractions of sum |R| over all tokens, for the logit.

    Returns
    -------
    list
        A row per step: `bypassed` (in words), `layers`, and as intervals over examples: `[CLS]`, `[SEP]` at
        the words; `[CLS], with positions`, `[SEP], with positions` at words + positions; `position of [CLS]`,
        `position of [SEP]`, the relevance of that position embedding, with its sign, in units of sum |R| at
        words + positions; `negative sum` and `negative sum, with positions`, the share of maps with a
        negative sum over all tokens.

    Raises
    ------
    InputError : the run has no masks.
    """
    needs_text("special_shares", run)
    choose("special_shares", "path", path, tuple(path_masks(run.layers)))
    needs_masks("special_shares", run)
    masks = [NONE, *path_masks(run.layers)[path]]
    columns: dict[tuple[int, str], np.ndarray] = {}
    for k, mask in enumerate(masks):
        for name, token in (("[CLS]", "first"), ("[SEP]", "last")):
            columns[k, name] = run.share(mask, token=token)
            columns[k, f"{name}, with positions"] = run.share(mask, token=token, site="word+position")
            columns[k, f"position of {name}"] = run.parts(mask, token=token, site="word+position")[:, 1]
        columns[k, "negative sum"] = run.negative_sum(mask)
        columns[k, "negative sum, with positions"] = run.negative_sum(mask, site="word+position")
    out: list[Row] = [{"bypassed": mask_label(mask), "layers": sorted(mask)} for mask in masks]
    for (k, name), interval in intervals(columns).items():
        out[k][name] = interval
    return out


def signs(run: TextRun, explanation: Explanation, *, protocol: Protocol = DEFAULT_PROTOCOL) -> Row:
    """How often the sums of the map and of LOO are negative, and the effect on r of dividing by them.

    Parameters
    ----------
    protocol : site, tokens, removal, target and statistic; its map is not used.

    Returns
    -------
    dict
        Shares of examples as intervals: `negative map`, `negative LOO`, `turned` (exactly one of the two, so
        that sum-to-one reverses the sign of r). `r` and `r, sum to one` over all examples; `r, both positive`
        over those with both sums above 0 (where the two are the same), `r, otherwise` and
        `r, otherwise, sum to one` over the others; None without examples.
    """
    raw, divided = (run.r(explanation, replace(protocol, map=map)) for map in DISTINCT)
    negative_map = run.negative_sum(
        explanation, site=protocol.site, tokens=protocol.tokens, target=protocol.target
    )
    no_sign = np.isnan(divided) | (raw == 0)  # r = 0 has no sign to reverse
    reversed_sign = np.where(no_sign, np.nan, divided == -raw)
    undefined = np.isnan(reversed_sign) | np.isnan(negative_map)
    negative_loo = np.where(undefined, np.nan, reversed_sign != negative_map)
    positive, known = (negative_map == 0) & (negative_loo == 0), ~np.isnan(negative_loo)
    columns = [negative_map, negative_loo, reversed_sign, raw, divided]
    names = ("negative map", "negative LOO", "turned", "r", "r, sum to one")
    out: Row = dict(zip(names, bootstrap_columns(columns), strict=True))
    for name, keep, values in (
        ("r, both positive", positive, raw),
        ("r, otherwise", known & ~positive, raw),
        ("r, otherwise, sum to one", known & ~positive, divided),
    ):
        out[name] = bootstrap_mean(values[keep]) if keep.any() else None
    return out


def stated_with_whole_sums(run: TextRun) -> list[Row]:
    """The paper's stated choices if each sum runs over all tokens, even if special tokens do not count.

    The paper says that maps sum to one, but not over which tokens. Dividing by a sum only changes the sign of
    r, so r without special tokens takes the signs of the sums over all tokens.

    Returns
    -------
    list
        Rows `site`, `tokens`, `difference` (r of CP-LRP minus r of AttnLRP, an interval) and `nearer`, as
        `protocol_grid.stated_cells`; with all tokens the two are the same.
    """
    out = []
    for site in run.manifest["axes"]["site"]:
        for tokens in run.manifest["axes"]["tokens"]:
            r = {}
            for method in ("cp-lrp", "attnlrp"):
                whole = Protocol(site=site, tokens="all")
                raw, divided = (run.r(method, replace(whole, map=map)) for map in ("raw", "sum-to-one"))
                with np.errstate(invalid="ignore", divide="ignore"):
                    sign = np.sign(divided / raw)
                r[method] = run.r(method, Protocol(site=site, tokens=tokens)) * sign
            difference = paired_difference(r["cp-lrp"], r["attnlrp"])
            nearer = nearer_of(difference, "CP-LRP", "AttnLRP")
            out.append({"site": site, "tokens": tokens, "difference": difference, "nearer": nearer})
    return out


def layer_gains(run: TextRun, *, path: str = "back-to-front") -> list[Row]:
    """The gain in mean r from bypassing each layer along a path, under every choice (Pearson only).

    Along the two paths of several steps the gain of a layer is r with it bypassed minus r one step before;
    alone ("single"), r with this layer bypassed minus AttnLRP's.

    Returns
    -------
    list
        A row per distinct site, tokens, map, removal and target: these five; `gains`, an interval per layer
        from 1 on; `total`, their sum; `later - first`, the gain of the later half of the layers minus that of
        the first half; `share`, the later half's fraction of the total, only where the total's whole interval
        is on one side of 0, else None; `largest`, the layer with the largest gain, and `largest in draws`,
        the fraction of the draws in which it is the largest. The intervals are over the examples where every
        step is defined.

    Raises
    ------
    InputError : the run has no masks, or no such path.
    """
    needs_text("layer_gains", run)
    needs_masks("layer_gains", run)
    choose("layer_gains", "path", path, tuple(path_masks(run.layers)))
    return run.once(("layer gains", path), lambda: _layer_gains(run, path))


def _layer_gains(run: TextRun, path: str) -> list[Row]:
    protocols = list(protocols_of({**axes_of(run), "map": DISTINCT, "statistic": ("pearson",)}))
    masks = [NONE, *path_masks(run.layers)[path]]
    columns = [np.stack([run.r(mask, protocol) for mask in masks], 1) for protocol in protocols]
    for r in columns:
        r[np.isnan(r).any(1)] = np.nan
    mean, draws, defined = resampled(np.concatenate(columns, 1))  # one set of draws for all
    out = []
    for protocol, at in zip(protocols, range(0, len(mean), len(masks)), strict=True):
        steps = slice(at, at + len(masks))
        out.append(_gains(run, path, protocol, mean[steps], draws[:, steps], int(defined[at])))
    return out


def _gains(run: TextRun, path: str, protocol: Protocol, mean: np.ndarray, draws: np.ndarray, n: int) -> Row:
    """A row of `layer_gains` from mean r at every step of the path, AttnLRP first, and from its draws."""
    both, layers = np.concatenate([mean[None], draws]), run.layers
    gains = both[:, 1:] - (both[:, :1] if path == "single" else both[:, :-1])
    if path == "back-to-front":
        gains = gains[:, ::-1]
    total, later = gains.sum(1), gains[:, layers // 2 :].sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        columns = np.column_stack([gains, total, 2 * later - total, later / total])
    low, high = limits(columns[1:])
    cells = [
        Interval(float(columns[0, k]), float(low[k]), float(high[k]), n, run.n - n)
        for k in range(columns.shape[1])
    ]
    row: Row = {name: getattr(protocol, name) for name in PROTOCOL_AXES if name != "statistic"}
    row |= {"gains": cells[:layers], "total": cells[layers], "later - first": cells[layers + 1]}
    row["share"] = cells[layers + 2] if side_of_zero(row["total"]) in ("above", "below") else None
    row["largest"] = int(gains[0].argmax()) + 1 if n else None
    row["largest in draws"] = float((gains[1:].argmax(1) + 1 == row["largest"]).mean()) if n > 1 else None
    return row


def late_counts(rows: Sequence[Mapping[str, Any]]) -> Row:
    """In how many rows of `layer_gains` the later half of the layers gains more, and the total is above 0.

    Returns
    -------
    dict
        `cells`; `later`, `first`, `across`: the whole interval of `later - first` above 0, below 0, neither;
        `total above`, `total below`: that of the total; `later, total above`: both above.
    """
    later = [side_of_zero(row["later - first"]) for row in rows]
    total = [side_of_zero(row["total"]) for row in rows]
    return {
        "cells": len(rows),
        "later": later.count("above"),
        "first": later.count("below"),
        "across": later.count("across"),
        "total above": total.count("above"),
        "total below": total.count("below"),
        "later, total above": list(zip(later, total, strict=True)).count(("above", "above")),
    }


def audit_statements(
    run: TextRun, *, a: str = "cp-lrp", b: str = "attnlrp", protocols: Mapping[str, Protocol] = PROTOCOLS
) -> list[Row]:
    """Sentences about `a` and `b` that follow from a run's numbers.

    Returns
    -------
    list
        Rows `run`, `says` (the sentence), `choices`, `what` (was measured), `effect` (interval), `n`: which
        method is nearer to LOO under each protocol, in how many cells the whole interval is on either side,
        and how many maps have a negative sum. There are rows on layers if the run has masks and the methods
        are AttnLRP and CP-LRP.
    """
    rows = [*_order(run, a, b, protocols), *_cell_counts(run, a, b), *_negative_sums(run, a, b, protocols)]
    if run.masks and (a, b) == ("cp-lrp", "attnlrp"):
        rows += [*_first_positions(run), *_later_gains(run, protocols)]
    return [{"run": title(run), **row, "n": row["effect"].n} for row in rows]


def _statement(says: str, choices: str, what: str, effect: Interval) -> Row:
    return {"says": says, "choices": choices, "what": what, "effect": effect}


def _order(run: TextRun, a: str, b: str, protocols: Mapping[str, Protocol]) -> Iterator[Row]:
    """Which method is nearer to LOO, under each protocol."""
    first, second = label_of(a), label_of(b)
    sides = {"above": f"{first} is nearer to LOO", "below": f"{second} is nearer to LOO"}
    for name, protocol in protocols.items():
        effect = grid(run, a=a, b=b).cell(protocol)["difference"]
        says = sides.get(side_of_zero(effect), "the order cannot be told")
        yield _statement(says, name, f"r of {first} - r of {second}", effect)


def _cell_counts(run: TextRun, a: str, b: str) -> Iterator[Row]:
    """In how many cells each method is nearer to LOO, with the most extreme cell."""
    first, second = label_of(a), label_of(b)
    curve, cells = grid(run, a=a, b=b).curve(), counts(grid(run, a=a, b=b))
    for side, end, method in (("below", 0, second), ("above", -1, first)):
        if curve:
            says = f"in {cells[side]} of {cells['cells']} combinations {method} is nearer to LOO"
            what = f"r of {first} - r of {second}"
            yield _statement(says, "the one farthest to this side", what, curve[end]["difference"])


def _negative_sums(run: TextRun, a: str, b: str, protocols: Mapping[str, Protocol]) -> Iterator[Row]:
    """How many maps of each method have a negative sum."""
    default = Protocol(site="word+position", tokens="all")
    positions = protocols.get("words + positions, all tokens", default)
    for method in (b, a):
        negative = signs(run, method, protocol=positions)["negative map"]
        says = f"so many maps of {label_of(method)} have a negative sum"
        yield _statement(says, f"{positions.site}, all tokens", "part of the maps", negative)


def _first_positions(run: TextRun) -> Iterator[Row]:
    """The sign of the relevance of [CLS]'s position embedding, without and with all layers bypassed."""
    steps = special_shares(run)
    for method, step in (("attnlrp", steps[0]), ("cp-lrp", steps[-1])):
        position = step["position of [CLS]"]
        sign = "negative" if position.mean < 0 else "positive"
        says = f"the position of [CLS] has {sign} relevance under {label_of(method)}"
        if side_of_zero(position) == "across":
            says = f"the sign of the position of [CLS] cannot be told under {label_of(method)}"
        yield _statement(says, "word+position, all tokens", "part of sum |R|", position)


def _later_gains(run: TextRun, protocols: Mapping[str, Protocol]) -> Iterator[Row]:
    """Which half of the layers gains more, along each path and under each protocol."""
    sides = {
        "above": "the later half of the layers gains more",
        "below": "the first half of the layers gains more",
    }
    for path in ("back-to-front", "front-to-back", "single"):
        rows = layer_gains(run, path=path)
        for name, protocol in protocols.items():
            gain = gain_under(rows, protocol)["later - first"]
            says = sides.get(side_of_zero(gain), "the halves cannot be told apart")
            yield _statement(says, f"{name}; {path}", "gain of later - first half", gain)


def gain_under(rows: Sequence[Row], protocol: Protocol) -> Row:
    """The row of `layer_gains` under a protocol, whose statistic is not used."""
    wanted = {name: getattr(protocol, name) for name in PROTOCOL_AXES if name != "statistic"}
    (row,) = (row for row in rows if wanted.items() <= row.items())
    return row
