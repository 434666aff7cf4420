"""The loops behind the notebooks: the same numbers as asking for each map by hand."""

from __future__ import annotations

import numpy as np
import pytest
from tiny_models import TEXTS

import lrp_companion as lrp
from lrp_companion.paper.published import paper_table
from lrp_companion.runs.compare_methods import compare_methods, layer_paths, path_masks

PROTOCOLS = {
    "words only (default)": lrp.Protocol(),
    "all": lrp.Protocol(site="word+position", tokens="all", map="sum-to-one", removal="mask-token"),
}


@pytest.fixture(scope="module")
def long_texts() -> list[str]:
    return [text for text in TEXTS if len(text.split()) > 3]


def test_agreement_equals_the_methods_called_by_hand(clf, long_texts):
    result = compare_methods(
        clf, long_texts, methods=("loo", "attnlrp", "cp-lrp", "rollout"), protocols=PROTOCOLS
    )
    for k, text in enumerate(long_texts):
        loo = lrp.attribute(clf, text, method="loo", removal="mask-token")[0]
        cp_lrp = lrp.attribute(clf, text, method="cp-lrp", site="word+position")[0]
        by_hand = np.corrcoef(cp_lrp.scores / cp_lrp.scores.sum(), loo.scores / loo.scores.sum())[0, 1]
        row = next(r for r in result.rows if r["example"] == k and r["method"] == "cp-lrp")
        assert row["r all"] == pytest.approx(by_hand, abs=1e-10)
        plain = lrp.attribute(clf, text, method="attnlrp")[0]
        masked = lrp.attribute(clf, text, method="loo")[0]
        keep = ~plain.special
        assert result.values("r words only (default)", "attnlrp")[k] == pytest.approx(
            np.corrcoef(plain.scores[keep], masked.scores[keep])[0, 1], abs=1e-10
        )
    assert np.allclose(result.values("r words only (default)", "loo"), 1)


def test_curves_are_the_mean_logit_of_a_plain_loop(clf, long_texts):
    result = compare_methods(clf, long_texts[:1], methods=("attnlrp",))
    record = result.maps["attnlrp"][0]
    (text,) = clf.encode(long_texts[0])
    evaluate = lrp.removal_evaluator(clf, text, target=record.target)
    keep, logits = np.ones(len(text), dtype=bool), []
    for token in sorted(np.flatnonzero(~record.special), key=lambda i: -record.scores[i]):
        keep[token] = False
        logits.append(evaluate(keep[None])[0])
    assert result.rows[0]["morf"] == pytest.approx(np.mean(logits), abs=1e-10)
    assert result.rows[0]["delta"] == pytest.approx(result.rows[0]["lerf"] - result.rows[0]["morf"])


def test_path_ends_are_the_methods(clf, long_texts):
    paths = layer_paths(clf, long_texts, protocols={"words only (default)": lrp.Protocol()})
    result = compare_methods(clf, long_texts, methods=("attnlrp", "cp-lrp"), curves=False)
    everything = frozenset(range(1, clf.card.layers + 1))
    assert paths.r["words only (default)"][frozenset()] == pytest.approx(
        result.values("r words only (default)", "attnlrp"), abs=1e-10
    )
    assert paths.r["words only (default)"][everything] == pytest.approx(
        result.values("r words only (default)", "cp-lrp"), abs=1e-10
    )
    for path, masks in path_masks(clf.card.layers).items():
        for mask, interval in zip(masks, paths.curve("words only (default)", path), strict=True):
            by_hand = lrp.attribute(clf, long_texts, method="lrp", bypass=mask)
            loo = lrp.attribute(clf, long_texts, method="loo")
            r = [
                np.corrcoef(a.scores[~a.special], b.scores[~b.special])[0, 1]
                for a, b in zip(by_hand, loo, strict=True)
            ]
            assert interval.mean == pytest.approx(np.mean(r), abs=1e-10)


def test_paths_have_the_identities_of_table_a3():
    masks = path_masks(12)
    assert (
        masks["front-to-back"][0] == masks["single"][0] and masks["back-to-front"][0] == masks["single"][-1]
    )
    assert masks["front-to-back"][-1] == masks["back-to-front"][-1] == frozenset(range(1, 13))
    printed = {
        (row["path"], frozenset(row["bypass"])) for row in paper_table("tableA3") if row["dataset"] == "SST"
    }
    for path, name in (
        ("front-to-back", "front_to_back"),
        ("back-to-front", "back_to_front"),
        ("single", "single"),
    ):
        assert {mask for printed_path, mask in printed if printed_path == name} == set(masks[path])


def test_mixed_targets_are_refused(clf):
    with pytest.raises(lrp.InputError, match="one target choice in all of them"):
        compare_methods(clf, ["a film"], protocols={"a": lrp.Protocol(), "b": lrp.Protocol(target="margin")})
