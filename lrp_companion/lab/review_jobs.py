"""Runs on texts. On reviews, one job per example and table: LOO first, then methods, masks of the paths, all
masks; on what a language model answers, one job per prompt: every method against LOO, token by token.

Rows are numbers only: no word, token or token id of a text is kept. A job's batches hold only one example, so
its rows do not depend on what else was run, in which order, or by how many processes, if each has the same
number of threads. (Another number adds in another order. Every session in the manifest records its number.)
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from lrp_companion.attribution import CANCELLED, Attribution, Completion
from lrp_companion.checks import SITES, InputError, choose, scores_at, whole
from lrp_companion.families.tasks import NEXT_TOKEN
from lrp_companion.lab.execute import Jobs
from lrp_companion.lab.folder import (
    ANSWERS_TASK,
    DEFAULT_METHODS,
    EMBEDDING_PARTS,
    EXAMPLES_OF,
    JOB,
    OWN_TASK,
    PASSES,
    SUMS,
    RunFolder,
    agreement_axes,
    lattice_axes,
    read_folder,
    round_bits,
    round_r,
)
from lrp_companion.lab.load import loo_maps
from lrp_companion.lab.perturbation_paths import shared_curves
from lrp_companion.loading.classifier import Classifier, EncodedText
from lrp_companion.methods import attribute, explain, kept_logits, method_call
from lrp_companion.methods.common import check_output, output_gradient, to_numpy
from lrp_companion.methods.completion import check_length, followed, opened
from lrp_companion.methods.lrp import RuleSet, cuts_of
from lrp_companion.methods.perturbation import check_removal
from lrp_companion.metrics.faithfulness import CORRELATIONS, ORDERS, agreement_grid
from lrp_companion.registry import METHODS, PACKAGE, method_named, print_of
from lrp_companion.schema import (
    PROBLEM_TYPES,
    REMOVALS,
    TARGET_CHOICES,
    TOKEN_CHOICES,
    counted,
    mask_number,
    masks_on_paths,
)
from lrp_companion.sources import OWN_SOURCES, Dataset
from lrp_companion.tape.encoder import all_masks, some_masks

TABLES = {
    "none": ("examples", "methods"),
    "paths": ("examples", "methods", "masks"),
    "all": ("examples", "methods", "masks", "lattice"),
}
"""Tables of a run by its `masks`, in the order in which they are made."""
SHORT: dict[str, Any] = {"chunk": 1, "removals": REMOVALS}
LONG: dict[str, Any] = {"chunk": 16, "removals": ("attention-mask", "mask-token")}
SETTINGS = {"sst2": SHORT, "imdb": LONG}
LONG_TEXT = 600
"""Number of characters of the median text from which the user's own data are run like IMDB."""
FIXED = ("output", "site", "removal", "unit", "progress", "batch_tokens")
"""Options that a run cannot choose: it measures all of them, or they change no number."""


