"""A run in memory, for a few texts: what `lrp-companion run` writes to a folder, as it is read from there."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lrp_companion.lab.folder import JOB, key_of
from lrp_companion.lab.review_jobs import TextJobs
from lrp_companion.lab.text_run import TextRun
from lrp_companion.loading.classifier import Classifier
from lrp_companion.loading.texts import Text
from lrp_companion.methods.common import watch
from lrp_companion.sources import Dataset

COMPARED_METHODS = ("loo", "ig", "rollout", "attnlrp", "cp-lrp")


class _Memory:
    """The rows of finished jobs, as a run's folder gives them."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[int, pa.Table]] = {}

    def add(self, table: str, job: int, rows: pa.Table) -> None:
        rows = rows.append_column(JOB, pa.array([job] * len(rows), pa.int64()))
        self.kept.setdefault(table, {})[job] = rows

    def rows(self, table: str, job: int) -> pa.Table:
        return self.kept[table][job]


def compare_methods(
    clf: Classifier,
    data: Dataset,
    *,
    methods: Sequence[str] = COMPARED_METHODS,
    masks: str = "none",
    removals: Sequence[str] = ("attention-mask",),
    targets: Sequence[str] = ("logit",),
    progress: bool | None = None,
    **options: Any,
) -> TextRun:
    """Explain every text by every method, and compare with LOO under every choice of a `Protocol`.

    Parameters
    ----------
    methods, masks, removals, targets : as in `lrp-companion run`, here few of each.
    options : `curves`, `keep_maps`, `n_steps`, as there.

    >>> run = compare_methods(clf, load_dataset("sst2", limit=8))  # doctest: +SKIP
    >>> print(run.difference("cp-lrp", "attnlrp"))  # doctest: +SKIP
    -0.021 [-0.043, 0.001], n = 8
    """
    asked: dict[str, Any] = {"methods": methods, "masks": masks, "removals": removals, "targets": targets}
    jobs, begin = TextJobs(clf, data, **asked, **options), time.monotonic()
    memory: Any = _Memory()  # all that a job asks of a folder
    for job in watch(jobs.sample, progress=progress, label="compare"):
        for table in jobs.tables:
            memory.add(table, job, jobs.run(table, job, memory))
    tables = {name: pa.concat_tables(rows[job] for job in sorted(rows)) for name, rows in memory.kept.items()}
    tables |= jobs.summaries(tables)
    sessions = [{"start": "", "end": "", "seconds": time.monotonic() - begin}]
    known = {"key": key_of(jobs.config), "config": jobs.config, "sessions": sessions, "finished": True}
    return TextRun(data.name, {**known, **jobs.manifest}, tables)


def fitting_texts(clf: Classifier, texts: Sequence[Text], *, tokens: int = 14, count: int = 6) -> list[int]:
    """Indices of the first `count` texts with at most `most` tokens; if there are too few, of the shortest.

    >>> clf = load_classifier("companion")                                           # doctest: +SKIP
    >>> fitting_texts(clf, ["a film", "a film of rare grace"], tokens=4, count=1)    # doctest: +SKIP
    [0]
    """
    lengths = [len(text) for text in clf.encode(list(texts), truncate=True)]
    order = sorted(range(len(lengths)), key=lambda k: (max(lengths[k], tokens), k))
    return sorted(order[:count])
