"""Families with norms before their branches: forward, every rule, LOO and the mask gradient, each against the
`transformers` network or a slow second implementation.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import oracles_pre_norm as oracles
import pytest
import torch
import transformers
from tiny_models import BOTH_WAYS, PRE_NORM, TEXTS, mean_pooled, pre_norm, randomise

import lrp_companion as lrp
from lrp_companion.checks import InputError, ModelError
from lrp_companion.loading.classifier import Classifier, load_classifier
from lrp_companion.methods import kept_logits, layer_lattice
from lrp_companion.tape.encoder import Encoder
from lrp_companion.tape.steps import GATES

KINDS = (*PRE_NORM, "modernbert, mean", "bert, mean", "gpt_neox, in turn")
CAUSAL = tuple(name for name in PRE_NORM if name not in BOTH_WAYS)
TEXT = "the plot is not very quick"
MASKS: tuple[tuple[int, ...], ...] = ((), (1, 2, 3), (2,))


def tiny(kind: str, **more: Any) -> Any:
    """A three-layer network of one kind in float64, and its tokenizer."""
    family, comma, pooling = kind.partition(", ")
    if family == "bert":
        network, tokenizer = mean_pooled(layers=3, labels=3, **more)
        return network.double(), tokenizer
    extra: dict[str, Any] = {"classifier_pooling": pooling} if comma else {}
    extra = {"use_parallel_residual": False} if pooling == "in turn" else extra
    network, tokenizer = pre_norm(family, layers=3, labels=3, **extra, **more)
    return network.double(), tokenizer


@pytest.fixture(scope="module", params=KINDS)
def clf(request: pytest.FixtureRequest) -> Classifier:
    return load_classifier(*tiny(request.param), dtype="float64")


@contextmanager
def in_float64(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Where transformers works in float32 whatever its weights are, it works in float64."""
    with monkeypatch.context() as patch:
        patch.setattr(torch, "float32", torch.float64)
        patch.setattr(torch.Tensor, "float", torch.Tensor.double)
        yield