class TextJobs(Jobs):
    """The jobs of a run on reviews; see `execute`, and for the options `lrp-companion run --help`."""

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
        self.tables = TABLES[choose("run", "masks", masks, tuple(TABLES))]
        if masks == "all" and clf.card.layers > 16:
            got, hint = f"all masks of {clf.card.layers} layers", "use --masks paths"
            raise InputError("run", got=got, expected="at most 16 layers", hint=hint)
        settings = settings_of(data)
        self.clf, self.data = clf, data.for_classes(clf.labels) if is_own(data) else data
        self.methods, self.chunk = tuple(methods), settings["chunk"]
        self.removals = some_of("removals", removals, _removals(clf, settings, removals))
        self.targets = _targets(clf, targets)
        self.keep_maps, self.curves = keep_maps, curves
        # In random order: a run that was cut short is a random sample, too.
        self.sample = data.order(limit, seed=seed)
        self.config = self._configuration(seed, n_steps)
        axes = agreement_axes(self.removals).options  # of `r` in `methods`; in `masks` it is Pearson's only
        kind: dict[str, Any] = {"labels": list(clf.card.labels)}
        if clf.card.problem_type != PROBLEM_TYPES[0]:
            kind["problem_type"] = clf.card.problem_type
        self.manifest = {
            **described(clf, self.data, self.sample, **kind),
            "axes": {name: list(options) for name, options in axes.items()},
        }
        self.known: dict[int, dict[str, Any]] = {}
        if loo_from is not None:
            self.known, self.manifest["loo from"] = self._known(loo_from)

    def _configuration(self, seed: int, n_steps: int) -> dict[str, Any]:
        """What the rows depend on."""
        clf, data = self.clf, self.data
        return {
            **({"task": OWN_TASK, "name": data.name} if is_own(data) else {"task": data.name}),
            **identity(clf, data, seed),
            "labels": list(clf.labels),
            "methods": list(self.methods),
            "chunk": self.chunk,
            "removals": list(self.removals),
            "n_steps": n_steps,
            **own_rules(self.calls, clf.card.layers),
            **({"targets": list(self.targets)} if self.targets != TARGET_CHOICES else {}),
            **({"maps": True} if self.keep_maps else {}),
            **({} if self.curves else {"curves": False}),
        }

    def _known(self, folder: str | os.PathLike[str]) -> tuple[dict[int, dict[str, Any]], str]:
        """LOO of another run by job, and its key; refuse a run that differs in what determines LOO."""
        manifest, tables = read_folder(folder)
        config, needed = manifest["config"], ["task", "name", "labels", *identity(self.clf, self.data, 0)]
        needed = [name for name in needed if name not in ("source", "seed", "model")]
        wrong = [name for name in needed if config.get(name) != self.config.get(name)]
        examples = tables.get("examples")
        whole = examples is None or "after" in examples.column_names
        kept = manifest.get("axes", {}).get("removal", ()) if whole else ()  # a record may have been cut
        wrong += [] if set(self.removals) <= set(kept) else ["removals"]
        if wrong:
            had = config | {"removals": kept}
            got = ", ".join(f"{name} {had.get(name)}" for name in wrong)
            expected = ", ".join(f"{name} {self.config.get(name)}" for name in wrong)
            hint = "leave out --loo-from, then LOO is computed"
            raise InputError("run", got=f"LOO from {folder} with {got}", expected=expected, hint=hint)
        places = [kept.index(name) for name in self.removals]
        known: dict[int, dict[str, Any]] = {}
        for row in examples.to_pylist() if examples is not None else ():
            after = np.array(row["after"]).reshape(len(kept), -1)[places]
            known[row[JOB]] = {"tokens": row["tokens"], "after": after.ravel()}
        return known, manifest["key"]

    @cached_property
    def encoded(self) -> dict[int, EncodedText]:
        """The texts of the sample, by row; one that cannot be explained is refused before the run begins."""
        out = {}
        for job in self.sample:
            with of_row(self.data, job):
                (out[job],) = self.clf.encode([self.data.inputs[job]], truncate=True)
        return out

    def run(self, table: str, job: int, folder: RunFolder) -> pa.Table:
        """The rows of one job."""
        text = self.encoded[job]
        if table == "examples":
            return self._loo(job, text)
        (row,) = folder.rows("examples", job).to_pylist()
        after = np.array(row["after"]).reshape(len(self.removals), len(text) + 1, -1)
        loo = loo_maps(after, row["target"], multi_label=self.clf.multi_label)
        if table == "methods":
            return self._methods(text, row["target"], loo, row["seconds"][0])
        return {"masks": self._masks, "lattice": self._lattice}[table](text, row["target"], loo)

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
        row: dict[str, tuple[Any, Any]] = {
            "label": (int(self.data.labels[job]), number),
            "target": (int(logits[: len(self.clf.labels)].argmax()), number),
            "tokens": (len(text), pa.int32()),
            "whole": (text.whole, pa.int32()),
            "special": (np.flatnonzero(text.special).tolist(), pa.list_(pa.int32())),
            "after": (logits, pa.list_(kind)),
            "seconds": (seconds, pa.list_(pa.float32())),
        }
        return pa.table({name: pa.array([value], kind) for name, (value, kind) in row.items()})

    def _methods(self, text: EncodedText, target: int, loo: np.ndarray, loo_seconds: float) -> pa.Table:
        rows = []
        for method in self.methods:
            if method == "loo":  # under the first removal: one map for all sites
                maps, parts = np.broadcast_to(loo[0], (len(SITES), *loo[0].shape)), {"word": loo[0, 0]}
                rows.append((maps, parts, loo_seconds, {"passes": (len(text) + 1, 0)}))
            else:
                rows.append(self._method(method, text, target))
        maps = np.stack([row[0] for row in rows])
        details = [row[3] for row in rows]
        columns = {
            "method": pa.array(self.methods, pa.string()),
            "seconds": pa.array([row[2] for row in rows], pa.float32()),
            "convergence_delta": pa.array(
                [of.get("convergence_delta", np.nan) for of in details], pa.float32()
            ),
            **self._explained(maps, loo, text, target, agreement_axes(self.removals).options["statistic"]),
        }
        if set(self.methods) - set(DEFAULT_METHODS):
            columns["passes"] = PASSES.column(np.array([of["passes"] for of in details], dtype=np.float64))
        if self.keep_maps:
            missing = np.full(len(text), np.nan)
            flat = [
                np.concatenate([parts.get(name, missing) for name in EMBEDDING_PARTS])
                for _, parts, *_ in rows
            ]
            columns["map"] = pa.array([round_bits(one) for one in flat], pa.list_(pa.float32()))
        return pa.table(columns)

    def _method(self, method: str, text: EncodedText, target: int) -> tuple[np.ndarray, Any, float, Any]:
        """One method on one text: maps (site, target, T); parts, seconds and details of the logit."""
        of = method_named(self.calls[method][0])
        begin = time.perf_counter()
        first = self._explain(method, text, target, TARGET_CHOICES[0])
        seconds = time.perf_counter() - begin
        maps = np.full((len(SITES), len(TARGET_CHOICES), len(text)), np.nan)
        for o, output in enumerate(TARGET_CHOICES):
            if output not in self.targets or (o and of.outputs == "logit"):
                continue
            same = o == 0 or of.outputs == "none"
            record = first if same else self._explain(method, text, target, output)
            maps[:, o] = [_at_site(record.parts, site) if record.parts else record.scores for site in SITES]
        details = {"passes": (1, 0 if of.outputs == "none" else 1), **first.details}
        return maps, {"word": first.scores, **first.parts}, seconds, details

    def _explain(self, method: str, text: EncodedText, target: int, output: str) -> Attribution:
        kind, options = self.calls[method]
        if method_named(kind).outputs != "none":
            options = {**options, "output": output}
        return explain(kind, self.clf, [text], [target], progress=False, **options)[0]

    def _explained(
        self, maps: np.ndarray, loo: np.ndarray, text: EncodedText, target: int, statistics: Sequence[Any]
    ) -> dict[str, pa.Array]:
        """Columns of every explanation of a text, from maps (row, site, target, T): `r`; `sum` and `size`,
        sum R and sum |R|; `morf` and `lerf`, the mean logit along each curve, NaN where none was run.
        """
        r = agreement_grid(maps, loo, text.special, statistics=tuple(statistics))
        kept = [counted(text.special, tokens) for tokens in TOKEN_CHOICES]
        sums = np.stack([maps[..., mask].sum(-1) for mask in kept], 2)
        sizes = np.stack([np.abs(maps[..., mask]).sum(-1) for mask in kept], 2)
        rankings, curves = dict(enumerate(maps[:, 0, 0])), {}
        if self.curves:
            curves = shared_curves(self.clf, text, target, rankings, chunk=self.chunk)
        means = {
            order: [curves[k][order].mean_logit if k in curves else np.nan for k in range(len(maps))]
            for order in ORDERS
        }
        return {
            "r": agreement_axes(self.removals, statistics).column(round_r(r)),
            "sum": SUMS.column(round_bits(sums)),
            "size": SUMS.column(round_bits(sizes)),
            **{order: pa.array(values, pa.float32()) for order, values in means.items()},
        }

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
        numbers = pa.array([mask_number(mask) for mask in masks], pa.int32())
        return pa.table({"mask": numbers, **self._explained(maps, loo, text, target, ("pearson",))})

    @torch.no_grad()
    def _lattice(self, text: EncodedText, target: int, loo: np.ndarray) -> pa.Table:
        tape, starts = self._tape(text, target, ("logit",))
        by_part = {name: to_numpy(value)[:, 0] for name, value in all_masks(tape, starts[0]).items()}
        maps = np.stack([scores_at(by_part, site) for site in SITES], 1)[:, :, None]
        for_all = np.broadcast_to(maps, (*maps.shape[:2], len(TARGET_CHOICES), len(text)))
        r = agreement_grid(for_all, loo[:1], text.special, statistics=("pearson",))
        of_logit = r[:, :, :, 0, 0, 0]  # (mask, site, tokens): one removal, the logit, Pearson
        stored = lattice_axes(self.clf.card.layers)
        return pa.table({"r": stored.column(round_r(np.moveaxis(of_logit, 0, -1))[None])})

    def _tape(self, text: EncodedText, target: int, outputs: Sequence[str]) -> tuple[Any, torch.Tensor]:
        """A tape and where relevance starts for each output, (outputs, 1, C)."""
        tape, chosen = self.clf.tape(text), torch.tensor([target], device=self.clf.device)
        kind = {"multi_label": self.clf.multi_label}
        return tape, torch.stack([output_gradient(tape.logits, chosen, output, **kind) for output in outputs])

    def summaries(self, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """Mean r of every mask over all examples and two halves of them."""
        if "lattice" not in tables:
            return {}
        r = lattice_axes(self.clf.card.layers).read(tables["lattice"]["r"])
        means = [
            r.isel(example=examples).mean("example").rename("mean").expand_dims(part=[part]).to_dataframe()
            for part, examples in EXAMPLES_OF.items()
        ]
        rows = [pa.Table.from_pandas(of.reset_index(), preserve_index=False) for of in means]
        return {"lattice_means": pa.concat_tables(rows).combine_chunks()}


def _at_site(parts: Mapping[str, np.ndarray], site: str) -> np.ndarray:
    """A map at a site; NaN where its parts cancel up to rounding, as those of input x gradient do at the
    whole embedding sum: the LayerNorm after it removes every scale.
    """
    scores = scores_at(parts, site)
    size = sum(np.abs(part).sum() for part in parts.values())
    return scores if np.abs(scores).sum() > CANCELLED * size else np.full_like(scores, np.nan)


# -- what runs on texts share --------------------------------------------------------------------------------


def identity(clf: Classifier, data: Dataset, seed: int) -> dict[str, Any]:
    """Model, data and sample in a configuration."""
    return {
        "split": data.split,
        "source": data.source,
        "data": data.fingerprint,
        "seed": seed,
        "model": clf.card.name,
        "weights": clf.card.fingerprint,
        "tokenizer": clf.card.tokenizer,
        "model config": clf.card.config,
        "dtype": clf.card.dtype,
    }


def described(clf: Classifier, data: Dataset, sample: Sequence[int], **more: Any) -> dict[str, Any]:
    """Model, data and number of examples in a manifest."""
    model = {name: getattr(clf.card, name) for name in ("name", "family", "layers", "heads", "hidden")}
    return {"model": model | more, "data": data.describe(), "examples": len(sample)}


@contextmanager
def of_row(data: Dataset, job: int) -> Iterator[None]:
    """Name the row of the data in what is refused."""
    try:
        yield
    except InputError as error:
        got = f"row {job} of {data.name}/{data.split}: {error.got.replace('text 0', 'a text', 1)}"
        raise InputError("run", got=got, expected=error.expected, hint=error.hint) from None


def is_own(data: Dataset) -> bool:
    """Whether these are the user's own data, whatever their name."""
    return data.source in OWN_SOURCES


def settings_of(data: Dataset) -> dict[str, Any]:
    """The chunk of a curve's step, and the removals: of the user's own texts SST-2's, or IMDB's if the median
    text is long.
    """
    if not is_own(data):
        return SETTINGS[choose("run", "task", data.name, tuple(SETTINGS))]
    pairs = data.pairs or [""] * len(data.texts)
    lengths = [len(text) + len(second) for text, second in zip(data.texts, pairs, strict=True)]
    return LONG if np.median(lengths) >= LONG_TEXT else SHORT


def _removals(clf: Classifier, settings: Mapping[str, Any], chosen: Sequence[str] | None) -> Sequence[str]:
    """The removals of a data set, by default those that the model has."""
    for removal in chosen or ():
        check_removal(clf, removal)
    known = {"mask-token": clf.mask_id, "pad-token": clf.tokenizer.pad_token_id}
    return [name for name in settings["removals"] if chosen is not None or known.get(name, 0) is not None]


def _targets(clf: Classifier, chosen: Sequence[str] | None) -> tuple[str, ...]:
    """The outputs to explain: all that the classifier has, or some."""
    for output in chosen or ():
        check_output(output, clf)
    offered = TARGET_CHOICES[:1] if clf.regression else TARGET_CHOICES
    return some_of("targets", chosen, [name for name in offered if name != "margin" or not clf.multi_label])


def some_of(name: str, chosen: Sequence[str] | None, options: Sequence[str]) -> tuple[str, ...]:
    """Options in their order, the first one always among them: methods and curves are made with it."""
    for option in chosen or ():
        choose("run", name, option, tuple(options))
    if chosen is not None and (options[0] not in chosen or len(set(chosen)) < len(chosen)):
        got, expected = f"{name} {', '.join(chosen) or 'none'}", f"{options[0]} and others, each once"
        raise InputError("run", got=got, expected=expected, hint=f"choose from {', '.join(options)}")
    return tuple(option for option in options if chosen is None or option in chosen)


def own_rules(calls: Mapping[str, tuple[str, Any]], layers: int) -> dict[str, Any]:
    """The user's rule sets among a run's methods, for its configuration."""
    told: dict[str, Any] = {}
    for kind in {kind for kind, _ in calls.values()} - {row.name for row in PACKAGE}:
        rules = METHODS[kind].fixed.get("bypass")
        if isinstance(rules, RuleSet):
            cuts = [[path, tokens, list(of)] for path, tokens, of in cuts_of("run", rules.cut, layers)]
            told[kind] = {"bypass": sorted(rules.mask(layers)), "site": rules.site, "cut": cuts}
            told[kind]["shares"] = np.asarray(rules.shares, dtype=float).tolist()
            told[kind] |= {"rules": rules.prints} if rules.rules else {}
        else:
            told[kind] = {"function": print_of(METHODS[kind].function)}
    return {"rules": told} if told else {}


def run_calls(clf: Classifier, methods: Sequence[str], n_steps: int) -> dict[str, tuple[str, dict[str, Any]]]:
    """The calls of a run's methods by their names; bad options are refused here, before the run begins."""
    calls = {method: method_call(method) for method in methods}
    if not calls or len(calls) < len(methods):
        got, hint = f"methods {', '.join(methods) or 'none'}", f"choose from {', '.join(DEFAULT_METHODS)}"
        raise InputError("run", got=got, expected="at least one, each once", hint=hint)
    whole("run", "n_steps", n_steps, hint="50 is the default")
    for method, (kind, options) in calls.items():
        if fixed := sorted(set(options) & set(FIXED)):
            expected = f"no {', '.join(fixed)}: a run measures all"
            raise InputError("run", got=f"method {method!r}", expected=expected, hint="leave it out")
        if kind == "ig":
            options.setdefault("n_steps", n_steps)
        explain(kind, clf, [], [], progress=False, **options)  # on no text
    return calls


ANSWER_METHODS = ("loo", "attnlrp", "cp-lrp", "mask-gradient")


class AnswerJobs(Jobs):
    """The jobs of a run on prompts and their completions, the pairs of the data, or where it has none what
    the model writes, `completion` tokens; LOO is always among the methods. See `execute`.
    """

    tables = ("answers",)

    def __init__(
        self,
        clf: Classifier,
        data: Dataset,
        *,
        completion: int | None = None,
        methods: Sequence[str] = ANSWER_METHODS,
        removal: str = "attention-mask",
        limit: int | None = None,
        seed: int = 0,
        n_steps: int = 50,
    ) -> None:
        if clf.encoder.wiring.task != NEXT_TOKEN:
            got = f"completions, and {clf.card.name!r}, whose logits are of: {clf.encoder.wiring.task}"
            hint = "leave out the column of answers, or load a language model"
            raise InputError("run", got=got, expected="a model of the next token", hint=hint)
        if not data.pairs:
            whole("run", "completion", completion, hint="name the column of the answers, or try --write 8")
        given = run_calls(clf, methods, n_steps)
        self.calls: dict[str, tuple[str, dict[str, Any]]] = {"loo": ("loo", {}), **given}
        check_removal(clf, removal)
        self.clf, self.data, self.completion, self.removal = clf, data, completion, removal
        self.sample = data.order(limit, seed=seed)
        for job in self.sample:
            with of_row(data, job):
                self._check(job)
        self.config = {
            "task": ANSWERS_TASK,
            "name": data.name,
            **identity(clf, data, seed),
            "completion": None if data.pairs else completion,
            "methods": list(self.calls),
            "removal": removal,
            "n_steps": n_steps,
            **own_rules(self.calls, clf.card.layers),
        }
        self.manifest = described(clf, data, self.sample)

    def _answer(self, job: int) -> str | int:
        return self.data.pairs[job] if self.data.pairs else int(self.completion or 0)

    def _check(self, job: int) -> None:
        """Refuse a prompt or an answer that cannot be explained."""
        prompt, answer = opened(self.clf, self.data.texts[job]), self._answer(job)
        if isinstance(answer, str):
            followed(self.clf, prompt, answer)
        else:
            check_length(self.clf, len(prompt) + answer - 1)

    def run(self, table: str, job: int, folder: RunFolder) -> pa.Table:
        """A row for each method: of each token of the answer its logit and r with LOO, last r of the sums."""
        answers, seconds = [], []
        for kind, options in self.calls.values():
            begin = time.perf_counter()
            options = {**options, "progress": False} | ({"removal": self.removal} if kind == "loo" else {})
            answer = attribute(
                self.clf, self.data.texts[job], method=kind, completion=self._answer(job), **options
            )
            seconds.append(time.perf_counter() - begin)
            answers.append(Completion(answer))
        loo = answers[0]
        columns = {
            "method": pa.array(list(self.calls), pa.string()),
            "tokens": pa.array([len(loo[0].tokens)] * len(answers), pa.int32()),
            "logits": pa.array([[record.logit for record in loo]] * len(answers), pa.list_(pa.float32())),
            "r": pa.array([agreements(answer, loo) for answer in answers], pa.list_(pa.float32())),
            "seconds": pa.array(seconds, pa.float32()),
        }
        return pa.table(columns)


def agreements(answer: Completion, loo: Completion) -> list[float]:
    """r with LOO over tokens that are not special, by each statistic: of each token's map, then of the sum.

    Undefined ones are NaN.
    """
    pairs = [*zip(answer, loo, strict=True), (answer.sum(), loo.sum())]
    kept = [(one.scores[~one.special], other.scores[~one.special]) for one, other in pairs]
    return [
        float(correlation(a, b)) if len(a) > 1 else np.nan
        for correlation in CORRELATIONS.values()
        for a, b in kept
    ]
