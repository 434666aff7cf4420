"""Why the effect moves: special tokens, signs of sums, and which layers matter under each choice; findings in
words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lrp_companion.analysis.protocol_grid import (
    DISTINCT,
    NAMES,
    PROTOCOL_AXES,
    Row,
    axes_of,
    counts,
    grid,
    needs_text,
    protocols_of,
    with_choices,
)
from lrp_companion.masks import NONE, mask_label, path_masks
from lrp_companion.metrics import Interval, bootstrap_mean
from lrp_companion.metrics.statistics import bootstrap_columns, limits, resampled, side_of_zero
from lrp_companion.runs.load import Explanation, TextRun
from lrp_companion.schema import DEFAULT_PROTOCOL, PROTOCOLS, InputError, Protocol, choose


def special_shares(run: TextRun, *, path: str = "back-to-front") -> list[Row]:
    """What stands on [CLS] and [SEP] as layers are bypassed, AttnLRP first.

    Shares are parts of sum |R| over all tokens for the logit.

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
    choose("special_shares", "path", path, tuple(path_masks(run.layers)))
    _needs_masks("special_shares", run)
    columns: list[tuple[int, str, np.ndarray]] = []
    masks = [NONE, *path_masks(run.layers)[path]]
    for k, mask in enumerate(masks):
        for name, token in (("[CLS]", "first"), ("[SEP]", "last")):
            columns.append((k, name, run.share(mask, token=token)))
            columns.append((k, f"{name}, with positions", run.share(mask, token=token, site="word+position")))
            columns.append(
                (k, f"position of {name}", run.parts(mask, token=token, site="word+position")[:, 1])
            )
        columns.append((k, "negative sum", run.negative_sum(mask)))
        columns.append((k, "negative sum, with positions", run.negative_sum(mask, site="word+position")))
    out: list[Row] = [{"bypassed": mask_label(mask), "layers": sorted(mask)} for mask in masks]
    for (k, name, _), interval in zip(
        columns, bootstrap_columns([values for *_, values in columns]), strict=True
    ):
        out[k][name] = interval
    return out


def signs(run: TextRun, explanation: Explanation, *, protocol: Protocol = DEFAULT_PROTOCOL) -> Row:
    """Where the sums of the map and of LOO are negative, and what dividing by them does to r.

    Parameters
    ----------
    protocol : site, tokens, removal, target and statistic; its map is not used.

    Returns
    -------
    dict
        Shares of examples as intervals: `negative map`, `negative LOO`, `turned` (one of the two, so that
        sum-to-one turns the sign of r). `r` and `r, sum to one` over all examples; `r, both positive` over
        those with both sums above 0 (where the two are the same), `r, otherwise` and
        `r, otherwise, sum to one` over the others; None without examples.
    """
    raw, divided = (run.r(explanation, with_choices(protocol, map=map)) for map in DISTINCT)
    own = run.negative_sum(explanation, site=protocol.site, tokens=protocol.tokens, target=protocol.target)
    turned = np.where(np.isnan(divided) | (raw == 0), np.nan, divided == -raw)  # r = 0 has no sign to turn
    loo = np.where(np.isnan(turned) | np.isnan(own), np.nan, turned != own)
    positive, known = (own == 0) & (loo == 0), ~np.isnan(loo)
    names = ("negative map", "negative LOO", "turned", "r", "r, sum to one")
    out: Row = dict(zip(names, bootstrap_columns([own, loo, turned, raw, divided]), strict=True))
    for name, keep, values in (
        ("r, both positive", positive, raw),
        ("r, otherwise", known & ~positive, raw),
        ("r, otherwise, sum to one", known & ~positive, divided),
    ):
        out[name] = bootstrap_mean(values[keep]) if keep.any() else None
    return out


def _needs_masks(operation: str, run: TextRun) -> None:
    needs_text(operation, run)
    if not run.masks:
        raise InputError(
            operation,
            got=f"{run.name}, a run without masks",
            expected="a run with --masks paths",
            hint="run it with that",
        )


