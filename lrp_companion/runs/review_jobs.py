"""A run on reviews, one job per example and table: LOO first, then methods, masks of the paths, all masks.

Rows are numbers only: no word, token or token id of a text is kept. A job's batches hold one example alone,
so its rows do not depend on what else was run, in which order, or by how many processes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from lrp_companion.live.compare_methods import shared_curves
from lrp_companion.masks import mask_number, masks_on_paths
from lrp_companion.methods import TEXT_METHODS, kept_logits, method_call
from lrp_companion.methods.common import output_gradient, to_numpy
from lrp_companion.metrics.faithfulness import CANCELLED, ORDERS, Curve, relative_error
from lrp_companion.metrics.grid import agreement_grid
from lrp_companion.models.pretrained import Classifier, EncodedText
from lrp_companion.propagation import all_masks, some_masks
from lrp_companion.runs.cost import DEFAULT_METHODS, method_passes, text_work
from lrp_companion.runs.folder import JOB, RunFolder, read_folder
from lrp_companion.runs.load import EMBEDDING_PARTS, TOP, loo_map
from lrp_companion.schema import (
    REMOVALS,
    SITES,
    STATISTICS,
    TARGET_CHOICES,
    TOKEN_CHOICES,
    Attribution,
    InputError,
    choose,
    counted,
    scores_at,
)
from lrp_companion.sources import Dataset

MASK_CHOICES = ("none", "paths", "all")
COMPARED = 4
"""Examples of another run whose logits are computed again before its LOO is taken."""
CLOSE = {"float64": 1e-9, "float32": 1e-3, "bfloat16": 0.25}
"""How far logits of one model may be apart between machines and batches."""
SETTINGS: dict[str, dict[str, Any]] = {
    "sst2": {"chunk": 1, "removals": REMOVALS},
    "imdb": {"chunk": 16, "removals": ("attention-mask", "mask-token")},
}
LOGIT_ONLY = ("ig", "mask-gradient", "hybrid", "sampled-loo")
"""Explained for the logit only: every further output would cost the whole method again."""
FIXED = (
    "output",
    "site",
    "removal",
    "progress",
    "batch_tokens",
)  # not for a run to choose: it measures all, or it changes nothing


class TextJobs:
    """What a run on reviews consists of; see `runner.execute`."""

    def __init__(
        self,
        clf: Classifier,
        data: Dataset,
        *,
        methods: Sequence[str] = DEFAULT_METHODS,
        masks: str = "paths",
        limit: int | None = None,
        seed: int = 0,
        n_steps: int = 50,
        removals: Sequence[str] | None = None,
        targets: Sequence[str] = TARGET_CHOICES,
        loo_from: str | os.PathLike[str] | None = None,
    ) -> None:
        self.calls = {method: _run_call(method, n_steps) for method in methods}
        if not methods or len(set(methods)) < len(methods):
            got = f"methods {', '.join(methods) or 'none'}"
            raise InputError(
                "run",
                got=got,
                expected="at least one, each once",
                hint=f"choose from {', '.join(DEFAULT_METHODS)}",
            )
        if isinstance(n_steps, bool) or not isinstance(n_steps, int) or n_steps < 1:
            raise InputError(
                "run",
                got=f"n_steps {n_steps!r}",
                expected="a whole number, at least 1",
                hint="50 is the default",
            )
        choose("run", "masks", masks, MASK_CHOICES)
        settings = SETTINGS[choose("run", "task", data.name, tuple(SETTINGS))]
        if masks == "all" and clf.card.layers > 16:
            raise InputError(
                "run",
                got=f"all masks of {clf.card.layers} layers",
                expected="at most 16 layers",
                hint="use --masks paths",
            )
        for kind, own in self.calls.values():
            TEXT_METHODS[kind](
                clf, [], [], progress=False, **own
            )  # on no text: refuses bad options before the run begins
        self.clf, self.data, self.methods, self.masks, self.n_steps = (
            clf,
            data,
            tuple(methods),
            masks,
            n_steps,
        )
        self.chunk = settings["chunk"]
        self.removals = _some("removals", removals, settings["removals"])
        self.targets = _some("targets", targets, TARGET_CHOICES)
        self.sample = data.order(
            limit, seed=seed
        )  # in random order, so that a run that was cut short is a random sample, too
        self.config = {
            "task": data.name, "split": data.split, "source": data.source, "data": data.fingerprint,
            "seed": seed,
            "model": clf.card.name, "weights": clf.card.fingerprint, "tokenizer": clf.card.tokenizer,
            "model config": clf.card.config,
            "labels": list(clf.labels), "dtype": clf.card.dtype, "methods": list(self.methods),
            "chunk": self.chunk, "removals": list(self.removals), "n_steps": n_steps,
            **({"targets": list(self.targets)} if self.targets != TARGET_CHOICES else {}),
        }  # fmt: skip
        self.known: dict[int, dict[str, Any]] = {}
        self.known_key: str | None = None
        if loo_from is not None:
            self.known, self.known_key = self._known(loo_from)

    def _known(self, folder: str | os.PathLike[str]) -> tuple[dict[int, dict[str, Any]], str]:
        """Rows of LOO of another run by job, and its key; a run that differs in what LOO depends on is
        refused.
        """
        manifest, tables = read_folder(folder)
        config = manifest["config"]
        config = {"labels": manifest["model"]["labels"], **config}
        needed = ["task", "split", "data", "weights", "labels", "dtype"]
        needed += [
            name for name in ("tokenizer", "model config") if name in config
        ]  # runs of before 2026-11-23 do not say
        wrong = [name for name in needed if config.get(name) != self.config[name]]
        wrong += [] if set(self.removals) <= set(config.get("removals", ())) else ["removals"]
        if wrong:
            got = ", ".join(f"{name} {config.get(name)}" for name in wrong)
            expected = ", ".join(f"{name} {self.config[name]}" for name in wrong)
            hint = "leave out --loo-from, then LOO is computed"
            raise InputError("run", got=f"LOO from {folder} with {got}", expected=expected, hint=hint)
        own = [config["removals"].index(name) for name in self.removals]
        found: dict[int, dict[str, Any]] = {}
        for row in tables["examples"].to_pylist() if "examples" in tables else ():
            after = np.array(row["after"]).reshape(len(config["removals"]), -1)[own]
            found[row[JOB]] = {"tokens": row["tokens"], "after": after.ravel()}
        self._compare(folder, found)
        return found, manifest["key"]

    def _compare(self, folder: str | os.PathLike[str], known: Mapping[int, Mapping[str, Any]]) -> None:
        """Refuse rows of LOO that this model does not give: whole texts are run again for a few of them."""
        some = [job for job in self.sample if job in known][:COMPARED]
        for job, text in zip(
            some,
            self.clf.encode([self.data.texts[k] for k in some], truncate=True) if some else (),
            strict=True,
        ):
            whole = to_numpy(kept_logits(self.clf, [(text, np.ones(len(text), dtype=bool))], progress=False))[
                0
            ]
            there = known[job]["after"][: len(whole)]
            same = known[job]["tokens"] == len(text) and np.allclose(
                whole, there, rtol=0, atol=CLOSE[self.clf.card.dtype]
            )
            if not same:
                got = f"LOO from {folder}, whose logits or tokens of example {job} are not this model's"
                hint = "leave out --loo-from, then LOO is computed"
                raise InputError(
                    "run", got=got, expected="a run of the same model, tokenizer and configuration", hint=hint
                )

    @property
    def manifest(self) -> dict[str, Any]:
        """What the manifest says beside the configuration."""
        c = self.clf.card
        model = {
            "name": c.name,
            "family": c.family,
            "layers": c.layers,
            "heads": c.heads,
            "hidden": c.hidden,
            "labels": list(c.labels),
        }
        out = {
            "model": model,
            "data": self.data.describe(),
            "axes": axes(self.removals),
            "examples": len(self.sample),
        }
        return out | ({"loo from": self.known_key} if self.known_key else {})

    @property
    def tables(self) -> tuple[str, ...]:
        """Tables in the order in which they are made; each has one job per example."""
        return (
            "examples",
            "methods",
            *(() if self.masks == "none" else ("masks",)),
            *(("lattice",) if self.masks == "all" else ()),
        )

    def jobs(self, table: str) -> list[int]:
        """Rows of the split, in the order in which they are run."""
        return self.sample

    @cached_property
    def _encoded(self) -> dict[int, EncodedText]:
        return dict(
            zip(
                self.sample,
                self.clf.encode([self.data.texts[k] for k in self.sample], truncate=True),
                strict=True,
            )
        )

    def cost(self, table: str, job: int) -> float:
        """About how much work a job is, in tokens run forward: for the estimate of the time left."""
        tokens = len(self._encoded[job])
        if table == "examples" and job in self.known:
            return float(len(self.removals) * tokens)
        passes = sum(method_passes(*self.calls[own], tokens) for own in self.methods)
        sizes = {
            "methods": len(self.methods),
            "removals": len(self.removals),
            "layers": self.clf.card.layers,
            "chunk": self.chunk,
        }
        return text_work(tokens, passes=passes, **sizes)[table]

    def run(self, table: str, job: int, folder: RunFolder) -> pa.Table:
        """The rows of one job."""
        text = self._encoded[job]
        if table == "examples":
            return self._loo(job, text)
        (known,) = folder.rows("examples", job).to_pylist()
        after = np.array(known["after"]).reshape(len(self.removals), len(text) + 1, -1)
        own = {"methods": self._methods, "masks": self._masks, "lattice": self._lattice}[table]
        return own(
            text,
            known["target"],
            np.stack([[loo_map(own, known["target"], output) for output in TARGET_CHOICES] for own in after]),
            known["seconds"],
        )

    # -- tables --------------------------------------------------------------------------------------------------------

    def _loo(self, job: int, text: EncodedText) -> pa.Table:
        known = self.known.get(job)
        if known is None or known["tokens"] != len(text):
            keeps = [np.ones(len(text), dtype=bool), *~np.eye(len(text), dtype=bool)]
            after, seconds = [], []
            for removal in self.removals:
                begin = time.perf_counter()
                after.append(
                    to_numpy(
                        kept_logits(
                            self.clf, [(text, keep) for keep in keeps], removal=removal, progress=False
                        )
                    )
                )
                seconds.append(time.perf_counter() - begin)
            logits = np.stack(after).ravel()
        else:
            logits, seconds = (
                known["after"],
                [np.nan] * len(self.removals),
            )  # the other run's are of another hour or machine
        whole = len(self.clf.tokenizer(text.text, verbose=False)["input_ids"])
        kind = pa.float64() if self.clf.card.dtype == "float64" else pa.float32()
        return pa.table(
            {
                "label": pa.array([int(self.data.labels[job])], pa.int8()),
                "target": pa.array([int(logits[: len(self.clf.labels)].argmax())], pa.int8()),
                "tokens": pa.array([len(text)], pa.int32()),
                "whole": pa.array([whole], pa.int32()),
                "special": pa.array([np.flatnonzero(text.special).tolist()], pa.list_(pa.int32())),
                "after": pa.array([logits], pa.list_(kind)),
                "seconds": pa.array([seconds], pa.list_(pa.float32())),
            }
        )

    def _methods(
        self, text: EncodedText, target: int, loo: np.ndarray, loo_seconds: Sequence[float]
    ) -> pa.Table:
        maps = np.full((len(self.methods), len(SITES), len(TARGET_CHOICES), len(text)), np.nan)
        passes = np.zeros((len(self.methods), 2))
        parts = np.full((len(self.methods), len(EMBEDDING_PARTS), len(text)), np.nan)
        seconds, deltas = [], []
        for m, method in enumerate(self.methods):
            if method == "loo":
                maps[m], parts[m, 0] = loo[0], loo[0, 0]
                seconds.append(loo_seconds[0])
                deltas.append(np.nan)
                passes[m] = len(text) + 1, 0
                continue
            kind, _ = self.calls[method]
            for o, output in enumerate(TARGET_CHOICES):
                if output not in self.targets or (o and kind in LOGIT_ONLY):
                    continue
                if o and kind == "rollout":  # it knows no output
                    maps[m, :, o] = maps[m, :, 0]
                    continue
                begin = time.perf_counter()
                record = self._explain(method, text, target, output)
                if not o:
                    seconds.append(time.perf_counter() - begin)
                    deltas.append(record.details.get("convergence_delta", np.nan))
                    passes[m] = record.details.get("passes", (1, 0 if kind == "rollout" else 1))
                    for p, part in enumerate(EMBEDDING_PARTS):
                        if part == "word" or part in record.parts:
                            parts[m, p] = record.parts.get(part, record.scores)
                maps[m, :, o] = [
                    scores_at_or_nan(record.parts, site) if record.parts else record.scores for site in SITES
                ]
        shared = shared_curves(
            self.clf, text, target, {m: maps[k, 0, 0] for k, m in enumerate(self.methods)}, chunk=self.chunk
        )
        rows = explained(
            maps, parts, loo, text, self.removals, STATISTICS, [shared.curves[m] for m in self.methods]
        )
        return pa.table(
            {
                "method": pa.array(self.methods, pa.string()),
                "seconds": pa.array(seconds, pa.float32()),
                "convergence_delta": pa.array(deltas, pa.float32()),
                **rows,
                **_forwards(shared.asked, shared.run, len(self.methods)),
                **(
                    nearness(maps[:, :, 0], loo[0, 0], text.special, passes)
                    if set(self.methods) - set(DEFAULT_METHODS)
                    else {}
                ),
            }
        )

    def _explain(self, method: str, text: EncodedText, target: int, output: str) -> Attribution:
        kind, options = self.calls[method]
        if kind != "rollout":
            options = {**options, "output": output}
        return TEXT_METHODS[kind](self.clf, [text], [target], progress=False, **options)[0]

    @torch.no_grad()
    def _masks(self, text: EncodedText, target: int, loo: np.ndarray, _: Any) -> pa.Table:
        masks = masks_on_paths(self.clf.card.layers)
        tape, starts = self._tape(text, target, self.targets)
        found = some_masks(tape, starts, masks)
        where = [TARGET_CHOICES.index(output) for output in self.targets]
        by_part = {
            name: np.full((len(masks), len(TARGET_CHOICES), len(text)), np.nan) for name in found[masks[0]]
        }  # (mask, target, T)
        for name, own in by_part.items():
            own[:, where] = np.stack([to_numpy(found[mask][name])[:, 0] for mask in masks])
        maps = np.stack([scores_at(by_part, site) for site in SITES], 1)
        parts = np.stack(
            [by_part.get(name, np.full_like(maps[:, 0], np.nan))[:, 0] for name in EMBEDDING_PARTS], 1
        )
        numbers = [mask_number(mask) for mask in masks]
        shared = shared_curves(
            self.clf, text, target, dict(zip(numbers, maps[:, 0, 0], strict=True)), chunk=self.chunk
        )
        rows = explained(
            maps, parts, loo, text, self.removals, ("pearson",), [shared.curves[number] for number in numbers]
        )
        return pa.table(
            {
                "mask": pa.array(numbers, pa.int32()),
                **rows,
                **_forwards(shared.asked, shared.run, len(numbers)),
            }
        )

    @torch.no_grad()
    def _lattice(self, text: EncodedText, target: int, loo: np.ndarray, _: Any) -> pa.Table:
        tape, starts = self._tape(text, target, ("logit",))
        by_part = {name: to_numpy(value)[:, 0] for name, value in all_masks(tape, starts[0]).items()}
        maps = np.stack([scores_at(by_part, site) for site in SITES], 1)[:, :, None]
        out = agreement_grid(
            np.broadcast_to(maps, (*maps.shape[:2], len(TARGET_CHOICES), len(text))),
            loo[:1],
            text.special,
            statistics=("pearson",),
        )
        return pa.table({"r": _fixed(round_r(out[:, :, :, 0, 0, 0].transpose(1, 2, 0)[None]), pa.float32())})

    def _tape(self, text: EncodedText, target: int, outputs: Sequence[str]) -> tuple[Any, torch.Tensor]:
        """A tape and where relevance starts for each output, (outputs, 1, C)."""
        ids = torch.tensor([text.input_ids], device=self.clf.device)
        tape = self.clf.encoder.forward(ids, torch.ones_like(ids))
        chosen = torch.tensor([target], device=self.clf.device)
        return tape, torch.stack([output_gradient(tape.logits, chosen, output) for output in outputs])

    def summaries(self, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """Tables made from the rows of all jobs: the mean of r of every mask over all examples, and over two
        halves.
        """
        if "lattice" not in tables:
            return {}
        lattice = tables["lattice"]
        r = np.stack(lattice["r"].combine_chunks().to_numpy(zero_copy_only=False)).reshape(
            len(lattice), len(SITES), len(TOKEN_CHOICES), -1
        )
        rows: dict[str, list] = {name: [] for name in ("part", "site", "tokens", "mask", "mean", "sd", "n")}
        for part, own in (("all", r), ("first half", r[0::2]), ("second half", r[1::2])):
            for s, site in enumerate(SITES):
                for t, tokens in enumerate(TOKEN_CHOICES):
                    values = own[:, s, t].astype(np.float64)
                    n = np.isfinite(values).sum(0)
                    with np.errstate(invalid="ignore", divide="ignore"):
                        mean = np.nansum(values, 0) / n
                        sd = np.sqrt(np.nansum((values - mean) ** 2, 0) / (n - 1))
                    for name, column in (("mean", mean), ("sd", sd), ("n", n), ("mask", np.arange(len(n)))):
                        rows[name] += column.tolist()
                    for name, value in (("part", part), ("site", site), ("tokens", tokens)):
                        rows[name] += [value] * len(n)
        kinds = {"mask": pa.int32(), "mean": pa.float32(), "sd": pa.float32(), "n": pa.int32()}
        return {
            "lattice_means": pa.table(
                {name: pa.array(column, kinds.get(name, pa.string())) for name, column in rows.items()}
            )
        }


def scores_at_or_nan(parts: Mapping[str, np.ndarray], site: str) -> np.ndarray:
    """A map at a site; NaN where its parts cancel but for rounding.

    So they do for input x gradient at the whole embedding sum: the LayerNorm behind it undoes every scale.
    """
    out = scores_at(parts, site)
    return (
        out
        if np.abs(out).sum() > CANCELLED * sum(np.abs(part).sum() for part in parts.values())
        else np.full_like(out, np.nan)
    )


def axes(removals: Sequence[str]) -> dict[str, list[str]]:
    """The axes of a stored r, by name: `r` of `methods` has all five, of `masks` Pearson only, of `lattice`
    site and tokens.
    """
    return {
        "site": list(SITES),
        "tokens": list(TOKEN_CHOICES),
        "removal": list(removals),
        "target": list(TARGET_CHOICES),
        "statistic": list(STATISTICS),
    }


def explained(
    maps: np.ndarray,
    parts: np.ndarray,
    loo: np.ndarray,
    text: EncodedText,
    removals: Sequence[str],
    statistics: tuple[str, ...],
    curves: Sequence[Mapping[str, Curve]],
) -> dict[str, pa.Array]:
    """Columns that every explanation of a text has.

    `r` (site, tokens, removal, target, statistic); `sum` and `size`, sum R and sum |R| (site, tokens,
    target); `first` and `last`, relevance of the first and last token ([CLS], [SEP]) by part of the embedding
    sum; `morf` and `lerf`, the mean logit along the curves. See `round_r` and `round_bits` for their
    precision.
    """
    r = agreement_grid(maps, loo, text.special, statistics=statistics)
    kept = [counted(text.special, tokens) for tokens in TOKEN_CHOICES]
    sums = np.stack([maps[..., own].sum(-1) for own in kept], 2)
    sizes = np.stack([np.abs(maps[..., own]).sum(-1) for own in kept], 2)
    return {
        "r": _fixed(round_r(r), pa.float32()),
        "sum": _fixed(round_bits(sums), pa.float32()),
        "size": _fixed(round_bits(sizes), pa.float32()),
        "first": _fixed(round_bits(parts[..., 0]), pa.float32()),
        "last": _fixed(round_bits(parts[..., -1]), pa.float32()),
        **{order: pa.array([own[order].mean_logit for own in curves], pa.float32()) for order in ORDERS},
    }


def nearness(
    maps: np.ndarray, loo: np.ndarray, special: np.ndarray, passes: np.ndarray
) -> dict[str, pa.Array]:
    """Columns on how near maps (methods, site, T) come to LOO (T,) itself, and at what cost.

    `overlap` (site, tokens, k of `TOP`): how many of the k tokens with the largest |LOO| are among the k with
    the largest
    |R|, as a part of k; NaN with fewer than k tokens. `error` (site, tokens): sum |R - LOO| / sum |LOO|. `passes`: forward
    and backward passes of one text.
    """
    overlap, error = np.full((*maps.shape[:2], 2, len(TOP)), np.nan), np.full((*maps.shape[:2], 2), np.nan)
    for t, tokens in enumerate(TOKEN_CHOICES):
        own = counted(special, tokens)
        wanted, given = np.abs(loo[own]), maps[..., own]
        error[..., t] = relative_error(given, loo[own])
        for place, k in enumerate(TOP):
            if k <= own.sum():
                top = set(np.argsort(-wanted, kind="stable")[:k].tolist())
                first = np.argsort(-np.abs(given), axis=-1, kind="stable")[..., :k]
                shared = np.isin(first, list(top)).mean(-1)
                overlap[..., t, place] = np.where(np.isnan(given).any(-1), np.nan, shared)
    return {
        "overlap": _fixed(overlap, pa.float32()),
        "error": _fixed(round_bits(error), pa.float32()),
        "passes": _fixed(passes, pa.float32()),
    }


def _some(name: str, chosen: Sequence[str] | None, options: Sequence[str]) -> tuple[str, ...]:
    """Options in their order, the first one always among them: methods and curves are made with it."""
    if chosen is None:
        return tuple(options)
    for own in chosen:
        choose("run", name, own, tuple(options))
    if options[0] not in chosen or len(set(chosen)) < len(chosen):
        got = f"{name} {', '.join(chosen) or 'none'}"
        raise InputError(
            "run",
            got=got,
            expected=f"{options[0]} and others, each once",
            hint=f"choose from {', '.join(options)}",
        )
    return tuple(own for own in options if own in chosen)


def _run_call(method: str, n_steps: int) -> tuple[str, dict[str, Any]]:
    """What a method of a run calls; the outputs, sites and removals are the run's own."""
    kind, options = method_call(method)
    fixed = sorted(set(options) & set(FIXED))
    if fixed:
        hint = "leave it out"
        raise InputError(
            "run", got=f"method {method!r}", expected=f"no {', '.join(fixed)}: a run measures all", hint=hint
        )
    if kind == "ig":
        options.setdefault("n_steps", n_steps)
    return kind, options


