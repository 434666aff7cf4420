"""A run on reviews, one job per example and table: LOO first, then methods, masks of the paths, all masks.

Rows are numbers only: no word, token or token id of a text is kept. A job's batches hold only one example, so
its rows do not depend on what else was run, in which order, or by how many processes, if each has the same
number of threads. (Another number adds in another order. Every session in the manifest records its number,
and one that goes on with another says so.)
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

from lrp_companion.attribution import SITES, Attribution, scores_at
from lrp_companion.checks import InputError, choose
from lrp_companion.lab.base_run import (
    DEFAULT_METHODS,
    EMBEDDING_PARTS,
    EXAMPLES_OF,
    OWN_TASK,
    agreement_axes,
    layer_game_axes,
    text_work,
)
from lrp_companion.lab.folder import JOB, RunFolder, read_folder
from lrp_companion.lab.perturbation_paths import SharedCurves, shared_curves
from lrp_companion.lab.review_columns import (
    MethodRow,
    explained,
    forwards,
    loo_row,
    mask_means,
    mean_logits,
    nearness,
    round_bits,
    round_r,
    scores_at_or_nan,
)
from lrp_companion.lab.review_options import is_own, run_calls, settings_of, some_of, targets_of
from lrp_companion.lab.text_run import loo_map
from lrp_companion.loading.classifier import Classifier, EncodedText
from lrp_companion.loading.compute import CLOSE, gap
from lrp_companion.masks import mask_number, masks_on_paths
from lrp_companion.methods import explain, kept_logits
from lrp_companion.methods.common import output_gradient, to_numpy
from lrp_companion.methods.perturbation import check_removal
from lrp_companion.metrics.grid import agreement_grid
from lrp_companion.propagation import all_masks, some_masks
from lrp_companion.registry import method_named, passes_of
from lrp_companion.schema import PROBLEM_TYPES, TARGET_CHOICES, TOKEN_CHOICES
from lrp_companion.sources import Dataset

MASK_CHOICES = ("none", "paths", "all")
COMPARED = 4
"""Number of another run's examples whose logits are recomputed before its LOO is used."""


