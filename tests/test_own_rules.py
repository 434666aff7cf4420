"""Rule sets and rules of one's own: what they give, a run's configuration, and a file for the command."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import oracles_pre_norm as other
import pytest
import torch
from tiny_models import TEXTS, build, mean_pooled, reviews
from torch import Tensor

import lrp_companion as lrp
from lrp_companion import rules
from lrp_companion.cli import main
from lrp_companion.lab.execute import execute
from lrp_companion.lab.review_jobs import TextJobs
from lrp_companion.registry import METHODS, forget, print_of
from lrp_companion.tape.attention import HALVES
from lrp_companion.tape.steps import EXCHANGEABLE

BOOK = Path(__file__).resolve().parents[1] / "book" / "your_model.md"
LIBRARY = {name: rules.RULES[name].function for name in EXCHANGEABLE}


@contextmanager
def own(own_rules: dict[str, Callable] | None = None, **more: Any) -> Iterator[str]:
    """The name of a set of these rules, which is forgotten again."""
    lrp.rule_set("own", rules=own_rules, **more)
    try:
        yield "own"
    finally:
        forget("own")


@functools.cache
def loaded(family: str) -> lrp.Classifier:
    network, tokenizer = mean_pooled(labels=3) if family == "mean" else build(family, labels=3)
    return lrp.load_classifier(network, tokenizer, dtype="float64")


@pytest.mark.parametrize("family", ["bert", "mean", "deberta-v2", "llama", "gemma2"])
@pytest.mark.parametrize("bypass", [[], [1]])
def test_the_package_s_own_rules_change_nothing(family: str, bypass: list[int]) -> None:
    clf = loaded(family)
    for more in ({}, {"epsilon": 0.1}, {"target": "all"}):
        options = {**more, "batch_tokens": 1}  # as own rules are called
        expected = lrp.attribute(clf, list(TEXTS), method="lrp", bypass=bypass, **options)
        with own(LIBRARY, bypass=bypass) as mine:
            got = lrp.attribute(clf, list(TEXTS), method=mine, **options)
        assert [one.scores.tobytes() for one in got] == [one.scores.tobytes() for one in expected]
    acted = {name for name, _ in got[0].choices["rules"]}
    assert acted >= {"linear", "matmul", "softmax", "elementwise"}
    assert ("attention_values" in acted) == bool(bypass)
    assert {"gated", "rms_norm"} <= acted if family in ("llama", "gemma2") else "layer_norm" in acted


def norm_with_its_sd(g_y: Tensor, gamma: Tensor, sd: Tensor, x: Tensor) -> Tensor:
    h, n = g_y * gamma / sd, (x - x.mean(-1, keepdim=True)) / sd
    return h - h.mean(-1, keepdim=True) - n * (h * n).mean(-1, keepdim=True)


def norm_with_its_rms(g_y: Tensor, gamma: Tensor, rms: Tensor, x: Tensor) -> Tensor:
    h, n = g_y * gamma / rms, x / rms
    return h - n * (h * n).mean(-1, keepdim=True)


def derivative(g_y: Tensor, z: Tensor, activation: Any) -> Tensor:
    with torch.enable_grad():
        leaf = z.detach().requires_grad_()
        return g_y * torch.autograd.grad(activation(leaf).sum(), leaf)[0]


GRADIENT = {
    "layer_norm": norm_with_its_sd,
    "rms_norm": norm_with_its_rms,
    "elementwise": derivative,
    "matmul": lambda g_o, a, b: (g_o @ b.mT, a.mT @ g_o),
    "gated": lambda g_h, a, u: (g_h * u, g_h * a),
}


@pytest.mark.parametrize("family", ["bert", "mean", "llama", "gemma2", "deberta-v2"])
def test_rules_of_the_gradient_give_gradient_times_input(family: str) -> None:
    clf = loaded(family)
    with own(GRADIENT) as mine:
        records = lrp.attribute(clf, list(TEXTS), method=mine, target=1)
    for text, record in zip(clf.encode(list(TEXTS)), records, strict=True):
        ids = torch.tensor([text.input_ids])
        word = clf.encoder.embed(ids).detach().requires_grad_()
        logits = clf.encoder.forward(ids, torch.ones_like(ids), word=word).logits
        if family in ("bert", "mean"):  # transformers itself works in float64 there
            logits = clf.network(inputs_embeds=word, attention_mask=torch.ones_like(ids)).logits
        (gradient,) = torch.autograd.grad(logits[0, 1], word)
        expected = (word * gradient).sum(-1)[0].detach().numpy()
        np.testing.assert_allclose(record.scores, expected, rtol=0, atol=1e-12 * abs(expected).max())


def z_plus(g_z: Tensor, x: Tensor, weight: Tensor, z: Tensor) -> Tensor:
    """R_i = sum_j c_ij^+ / sum_i c_ij^+ R_j of contributions c_ij = x_i W_ji."""
    up, down = weight.clamp(min=0), weight.clamp(max=0)
    share = g_z * z / (x.clamp(min=0) @ up.mT + x.clamp(max=0) @ down.mT)
    return torch.where(x > 0, share @ up, share @ down)


def raised(x: Tensor, weight: Tensor, bias: Tensor | None, gamma: float | None) -> Tensor:
    """A linear map whose gradient is LRP-gamma's (or, for None, z+), entry by entry of its contributions."""
    c = x.unsqueeze(-2) * weight
    z = c.sum(-1) if bias is None else c.sum(-1) + bias
    of_sign = torch.where((z.unsqueeze(-1) > 0) == (c > 0), c, 0).sum(-1)
    if bias is not None:
        of_sign = of_sign + torch.where((z > 0) == (bias > 0), bias, 0)
    more = torch.where(c > 0, c, 0).sum(-1) if gamma is None else z + gamma * of_sign
    return more * (z / more).detach()


