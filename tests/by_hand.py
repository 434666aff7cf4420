"""What a run on reviews measures, the slow way: maps by `attribute`, each number by its own call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import lrp_companion as lrp
from lrp_companion.attribution import Attribution
from lrp_companion.methods import removal_evaluator
from lrp_companion.metrics import agreement, perturbation_curve
from lrp_companion.schema import Protocol, masks_on_paths


@dataclass
class ByHand:
    """Rows by example and method, and the maps that they are of."""

    rows: list[dict[str, Any]]
    maps: dict[str, list[Attribution]]
    protocols: dict[str, Protocol]

    def values(self, column: str, method: str) -> np.ndarray:
        return np.array([row[column] for row in self.rows if row["method"] == method], dtype=float)


def loo_by(
    clf: lrp.Classifier, texts: Sequence[Any], protocol: Protocol, **options: Any
) -> list[Attribution]:
    at = {"removal": protocol.removal, "output": protocol.target}
    return lrp.attribute(clf, list(texts), method="loo", **at, **options)


def by_hand(
    clf: lrp.Classifier,
    texts: Sequence[Any],
    methods: Iterable[str],
    protocols: Mapping[str, Protocol],
    *,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    chunk: int = 1,
    truncate: bool = True,
) -> ByHand:
    (output,) = {protocol.target for protocol in protocols.values()}
    maps = {
        name: lrp.attribute(
            clf,
            list(texts),
            method=name,
            truncate=truncate,
            **({} if name == "rollout" else {"output": output}),
            **(options or {}).get(name, {}),
        )
        for name in methods
    }
    loo = {p.removal: loo_by(clf, texts, p, truncate=truncate) for p in protocols.values()}
    rows = []
    for k, text in enumerate(clf.encode(list(texts), truncate=truncate)):
        for name, records in maps.items():
            record, sizes = records[k], np.abs(records[k].scores)
            row: dict[str, Any] = {"method": name, "sum": record.scores.sum()}
            row["special_share"] = sizes[record.special].sum() / sizes.sum() if sizes.any() else np.nan
            for label, p in protocols.items():
                row[f"r {label}"] = agreement(
                    record.scores_at(p.site), loo[p.removal][k].scores, text.special, p
                )
            evaluate = removal_evaluator(clf, text, target=record.target)
            for order in ("morf", "lerf"):
                walk = {"order": order, "chunk": chunk, "removable": ~text.special}
                row[order] = perturbation_curve(evaluate, record.scores, **walk).mean_logit
            rows.append({**row, "delta": row["lerf"] - row["morf"]})
    return ByHand(rows, maps, dict(protocols))


def masks_by_hand(
    clf: lrp.Classifier, texts: Sequence[Any], protocols: Mapping[str, Protocol]
) -> dict[str, dict[frozenset[int], np.ndarray]]:
    """r of every mask on the three paths, by protocol, each mask's map by a call of its own."""
    out: dict[str, dict[frozenset[int], np.ndarray]] = {label: {} for label in protocols}
    (output,) = {protocol.target for protocol in protocols.values()}
    loo = {p.removal: loo_by(clf, texts, p) for p in protocols.values()}
    for mask in masks_on_paths(clf.card.layers):
        records = lrp.attribute(clf, list(texts), method="lrp", bypass=sorted(mask), output=output)
        for label, p in protocols.items():
            out[label][mask] = np.array(
                [
                    agreement(one.scores_at(p.site), exact.scores, one.special, p)
                    for one, exact in zip(records, loo[p.removal], strict=True)
                ]
            )
    return out