def layer_gains(run: TextRun, *, path: str = "back-to-front") -> list[Row]:
    """What each layer adds to mean r when it is bypassed along a path, under every choice (Pearson only).

    Along the two walks the gain of a layer is r with it minus r one step before; alone ("single"), r with
    this layer bypassed minus AttnLRP's.

    Returns
    -------
    list
        A row per distinct site, tokens, map, removal and target: these five; `gains`, an interval per layer
        from 1 on; `total`, their sum; `later - first`, the gain of the later half of the layers minus that of
        the first half; `share`, the later half's part of the total, only where the total's whole interval is
        on one side of 0, else None; `largest`, the layer with the largest gain, and `largest in draws`, in
        which part of the draws it is the largest. The intervals are over the examples where every step is
        defined.

    Raises
    ------
    InputError : the run has no masks, or no such path.
    """
    _needs_masks("layer_gains", run)
    choose("layer_gains", "path", path, tuple(path_masks(run.layers)))
    memory = run.__dict__.setdefault("_gains", {})
    if path not in memory:
        protocols = list(protocols_of({**axes_of(run), "map": DISTINCT, "statistic": ("pearson",)}))
        columns = [
            np.stack([run.r(mask, protocol) for mask in [NONE, *path_masks(run.layers)[path]]], 1)
            for protocol in protocols
        ]
        for r in columns:
            r[np.isnan(r).any(1)] = np.nan
        mean, draws, defined = resampled(np.concatenate(columns, 1))  # one set of draws for all
        steps = run.layers + 1
        memory[path] = [
            _gains(run, path, protocol, mean[at : at + steps], draws[:, at : at + steps], int(defined[at]))
            for protocol, at in zip(protocols, range(0, len(mean), steps), strict=True)
        ]
    return memory[path]


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
    made = [
        Interval(float(columns[0, k]), float(low[k]), float(high[k]), n, run.n - n)
        for k in range(columns.shape[1])
    ]
    row: Row = {name: getattr(protocol, name) for name in PROTOCOL_AXES if name != "statistic"}
    row |= {"gains": made[:layers], "total": made[layers], "later - first": made[layers + 1]}
    row["share"] = made[layers + 2] if side_of_zero(row["total"]) in ("above", "below") else None
    row["largest"] = int(gains[0].argmax()) + 1 if n else None
    row["largest in draws"] = float((gains[1:].argmax(1) + 1 == row["largest"]).mean()) if n > 1 else None
    return row


def late_counts(rows: Sequence[Mapping[str, Any]]) -> Row:
    """In how many cells the later half of the layers gains more, less, or cannot be told; and in how many the
    total is above 0.
    """
    sides = [side_of_zero(row["later - first"]) for row in rows]
    totals = [side_of_zero(row["total"]) for row in rows]
    both = sum(own == "above" and total == "above" for own, total in zip(sides, totals, strict=True))
    return {
        "cells": len(rows), "later": sides.count("above"), "first": sides.count("below"),
        "across": sides.count("across"),
        "total above": totals.count("above"), "total below": totals.count("below"),
        "later, total above": both,
    }  # fmt: skip


def findings(
    run: TextRun, *, a: str = "cp-lrp", b: str = "attnlrp", protocols: Mapping[str, Protocol] = PROTOCOLS
) -> list[Row]:
    """What a run says, in words that follow from its numbers: each with the choices, the effect, its interval
    and n.

    Returns
    -------
    list
        Rows `run`, `says`, `choices`, `what`, `effect`. Of cells it is said how many have their whole
        interval on either side. Rows on layers are there if the run has masks and the methods are AttnLRP and
        CP-LRP.
    """
    found = grid(run, a=a, b=b)
    long, short = NAMES.get(a, a), NAMES.get(b, b)
    rows: list[Row] = []

    def say(says: str, choices: str, what: str, effect: Interval) -> None:
        rows.append(
            {
                "run": found.title,
                "says": says,
                "choices": choices,
                "what": what,
                "effect": effect,
                "n": effect.n,
            }
        )

    for name, protocol in protocols.items():
        effect = found.cell(protocol)["difference"]
        order = {"above": f"{long} is nearer to LOO", "below": f"{short} is nearer to LOO"}
        say(
            order.get(side_of_zero(effect), "the order cannot be told"),
            name,
            f"r of {long} - r of {short}",
            effect,
        )
    curve, told = found.curve(), counts(found)
    for side, end, word in (("below", 0, short), ("above", -1, long)):
        if curve:
            says = f"in {told[side]} of {told['cells']} combinations {word} is nearer to LOO"
            say(
                says, "the one farthest to this side", f"r of {long} - r of {short}", curve[end]["difference"]
            )
    positions = protocols.get("words + positions, all tokens", Protocol(site="word+position", tokens="all"))
    for method in (b, a):
        own = signs(run, method, protocol=positions)["negative map"]
        say(
            f"so many maps of {NAMES.get(method, method)} have a negative sum",
            str(positions.site) + ", all tokens",
            "part of the maps",
            own,
        )
    if run.masks and (a, b) == ("cp-lrp", "attnlrp"):
        for method, step in ((b, 0), (a, -1)):
            own = special_shares(run)[step]["position of [CLS]"]
            says = f"the position of [CLS] has {'negative' if own.mean < 0 else 'positive'} relevance under {NAMES[method]}"
            says = (
                says
                if side_of_zero(own) != "across"
                else f"the sign of the position of [CLS] cannot be told under {NAMES[method]}"
            )
            say(says, "word+position, all tokens", "part of sum |R|", own)
        for path in ("back-to-front", "front-to-back", "single"):
            by_place = {
                tuple(row[name] for name in PROTOCOL_AXES[:5]): row for row in layer_gains(run, path=path)
            }
            for name, protocol in protocols.items():
                own = by_place[tuple(getattr(protocol, choice) for choice in PROTOCOL_AXES[:5])][
                    "later - first"
                ]
                half = {
                    "above": "the later half of the layers gains more",
                    "below": "the first half of the layers gains more",
                }
                say(
                    half.get(side_of_zero(own), "the halves cannot be told apart"),
                    f"{name}; {path}",
                    "gain of later - first half",
                    own,
                )
    return rows
