"""LOO as a sum over the edges of attention: the formula, what follows from it, and paths that are cut."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np
import oracles
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lrp_book.records.edge_formula import METHODS, with_shapley
from oracles_pre_norm import relevance_r_form
from test_propagation import assert_near, network
from tiny_models import TEXTS, build, mean_pooled, randomise

import lrp_companion as lrp
from lrp_companion.lab.load import load_run
from lrp_companion.methods import method_call
from lrp_companion.methods.edges import edge_loo, removals
from lrp_companion.tape.attention import PATHS, PathCut
from lrp_companion.tape.encoder import Encoder, pad, some_masks

CPU = torch.device("cpu")
RECORDS = Path(__file__).parents[1] / "results" / "edge-formula"
SMOOTH = ("bert", "mpnet", "gpt2", "llama", "qwen3")
"""Wirings whose gradient along a segment a quadrature follows to rounding."""


def classifier(family: str, seed: int = 0, **shape: int) -> lrp.Classifier:
    model, tokenizer = build(family, seed=seed, **shape)
    return lrp.load_classifier(model.double(), tokenizer, dtype="float64")


@pytest.mark.parametrize("family", SMOOTH)
@settings(max_examples=4)
@given(seed=st.integers(0, 1000), layers=st.integers(1, 3), text=st.sampled_from(TEXTS[:3]))
def test_loo_is_the_sum_over_the_edges(family: str, seed: int, layers: int, text: str) -> None:
    """Drawn networks: forward passes alone give LOO to rounding, and the edges give it to 1e-10."""
    clf = classifier(family, seed, layers=layers)
    edges, loo = edge_loo(clf, text, tolerance=3e-11)
    (record,) = lrp.attribute(clf, text, method="loo")
    assert np.abs(loo - record.scores).max() < 1e-12 * (1 + np.abs(loo).max())
    assert np.abs(edges.sum((0, 1, 2)) - loo).max() < 1e-10


def test_a_mean_that_the_head_reads_is_one_more_layer() -> None:
    model, tokenizer = mean_pooled(layers=2)
    clf = lrp.load_classifier(model.double(), tokenizer, dtype="float64")
    edges, loo = edge_loo(clf, TEXTS[1])
    (record,) = lrp.attribute(clf, TEXTS[1], method="loo")
    assert edges.shape[0] == 3 and np.abs(edges[2]).max() > 1e-3
    np.testing.assert_allclose(edges.sum((0, 1, 2)), record.scores, atol=1e-9)
    np.testing.assert_allclose(loo, record.scores, atol=1e-12)


def test_a_trained_network_obeys_it() -> None:
    """The embedded classifier in float64."""
    clf = lrp.load_classifier("companion", dtype="float64")
    edges, loo = edge_loo(clf, "dull", tolerance=1e-8)
    np.testing.assert_allclose(edges.sum((0, 1, 2)), loo, atol=1e-7)


@pytest.mark.parametrize("family", ["bert", "gemma2", "mistral"])
def test_what_a_read_loses_without_a_key_is_that_of_the_softmax_without_it(family: str) -> None:
    """`D_ji` against attention made again without key i; saturated weights, too, in float32."""
    for sharp in (1.0, 60.0):
        model, tokenizer = build(family, layers=2)
        for name, value in model.named_parameters():
            if name.endswith(("query.weight", "q_proj.weight")):
                value.data.mul_(sharp)
        clf = lrp.load_classifier(model, tokenizer)
        (text,) = clf.encode(TEXTS[1])
        with torch.no_grad():
            ids, mask, further = clf.batch([text])
            tape = clf.encoder.forward(ids, mask, **further)
            for layer, (lost,) in zip(tape.layers, removals(tape), strict=True):
                heads = layer.attend.at_work
                raw = heads.attention.double().clamp_min(1e-300)
                for i in range(len(text)):
                    others = raw.clone()
                    others[..., i] = 0
                    total = others.sum(-1, keepdim=True)
                    known = (total > 1e-20).squeeze(-1)  # else the weights themselves have lost the others
                    without = (others / total.clamp_min(1e-300)) @ heads.values.double()
                    expected = (heads.read.double() - without)[known]
                    error = (lost.of_key(i).double()[known] - expected).abs().max()
                    assert error < 1e-5 * heads.read.abs().max()


def test_the_mask_gradient_is_the_same_sum_without_the_divisor() -> None:
    """`df/dw_i` at w = 1 is the sum of `A_ji (v_i - O_j) . g_j`: a corollary that shares no code with it."""
    clf = classifier("bert", 3)
    (record,) = lrp.attribute(clf, TEXTS[1], method="mask-gradient")
    (text,) = clf.encode(TEXTS[1])
    ids, mask, further = clf.batch([text])
    word = clf.encoder.embed(ids).detach().requires_grad_()
    tape = clf.encoder.forward(ids, mask, word=word, **further)
    heads = [layer.attend.at_work for layer in tape.layers]
    g = torch.autograd.grad(tape.logits[0, record.target], [one.read for one in heads])
    total = sum(
        (one.attention * (part @ one.values.mT - (part * one.read).sum(-1, keepdim=True))).sum((0, 1, 2))
        for one, part in zip(heads, g, strict=True)
    )
    np.testing.assert_allclose(total.detach().numpy(), record.scores, atol=1e-12)
    assert abs(record.scores.sum()) < 1e-12


class TestSecant:
    @pytest.mark.parametrize("family", ["bert", "gpt2", "mpnet", "llama"])
    def test_it_is_the_formula_with_the_intact_gradient(self, family: str) -> None:
        """Each key is masked in one layer at a time, by attention made again; own queries are not read."""
        clf = classifier(family, 1)
        (text,) = clf.encode(TEXTS[1])
        (record,) = lrp.attribute(clf, TEXTS[1], method="secant-mask-gradient", special="secant")
        ids, mask, further = clf.batch([text])
        word = clf.encoder.embed(ids).detach().requires_grad_()
        tape = clf.encoder.forward(ids, mask, word=word, **further)
        heads = [layer.attend.at_work for layer in tape.layers]
        g = torch.autograd.grad(tape.logits[0, record.target], [one.read for one in heads])
        read = 0 if family in ("bert", "mpnet") else len(text) - 1
        expected = np.zeros(len(text))
        for one, part in zip(heads, g, strict=True):
            for i in range(len(text)):
                others = one.attention.clone()
                others[..., i] = 0
                total = others.sum(-1, keepdim=True)
                lost = one.read - (others / total.masked_fill(total == 0, 1)) @ one.values
                rows = [j for j in range(len(text)) if j != i or j == read]
                expected[i] += (lost * part)[:, :, rows].sum().item()
        np.testing.assert_allclose(record.scores, expected, atol=1e-11)

    def test_special_tokens_may_be_exact(self) -> None:
        clf = classifier("bert", 2)
        for output in ("logit", "margin", "probability"):
            both = [
                lrp.attribute(clf, list(TEXTS), method="secant-mask-gradient", special=name, output=output)
                for name in ("exact", "secant")
            ]
            loo = lrp.attribute(clf, list(TEXTS), method="loo", output=output)
            for exact, secant, one in zip(*both, loo, strict=True):
                np.testing.assert_allclose(exact.scores[one.special], one.scores[one.special], atol=1e-12)
                assert (exact.scores[~one.special] == secant.scores[~one.special]).all()
                assert exact.details["passes"] == (1 + one.special.sum(), 1)

    @pytest.mark.parametrize("family", ["bert", "llama"])
    def test_scores_do_not_depend_on_company_or_recompute(self, family: str) -> None:
        model, tokenizer = build(family)
        clf = lrp.load_classifier(model.double(), tokenizer, dtype="float64")
        lean = lrp.load_classifier(model.double(), tokenizer, dtype="float64", recompute=True)
        for options in ({}, {"groups": 3}):
            known = {"method": "secant-mask-gradient", **options}
            alone = [lrp.attribute(clf, text, **known)[0] for text in TEXTS]
            for together in (
                lrp.attribute(clf, list(TEXTS), **known),
                lrp.attribute(lean, list(TEXTS), **known),
            ):
                for one, other in zip(alone, together, strict=True):
                    np.testing.assert_allclose(one.scores, other.scores, atol=1e-12)

    def test_with_all_groups_and_many_nodes_it_comes_closer_to_loo(self) -> None:
        """Along its own mask a token's gradient is nearer to the one of the formula."""
        clf = classifier("bert", 4)
        (loo,) = lrp.attribute(clf, TEXTS[1], method="loo")
        known = {"method": "secant-mask-gradient", "special": "secant"}
        gaps = [
            np.abs(lrp.attribute(clf, TEXTS[1], **known, **options)[0].scores - loo.scores).sum()
            for options in ({}, {"groups": "all", "nodes": (0, 1)})
        ]
        assert gaps[1] < gaps[0]


