"""The softmax rule inside a model against a slow loop over weights and vectors; bins against sorting."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from lrp_book import ch04_softmax
from lrp_book.ch04_softmax import binned_lines
from tiny_models import TEXTS

import lrp_companion as lrp
from lrp_companion.metrics import bootstrap_mean, pearson, spearman
from lrp_companion.toys.softmax_step import SoftmaxStep

LONG = [text for text in TEXTS if len(text.split()) > 3]


def slow_steps(clf, text: str, target: int | None = None):
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
            logits[int(logits.argmax()) if target is None else target].backward()
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
    steps = ch04_softmax.head_steps(clf, LONG[0])
    seen = 0
    for layer, head, j, z, v, g in slow_steps(clf, LONG[0]):
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
    assert seen == clf.card.layers * clf.card.heads * len(clf.encode(LONG[0])[0])


def test_target_and_value_bias(clf):
    plain, other, bare = (
        ch04_softmax.head_steps(clf, LONG[0], **options)
        for options in ({}, {"target": 0}, {"value_bias": False})
    )
    for layer, head, j, _, v, g in slow_steps(clf, LONG[0], target=0):
        assert np.allclose(other[layer - 1].values[head - 1, j], v @ g, atol=1e-12)
    assert not np.allclose(plain[0].values, other[0].values), "the target matters"
    for a, b in zip(plain, bare, strict=True):
        shift = a.values - b.values
        assert np.allclose(shift, shift[..., :1], atol=1e-12) and abs(shift).max() > 1e-3
        assert np.allclose(a.loo(), b.loo(), atol=1e-12)


def test_attention_is_the_models(clf):
    (encoded,) = clf.encode(LONG[1])
    ids = torch.tensor([encoded.input_ids])
    tape = clf.encoder.forward(ids, torch.ones_like(ids))
    for step, a in zip(ch04_softmax.head_steps(clf, encoded), tape.attentions, strict=True):
        assert np.allclose(step.attention, a[0], atol=1e-12)


def test_rows_hold_what_each_step_says(clf):
    rows = ch04_softmax.softmax_rows(clf, LONG)
    lengths = [len(text) for text in clf.encode(LONG)]
    heads, layers = clf.card.heads, clf.card.layers
    assert len(rows) == sum(heads * (t * (layers - 1) + 1) for t in lengths) and rows.texts == len(LONG)
    assert rows.skipped == sum(heads * (t - 1) for t in lengths), (
        "in the last layer only the first token is read"
    )
    c = rows.columns
    for k in np.random.default_rng(0).choice(len(rows), size=20, replace=False):
        whole = ch04_softmax.head_steps(clf, LONG[c["text"][k]])[c["layer"][k] - 1]
        place = c["head"][k] - 1, c["query"][k]
        step = SoftmaxStep(whole.logits[place], whole.values[place])
        assert c["tokens"][k] == len(step.logits) and c["level"][k] == pytest.approx(step.logits.mean())
        assert c["spread"][k] == pytest.approx(np.std(step.logits))
        assert c["entropy"][k] == pytest.approx(float(step.entropy()))
        for rule, scores in {
            "attnlrp": step.attnlrp(),
            "cp-lrp": step.cp_lrp(),
            "attnlrp, centred": step.centred().attnlrp(),
        }.items():
            assert c[f"r {rule}"][k] == pytest.approx(pearson(scores, step.loo()), abs=1e-9)
            assert c[f"rank {rule}"][k] == pytest.approx(spearman(scores, step.loo()), abs=1e-9)
            error = np.sqrt(((scores - step.loo()) ** 2).sum() / (step.loo() ** 2).sum())
            assert c[f"error {rule}"][k] == pytest.approx(error, rel=1e-9)


def test_intervals_draw_texts(clf):
    rows = ch04_softmax.softmax_rows(clf, LONG)
    c = rows.columns
    for row in rows.table("r"):
        of_layer = c["layer"] == row["layer"]
        by_text = [np.median(c["entropy"][of_layer & (c["text"] == k)]) for k in range(len(LONG))]
        assert row["entropy"] == bootstrap_mean(by_text) and row["entropy"].n == len(LONG)
        assert row["steps"] == of_layer.sum()
    best = {row["rule"]: row for row in rows.summary()}
    assert best["cp-lrp"]["r"] == bootstrap_mean(
        [np.nanmedian(c["r cp-lrp"][c["text"] == k]) for k in range(len(LONG))]
    )


@pytest.mark.parametrize("feature", ch04_softmax.ROW_FEATURES)
def test_bins_hold_equally_many_steps_in_order(clf, feature):
    rows = ch04_softmax.softmax_rows(clf, LONG)
    x, error, text = rows.columns[feature], rows.columns["error cp-lrp"], rows.columns["text"]
    points = rows.binned(feature, "error", bins=4)["cp-lrp"]
    ordered, edges = np.sort(x), []
    for k in range(1, 4):  # a quantile lies between two neighbours
        whole, part = divmod((len(x) - 1) * k, 4)
        edges.append(ordered[whole] + part / 4 * (ordered[whole + 1] - ordered[whole]))
    bins = [[i for i in range(len(x)) if sum(x[i] >= edge for edge in edges) == k] for k in range(4)]
    assert list(points) == [np.median(x[members]) for members in bins]
    assert np.ptp([len(members) for members in bins]) <= 2
    for members, interval in zip(bins, points.values(), strict=True):
        by_text = [
            np.median(error[members][text[members] == k]) if (text[members] == k).any() else np.nan
            for k in range(rows.texts)
        ]
        assert interval == bootstrap_mean(by_text)


def test_bin_edges_exactly():
    """Ten steps of two texts, two bins: cut at the median, which lies between the fifth and the sixth."""
    x = np.array([9.0, 1, 8, 2, 7, 3, 6, 4, 5, 0])
    columns = {
        "text": np.array([0, 1] * 5),
        "spread": x,
        "error a": 10 * x,
        "r a": np.where(x > 4, np.nan, 1.0),
    }
    rows = ch04_softmax.SoftmaxRows(columns, ("a",), texts=2, skipped=0)
    points = rows.binned("spread", bins=2)["a"]
    assert list(points) == [2.0, 7.0]
    assert (points[2.0].mean, points[2.0].n, points[2.0].undefined) == (20.0, 1, 1), (
        "small ones are all in the second text"
    )
    assert (points[7.0].mean, points[7.0].n, points[7.0].undefined) == (70.0, 1, 1)
    r = rows.binned("spread", "r", bins=2)["a"]
    assert r[2.0].mean == 1 and r[7.0].n == 0, "where r is undefined a bin is empty"
    assert list(rows.binned("spread", bins=2, where=x > 4)["a"]) == [5.5, 8.0], "cut among those selected"
    flat = ch04_softmax.SoftmaxRows({**columns, "entropy": x}, ("a",), texts=2, skipped=0).flattest(0.3)
    assert sorted(x[flat]) == [7.0, 8.0, 9.0]
    same = ch04_softmax.SoftmaxRows({**columns, "spread": np.ones(10)}, ("a",), texts=2, skipped=0)
    assert list(same.binned("spread", bins=3)["a"]) == [1.0]


def test_queries_can_be_drawn(clf):
    few = [ch04_softmax.softmax_rows(clf, LONG, max_queries=3, seed=seed) for seed in (0, 0, 1)]
    assert np.array_equal(few[0].columns["query"], few[1].columns["query"])
    assert not np.array_equal(few[0].columns["query"], few[2].columns["query"])
    for k in range(len(LONG)):
        queries = few[0].columns["query"][few[0].columns["text"] == k]
        assert 0 in queries and len(set(queries)) == 3


def test_sweeps(clf):
    steps = ch04_softmax.head_steps(clf, LONG[0])
    layer, head, query, step = ch04_softmax.strongest_query(steps)
    assert np.array_equal(step.logits, steps[layer - 1].logits[head - 1, query])
    assert np.linalg.norm(step.loo()) == pytest.approx(
        max(np.linalg.norm(s.loo(), axis=-1).max() for s in steps)
    )
    scaled = ch04_softmax.sweep(step.scaled, [0, 1, 2])
    assert scaled["attnlrp, logits"][0.0] == pytest.approx(1), (
        "uniform attention at logits of 0: no relevance at the logits"
    )
    assert scaled["mask-gradient"][0.0] == pytest.approx(1 / len(step.logits)), "(n - 1)/n of LOO"
    here = ch04_softmax.compare_step(step)
    shifted = ch04_softmax.sweep(step.shifted, [-3, 0, 3], measure="r")
    for rule in ch04_softmax.RULES:
        assert scaled[rule][1.0] == pytest.approx(float(here[f"error {rule}"]))
        assert shifted[rule][0.0] == pytest.approx(float(here[f"r {rule}"]))
    for rule in ("cp-lrp", "mask-gradient", "attnlrp, centred"):
        assert np.ptp(list(shifted[rule].values())) < 1e-9
    assert np.ptp(list(shifted["attnlrp"].values())) > 1e-3


def test_a_key_bias_is_seen_at_the_scores_and_not_at_the_tokens(clf):
    before = [layer.key.bias.clone() for layer in clf.encoder.wiring.layers]
    for row in ch04_softmax.key_bias_shift(clf, LONG):
        assert row["logits"] < 1e-9 and row["at the tokens"] < 1e-9 and row["at the scores"] > 0.05
    assert all(
        torch.equal(a, layer.key.bias) for a, layer in zip(before, clf.encoder.wiring.layers, strict=True)
    ), "the model is left alone"


def test_a_step_without_differences_is_undefined():
    step = SoftmaxStep([[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]], [[1.0, 1.0, 1.0], [1.0, 2.0, 4.0]])
    for name, values in ch04_softmax.compare_step(step).items():
        assert np.isnan(values[0]) and not np.isnan(values[1]), name


def test_views_name_their_lines(clf):
    rows = ch04_softmax.softmax_rows(clf, LONG)
    figure = binned_lines(
        {name: rows.binned(name, bins=3) for name in ch04_softmax.ROW_FEATURES},
        along={n: n for n in ch04_softmax.ROW_FEATURES},
        quantity="error",
        mark=1.0,
    )
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert "AttnLRP from" in figure.alt and "along entropy" in figure.alt
    titled = binned_lines({"": {"loo": {0.0: 1.0}}}, along="s", quantity="r", level=0.0, title="One")
    assert titled.alt == "One. r along s: LOO from 1.00 at 0.00 to 1.00 at 0.00."
    with pytest.raises(lrp.InputError, match="no panel, or one without points"):
        binned_lines({}, along="s", quantity="r")


def test_bad_input_is_refused(clf):
    rows = ch04_softmax.softmax_rows(clf, LONG[:1])
    for call, message in (
        (lambda: ch04_softmax.softmax_rows(clf, LONG, max_queries=0), "max_queries 0"),
        (lambda: ch04_softmax.softmax_rows(clf, []), "no texts"),
        (lambda: rows.binned("width"), "feature 'width'; expected one of spread, level, entropy"),
        (lambda: rows.binned("level", bins=0), "bins 0"),
        (lambda: rows.table("tau"), "column 'tau attnlrp'"),
        (lambda: rows.typical("r loo"), "column 'r loo'"),
        (lambda: ch04_softmax.sweep(SoftmaxStep([0, 1], [0, 1]).shifted, [0], measure="tau"), "'tau'"),
    ):
        with pytest.raises(lrp.InputError, match=message):
            call()
