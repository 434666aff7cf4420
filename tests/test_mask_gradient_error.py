"""Steps from the mask gradient to LOO: both ends are the methods', each step against slow runs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from lrp_book.analysis.softmax_steps import head_steps
from lrp_book.records.mask_gradient_error import (
    PARTS,
    attention_times_gradient,
    error_parts,
    error_record,
    error_stages,
    slopes_at_zero,
)

import lrp_companion as lrp
from lrp_companion.checks import InputError
from lrp_companion.tape.attention import Context
from lrp_companion.tape.encoder import LayerBlock

TEXT = "a film of rare grace"


@pytest.fixture(scope="module")
def stages(family_clf):
    (text,) = family_clf.encode(TEXT)
    return family_clf, text, error_stages(family_clf, text)


@pytest.fixture(scope="module")
def family_clf(model_folder):
    return lrp.load_classifier(model_folder("bert", layers=3, labels=3), dtype="float64")


def test_the_ends_are_the_methods(stages):
    clf, text, made = stages
    (gradient,) = lrp.attribute(clf, TEXT, method="mask-gradient")
    (loo,) = lrp.attribute(clf, TEXT, method="loo")
    assert made["M"] == pytest.approx(gradient.scores, abs=1e-12)
    assert made["LOO"] == pytest.approx(loo.scores, abs=1e-12)


def test_the_mask_gradient_is_centred_attention_times_gradient(stages):
    clf, text, made = stages
    assert attention_times_gradient(clf, text) == pytest.approx(made["M"], abs=1e-12)
    assert np.abs(attention_times_gradient(clf, text, centred=False) - made["M"]).max() > 1e-6


def test_the_mask_gradient_is_a_column_sum_of_the_gradient_of_the_scores(stages):
    """Through a mask added to the scores of every layer by hand, not through `keep`."""
    clf, text, made = stages
    ids = torch.tensor([text.input_ids])
    tape = clf.encoder.forward(ids, torch.ones_like(ids))
    target = int(tape.logits.argmax())
    wiring = clf.encoder.wiring
    x, added = tape.embedding.output.detach(), []
    for layer in wiring.layers:
        x, extra = plain_layer(layer, wiring.heads, x)
        added.append(extra)
    x = x[:, 0]
    for linear, activation in wiring.head:
        x = linear(x) if activation is None else activation(linear(x))
    gradients = torch.autograd.grad(x[0, target], added)
    columns = sum(gradient.sum((0, 1, 2)) for gradient in gradients)
    assert columns.numpy() == pytest.approx(made["M"], abs=1e-12)


def plain_layer(layer, heads, x):
    """One layer from its modules, with zeros added to the scores: (output, the zeros)."""
    batch, tokens, width = x.shape

    def split(values):
        return values.view(batch, tokens, heads, width // heads).transpose(1, 2)

    query, key, value = (split(module(x)) for module in (layer.query, layer.key, layer.value))
    extra = torch.zeros(batch, heads, tokens, tokens, dtype=x.dtype, requires_grad=True)
    attention = (query @ key.mT / (width // heads) ** 0.5 + extra).softmax(-1)
    read = (attention @ value).transpose(1, 2).reshape(batch, tokens, width)
    x = layer.attention_norm(x + layer.attention_out(read))
    return layer.output_norm(x + layer.down(layer.activation(layer.up(x)))), extra


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


def test_s2_and_s3_are_runs_one_by_one(stages):
    clf, text, made = stages
    ids = torch.tensor([text.input_ids])
    with torch.no_grad():
        tape = clf.encoder.forward(ids, torch.ones_like(ids))
        target = int(tape.logits.argmax())
        slow = {"S2": np.zeros(len(text)), "S3": np.zeros(len(text))}
        for layer in range(3):
            for place in range(len(text)):
                for name, heads in (("S2", [[k] for k in range(clf.card.heads)]), ("S3", [None])):
                    for head in heads:
                        out = run_with(clf, tape, layer, place, head)
                        slow[name][place] += float(tape.logits[0, target] - out[0, target])
    for name, values in slow.items():
        assert made[name] == pytest.approx(values, abs=1e-10)


def run_with(clf, tape, masked_layer, place, heads):
    """Logits with one token masked in some heads (None: all) of one layer."""
    wiring = clf.encoder.wiring
    x = tape.embedding.output
    for depth, layer in enumerate(wiring.layers):
        masked = None
        if depth == masked_layer:
            masked = torch.zeros(1, wiring.heads, 1, x.shape[1], dtype=torch.bool)
            for head in range(wiring.heads) if heads is None else heads:
                masked[0, head, 0, place] = True
        x = LayerBlock.run(layer, x, Context(wiring.heads, masked)).output
    x = x[:, 0]
    for linear, activation in wiring.head:
        x = linear(x) if activation is None else activation(linear(x))
    return x


def test_shares_add_up_to_one_and_errors_end_at_zero(stages):
    _, text, made = stages
    parts = error_parts(made, ~text.special)
    assert sum(parts["share"].values()) == pytest.approx(1.0) and tuple(parts["share"]) == PARTS
    gap = np.abs(made["M"] - made["LOO"])[~text.special].sum()
    assert parts["error"]["M"] == pytest.approx(gap / np.abs(made["LOO"][~text.special]).sum())


@pytest.mark.parametrize("missing", [("a head's way out", "across heads"), ("within one softmax",), ()])
def test_the_table_of_shares_adds_up_to_the_whole(missing):
    from lrp_book.views import error_shares_table

    draws = np.random.default_rng(0).dirichlet(np.ones(len(PARTS)), size=5)
    shares = [dict(zip(PARTS, draw, strict=True)) for draw in draws]
    rows = [{"share": {k: None if k in missing else v for k, v in share.items()}} for share in shares]
    cells = error_shares_table([{"config": {"data": "some"}, "rows": rows}], digits=6).cells
    means = [float(row[2].split()[0]) for row in cells]
    assert sum(means) == pytest.approx(1.0, abs=5e-6)
    assert len(cells) == len(PARTS) - len(missing) + bool(missing)
    if missing:
        rest = [sum(share[part] for part in missing) for share in shares]
        assert cells[-1][1].split(", ")[0] == " and ".join(missing)
        assert means[-1] == pytest.approx(np.mean(rest), abs=2e-6)
        assert float(cells[-1][3]) == pytest.approx(np.median(rest), abs=2e-6)


def test_without_heads_two_parts_are_undefined(stages):
    clf, text, _ = stages
    parts = error_parts(error_stages(clf, text, heads=False, places=[1, 2]))
    assert np.isnan(parts["share"]["across heads"]) and np.isnan(parts["error"]["S2"])
    assert np.isfinite(parts["share"]["across layers"])


def test_some_places_are_those_of_all(stages):
    clf, text, made = stages
    some = error_stages(clf, text, places=[3, 1], batch_tokens=1)
    for name, values in some.items():
        assert values == pytest.approx(made[name][[3, 1]], abs=1e-10)
    with pytest.raises(InputError, match="places from 0"):
        error_stages(clf, text, places=[99])


def test_slopes_at_zero_are_finite_differences(stages):
    clf, text, _ = stages
    made = slopes_at_zero(clf, text)
    (loo,) = lrp.attribute(clf, TEXT, method="loo")
    assert made["loo"] == pytest.approx(loo.scores, abs=1e-12)
    ids = torch.tensor([text.input_ids])
    target, step = loo.target, 1e-6
    for place in range(len(text)):
        values = []
        for w in (0.0, step, 2 * step):
            keep = torch.ones(1, len(text), dtype=torch.float64)
            keep[0, place] = w
            with torch.no_grad():
                logits = clf.encoder.forward(ids, torch.ones_like(ids), keep=keep).logits
            values.append(float(logits[0, target]))
        slope = (-3 * values[0] + 4 * values[1] - values[2]) / (2 * step)
        assert made["slope"][place] == pytest.approx(slope, rel=1e-4, abs=1e-7)


def test_one_softmax_has_no_bound():
    """M = (1 - A) LOO and slope at 0 = LOO / (1 - A): the two counterexamples of the module's text."""
    from lrp_companion.toys.softmax_step import SoftmaxStep

    for logit in (0.0, 5.0, 15.0):
        step = SoftmaxStep([logit, 0.0], [1.0, 0.0])
        a, loo = step.attention[0], step.loo()[0]
        assert step.mask_gradient()[0] == pytest.approx((1 - a) * loo)
        eps = 1e-7
        scaled = SoftmaxStep([logit + np.log(eps), 0.0], [1.0, 0.0]).output - step.without()[0]
        assert scaled / eps == pytest.approx(loo / (1 - a), rel=1e-2 * max(1, np.exp(logit) * eps * 200))


def test_the_record_is_of_numbers(stages):
    clf = stages[0]
    data = lrp.load_dataset("sst2", source="embedded")
    record = error_record(clf, data, limit=2, tokens=3, progress=False)
    assert len(record["rows"]) == 2 and set(record["slopes"]) == {"loo", "slope", "attention"}
    assert record["config"]["words"] == 3
    assert "slopes" not in error_record(clf, data, limit=1, zero=False, heads=False, progress=False)
    with pytest.raises(InputError):
        error_record(clf, data, limit=1, tokens=1)
