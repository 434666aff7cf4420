"""Rows of several lengths run together, without tape or padding, against the network row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
from test_own_logits import ROTATIONS

from lrp_companion.loading.classifier import Classifier, load_classifier
from lrp_companion.loading.texts import EncodedText
from lrp_companion.methods import kept_logits
from lrp_companion.tape.encoder import Encoder
from lrp_companion.tape.packed import Row, packed_logits


def alone(network: torch.nn.Module, row: Row, first_position: int) -> torch.Tensor:
    """The `transformers` model's logits of one row, every token of it in its place and the gaps hidden."""
    width = int(row.positions.max()) + 1
    ids, seen = torch.zeros(1, width, dtype=torch.long), torch.zeros(1, width, dtype=torch.long)
    ids[0, row.positions], seen[0, row.positions] = torch.as_tensor(row.ids), 1
    seen[0, 0] = 0 if row.unread else 1
    extra = {"position_ids": torch.arange(width)[None] + first_position} if first_position else {}
    return network(input_ids=ids, attention_mask=seen, **extra).logits[0]


@pytest.mark.parametrize("family", tiny_models.BERT_LIKE)
@pytest.mark.parametrize("layers", [1, 2, 3])
@torch.no_grad()
def test_equal_to_one_row_at_a_time(family: str, layers: int) -> None:
    network = tiny_models.build(family, layers=layers)[0].double()
    wiring, generator = Encoder(network).wiring, np.random.default_rng(layers)
    rows = []
    for length in (7, 7, 7, 4, 2, 2, 1, 7):  # equal lengths meet again behind others, too
        places = np.sort(generator.choice(np.arange(1, 10), size=length - 1, replace=False))
        rows.append(
            Row(
                generator.integers(5, 35, length),
                np.array([0, *places]),
                (0,) if length > 1 and generator.random() < 0.4 else (),
            )
        )
    rows[2] = Row(rows[1].ids, rows[1].positions, (0,))  # hidden and seen first tokens in one stretch
    rows[1] = Row(rows[1].ids, rows[1].positions)
    got = packed_logits(wiring, rows)
    expected = torch.stack([alone(network, row, wiring.first_position) for row in rows])
    torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("removal", ["attention-mask", "mask-token", "pad-token", "delete"])
def test_the_same_whatever_is_run_together(family_clf: Classifier, removal: str) -> None:
    texts = family_clf.encode(["a film of rare grace", "dull", "not one scene of it stays"])
    generator = np.random.default_rng(0)
    jobs = [(text, keep) for text in texts for keep in [~row for row in np.eye(len(text), dtype=bool)]]
    jobs += [(texts[2], generator.random(len(texts[2])) < 0.5) for _ in range(12)]
    jobs = [(text, keep) for text, keep in jobs if keep.any()]
    together = kept_logits(family_clf, jobs, removal=removal, progress=False)
    for budget in (1, 20):
        torch.testing.assert_close(
            kept_logits(family_clf, jobs, removal=removal, batch_tokens=budget, progress=False),
            together,
            rtol=1e-10,
            atol=1e-11,
        )


def rows_of_loo(clf: Classifier, text: EncodedText, *maps: torch.nn.Module) -> list[list[int]]:
    """How many rows each linear map reads at each call while each token is left out once."""
    seen: dict[int, list[int]] = {id(one.weight): [] for one in maps}
    plain = torch.nn.functional.linear

    def counted(x: torch.Tensor, weight: torch.Tensor, *bias: torch.Tensor) -> torch.Tensor:
        seen.get(id(weight), []).append(len(x))
        return plain(x, weight, *bias)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.functional, "linear", counted)
        patch.setattr("lrp_companion.families.wiring.linear", counted)
        kept_logits(clf, [(text, keep) for keep in ~np.eye(len(text), dtype=bool)], progress=False)
    return list(seen.values())