def example_of_the_book() -> tuple[str, Any]:
    """The code of the page's LRP-gamma, and the function that it defines."""
    (code,) = re.findall(r"```python\n([^`]*def lrp_gamma[^`]*)```", BOOK.read_text(encoding="utf-8"))
    known: dict[str, Any] = {}
    try:
        exec(compile(code, "mine.py", "exec"), known)
        assert METHODS["gamma"].function is not None
    finally:
        forget("gamma")
    return code, known["lrp_gamma"]


@pytest.mark.parametrize("family", ["bert", "mean"])
@pytest.mark.parametrize("gamma", [None, 0.25, 3.0])
def test_gamma_and_z_plus_equal_autograd_of_a_network_with_other_linear_maps(family: str, gamma: Any) -> None:
    clf = loaded(family)
    function = z_plus if gamma is None else functools.partial(example_of_the_book()[1], gamma=gamma)
    linear = functools.partial(raised, gamma=gamma)
    for bypass in ([], [2]):
        with own({"linear": function}, bypass=bypass) as mine:
            records = lrp.attribute(clf, list(TEXTS), method=mine, target=2)
        for text, record in zip(clf.encode(list(TEXTS)), records, strict=True):
            how = {"bypass": bypass, "linear": linear}
            _, expected = other.modified_gradient(clf.network, list(text.input_ids), 2, **how)
            np.testing.assert_allclose(record.scores, expected, rtol=0, atol=1e-12 * abs(expected).max())


def test_a_share_of_the_softmax_is_between_none_and_all() -> None:
    clf = lrp.load_classifier(*build("bert", layers=1, labels=3), dtype="float64")
    (whole,) = lrp.attribute(clf, TEXTS[1], method="attnlrp")
    (none,) = lrp.attribute(clf, TEXTS[1], method="lrp", cut=[("query", "all"), ("key", "all")])
    with own({"softmax": lambda g_a, a: 0.25 * rules.softmax(g_a, a)}) as mine:
        (quarter,) = lrp.attribute(clf, TEXTS[1], method=mine)
    np.testing.assert_allclose(quarter.scores, 0.75 * none.scores + 0.25 * whole.scores, rtol=0, atol=1e-12)
    # a rule that knows no mask gives nothing to keys that are closed, such as later tokens
    llama = loaded("llama")
    with own({"softmax": lambda g_a, a, z: z * g_a}) as mine:
        (record,) = lrp.attribute(llama, TEXTS[1], method=mine, epsilon=0.1)
    assert np.isfinite(record.scores).all()