class TextJobs:
    """The jobs of a run on reviews; see `execute`."""

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
        targets: Sequence[str] | None = None,
        loo_from: str | os.PathLike[str] | None = None,
        keep_maps: bool = False,
        curves: bool = True,
    ) -> None:
        if clf.encoder.wiring.task != "classes":
            got = f"{clf.card.name!r}, whose logits are of: {clf.encoder.wiring.task}"
            hint = "explain its inputs one by one with attribute; of a language model try --completion"
            raise InputError("run", got=got, expected="a classifier of texts", hint=hint)
        self.calls = run_calls(clf, methods, n_steps)
        choose("run", "masks", masks, MASK_CHOICES)
        settings = settings_of(data)
        data = data.for_classes(clf.labels) if is_own(data) else data
        offered = settings["removals"]
        if removals is None:
            known = {"mask-token": clf.mask_id, "pad-token": clf.tokenizer.pad_token_id}
            offered = tuple(removal for removal in offered if known.get(removal, 0) is not None)
        if masks == "all" and clf.card.layers > 16:
            got, hint = f"all masks of {clf.card.layers} layers", "use --masks paths"
            raise InputError("run", got=got, expected="at most 16 layers", hint=hint)
        self.clf, self.data, self.masks, self.n_steps = clf, data, masks, n_steps
        self.methods, self.chunk = tuple(methods), settings["chunk"]
        self.removals = some_of("removals", removals, offered)
        for removal in self.removals:
            check_removal(clf, removal)
        self.targets = targets_of(clf, targets)
        self.keep_maps, self.curves = keep_maps, curves
        # In random order: a run that was cut short is a random sample, too.
        self.sample = data.order(limit, seed=seed)
        self.config = self._configuration(seed)
        self.known: dict[int, dict[str, Any]] = {}
        self.known_key: str | None = None
        if loo_from is not None:
            self.known, self.known_key = self._known(loo_from)

    def _configuration(self, seed: int) -> dict[str, Any]:
        """What the rows depend on."""
        clf, data = self.clf, self.data
        return {
            **({"task": OWN_TASK, "name": data.name} if is_own(data) else {"task": data.name}),
            "split": data.split,
            "source": data.source,
            "data": data.fingerprint,
            "seed": seed,
            "model": clf.card.name,
            "weights": clf.card.fingerprint,
            "tokenizer": clf.card.tokenizer,
            "model config": clf.card.config,
            "labels": list(clf.labels),
            "dtype": clf.card.dtype,
            "methods": list(self.methods),
            "chunk": self.chunk,
            "removals": list(self.removals),
            "n_steps": self.n_steps,
            **({"targets": list(self.targets)} if self.targets != TARGET_CHOICES else {}),
            **({"maps": True} if self.keep_maps else {}),
            **({} if self.curves else {"curves": False}),
        }

    def _known(self, folder: str | os.PathLike[str]) -> tuple[dict[int, dict[str, Any]], str]:
        """LOO of another run by job, and its key; refuse a run that differs in what determines LOO."""
        manifest, tables = read_folder(folder)
        config = {"labels": manifest["model"]["labels"], **manifest["config"]}
        needed = [
            "task",
            *(["name"] if is_own(self.data) else []),
            "split",
            "data",
            "weights",
            "labels",
            "dtype",
        ]
        # Runs from before 2026-11-23 do not record these two.
        needed += [name for name in ("tokenizer", "model config") if name in config]
        wrong = [name for name in needed if config.get(name) != self.config[name]]
        wrong += [] if set(self.removals) <= set(config.get("removals", ())) else ["removals"]
        if wrong:
            got = ", ".join(f"{name} {config.get(name)}" for name in wrong)
            expected = ", ".join(f"{name} {self.config[name]}" for name in wrong)
            hint = "leave out --loo-from, then LOO is computed"
            raise InputError("run", got=f"LOO from {folder} with {got}", expected=expected, hint=hint)
        places = [config["removals"].index(name) for name in self.removals]
        known: dict[int, dict[str, Any]] = {}
        for row in tables["examples"].to_pylist() if "examples" in tables else ():
            after = np.array(row["after"]).reshape(len(config["removals"]), -1)[places]
            known[row[JOB]] = {"tokens": row["tokens"], "after": after.ravel()}
        self._compare(folder, known)
        return known, manifest["key"]

    def _compare(self, folder: str | os.PathLike[str], known: Mapping[int, Mapping[str, Any]]) -> None:
        """Refuse LOO of another model, by running the whole texts of a few rows again."""
        some = [job for job in self.sample if job in known][:COMPARED]
        texts = self.clf.encode([self.data.inputs[job] for job in some], truncate=True) if some else []
        for job, text in zip(some, texts, strict=True):
            everything = np.ones(len(text), dtype=bool)
            logits = to_numpy(kept_logits(self.clf, [(text, everything)], progress=False))[0]
            there = known[job]["after"][: len(logits)]
            close = logits.shape == there.shape and gap(logits, there) <= CLOSE[self.clf.dtype]
            if known[job]["tokens"] != len(text) or not close:
                got = f"LOO from {folder}, whose logits or tokens of example {job} are not this model's"
                expected = "a run of the same model, tokenizer and configuration"
                hint = "leave out --loo-from, then LOO is computed"
                raise InputError("run", got=got, expected=expected, hint=hint)

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest's entries besides the configuration."""
        card = self.clf.card
        model = {name: getattr(card, name) for name in ("name", "family", "layers", "heads", "hidden")}
        problem = {"problem_type": card.problem_type} if card.problem_type != PROBLEM_TYPES[0] else {}
        axes = agreement_axes(self.removals).options  # of `r` in `methods`; in `masks` it is Pearson's only
        manifest = {
            "model": model | {"labels": list(card.labels)} | problem,
            "data": self.data.describe(),
            "axes": {name: list(options) for name, options in axes.items()},
            "examples": len(self.sample),
        }
        return manifest | ({"loo from": self.known_key} if self.known_key else {})

    @property
    def tables(self) -> tuple[str, ...]:
        """Tables in the order in which they are made; each has one job per example."""
        of_masks = {"none": (), "paths": ("masks",), "all": ("masks", "lattice")}
        return ("examples", "methods", *of_masks[self.masks])

    def jobs(self, table: str) -> list[int]:
        """Rows of the split, in the order in which they are run."""
        return self.sample

    @cached_property
    def _encoded(self) -> dict[int, EncodedText]:
        inputs = self.data.inputs
        texts = [inputs[job] for job in self.sample]
        try:
            return dict(zip(self.sample, self.clf.encode(texts, truncate=True), strict=True))
        except InputError:  # it counts in the order of the sample, which nobody knows
            for job in self.sample:
                self._check_alone(job)
            raise

    def _check_alone(self, job: int) -> None:
        """Refuse a text that cannot be explained, by its row in the data."""
        try:
            self.clf.encode([self.data.inputs[job]], truncate=True)
        except InputError as error:
            text = error.got.replace("text 0", "a text", 1)
            got = f"row {job} of {self.data.name}/{self.data.split}: {text}"
            raise InputError("run", got=got, expected=error.expected, hint=error.hint) from None

    def cost(self, table: str, job: int) -> float:
        """The approximate work of a job, in tokens run forward, for the estimate of the time left."""
        tokens = len(self._encoded[job])
        if table == "examples" and job in self.known:
            return float(len(self.removals) * tokens)
        passes = sum(passes_of(*call, tokens) for call in self.calls.values() if call[0] != "loo")
        sizes = {"methods": len(self.methods), "removals": len(self.removals)}
        sizes |= {"layers": self.clf.card.layers, "chunk": self.chunk}
        return text_work(tokens, passes=passes, curves=self.curves, **sizes)[table]

    def run(self, table: str, job: int, folder: RunFolder) -> pa.Table:
        """The rows of one job."""
        text = self._encoded[job]
        if table == "examples":
            return self._loo(job, text)
        (row,) = folder.rows("examples", job).to_pylist()
        target = row["target"]
        after = np.array(row["after"]).reshape(len(self.removals), len(text) + 1, -1)
        kind = {"multi_label": self.clf.multi_label}
        loo = np.stack(
            [[loo_map(logits, target, output, **kind) for output in TARGET_CHOICES] for logits in after]
        )
        if table == "methods":
            return self._methods(text, target, loo, row["seconds"][0])
        return {"masks": self._masks, "lattice": self._lattice}[table](text, target, loo)

    # -- tables ------------------------------------------------------------------------------------------

    def _loo(self, job: int, text: EncodedText) -> pa.Table:
        known = self.known.get(job)
        if known is None or known["tokens"] != len(text):
            keeps = [np.ones(len(text), dtype=bool), *~np.eye(len(text), dtype=bool)]
            inputs = [(text, keep) for keep in keeps]
            after, seconds = [], []
            for removal in self.removals:
                begin = time.perf_counter()
                after.append(to_numpy(kept_logits(self.clf, inputs, removal=removal, progress=False)))
                seconds.append(time.perf_counter() - begin)
            logits = np.stack(after).ravel()
        else:
            logits = known["after"]
            # The other run's seconds are those of another hour or machine.
            seconds = [np.nan] * len(self.removals)
        number = pa.int8() if len(self.clf.labels) < 128 else pa.int32()
        kind = pa.float64() if self.clf.card.dtype == "float64" else pa.float32()
        return pa.table(
            {
                "label": pa.array([int(self.data.labels[job])], number),
                "target": pa.array([int(logits[: len(self.clf.labels)].argmax())], number),
                "tokens": pa.array([len(text)], pa.int32()),
                "whole": pa.array([text.whole], pa.int32()),
                "special": pa.array([np.flatnonzero(text.special).tolist()], pa.list_(pa.int32())),
                "after": pa.array([logits], pa.list_(kind)),
                "seconds": pa.array([seconds], pa.list_(pa.float32())),
            }
        )

    def _methods(self, text: EncodedText, target: int, loo: np.ndarray, loo_seconds: float) -> pa.Table:
        rows = [
            loo_row(loo, loo_seconds) if method == "loo" else self._method(method, text, target)
            for method in self.methods
        ]
        maps, parts = np.stack([row.maps for row in rows]), np.stack([row.parts for row in rows])
        passes = np.array([row.passes for row in rows], dtype=np.float64)
        rankings = {method: row.maps[0, 0] for method, row in zip(self.methods, rows, strict=True)}
        shared = self._shared_curves(text, target, rankings)
        columns = {
            "method": pa.array(self.methods, pa.string()),
            "seconds": pa.array([row.seconds for row in rows], pa.float32()),
            "convergence_delta": pa.array([row.delta for row in rows], pa.float32()),
            **explained(maps, parts, loo, text, agreement_axes(self.removals)),
            **mean_logits(shared.curves, self.methods),
            **forwards(shared.asked, shared.run, len(rows)),
        }
        if set(self.methods) - set(DEFAULT_METHODS):
            columns |= nearness(maps[:, :, 0], loo[0, 0], text.special, passes)
        if self.keep_maps:
            flat = round_bits(parts).reshape(len(rows), -1)
            columns["map"] = pa.array(list(flat), pa.list_(pa.float32()))
        return pa.table(columns)

    def _shared_curves(
        self, text: EncodedText, target: int, rankings: Mapping[Any, np.ndarray]
    ) -> SharedCurves:
        """Perturbation curves of all rankings of a text; none where the run has none."""
        if not self.curves:
            return SharedCurves({}, 0, 0)
        return shared_curves(self.clf, text, target, rankings, chunk=self.chunk)

    def _method(self, method: str, text: EncodedText, target: int) -> MethodRow:
        """One method on one text; seconds, passes and parts are those of the logit, the first output."""
        kind, _ = self.calls[method]
        begin = time.perf_counter()
        first = self._explain(method, text, target, TARGET_CHOICES[0])
        seconds = time.perf_counter() - begin
        maps = np.full((len(SITES), len(TARGET_CHOICES), len(text)), np.nan)
        for o, output in enumerate(TARGET_CHOICES):
            if output not in self.targets or (o and method_named(kind).outputs == "logit"):
                continue
            same = o == 0 or method_named(kind).outputs == "none"
            record = first if same else self._explain(method, text, target, output)
            maps[:, o] = [
                scores_at_or_nan(record.parts, site) if record.parts else record.scores for site in SITES
            ]
        parts = np.full((len(EMBEDDING_PARTS), len(text)), np.nan)
        for p, part in enumerate(EMBEDDING_PARTS):
            if part == "word" or part in first.parts:
                parts[p] = first.parts.get(part, first.scores)
        passes = first.details.get("passes", (1, 0 if method_named(kind).outputs == "none" else 1))
        delta = first.details.get("convergence_delta", np.nan)
        return MethodRow(maps, parts, seconds, delta, passes)

    def _explain(self, method: str, text: EncodedText, target: int, output: str) -> Attribution:
        kind, options = self.calls[method]
        if method_named(kind).outputs != "none":
            options = {**options, "output": output}
        return explain(kind, self.clf, [text], [target], progress=False, **options)[0]

    @torch.no_grad()
    def _masks(self, text: EncodedText, target: int, loo: np.ndarray) -> pa.Table:
        masks = masks_on_paths(self.clf.card.layers)
        tape, starts = self._tape(text, target, self.targets)
        relevance = some_masks(tape, starts, masks)
        outputs = [TARGET_CHOICES.index(output) for output in self.targets]
        by_part = {}
        for name in relevance[masks[0]]:
            scores = np.full((len(masks), len(TARGET_CHOICES), len(text)), np.nan)
            scores[:, outputs] = np.stack([to_numpy(relevance[mask][name])[:, 0] for mask in masks])
            by_part[name] = scores
        maps = np.stack([scores_at(by_part, site) for site in SITES], 1)
        missing = np.full_like(maps[:, 0], np.nan)
        parts = np.stack([by_part.get(name, missing)[:, 0] for name in EMBEDDING_PARTS], 1)
        numbers = [mask_number(mask) for mask in masks]
        rankings = dict(zip(numbers, maps[:, 0, 0], strict=True))
        shared = self._shared_curves(text, target, rankings)
        stored = agreement_axes(self.removals, ("pearson",))
        return pa.table(
            {
                "mask": pa.array(numbers, pa.int32()),
                **explained(maps, parts, loo, text, stored),
                **mean_logits(shared.curves, numbers),
                **forwards(shared.asked, shared.run, len(numbers)),
            }
        )

    @torch.no_grad()
    def _lattice(self, text: EncodedText, target: int, loo: np.ndarray) -> pa.Table:
        tape, starts = self._tape(text, target, ("logit",))
        by_part = {name: to_numpy(value)[:, 0] for name, value in all_masks(tape, starts[0]).items()}
        maps = np.stack([scores_at(by_part, site) for site in SITES], 1)[:, :, None]
        for_all = np.broadcast_to(maps, (*maps.shape[:2], len(TARGET_CHOICES), len(text)))
        r = agreement_grid(for_all, loo[:1], text.special, statistics=("pearson",))
        of_logit = r[:, :, :, 0, 0, 0]  # (mask, site, tokens): one removal, the logit, Pearson
        stored = layer_game_axes(self.clf.card.layers)
        return pa.table({"r": stored.column(round_r(np.moveaxis(of_logit, 0, -1))[None])})

    def _tape(self, text: EncodedText, target: int, outputs: Sequence[str]) -> tuple[Any, torch.Tensor]:
        """A tape and where relevance starts for each output, (outputs, 1, C)."""
        tape, chosen = self.clf.tape(text), torch.tensor([target], device=self.clf.device)
        kind = {"multi_label": self.clf.multi_label}
        return tape, torch.stack([output_gradient(tape.logits, chosen, output, **kind) for output in outputs])

    def summaries(self, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """Tables made from the rows of all jobs: mean r of every mask over all examples and two halves."""
        if "lattice" not in tables:
            return {}
        column, stored = tables["lattice"]["r"].combine_chunks(), layer_game_axes(self.clf.card.layers)
        means = [
            mask_means(stored.read(column, site=site, tokens=tokens)[examples], part, site, tokens)
            for part, examples in EXAMPLES_OF.items()
            for site in SITES
            for tokens in TOKEN_CHOICES
        ]
        return {"lattice_means": pa.concat_tables(means).combine_chunks()}