def test_it_runs_each_token_and_position_once_before_attention(clf: Classifier) -> None:
    text = clf.encode("a film of rare grace")[0]
    assert rows_of_loo(clf, text, clf.encoder.wiring.layers[0].value) == [[len(text)]]


def test_the_last_layer_runs_for_the_first_token_only(clf: Classifier) -> None:
    text = clf.encode("a film of rare grace")[0]
    last, rows = clf.encoder.wiring.layers[-1], len(text)
    # the first token stays where it is hidden
    seen = rows_of_loo(clf, text, last.query, last.key, last.up)
    assert seen == [[rows], [rows * (rows - 1) + 1], [rows]]


CAUSAL = [name for name in tiny_models.PRE_NORM if name not in tiny_models.BOTH_WAYS]


def long_text(clf: Classifier, tokens: int) -> list[int]:
    draw = np.random.default_rng(tokens)
    return draw.integers(10, clf.reader.vocabulary, tokens).tolist()


@pytest.mark.parametrize("removal", ["attention-mask", "pad-token", "delete"])
@pytest.mark.parametrize("family", [*CAUSAL, "longrope", "dynamic"])
def test_what_comes_before_a_change_is_run_once(family, removal, monkeypatch):
    """LOO, spans, the subsets of Shapley values and of curves, and several places, as when run whole."""
    from lrp_companion.methods import perturbation

    more: dict[str, Any] = {"n_positions" if family == "gpt2" else "max_position_embeddings": 96}
    if family not in CAUSAL:
        more = {"rope_parameters": {"rope_theta": 100.0, **ROTATIONS[family]}, "max_position_embeddings": 35}
    network, tokenizer = tiny_models.pre_norm(family if family in CAUSAL else "llama", layers=3, **more)
    tokenizer.model_max_length = 96
    clf = load_classifier(network, tokenizer, dtype="float64")
    if removal == "pad-token" and tokenizer.pad_token_id is None:
        pytest.skip("no padding")
    texts, draw = clf.encode([long_text(clf, tokens) for tokens in (40, 33, 8)]), np.random.default_rng(0)
    jobs = [
        (text, keep) for text in texts for keep in (*~np.eye(len(text), dtype=bool), np.ones(len(text)) > 0)
    ]
    jobs += [(texts[0], np.arange(40) // 4 != span) for span in range(10)]
    jobs += [(text, draw.random(len(text)) < share) for text in texts for share in (0.3, 0.8, 0.95)]
    jobs += [(texts[1], np.arange(33) < left) for left in range(1, 33, 4)]
    ways = {"jobs": jobs, "removal": removal, "progress": False}
    shared = [kept_logits(clf, **ways), kept_logits(clf, **ways, batch_tokens=60)]
    jobs_of_one = {
        **ways,
        "jobs": [(text, keep) for text, keep in jobs if text is texts[0] and keep[:12].any()],
    }
    places = {"places": [10, 11, 25, 39]}
    shared.append(kept_logits(clf, **jobs_of_one, **places).flatten(0, 1))
    monkeypatch.setattr(perturbation, "SHORT", 10**6)
    plain = [kept_logits(clf, **ways)] * 2 + [kept_logits(clf, **jobs_of_one, **places).flatten(0, 1)]
    for ours, whole in zip(shared, plain, strict=True):
        torch.testing.assert_close(ours, whole, rtol=1e-10, atol=1e-11)


def test_loo_of_a_causal_model_runs_half_of_the_tokens() -> None:
    network, tokenizer = tiny_models.pre_norm("llama", layers=3, max_position_embeddings=256)
    tokenizer.model_max_length = 256
    clf = load_classifier(network, tokenizer)
    (text,) = clf.encode([long_text(clf, 200)])
    kept_logits(clf, [(text, np.ones(200, dtype=bool))], progress=False)  # compared with the network, once
    (seen,) = rows_of_loo(clf, text, clf.encoder.wiring.layers[1].up)
    assert sum(seen) == 200 + 199 * 200 // 2 + 1  # the whole once; what follows each token; the last itself