@pytest.mark.parametrize("family", ["bert", "llama", "deberta-v2"])
def test_a_rule_sees_no_padding_and_no_score_of_a_closed_key(family: str) -> None:
    def centred(g_a: Tensor, a: Tensor, z: Tensor) -> Tensor:
        """The research exercise's: the scores of every row centred before Eq. (5)."""
        level = torch.where(a > 0, z, 0).sum(-1, keepdim=True) / (a > 0).sum(-1, keepdim=True)
        return (z - level) / z * rules.softmax(g_a, a)

    clf, largest = loaded(family), lambda g_z, weight, x: g_z @ weight * x.abs().max()
    for given in ({"softmax": centred}, {"linear": largest}):
        with own(given) as mine:
            together = lrp.attribute(clf, list(TEXTS), method=mine, batch_tokens=1000)
            alone = [lrp.attribute(clf, text, method=mine)[0] for text in TEXTS]
        assert [one.scores.tobytes() for one in alone] == [one.scores.tobytes() for one in together]
    mean_of_all = {"softmax": lambda a, z: a * z.mean(-1, keepdim=True)}
    later = pytest.raises(lrp.InputError, match="not finite") if family == "llama" else nullcontext()
    with later, own(mean_of_all) as mine:
        lrp.attribute(clf, TEXTS[0], method=mine)


def test_a_rule_set_as_bypass_keeps_its_site_and_cut(clf: lrp.Classifier) -> None:
    with own(site="embedding", cut=("key", "special")) as mine:
        given = {"method": "lrp", "bypass": METHODS[mine].fixed["bypass"]}
        (same,) = lrp.attribute(clf, TEXTS[0], site="embedding", **given)
        assert same.scores.tobytes() == lrp.attribute(clf, TEXTS[0], method=mine)[0].scores.tobytes()
        for options in ({}, {"site": "embedding", "cut": ("value", "all")}):
            with pytest.raises(lrp.InputError, match="beside a rule set; expected those of the set"):
                lrp.attribute(clf, TEXTS[0], **given, **options)


def changed(g_z: Tensor, weight: Tensor) -> Tensor:
    return g_z.mul_(2) @ weight


REFUSED: list[tuple[dict[str, Callable], str]] = [
    ({"linear": lambda g_z: g_z[..., :1]}, r"of shape \(1, 1\); expected finite g at x of shape \(1, 16\)"),
    ({"linear": lambda g_z: None}, "of shape NoneType"),
    ({"linear": lambda g_z, weight: (g_z @ weight, weight)}, r"of shape \(1, 16\), \(3, 16\)"),
    ({"linear": lambda g_z, weight: g_z @ weight / 0}, "that is not finite"),
    ({"linear": changed}, "'changed' in place of linear: g and changed arguments"),
    ({"dense": changed}, "rule 'dense'; expected one of linear"),
    ({"add": changed}, "rule 'add'"),
    ({"linear": lambda g_z, w: g_z @ w}, "parameter w of '<lambda>', a rule for linear; expected some"),
    ({"linear": lambda *given: given[0]}, r"parameter \*given"),
    ({"rms_norm": rules.rms_norm}, "none of which"),  # of a network without one
]


@pytest.mark.parametrize(("given", "says"), REFUSED)
def test_what_an_own_rule_may_not_do(clf: lrp.Classifier, given: dict[str, Callable], says: str) -> None:
    with pytest.raises(lrp.InputError, match=says), own(given) as mine:
        lrp.attribute(clf, TEXTS[0], method=mine)
    with own({"linear": rules.linear}) as mine:  # the next call has nothing left of it
        (record,) = lrp.attribute(clf, TEXTS[0], method=mine)
    assert record.scores.tobytes() == lrp.attribute(clf, TEXTS[0], method="attnlrp")[0].scores.tobytes()


def test_a_returned_view_of_what_the_tape_keeps_changes_no_other_score(clf: lrp.Classifier) -> None:
    """What follows adds in place."""
    scores = []
    for function in (lambda g_z, x: x, lambda g_z, x: x.clone()):
        with own({"linear": function}) as mine:
            scores.append(lrp.attribute(clf, TEXTS[1], method=mine)[0].scores)
    assert scores[0].tobytes() == scores[1].tobytes()


CODE = """
import functools, torch, parts as beside
FACTOR = {factor}
class Base:
    inherited = lambda self, g: {base} * g
class Own(Base):
    __slots__ = "names", "kept"
    power = {power}
    fixed = staticmethod(lambda g: {fixed} * g)
    half = property(lambda self: {half})
own = Own()
own.names, own.kept = [own], {kept}
helper = lambda g: FACTOR * g  # {comment}
plain = lambda g_a, a, extra={default}: (lambda g: helper(g))(a * g_a)
by_module = lambda g_a: beside.part(g_a)
by_class = lambda g_a: own.inherited(g_a)
@torch.no_grad()
def wrapped(g_a):
    return {wrapped} * g_a
@functools.lru_cache
def cached(g_a):
    return {cached} * g_a
def imports(g_a):
    import parts as other
    return other.part(g_a)
"""
MOVED = {"plain": "factor default", "wrapped": "wrapped", "cached": "cached", "by_module": "part"}
MOVED |= {"imports": "part", "by_class": "base power fixed half kept"}