def padded(clf: Classifier, side: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Two texts, the shorter one padded on one side."""
    rows = [list(text.input_ids) for text in clf.encode([TEXTS[1], TEXTS[0]])]
    width = len(rows[0])
    fill = [clf.pad_id] * (width - len(rows[1]))
    rows[1] = rows[1] + fill if side == "right" else fill + rows[1]
    seen = [1] * (width - len(fill))
    hidden = [0] * len(fill)
    mask = [[1] * width, seen + hidden if side == "right" else hidden + seen]
    return torch.tensor(rows), torch.tensor(mask)


@pytest.mark.parametrize("side", ["left", "right"])
def test_logits_equal_the_transformers_network(clf, side, monkeypatch):
    if side == "left" and clf.encoder.wiring.readout == "first":
        return  # the first token would be padding
    ids, mask = padded(clf, side)
    clf.network.set_attn_implementation("eager")
    with in_float64(monkeypatch), torch.no_grad():
        ours = clf.encoder.forward(ids, mask).logits
        torch.testing.assert_close(clf.logits(ids, mask), ours, rtol=1e-10, atol=1e-10)
        if clf.tokenizer.pad_token_id is None:  # without padding transformers reads one text at a time
            rows = [row[seen == 1] for row, seen in zip(ids, mask, strict=True)]
            theirs = torch.cat([clf.network(input_ids=row[None]).logits for row in rows])
            if side == "left":  # positions of a text alone start at 0
                ours, theirs = ours[:1], theirs[:1]
        else:
            theirs = clf.network(input_ids=ids, attention_mask=mask).logits
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


ENTRIES: dict[str, Any] = {
    "sliding_window": 3,
    "use_sliding_window": True,
    "max_window_layers": 1,
    "attention_chunk_size": 4,
    "attn_logit_softcapping": 1.0,
    "final_logit_softcapping": 0.7,
    "query_pre_attn_scalar": 3,
    "use_bidirectional_attention": True,
    "scale_attn_weights": False,
    "scale_attn_by_inverse_layer_idx": True,
    "reorder_and_upcast_attn": True,
    "local_attention": 4,
    "is_decoder": True,
    "pretraining_tp": 2,
}
"""Entries of a configuration that some family's network applies and others do not read."""
TOGETHER: tuple[tuple[str, dict[str, Any]], ...] = (
    ("qwen2", {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1}),
    (
        "qwen3",
        {
            "use_sliding_window": True,
            "sliding_window": 2,
            "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
        },
    ),
    ("llama", {"sliding_window": 2, "layer_types": ["sliding_attention"] * 3}),
    ("mistral", {"sliding_window": 3, "layer_types": ["full_attention"] * 3}),
    ("mistral", {"sliding_window": None}),
    ("phi3", {"sliding_window": None}),
    ("gpt_neox", {"use_parallel_residual": False, "rotary_pct": 1.0}),
    ("gpt_neox", {"attention_bias": False, "rotary_pct": 0.5}),
    ("gemma2", {"layer_types": ["full_attention"] * 3, "attn_logit_softcapping": None}),
    ("gemma3_text", {"use_bidirectional_attention": True, "sliding_window": 6}),
    ("modernbert", {"local_attention": 3, "layer_types": ["full_attention", *["sliding_attention"] * 2]}),
)
LONG = "the plot is not very quick , but warm and the actors laughed ."
TASKS = ("ForSequenceClassification", "ForCausalLM", "ForTokenClassification")


def as_its_network(network: Any, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tape's logits and packed ones of a text longer than any window, against the network's own."""
    clf = load_classifier(network.double(), tokenizer, dtype="float64")
    tagger = clf.encoder.wiring.readout == "place"
    (text,) = clf.encode(LONG, **({"position": 9} if tagger else {}))
    ids = torch.tensor([text.input_ids])
    for one in (network, clf.network):
        one.set_attn_implementation("eager")
    with in_float64(monkeypatch), torch.no_grad():
        theirs = network(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0]
        theirs = theirs if theirs.ndim == 1 else theirs[9 if tagger else -1]
        ours = clf.tape(text).logits[0]
        kept = kept_logits(clf, [(text, np.ones(len(text), dtype=bool))], progress=False)[0]
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-8)
    np.testing.assert_allclose(np.asarray(kept), theirs.numpy(), rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", ENTRIES)
@pytest.mark.parametrize("family", PRE_NORM)
def test_a_wiring_applies_what_its_network_applies(family, name, monkeypatch):
    for task in TASKS if family not in (*BOTH_WAYS, "gemma3_text", "gemma3") else TASKS[:1]:
        kind = "LMHeadModel" if family == "gpt2" and task == "ForCausalLM" else task
        network, tokenizer = pre_norm(family, layers=3, labels=3, task=kind, **{name: ENTRIES[name]})
        if name == "reorder_and_upcast_attn" and family == "gpt2":
            network.config.reorder_and_upcast_attn = False  # it works in single precision, and only there
            for block in network.transformer.h:
                block.attn.reorder_and_upcast_attn = False
        if (family, name) == ("gemma3", "use_bidirectional_attention"):  # it masks what its layers would read
            with pytest.raises(ModelError, match="logits at most"):
                load_classifier(network, tokenizer)
            continue
        as_its_network(network, tokenizer, monkeypatch)
        if name not in type(network.config)().to_dict():  # the other tasks do not read it either
            return


@pytest.mark.parametrize(("family", "entries"), TOGETHER, ids=str)
def test_windows_are_those_of_the_network(family, entries, monkeypatch):
    as_its_network(*pre_norm(family, layers=3, labels=3, **entries), monkeypatch)


@pytest.mark.parametrize(
    "entries",
    [
        {},
        {"attn_logit_softcapping": 1.0},
        {"final_logit_softcapping": 0.5},
        {"use_bidirectional_attention": True, "sliding_window": 6},
    ],
    ids=str,
)
def test_gemma_3_as_a_language_model(entries: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """It bounds logits, but no scores."""
    classifier, tokenizer = pre_norm("gemma3_text", layers=3, **entries)
    network = transformers.Gemma3ForCausalLM(classifier.config)
    randomise(network, 2)
    as_its_network(network.eval(), tokenizer, monkeypatch)


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("bypass", MASKS, ids=str)
def test_relevance_equals_the_gradient_of_the_network_with_detached_parts(clf, bypass, gate):
    if not clf.encoder.wiring.gated and gate != "uniform":
        with pytest.raises(InputError, match="whose MLPs have no gate"):
            lrp.attribute(clf, TEXT, method="lrp", gate=gate)
        return
    for target in (0, 2):
        options: dict[str, Any] = {"bypass": bypass, "gate": gate, "target": target}
        (record,) = lrp.attribute(clf, TEXT, method="lrp", **options)
        ids = list(clf.encode(TEXT)[0].input_ids)
        logit, expected = oracles.modified_gradient(clf.network, ids, target, bypass=bypass, gate=gate)
        assert record.logit == pytest.approx(logit, rel=1e-6)
        np.testing.assert_allclose(record.scores, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("eps", [0.0, 0.05])
@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("bypass", MASKS[:2], ids=str)
def test_relevance_equals_the_equations_contribution_by_contribution(clf, bypass, gate, eps):
    if not clf.encoder.wiring.gated and gate != "uniform":
        return
    (record,) = lrp.attribute(clf, "a film of", method="lrp", bypass=bypass, gate=gate, epsilon=eps, target=1)
    ids = list(clf.encode("a film of")[0].input_ids)
    rules: dict[str, Any] = {"bypass": bypass, "gate": gate, "eps": eps, "config": clf.network.config}
    logit, parts = oracles.relevance_r_form(clf.encoder.wiring, ids, 1, **rules)
    assert record.logit == pytest.approx(logit, rel=1e-9) and set(record.parts) == set(parts)
    for name, expected in parts.items():
        np.testing.assert_allclose(
            record.parts[name], expected, rtol=0, atol=1e-8 * max(1e-3, np.abs(expected).max())
        )


@pytest.mark.parametrize("eps", [0.0, 0.05])
def test_all_masks_equal_runs_one_by_one(clf: Classifier, eps: float) -> None:
    lattice = layer_lattice(clf, TEXT, target=1, epsilon=eps)
    for bypass in MASKS:
        (record,) = lrp.attribute(clf, TEXT, method="lrp", bypass=bypass, target=1, epsilon=eps)
        row = lattice.scores[sum(1 << (layer - 1) for layer in bypass)]
        np.testing.assert_allclose(row, record.scores, rtol=0, atol=1e-11)


def test_batches_padding_and_order_change_nothing(clf: Classifier) -> None:
    texts = [TEXTS[0], TEXTS[1], TEXTS[3]]
    for method in ("attnlrp", "mask-gradient", "gradient-x-input", "rollout", "loo"):
        together = lrp.attribute(clf, texts, method=method, batch_tokens=64)
        for text, record in zip(texts, together, strict=True):
            (alone,) = lrp.attribute(clf, text, method=method)
            np.testing.assert_allclose(record.scores, alone.scores, rtol=0, atol=1e-9)


def test_loo_equals_one_call_of_the_network_per_token(clf, monkeypatch):
    """Of the first token of a causal network transformers gives NaN: its own row may attend to nothing."""
    clf.network.set_attn_implementation("eager")
    (text,) = clf.encode(TEXT)
    ids, ones = torch.tensor([text.input_ids]), torch.ones(1, len(text), dtype=torch.long)
    with in_float64(monkeypatch), torch.no_grad():
        (record,) = lrp.attribute(clf, TEXT, method="loo", target=1)
        whole = float(clf.network(input_ids=ids, attention_mask=ones).logits[0, 1])
        first = 1 if clf.encoder.wiring.causal else 0
        for i in range(first, len(text)):
            mask = ones.clone()
            mask[0, i] = 0
            left = float(clf.network(input_ids=ids, attention_mask=mask).logits[0, 1])
            assert record.scores[i] == pytest.approx(whole - left, abs=1e-9)
        keep = torch.ones(1, len(text), dtype=torch.float64)
        for i in range(len(text)):
            soft = keep.clone()
            soft[0, i] = 0
            left = float(clf.encoder.forward(ids, ones, keep=soft).logits[0, 1])
            assert record.scores[i] == pytest.approx(whole - left, abs=1e-9)


@pytest.mark.parametrize("removal", ["attention-mask", "pad-token", "delete"])
def test_removals_do_not_depend_on_what_is_run_together(clf: Classifier, removal: str) -> None:
    (text,) = clf.encode(TEXTS[1])
    if removal == "pad-token" and clf.tokenizer.pad_token_id is None:
        with pytest.raises(InputError, match="expected a tokenizer that has this token"):
            lrp.attribute(clf, TEXT, method="loo", removal=removal)
        return
    generator = np.random.default_rng(0)
    jobs = [(text, keep) for keep in generator.random((9, len(text))) < 0.6 if keep.any()]
    together = kept_logits(clf, jobs, removal=removal, progress=False)
    for k, job in enumerate(jobs):
        alone = kept_logits(clf, [job], removal=removal, progress=False)
        torch.testing.assert_close(together[k], alone[0], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("kind", ["mistral", "gemma2"])
def test_a_last_token_whose_window_is_removed_reads_nothing(kind: str) -> None:
    """The head's token is removed, and so is all that its layers with a window may read: no NaN, no mean."""
    clf = load_classifier(*tiny(kind), dtype="float64")
    (text,) = clf.encode(TEXT)
    keep = np.zeros(len(text), dtype=bool)
    keep[0] = True
    assert len(text) > clf.encoder.wiring.layers[0].window + 1
    (logits,) = kept_logits(clf, [(text, keep)], removal="attention-mask", progress=False)
    ids, ones = torch.tensor([text.input_ids]), torch.ones(1, len(text), dtype=torch.long)
    with torch.no_grad():
        soft = clf.encoder.forward(ids, ones, keep=torch.tensor(keep, dtype=torch.float64)[None]).logits[0]
    torch.testing.assert_close(torch.as_tensor(logits), soft, rtol=1e-9, atol=1e-10)


def test_the_mask_gradient_is_the_derivative(clf: Classifier) -> None:
    (record,) = lrp.attribute(clf, TEXT, method="mask-gradient", target=1)
    if not clf.encoder.wiring.masks_whole:  # else the mask scales embeddings, too
        assert abs(record.scores.sum()) < 1e-9 * np.abs(record.scores).sum()
    np.testing.assert_allclose(record.scores, oracles.mask_slopes(clf, TEXT, 1), rtol=0, atol=2e-7)


@pytest.mark.parametrize("family", CAUSAL)
def test_nothing_is_given_to_later_tokens(family: str) -> None:
    """Relevance of a token that is read in the middle: none behind it."""
    network, tokenizer = tiny(family)
    encoder = Encoder(network)
    ids = torch.tensor([tokenizer(TEXTS[1])["input_ids"]])
    tape = encoder.forward(ids, torch.ones_like(ids), place=torch.tensor([3]))
    g = tape.head.backward(torch.eye(3, dtype=torch.float64)[:1])
    for layer in reversed(tape.layers):
        g, bypassed = layer.children(g)
        assert (g[:, 4:] == 0).all() and (bypassed[:, 4:] == 0).all() and (g[:, :4] != 0).any()


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_without_biases_held_factors_conserve(family: str) -> None:
    """RMSNorm has no beta: with the attention held constant and epsilon 0 the scores sum to the logit."""
    clf = load_classifier(*tiny(family), dtype="float64")
    (record,) = lrp.attribute(clf, TEXT, method="cp-lrp", gate="constant")
    (uniform,) = lrp.attribute(clf, TEXT, method="cp-lrp")
    (attnlrp,) = lrp.attribute(clf, TEXT, method="attnlrp")
    assert record.scores.sum() == pytest.approx(record.logit, rel=1e-9)
    assert uniform.scores.sum() == pytest.approx(record.logit, rel=1e-9)  # halves add up
    assert attnlrp.scores.sum() != pytest.approx(record.logit, rel=1e-3)  # Eq. (5) does not conserve


@pytest.mark.parametrize("positions", ["absolute", "signed"])
def test_positions_get_their_half_of_every_rotation(clf: Classifier, positions: str) -> None:
    """PA-LRP on rotations: against the network whose cosines and sines are leaves."""
    if clf.encoder.wiring.rotary is None:
        assert set(lrp.attribute(clf, TEXT, method="pa-lrp")[0].parts) >= {"word"}
        with pytest.raises(InputError, match="positions 'signed'; expected positions that are rotations"):
            lrp.attribute(clf, TEXT, method="pa-lrp", positions="signed")
        return
    (record,) = lrp.attribute(clf, TEXT, method="pa-lrp", positions=positions, target=1)
    ids = list(clf.encode(TEXT)[0].input_ids)
    word, position = oracles.positions_as_leaves(clf.network, ids, 1, absolute=positions == "absolute")
    for part, expected in (("word", word), ("position", position)):
        close = 1e-6 * np.abs(expected).max()
        np.testing.assert_allclose(record.parts[part], expected, rtol=0, atol=close)
    np.testing.assert_allclose(record.scores, record.parts["word"] + record.parts["position"], atol=1e-12)
    assert record.choices["positions"] == positions
    if positions == "signed":  # halves: what is read with the positions is what AttnLRP gives to all tokens
        (attnlrp,) = lrp.attribute(clf, TEXT, method="attnlrp", target=1)
        assert record.choices["bypass"] == () and attnlrp.choices.get("positions") is None
    together = lrp.attribute(clf, [TEXTS[0], TEXT], method="pa-lrp", positions=positions, target=1)
    np.testing.assert_allclose(together[1].scores, record.scores, rtol=0, atol=1e-9)
