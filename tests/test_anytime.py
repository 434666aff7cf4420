"""Passes step by step are the methods of that name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lrp_companion as lrp
from lrp_companion import Classifier
from lrp_companion.lab.perturbation_paths import anytime_maps

# the second has more tokens than `MANY` groups
SHORT = ["a film of rare grace", "dull , slow and far too long , a dull film"]
STEPS = {
    "hybrid": ("hybrid", "exact"),
    "groups": ("mask-gradient", "groups"),
    "random": ("sampled-loo", "budget"),
}


@pytest.fixture(scope="module")
def maps(clf: Classifier) -> list[dict[str, Any]]:
    return anytime_maps(clf, SHORT)


def check_against_the_methods(clf: Classifier, text: str, record: dict[str, Any]) -> None:
    (loo,) = lrp.attribute(clf, text, method="loo")
    np.testing.assert_allclose(record["loo"], loo.scores, rtol=0, atol=1e-10)
    assert (record["tokens"], record["label"], record["forwards"]) == (
        loo.pieces,
        clf.labels[loo.target],
        len(loo.tokens) + 1,
    )
    assert record["special"].tolist() == loo.special.tolist() and tuple(record["ways"]) == tuple(STEPS)
    for way, steps in record["ways"].items():
        assert len(steps) == len(loo.tokens) + 1
        method, option = STEPS[way]
        for p, step in enumerate(steps):
            if p == 0 and way == "random":
                assert not step["scores"].any()
                assert (step["forwards"], step["backwards"], step["exact"]) == (0, 0, [])
                continue
            options = {option: p} if p else {}
            (expected,) = lrp.attribute(clf, text, method=method if p else "mask-gradient", **options)
            np.testing.assert_allclose(
                step["scores"], expected.scores, rtol=0, atol=1e-10, err_msg=f"{way} {p}"
            )
            assert (step["forwards"], step["backwards"]) == expected.details["passes"], (way, p)
            assert tuple(step["exact"]) == expected.details.get("exact tokens", ()), (way, p)


@pytest.mark.parametrize("place", range(len(SHORT)))
def test_every_step_is_the_method_of_that_name(clf, maps, place):
    check_against_the_methods(clf, SHORT[place], maps[place])


def test_every_family(family_clf: Classifier) -> None:
    (record,) = anytime_maps(family_clf, SHORT[0])
    check_against_the_methods(family_clf, SHORT[0], record)


def test_r_and_error_are_of_the_map_at_that_step(maps: list[dict[str, Any]]) -> None:
    undefined = 0
    for record in maps:
        for steps in record["ways"].values():
            for step in steps:
                for tokens, kept in (
                    ("no-special", ~record["special"]),
                    ("all", np.ones(len(record["loo"]), dtype=bool)),
                ):
                    scores, loo = step["scores"][kept], record["loo"][kept]
                    assert step["error"][tokens] == pytest.approx(
                        sum(abs(scores - loo)) / sum(abs(loo)), rel=1e-12
                    )
                    if np.ptp(scores) == 0:
                        undefined += 1
                        assert np.isnan(step["r"][tokens])
                    else:
                        assert step["r"][tokens] == pytest.approx(np.corrcoef(scores, loo)[0, 1], abs=1e-9)
    assert undefined >= 8  # without a draw, and after the first, all tokens are alike
