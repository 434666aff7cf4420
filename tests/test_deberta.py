"""DeBERTa: three products in a score, a convolution, a mask that closes tokens whole; published sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracles_pre_norm as oracles
import pytest
import torch
import transformers
from tiny_models import TEXTS, pre_norm, randomise, wordpiece

import lrp_companion as lrp
from lrp_companion.loading.classifier import load_classifier
from lrp_companion.methods import kept_logits, layer_relevance
from lrp_companion.model_check import symmetries
from lrp_companion.tape.encoder import Encoder

PUBLISHED: dict[str, Any] = {
    "relative_attention": True,
    "pos_att_type": "p2c|c2p",
    "position_buckets": 256,
    "max_relative_positions": -1,
    "max_position_embeddings": 512,
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "position_biased_input": False,
    "type_vocab_size": 0,
    "layer_norm_eps": 1e-7,
}
SIZES = {
    "deberta-v3-base": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
                        "intermediate_size": 3072},
    "deberta-v2-xlarge": {"hidden_size": 1536, "num_hidden_layers": 2, "num_attention_heads": 24,
                          "intermediate_size": 6144, "attention_head_size": 64, "conv_kernel_size": 3,
                          "conv_act": "gelu", "pooler_hidden_size": 1536},
}  # fmt: skip
NONE = {"conv_kernel_size": 0}
KINDS: dict[str, dict[str, Any]] = {
    "version 3": {**NONE, "position_buckets": 8},
    "version 2, convolution": {"position_buckets": 8, "conv_kernel_size": 5, "conv_act": "tanh"},
    "maps of their own, far distances as one": {
        **NONE, "share_att_key": False, "norm_rel_ebd": "none", "type_vocab_size": 2,
        "position_biased_input": True, "position_buckets": -1, "max_relative_positions": 3},
    "content to position": {**NONE, "pos_att_type": ["c2p"], "share_att_key": False},
    "position to content": {**NONE, "pos_att_type": "p2c"},
    "no relative positions": {"relative_attention": False},
}  # fmt: skip


def tiny(kind: str, **more: Any) -> lrp.Classifier:
    network, tokenizer = pre_norm("deberta-v2", **{"layers": 2, "labels": 3, **KINDS[kind], **more})
    return load_classifier(network.double(), tokenizer, dtype="float64")


@pytest.mark.parametrize("eps", [0.0, 0.05])
@pytest.mark.parametrize("bypass", [(), (1,), (1, 2)], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_relevance_equals_the_equations_to_rounding(kind: str, bypass: tuple[int, ...], eps: float) -> None:
    clf = tiny(kind)
    (record,) = lrp.attribute(clf, TEXTS[1], method="lrp", bypass=bypass, epsilon=eps, target=1)
    (text,) = clf.encode(TEXTS[1])
    options: dict[str, Any] = {"bypass": bypass, "eps": eps, "config": clf.network.config}
    logit, parts = oracles.relevance_r_form(clf.encoder.wiring, list(text.input_ids), 1, **options)
    theirs = clf.network(input_ids=torch.tensor([text.input_ids])).logits[0, 1].item()
    assert abs(logit - theirs) < 1e-12 > abs(record.logit - theirs)
    for name, expected in parts.items():
        np.testing.assert_allclose(
            record.parts[name], expected, rtol=0, atol=1e-12 * (1 + np.abs(expected).max())
        )


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("kind", list(KINDS)[:3])
def test_a_mask_closes_tokens_as_the_network_does(kind: str, layers: int) -> None:
    """Several tokens at once, also the one that is read, whose query then reads all tokens alike."""
    clf = tiny(kind, layers=layers)
    (text,) = clf.encode(TEXTS[1])
    kept = np.random.default_rng(0).random((12, len(text))) < 0.6
    kept[:6, 0], kept[6:, 0], kept[:, 1] = True, False, True
    ids = torch.tensor([text.input_ids]).expand(len(kept), -1)
    mask = torch.as_tensor(kept)
    with torch.no_grad():
        theirs = torch.cat([clf.network(ids[:1], row[None].long()).logits for row in mask])
        hard = clf.encoder.forward(ids, mask.long()).logits
        soft = clf.encoder.forward(ids, torch.ones_like(ids), keep=mask.double()).logits
    packed = kept_logits(clf, [(text, row) for row in kept], progress=False)
    for ours in (soft, torch.as_tensor(np.asarray(packed))):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    whole = mask[:, -1]  # else the text ends before
    torch.testing.assert_close(hard[whole], theirs[whole], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", list(KINDS)[:2])
def test_a_group_for_each_token_and_many_nodes_give_loo(kind: str) -> None:
    clf = tiny(kind)
    (loo,) = lrp.attribute(clf, TEXTS[0], method="loo", target=1)
    (record,) = lrp.attribute(clf, TEXTS[0], method="mask-gradient", groups="all", nodes=24, target=1)
    np.testing.assert_allclose(record.scores, loo.scores, rtol=0, atol=2e-5)


@pytest.mark.parametrize("kind", list(KINDS)[:3])
def test_keys_that_are_cut_meet_positions_as_constants(kind: str) -> None:
    clf = tiny(kind)
    (record,) = lrp.attribute(clf, TEXTS[1], method="key-cut", target=1)
    (text,) = clf.encode(TEXTS[1])
    cut = torch.as_tensor(np.array(text.special))
    _, expected = oracles.modified_gradient(clf.network, list(text.input_ids), 1, cut=cut)
    np.testing.assert_allclose(record.scores, expected, rtol=0, atol=1e-12 * (1 + np.abs(expected).max()))


def test_half_of_what_positions_enter_stays_there() -> None:
    """Where nothing else keeps relevance: what positions keep, and what queries and keys get."""
    clf = tiny("version 3")
    flow = layer_relevance(clf, TEXTS[1])
    assert np.abs(flow.lost["positions"][1:3]).min() > 1e-4
    held = layer_relevance(clf, TEXTS[1], bypass=[1, 2])
    assert not held.lost["positions"].any()


@pytest.mark.parametrize("kind", list(KINDS)[:4])
def test_the_check_finds_it_right_and_its_symmetries_hold(kind: str) -> None:
    clf = tiny(kind)
    assert not lrp.check(clf, [TEXTS[0], TEXTS[1]]).broken
    made = symmetries(clf, [TEXTS[0]], methods=["attnlrp", "cp-lrp", "loo"])
    assert max(made.logits.values()) < 1e-12
    assert ("key bias" in made.moves) == (kind == "content to position")
    assert {"queries and keys", "order of heads", "tied heads"} <= set(made.moves)


@torch.no_grad()
@pytest.mark.parametrize("size", SIZES)
def test_published_sizes_have_the_logits_of_transformers(size: str) -> None:
    tokenizer = wordpiece()
    config = transformers.DebertaV2Config(vocab_size=len(tokenizer), **PUBLISHED, **SIZES[size])
    network = transformers.DebertaV2ForSequenceClassification(config).eval()
    randomise(network, 0)
    draw = torch.Generator().manual_seed(0)
    for length in (6, 400):  # buckets of one distance each, and of many
        ids = torch.randint(5, len(tokenizer), (1, length), generator=draw)
        theirs = network(ids).logits
        ours = Encoder(network).forward(ids, torch.ones_like(ids), only_read=True).logits
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4 * float(1 + theirs.abs().max()))
