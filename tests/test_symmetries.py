"""Which scores move under which exact symmetry: the stated table, family by family, to 1e-9."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lrp_book.first_token import pair
from lrp_book.records.symmetries import page_table, read
from tiny_models import BERT_LIKE, IMAGE_FAMILIES, PRE_NORM, build, vision, wordpiece

import lrp_companion as lrp
from lrp_companion.families.symmetries import SYMMETRIES, DoesNotFit, Draw
from lrp_companion.loading.classifier import Classifier, load_classifier
from lrp_companion.methods import method_call
from lrp_companion.model_check import Symmetries, exact_copy, maps_by, moves_between, symmetries

TEXTS = ["a film of rare grace", "the plot was dull !"]
AT_WORDS = {"gradient x input, word", "AttnLRP, word", "CP-LRP, word", "IG (n_steps 8, baseline zero)"}
AT_POSITIONS = {
    "gradient x input, word+position",
    "AttnLRP, word+position",
    "CP-LRP, word+position",
    "PA-LRP",
}
STATED = {
    "from positions to words": AT_WORDS,
    "from types to words": AT_WORDS | AT_POSITIONS,
    "grouping of gates": {"AttnLRP", "CP-LRP", "PA-LRP"},
}
"""What moves; every other column of every other symmetry stays, but for `NO_START`."""
NO_START = {"value bias": {"Shapley (exact 0, permutations 4)"}}
"""GPT-2 has no special tokens: of the empty subset the last token attends to nothing, and reads no bias."""
FAMILIES = (*BERT_LIKE, *PRE_NORM, *IMAGE_FAMILIES)


def tiny(family: str) -> tuple[Classifier, Any]:
    if family in IMAGE_FAMILIES:
        draw = torch.Generator().manual_seed(3)
        return load_classifier(vision(family, size=(4, 6))), torch.randn(2, 2, 4, 6, generator=draw)
    return load_classifier(*build(family)), TEXTS


@pytest.fixture(scope="module", params=FAMILIES)
def made(request: pytest.FixtureRequest) -> tuple[Classifier, Symmetries]:
    clf, inputs = tiny(request.param)
    return clf, symmetries(clf, inputs)


def test_what_is_stated_moves_and_nothing_else(made: tuple[Classifier, Symmetries]) -> None:
    clf, table = made
    assert {*table.moves, *table.left_out} == set(SYMMETRIES)
    assert not any("logit" in why for why in table.left_out.values())
    assert max(table.logits.values()) < 1e-12
    stated = {**STATED, **(NO_START if clf.card.family == "gpt2" else {})}
    for name, columns in table.moves.items():
        moving = stated.get(name, set()) & set(columns)
        for column, by in columns.items():
            rounding = 1e-5 if "IG" in column and clf.encoder.wiring.single_precision else 1e-9
            assert by > 1e-3 if column in moving else by < rounding, (name, column, by)
        assert set(table.moved(name)) == moving


def test_a_symmetry_is_left_out_where_the_architecture_lacks_it(made: tuple[Classifier, Symmetries]) -> None:
    wiring, table = made[0].encoder.wiring, made[1]
    assert ("grouping of gates" in table.moves) == ("factors of gates" in table.moves) == wiring.gated
    assert "key bias" not in table.moves or wiring.rotary is None
    if made[0].card.family == "gpt_neox":  # one map makes queries, keys and values, head by head
        return
    assert ("from types to words" in table.moves) == (wiring.type is not None)
    assert ("gain of norms" in table.moves) == (wiring.layers[0].mlp_input_norm is not None)
    many = {"queries and keys", "values and output", "order of heads", "order of hidden units"}
    assert len(many & set(table.moves)) >= 3 and len(table.moves) >= 6


def test_every_symmetry_changes_a_parameter_and_none_of_the_users() -> None:
    changed = set()
    for family in ("bert", "gpt2", "llama"):
        clf, inputs = tiny(family)
        kept = {name: value.clone() for name, value in clf.network.state_dict().items()}
        symmetries(clf, inputs, methods=["attnlrp"])
        assert all(torch.equal(value, kept[name]) for name, value in clf.network.state_dict().items())
        for name, symmetry in SYMMETRIES.items():
            there = exact_copy(clf)
            with torch.no_grad():
                try:
                    if symmetry.prepare is not None:
                        symmetry.prepare(there.encoder.wiring)
                    symmetry.edit(there.encoder.wiring, Draw(0, there.device))
                except DoesNotFit:
                    continue
            moved = [not torch.equal(v, kept[k].double()) for k, v in there.network.state_dict().items()]
            changed |= {name} if any(moved) else set()
    assert changed == set(SYMMETRIES) - {"grouping of gates"}  # which is another reading of one product


def test_epsilon_costs_the_invariance() -> None:
    """The stabiliser of Eq. (1) is added to sums that a change of basis rescales."""
    clf, texts = tiny("bert")
    names = ["queries and keys", "values and output"]
    exact, stable = (
        symmetries(clf, texts, methods=[f"attnlrp:epsilon={value}"], names=names) for value in (0.0, 0.1)
    )
    assert not any(exact.moved(name) for name in names)
    assert all(by > 1e-3 for name in names for by in stable.moves[name].values())


def test_two_functions_of_the_tokens_are_equal_and_loo_by_the_mask_is_not() -> None:
    """A head that reads the first token alone against a bias; no text tells them apart."""
    head, bias = pair(wordpiece())
    draw, gap = torch.Generator().manual_seed(0), 0.0
    for length in (1, 2, 5, 8, 12):
        ids = torch.randint(0, len(head.tokenizer), (200, length), generator=draw)  # any tokens, in any order
        with torch.no_grad():
            a, b = (clf.network(input_ids=ids).logits for clf in (head, bias))
        gap = max(gap, float((a - b).abs().max()))
    assert gap < 1e-10
    for text in TEXTS:
        masked = [lrp.attribute(clf, text, method="loo", target=1)[0].scores for clf in (head, bias)]
        assert abs(masked[0][0] - masked[1][0]) > 0.05
        np.testing.assert_allclose(masked[0][1:], masked[1][1:], atol=1e-10)
    calls = [
        method_call(f"loo:removal={name}") for name in ("attention-mask", "pad-token", "mask-token", "delete")
    ]
    calls += [method_call(name) for name in ("mask-gradient", "shapley:exact=5", "attnlrp", "cp-lrp")]
    moves = moves_between(maps_by(head, TEXTS, calls), maps_by(bias, TEXTS, calls))
    assert {name for name, by in moves.items() if by > 1e-3} == {
        "LOO (removal attention-mask)",
        *(f"{name}, {site}" for name in ("AttnLRP", "CP-LRP") for site in ("word+position", "embedding")),
    }
    assert max(by for by in moves.values() if by < 1e-3) < 1e-9


def test_the_page_prints_the_record_and_its_table_is_the_stated_one() -> None:
    root = Path(__file__).resolve().parents[1]
    page, tables = (root / "book/symmetries.md").read_text(), read(root / "results/symmetries.json")
    assert "<!-- symmetries: table -->\n" + "\n".join(page_table(tables)) + "\n<!-- end -->" in page
    assert all(f"| {name} | {symmetry.why} |" in page for name, symmetry in SYMMETRIES.items())
    moving = {name for table in tables.values() for name in table.moves if table.moved(name)}
    assert len(SYMMETRIES) == 13 and len(moving & set(SYMMETRIES)) == 4 and len(moving) == 5
    for model, table in tables.items():
        for name in set(table.moves) & set(SYMMETRIES):
            stated = STATED.get(name, set()) | (NO_START.get(name, set()) if model == "gpt2" else set())
            assert set(table.moved(name)) == stated & set(table.moves[name])


def test_a_model_of_the_record_again(kept) -> None:
    table = read(Path(__file__).resolve().parents[1] / "results/symmetries.json")["llama"]
    clf = load_classifier(kept("wirings/llama"))
    texts = ["not a film of rare grace", "the plot is dull , but the actors are warm"]
    again = symmetries(clf, texts, methods=["attnlrp", "pa-lrp"], names=["grouping of gates"])
    for column, by in again.moves["grouping of gates"].items():
        assert by == pytest.approx(table.moves["grouping of gates"][column], rel=0.01)
