"""Makers of single records against slow plain runs: steps from the mask gradient to LOO, shifts
between embeddings.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from lrp_book.records.embedding_shift import adversarial_shift, embedding_g, explain_all, r_after, shifted
from lrp_book.records.entropy import entropy_of
from lrp_book.records.mask_gradient_error import PARTS, error_parts, error_stages, head_steps
from scipy import stats

import lrp_companion as lrp
from lrp_companion.tape.attention import Context
from lrp_companion.tape.layer import LayerBlock
from lrp_companion.toys import SoftmaxStep

TEXT = "a film of rare grace"


@pytest.fixture(scope="module")
def stages(clf):
    (text,) = clf.encode(TEXT)
    return clf, text, error_stages(clf, text, range(len(text)))


def test_the_ends_are_the_methods(stages):
    clf, text, made = stages
    (gradient,) = lrp.attribute(clf, TEXT, method="mask-gradient")
    (loo,) = lrp.attribute(clf, TEXT, method="loo")
    assert made["M"] == pytest.approx(gradient.scores, abs=1e-12)
    assert made["LOO"] == pytest.approx(loo.scores, abs=1e-12)


def slow_steps(clf, text: str):
    """Per (layer, head, query): logits, value vectors and the gradient at the read-out, from the
    `transformers` model's own modules: each layer's attention output projection has the merged read-outs as
    its input, and autograd leaves the gradient there.
    """
    (encoded,) = clf.encode(text)
    ids = torch.tensor([encoded.input_ids])
    layers = clf.network.bert.encoder.layer
    inputs, reads = [], []
    hooks = [
        layer.register_forward_pre_hook(lambda _, args: inputs.append(args[0].detach()[0]))
        for layer in layers
    ]

    def keep(_, args):
        leaf = args[0].detach().requires_grad_(True) if not reads else args[0]
        if reads:
            leaf.retain_grad()
        reads.append(leaf)
        return (leaf,)

    hooks += [layer.attention.output.dense.register_forward_pre_hook(keep) for layer in layers]
    try:
        with torch.enable_grad():
            logits = clf.network(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0]
            logits.max().backward()
    finally:
        for hook in hooks:
            hook.remove()
    heads = clf.card.heads
    width = clf.card.hidden // heads
    for number, (layer, x, read) in enumerate(zip(layers, inputs, reads, strict=True), start=1):
        attention = layer.attention.self
        q, k, v = (part(x).detach() for part in (attention.query, attention.key, attention.value))
        for head in range(heads):
            cut = slice(head * width, (head + 1) * width)
            for j in range(len(encoded)):
                z = torch.stack([q[j, cut] @ k[i, cut] / width**0.5 for i in range(len(encoded))])
                yield number, head + 1, j, z, v[:, cut], read.grad[0, j, cut]


def test_steps_equal_a_slow_loop_with_vectors(clf):
    steps = head_steps(clf, TEXT)
    seen = 0
    for layer, head, j, z, v, g in slow_steps(clf, TEXT):
        step = SoftmaxStep(steps[layer - 1].logits[head - 1, j], steps[layer - 1].values[head - 1, j])
        assert np.allclose(step.logits, z, atol=1e-10)
        read = z.softmax(-1) @ v
        for i in range(len(z)):
            masked = z.clone()
            masked[i] = -torch.inf
            assert step.loo()[i] == pytest.approx(
                float((read - masked.softmax(-1) @ v) @ g), abs=1e-12, rel=1e-8
            )
            assert step.cp_lrp()[i] == pytest.approx(float(z.softmax(-1)[i] * v[i] @ g), abs=1e-12, rel=1e-8)
        seen += 1
    assert seen == clf.card.layers * clf.card.heads * len(clf.encode(TEXT)[0])


def test_s1_is_the_loo_of_every_softmax(stages):
    clf, text, made = stages
    steps = head_steps(clf, text, target=int(lrp.attribute(clf, TEXT, method="loo")[0].target))
    slow = np.zeros(len(text))
    for step in steps:
        for head, query in np.ndindex(*step.logits.shape[:2]):
            z, v = step.logits[head, query], step.values[head, query]
            a = np.exp(z) / np.exp(z).sum()
            for i in range(len(text)):
                others = np.delete(a, i) / np.delete(a, i).sum()
                slow[i] += a @ v - others @ np.delete(v, i)
    assert made["S1"] == pytest.approx(slow, abs=1e-10)


def test_s3_is_runs_one_by_one(stages):
    clf, text, made = stages
    wiring = clf.encoder.wiring
    ids = torch.tensor([text.input_ids])
    slow = np.zeros(len(text))
    with torch.no_grad():
        tape = clf.encoder.forward(ids, torch.ones_like(ids))
        target = int(tape.logits.argmax())
        for masked_layer, place in np.ndindex(3, len(text)):
            x = tape.embedding.output
            for depth, layer in enumerate(wiring.layers):
                masked = torch.zeros(1, wiring.heads, 1, x.shape[1], dtype=torch.bool)
                masked[0, :, 0, place] = depth == masked_layer
                x = LayerBlock.run(layer, x, Context(wiring.heads, masked)).output
            x = x[:, 0]
            for linear, activation in wiring.head:
                x = linear(x) if activation is None else activation(linear(x))
            slow[place] += float(tape.logits[0, target] - x[0, target])
    assert made["S3"] == pytest.approx(slow, abs=1e-10)


def test_shares_add_up_to_one_and_errors_end_at_zero(stages):
    _, text, made = stages
    draw = np.random.default_rng(0)
    made = {name: values[~text.special] for name, values in made.items()}
    without = error_parts(made)
    assert np.isnan(without["share"]["across heads"]) and np.isnan(without["error"]["S2"])
    parts = error_parts({**made, "S2": draw.normal(size=len(made["M"]))})
    assert sum(parts["share"].values()) == pytest.approx(1.0) and tuple(parts["share"]) == PARTS
    assert parts["share"]["across layers"] == without["share"]["across layers"]
    gap = np.abs(made["M"] - made["LOO"]).sum()
    assert parts["error"]["M"] == pytest.approx(gap / np.abs(made["LOO"]).sum())
    assert parts["r"]["S3"] == pytest.approx(np.corrcoef(made["S3"], made["LOO"])[0, 1])


FILMS = ["a fine film", "a dull film that never ends", "warm , wise and funny"]


@pytest.fixture(scope="module")
def companion():
    return lrp.load_classifier("companion", dtype="float64")


@pytest.fixture
def c(companion):
    width = companion.encoder.wiring.word.weight.shape[1]
    return np.random.default_rng(0).normal(size=width) * 0.05


@pytest.mark.parametrize("source", ["position", "type"])
def test_the_function_is_the_same_for_every_removal(companion, c, source):
    copied = shifted(companion, c, source=source)
    for removal in ("attention-mask", "mask-token", "pad-token", "delete"):
        before, after = (
            lrp.attribute(one, FILMS, method="loo", removal=removal) for one in (companion, copied)
        )
        for one, other in zip(before, after, strict=True):
            assert other.logit == pytest.approx(one.logit, abs=1e-10)
            assert other.scores == pytest.approx(one.scores, abs=1e-10)


@pytest.mark.parametrize("method", ["attnlrp", "cp-lrp"])
def test_words_move_by_c_g_and_sums_do_not(companion, c, method):
    (text,) = companion.encode(FILMS[1])
    (record,) = lrp.attribute(companion, FILMS[1], method=method)
    (moved,) = lrp.attribute(shifted(companion, c), FILMS[1], method=method)
    g = embedding_g(companion, text, method, target=record.target, loo_map=np.zeros(len(text))).g
    assert moved.scores - record.scores == pytest.approx(g @ c, abs=1e-10)
    assert np.abs(g @ c).max() > 1e-3
    for site in ("word+position", "embedding"):
        assert moved.scores_at(site) == pytest.approx(record.scores_at(site), abs=1e-10)


def test_an_adversarial_shift_lowers_r(companion):
    texts = companion.encode(FILMS)
    explained = explain_all(companion, texts, "attnlrp", progress=False)
    low = adversarial_shift(explained, size=1.0)
    assert np.linalg.norm(low) == pytest.approx(1.0, rel=1e-5)
    assert np.nanmean(r_after(explained, low)) < np.nanmean(r_after(explained))
    (again,) = lrp.attribute(shifted(companion, low), FILMS[1], method="attnlrp")
    assert again.scores == pytest.approx(explained[1].relevance(low), abs=1e-5)


def test_entropy_is_that_of_the_networks_own_attention(clf):
    (text,), network = clf.encode(TEXT), copy.deepcopy(clf.network)
    network.set_attn_implementation("eager")
    ids = torch.tensor([text.input_ids])
    with torch.no_grad():
        attentions = network(input_ids=ids, output_attentions=True).attentions
    slow = [float(np.mean([stats.entropy(row) for head in of[0] for row in head])) for of in attentions]
    np.testing.assert_allclose(entropy_of(clf, text), slow, rtol=1e-9)