def round_r(r: np.ndarray) -> np.ndarray:
    """r to the next multiple of 2**-16 = 0.000015, which compresses to half the size."""
    return np.round(r * 65536) / 65536


def round_bits(values: np.ndarray) -> np.ndarray:
    """Values to 13 significant bits: off by at most 2**-13 = 0.00012 of themselves, and a third smaller in a
    file. Signs stay.

    >>> round_bits(np.array([1.0, -1.0001, 1000.3, 0.0])).tolist()
    [1.0, -1.0, 1000.25, 0.0]
    """
    mantissa, exponent = np.frexp(np.asarray(values, dtype=np.float32))
    return np.ldexp(np.round(mantissa * 8192) / 8192, exponent)


def _forwards(asked: int, run: int, rows: int) -> dict[str, pa.Array]:
    return {
        "forwards_asked": pa.array([asked] * rows, pa.int32()),
        "forwards_run": pa.array([run] * rows, pa.int32()),
    }


def _fixed(values: np.ndarray, kind: pa.DataType) -> pa.Array:
    """(n, ...) as a column of n lists of one length."""
    flat = pa.array(np.ascontiguousarray(values).reshape(-1), kind)
    return pa.FixedSizeListArray.from_arrays(flat, int(np.prod(values.shape[1:])))