def test_the_page_alone_is_enough() -> None:
    """The script that uses nothing of the package: the same maps of a network of the tests."""
    made = runpy.run_path(str(RECORDS / "recompute.py"))["maps"]
    clf = classifier("bert", 5, layers=3)
    for text in clf.encode(list(TEXTS)):
        expected = made(clf.network, torch.tensor(text.input_ids), torch.tensor(text.special))
        for name, rows in expected.items():
            method, options = method_call(name)
            site = {"site": "word+position"} if method == "key-cut" else {}
            (record,) = lrp.attribute(clf, text.joined, method=method, **options, **site)
            np.testing.assert_allclose(record.scores, rows.sum(0), atol=1e-10, err_msg=name)


def test_the_page_has_what_shapley_values_say() -> None:
    page = (RECORDS.parents[1] / "book" / "edge_formula.md").read_text(encoding="utf-8")
    r = with_shapley(load_run(RECORDS / "sst2-companion")).mean("example")
    said = dict(re.findall(r"^\| ([\w -]+) \| (\.\d+ \| \.\d+) \|$", page, re.MULTILINE))
    assert len(said) == 6
    for name, means in zip(map(METHODS.get, r.explainer.values), r.values, strict=True):
        if name in said:
            np.testing.assert_allclose([float(x) for x in said[name].split("|")], means, atol=5.1e-4)