@pytest.mark.parametrize("rule", MOVED)
def test_the_fingerprint_is_that_of_all_that_a_function_leads_to(rule: str, tmp_path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    names = [*re.findall(r"{(\w+)}", CODE), "part"]

    def told(**given: int) -> str:
        values, known = dict.fromkeys(names, 1) | given, dict[str, Any](__name__="mine")
        (tmp_path / "parts.py").write_text(f"part = lambda g: {values['part']} * g")
        sys.modules.pop("parts", None)
        exec(compile(CODE.format(**values), "mine.py", "exec"), known)
        return print_of(known[rule])

    assert {name for name in names if told(**{name: 2}) != told()} == {*MOVED[rule].split()}


def test_fingerprints_of_arrays_and_of_the_order_of_arguments() -> None:
    arrays = [torch.ones(2), torch.zeros(2), np.zeros(2), torch.zeros(2, dtype=torch.int)]
    assert len({print_of(functools.partial(torch.mul, one)) for one in arrays}) == 4
    ones = lambda: torch.float32, lambda: torch.float64, lambda g_a, a: g_a - a, lambda a, g_a: a - g_a
    assert len({*map(print_of, ones)}) == 4 and print_of(lambda: torch.float32) == print_of(ones[0])


def test_the_book_s_example_runs_from_a_file(tmp_path, refused, capsys, monkeypatch) -> None:
    file, asked = tmp_path / "mine.py", ["explain", "a fine film", "--method", "gamma", "--json"]
    (tmp_path / "beside_mine.py").write_text("")  # as `python mine.py` finds it
    file.write_text("import beside_mine\n" + example_of_the_book()[0])
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert "'gamma'" in refused(asked)
    try:
        assert main([*asked, "--rules", str(file)]) == 0
    finally:
        forget("gamma")
    record = lrp.Attribution.from_json(capsys.readouterr().out)
    ((name, function),) = record.choices["rules"]
    assert name == "linear" and re.fullmatch("lrp_gamma [0-9a-f]{8}", function)


SHARES = ((0.25, 0.75), (0.5, 0.5))
HALF, QUARTER = (lambda g_a, a, by=by: by * rules.softmax(g_a, a) for by in (0.5, 0.25))
PRINTS = r"\(rules, softmax of own: 'name' there, 'name' now\)".replace("name", r"<lambda> [0-9a-f]{8}")


@pytest.mark.parametrize(
    ("first", "other", "words"),
    [
        ({"shares": SHARES}, {"shares": SHARES[::-1]}, r"shares of own: .*0\.25"),
        ({"own_rules": {"softmax": HALF}}, {"own_rules": {"softmax": QUARTER}}, PRINTS),
    ],
)
def test_a_run_knows_the_shares_of_a_rule_set(clf, tmp_path, first: Any, other: Any, words: str) -> None:
    """The same command with other shares, or another function, would mix two rules in one folder."""
    data, lean = reviews(TEXTS), {"masks": "none", "curves": False, "methods": ["attnlrp", "own"]}
    with own(**first, bypass=lambda layers: [layers]):
        jobs = TextJobs(clf, data, **lean)
        told = {"bypass": [3], "site": None, "cut": [], "shares": [*map(list, first.get("shares", HALVES))]}
        assert jobs.config["rules"]["own"].items() >= told.items()
        execute(jobs, tmp_path, progress=False)
        execute(jobs, tmp_path, progress=False, resume=True)
    with own(**other, bypass=[3]), pytest.raises(lrp.InputError, match=words):
        execute(TextJobs(clf, data, **lean), tmp_path, progress=False)
    assert "rules" not in TextJobs(clf, data, masks="none").config


@pytest.mark.parametrize("shares", [((1,), (0.5, 0.5)), "x", None, (0.5, 0.5), ((0.3, 0.3), (0.5, 0.5))])
def test_shares_that_are_no_two_pairs_are_refused(shares) -> None:
    with pytest.raises(lrp.InputError, match="two pairs of shares, each summing to 1"):
        lrp.rule_set("odd", shares=shares)
