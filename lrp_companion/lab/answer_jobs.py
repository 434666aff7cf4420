"""A run on what a language model answers, one job per prompt: every method against LOO, token by token.

Rows are numbers only, as in a run on reviews: no word, token or token id is kept.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lrp_companion.attribution import Completion
from lrp_companion.checks import InputError, whole
from lrp_companion.families.tasks import NEXT_TOKEN
from lrp_companion.lab.axes import ANSWERS_TASK
from lrp_companion.lab.execute import Jobs
from lrp_companion.lab.folder import RunFolder
from lrp_companion.lab.review_jobs import described, identity, of_row, own_rules, run_calls
from lrp_companion.loading.classifier import Classifier
from lrp_companion.methods import attribute
from lrp_companion.methods.completion import check_length, followed, opened
from lrp_companion.methods.perturbation import check_removal
from lrp_companion.metrics.faithfulness import CORRELATIONS
from lrp_companion.sources import Dataset

METHODS = ("loo", "attnlrp", "cp-lrp", "mask-gradient")


class AnswerJobs(Jobs):
    """The jobs of a run on prompts and their completions; see `execute`.

    Parameters
    ----------
    clf : a language model.
    data : prompts, and as their pairs the completions.
    completion : how many tokens are completed, each the most likely, where `data` has no pairs.
    methods : LOO is always among them.
    removal : how LOO removes a token.
    """

    tables = ("answers",)

    def __init__(
        self,
        clf: Classifier,
        data: Dataset,
        *,
        completion: int | None = None,
        methods: Sequence[str] = METHODS,
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