class TestCuts:
    @pytest.mark.parametrize("path", PATHS)
    @pytest.mark.parametrize("bypass", [(), (1,), (1, 2)], ids=str)
    def test_a_cut_path_is_a_constant(self, path: str, bypass: tuple[int, ...]) -> None:
        """Against automatic differentiation with detached factors, and on relevance itself."""
        model, rows = network("bert")
        weights, ids = oracles.weights_of(model), rows[1]
        tokens = [k in (0, 3, len(ids) - 1) for k in range(len(ids))]
        with torch.no_grad():
            numbers, mask = pad([ids, rows[0]], 0, CPU)
            cut = torch.zeros(numbers.shape, dtype=torch.bool)
            cut[0, : len(ids)] = torch.tensor(tokens)
            how = {"cuts": [PathCut(path, mask.bool(), cut)], "only_read": True}
            tape = Encoder(model).forward(numbers, mask, **how)
            start = torch.tensor([[0.0, 1.0]] * 2, dtype=torch.float64)
            layers = frozenset(bypass)
            parts = some_masks(tape, start, [layers])[layers]
        amounts = [float(layer in bypass) for layer in (1, 2)]
        _, expected = oracles.modified_gradient(weights, ids, [0.0, 1.0], amounts=amounts, cut={path: tokens})
        _, slow = relevance_r_form(Encoder(model).wiring, ids, 1, bypass=bypass, cut={path: tokens})
        for name, value in expected.items():
            assert_near(parts[name][0, : len(ids)].numpy(), value.numpy(), 1e-9)
            assert_near(slow[name], value.numpy(), 1e-9)

    def test_all_shares_to_the_values_are_cp_lrp(self) -> None:
        """A property: with nothing for the attention weights AttnLRP's product rule is CP-LRP's."""
        model, rows = network("bert")
        with torch.no_grad():
            encoder, start = Encoder(model), torch.tensor([[0.0, 1.0]], dtype=torch.float64)
            inputs = pad(rows[1:2], 0, CPU)
            every, none = frozenset((1, 2)), frozenset[int]()
            plain = some_masks(encoder.forward(*inputs), start, [every])[every]
            tape = encoder.forward(*inputs, shares=((0.0, 1.0), (0.5, 0.5)))
            shared = some_masks(tape, start, [none, every])
        for name, value in plain.items():
            assert_near(shared[none][name].numpy(), value.numpy(), 1e-12)
            assert_near(shared[every][name].numpy(), value.numpy(), 1e-12)

    def test_sinks_are_the_keys_that_draw_attention(self) -> None:
        """Whatever the threshold; queries that are padding draw nothing."""
        model, rows = network("bert")
        randomise(model, 0)
        numbers, mask = pad(rows[:2], 0, CPU)
        with torch.no_grad():
            tape = Encoder(model).forward(numbers, mask)
            for layer in tape.layers:
                drawn = (layer.attention.mean(1) * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
                for threshold in drawn.flatten().tolist():
                    cut = PathCut("key", mask.bool(), drawn=0.999 * threshold).of(layer.attention)
                    assert (cut == (drawn > 0.999 * threshold)).all()


class TestKeyCut:
    def test_it_is_attnlrp_with_the_keys_of_special_tokens_constant(self) -> None:
        clf = classifier("bert")
        weights = oracles.weights_of(clf.network)
        records = lrp.attribute(clf, list(TEXTS), method="key-cut", site="word+position")
        for record, text in zip(records, clf.encode(list(TEXTS)), strict=True):
            start = [float(k == record.target) for k in range(2)]
            cut = {"key": text.special.tolist()}
            _, parts = oracles.modified_gradient(weights, text.input_ids, start, cut=cut)
            expected = (parts["word"] + parts["position"]).numpy()
            np.testing.assert_allclose(record.scores, expected, atol=1e-10)
            assert record.choices["cut"] == (("key", "special", ()),)

    def test_layers_and_sinks(self) -> None:
        """A cut in all layers is the cut of each; sinks depend on a text alone, not on its company."""
        clf = classifier("bert", layers=3)
        whole = lrp.attribute(clf, TEXTS[1], method="lrp", cut=("key", "all"))[0].scores
        listed = [("key", "all", [layer]) for layer in (1, 2, 3)]
        np.testing.assert_allclose(lrp.attribute(clf, TEXTS[1], method="lrp", cut=listed)[0].scores, whole)
        (first,) = lrp.attribute(clf, TEXTS[1], method="lrp", cut=listed[:1])
        assert np.abs(first.scores - whole).max() > 1e-3
        together = lrp.attribute(clf, list(TEXTS), method="lrp", cut=("key", "sinks"))
        for text, record in zip(TEXTS, together, strict=True):
            (alone,) = lrp.attribute(clf, text, method="lrp", cut=("key", "sinks"))
            np.testing.assert_allclose(alone.scores, record.scores, atol=1e-12)
