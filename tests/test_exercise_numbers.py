"""The exercise pages: printed numbers are recomputed, links to widgets hold a real state."""

from __future__ import annotations

import copy
import itertools
import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, unquote, urljoin

import nbformat
import numpy as np
import pytest
from browsing import ROOT, follow
from lrp_book.exercise_cells import BLOCK as BLOCK_OF_CARD
from lrp_book.exercise_cells import CHECK, fill, in_page
from lrp_exercises.catalogue import EXERCISES
from test_product import all_groupings

import lrp_companion as lrp
from lrp_companion.lab.perturbation_paths import perturbation_paths
from lrp_companion.toys import Product, SoftmaxStep, shares

PAGES = sorted((ROOT / "book/exercises").glob("*.md"))
TEXT = {page.stem: page.read_text(encoding="utf-8") for page in PAGES}
BLOCK = re.compile(r"^````\{(exercise|solution)\} ?(.*?)\n(.*?)^````$", re.DOTALL | re.MULTILINE)


def blocks() -> tuple[dict[str, str], dict[str, str]]:
    """Label to text, of exercises and of solutions."""
    asked, solved = {}, {}
    for text in TEXT.values():
        for kind, head, body in BLOCK.findall(text):
            if kind == "exercise":
                asked[re.search(r":label: (\S+)", body)[1]] = body  # type: ignore[index]
            else:
                solved[head.strip()] = body
    return asked, solved


ASKED, SOLVED = blocks()
LINKS = [
    (page, *match)
    for page, text in TEXT.items()
    for match in re.findall(r"\{state\}`([^`]*?) <([^`>]*)>`", text)
]


def test_pages_and_notebooks_have_each_exercise_from_its_card() -> None:
    """Two of three hand-written copies had drifted: another argument, a solution of old."""
    blocks = [match for text in TEXT.values() for match in BLOCK_OF_CARD.finditer(text)]
    assert sorted(match[2] for match in blocks) == sorted([*EXERCISES, *EXERCISES])
    for match in blocks:
        shown = in_page(match)
        assert (EXERCISES[match[2]].solution.rstrip() in shown) == (match[1] == "answer")
        assert EXERCISES[match[2]].signature in shown and f'check("{match[2]}", ' in shown
    assert not any("```python" in text and "check(" in text for text in TEXT.values())
    paths, checked = sorted((ROOT / "notebooks/exercises").glob("*.ipynb")), []
    for path in paths:
        notebook = nbformat.read(path, as_version=4)
        checked += [found[1] for cell in notebook.cells if (found := CHECK.search(cell.source))]
        assert fill(copy.deepcopy(notebook)) == notebook, "make notebooks writes them from the cards"
    assert checked == list(EXERCISES)


def vector(values: Any, digits: int | None = None) -> str:
    return f"({', '.join(number(x, digits) for x in values)})"


def number(x: Any, digits: int | None = None) -> str:
    x = float(x)
    return f"{x:.{digits}f}" if digits is not None and abs(x) > 1e-12 else f"{round(x, 9) + 0.0:g}"


def ex_p_four() -> list[str]:
    values = (2, 3, 0.5, 4)
    return [
        vector(Product(values, grouping).relevance()) for grouping in ("((x1 x2) x3) x4", "(x1 x2) (x3 x4)")
    ]


def ex_p_negative() -> list[str]:
    p = Product((-1, 2, 5), "(x1 x2) x3")
    assert sum(p.relevance()) == pytest.approx(p.value) and str(p.integrated_gradients()[0]) == "-10/3"
    return [vector(p.relevance()), vector(p.loo()), number(p.value), number(sum(p.loo()))]


def ex_p_sum() -> list[str]:
    out = []
    for eps in (0.0, 0.1):
        z = np.array([6.0, -5.9])
        from_sum = EXERCISES["residual-rule"].answer(np.array([0.1]), z[:1], z[1:], eps)
        product, x3 = from_sum[0][0], from_sum[1][0]
        out.append(vector([product / 2, product / 2, x3]))
        last = product + x3
    return [*out, number(last), "0.5", "0.1"]


def ex_p_extreme() -> list[str]:
    first_shares = [shares(grouping)[0] for grouping in all_groupings(8)]
    assert first_shares.count(min(first_shares)) == 1 and float(max(first_shares)) == 0.5
    return [
        f"{first_shares.count(max(first_shares))} of {len(first_shares)}",
        f"1 of {len(first_shares)}",
        f"$1/{min(first_shares).denominator}$",
    ]


def ex_r_linear() -> list[str]:
    rule = EXERCISES["epsilon-rule"].answer
    x, weight, bias, z = np.array([2.0, -1.0]), np.array([[3.0, 4.0]]), np.array([1.0]), np.array([3.0])
    plain, damped = (rule(z, x, weight, bias, eps) for eps in (0.0, 1.0))
    kept = 1 * 3 / (3 + 1)
    return [
        vector(plain),
        vector(damped),
        f"keeps ${number(kept)}$",
        f"taken ${number(3 - damped.sum() - kept)}$ of $3$",
    ]


def ex_r_sign() -> list[str]:
    parts = EXERCISES["residual-rule"].answer(np.array([2.0]), np.array([1.0]), np.array([-1.5]), 0.5)
    x, y = (part[0] for part in parts)
    return [
        f"R_x = {number(x)}$",
        f"R_y = {number(y)}$",
        f"the sum ${number(x + y)}$",
        "-0.5 - 0.5 = -1",
        "-0.5 + 0.5 = 0",
        "z = -0.5",
    ]


def ex_r_norm() -> list[str]:
    import torch

    x, g_y = np.array([[1.0, 3.0, 5.0]]), np.array([[1.0, 0.0, 0.0]])
    g = EXERCISES["layer-norm-rule"].answer(g_y, x, np.ones(3), 0.0)[0]
    leaf = torch.tensor(x[0], requires_grad=True)
    y = (leaf - leaf.mean()) / leaf.var(correction=0).sqrt()
    full = torch.autograd.grad(y[0], leaf)[0].numpy()
    sd = x.std()
    assert (x[0] * g).sum() == pytest.approx(y[0].item()) and abs((x[0] * full).sum()) < 1e-12
    return [
        f"{sd:.4f}",
        f"y_1 = {y[0].item():.4f}",
        vector([1 / sd, 0, 0], 4),
        vector(g, 4),
        vector(x[0] * g, 4),
        vector(full, 4),
        vector(x[0] * full, 4),
        f"the sum ${(x[0] * g).sum():.4f} = y_1$",
    ]


def ex_r_halves() -> list[str]:
    return ["= 0.75$", f"0.75^{{12}} = {0.75**12:.4f}"]


@cache
def shown() -> tuple[lrp.Classifier, list[str]]:
    """The model and the six sentences of notebook 03, made as there."""
    clf = lrp.load_classifier("companion")
    data = lrp.load_dataset("sst2", source="embedded", limit=64, seed=0)
    return clf, [text for text in data.texts if len(clf.encode(text)[0]) <= 14][:6]


@cache
def lattice(place: int) -> tuple[Any, Any]:
    """All masks and LOO of one of these sentences."""
    clf, texts = shown()
    return lrp.layer_lattice(clf, texts[place]), lrp.attribute(clf, texts[place], method="loo")[0]


@cache
def curves(place: int, *methods: str) -> dict[str, Any]:
    """One of these sentences along the curves of some methods."""
    clf, texts = shown()
    maps = {name: lrp.attribute(clf, [texts[place]], method=name) for name in methods}
    return perturbation_paths(clf, [texts[place]], maps)[0]


OURS, EVERYTHING = lrp.Protocol(), lrp.Protocol(site="word+position", tokens="all")


def r_of(place: int, protocol: Any) -> np.ndarray:
    masks, loo = lattice(place)
    return np.array(
        [lrp.agreement(row, loo.scores, masks.special, protocol) for row in masks.at(protocol.site).scores]
    )


def hunt(r: np.ndarray, *, most: int) -> dict[str, Any]:
    """Both ends' r, the best mask of at most 1 to `most` layers, and how many of these beat both ends.

    A mask is a number whose bit l - 1 is layer l; ends are the first (AttnLRP) and the last (CP-LRP).
    """
    sizes = np.array([mask.bit_count() for mask in range(len(r))])
    best = []
    for size in range(1, most + 1):
        mask = int(np.nanargmax(np.where(sizes <= size, r, np.nan)))
        named = tuple(layer for layer in range(1, len(r).bit_length()) if mask >> (layer - 1) & 1)
        best.append((size, named, float(r[mask])))
    few = sizes <= most
    better = int((r[few] > np.nanmax([r[0], r[-1]])).sum())
    return {"ends": (float(r[0]), float(r[-1])), "best": best, "better": better, "masks": int(few.sum())}


def ex_r_mask() -> list[str]:
    result = hunt(r_of(1, EVERYTHING), most=4)
    ends, (one, two, _, four) = result["ends"], result["best"]
    assert one[2] < max(ends) < two[2] and (two[1], four[1]) == ((8, 9), (6, 8, 9, 10))
    return [
        f"AttnLRP has ${ends[0]:.2f}$ and CP-LRP ${ends[1]:.2f}$",
        f"layer {one[1][0]}, gives ${one[2]:.2f}$",
        f"give ${two[2]:.2f}$",
        f"at most four, ${four[2]:.2f}$",
        f"Of the {result['masks']} masks",
        f"four layers, {result['better']} are above both ends",
    ]


def ex_r_half() -> list[str]:
    masks, _ = lattice(0)
    one, two = [0.0] * 12, [0.0] * 12
    one[4] = two[4] = two[8] = 0.5
    assert np.allclose(masks.mix(one), (masks.scores_for([]) + masks.scores_for([5])) / 2)
    assert np.allclose(
        masks.mix(two), np.mean([masks.scores_for(mask) for mask in ([], [5], [9], [5, 9])], axis=0)
    )
    return ["mean of four: no layer, 5, 9, and both"]


def ex_s_two() -> list[str]:
    step = SoftmaxStep([math.log(3), 0], [4, 0])
    return [
        vector(step.attention),
        vector(step.loo()),
        f"CP-LRP is ${vector(step.cp_lrp())}$",
        vector(step.value_relevance()),
        vector(step.mask_gradient()),
        vector(step.logit_relevance(), 4),
        vector(step.attnlrp(), 4),
    ]


def ex_s_uniform() -> list[str]:
    step = SoftmaxStep([1, 1, 1, 1], [2, 2, 2, 2])
    assert np.allclose(step.loo(), 0) and np.allclose(step.mask_gradient(), 0)
    return [
        f"A_i = {step.attention[0]:g}",
        f"CP-LRP is ${step.cp_lrp()[0]:g}$",
        f"AttnLRP is ${step.attnlrp()[0]:g}$",
    ]


def ex_s_level() -> list[str]:
    step = SoftmaxStep(np.array([math.log(3), 0]) + 8 / 3, [4, 0])
    slope = step.mask_gradient()[0] / 2
    assert step.attnlrp()[1] == pytest.approx(-1)
    return [
        f"c = 8/3 = {8 / 3:.4f}",
        f"first is ${step.attnlrp()[0]:.4f}$",
        f"1.5 + {slope:g}\\,(c",
        f"-{slope:g}\\, c",
    ]


def ex_s_loss() -> list[str]:
    parts = []
    for t in np.linspace(-6, 6, 25):
        step = SoftmaxStep([t, 0], [1, 0])
        assert step.attnlrp().sum() < step.output
        parts.append(step.attnlrp().sum() / step.output)
    step = SoftmaxStep([1, 0], [1, 0])
    return [f"= {step.attnlrp().sum() / step.output:.4f}$"]


def ex_s_idle() -> list[str]:
    step = SoftmaxStep([2, 0, 0], [0.5, 1, 0])
    assert abs(step.loo()[0]) < 1e-12 and step.cp_lrp().argmax() == 0
    return [f"A_1 v_1 = {step.cp_lrp()[0]:.3f}", "At the value 0.5"]


def ex_s_turn() -> list[str]:
    values = [1, -0.5, 0.5, 0.25]
    here, there = SoftmaxStep([2, 1, 0, 0], values), SoftmaxStep([-6, -7, -8, -8], values)
    assert np.allclose(here.loo(), there.loo()) and np.allclose(here.cp_lrp(), there.cp_lrp())
    assert lrp.pearson(here.attnlrp(), here.loo()) > 0 > lrp.pearson(there.attnlrp(), there.loo())
    return ["$r$ is negative"]


def ex_s_layer() -> list[str]:
    r = r_of(2, EVERYTHING)
    single = [r[1 << layer] for layer in range(12)]
    return [f"Layer {int(np.argmax(single)) + 1} <", f"from $r = {r[0]:.2f}$ to ${max(single):.2f}$"]


def ex_a_special() -> list[str]:
    scores, loo = np.array([6.0, 1, 2, 3, 0]), np.array([0.0, 2, 1, 3, 0])
    special = np.array([True, False, False, False, True])
    centred = [vector(x[~special] - x[~special].mean()) for x in (scores, loo)]
    return [
        *centred,
        f"= {lrp.agreement(scores, loo, special, OURS):g}$",
        f"r = {lrp.pearson(scores, loo):.4f}",
    ]


def ex_a_shift() -> list[str]:
    word, position = np.array([[2.0, 0], [1, 1]]), np.array([[0.0, 1], [1, 0]])
    g, c = np.array([[1.0, 2], [3, -1]]), np.array([1.0, -1])

    def read(e: np.ndarray) -> str:
        return vector((e * g).sum(1))

    return [
        f"Words: $R = {read(word)}$",
        f"Positions: ${read(position)}$",
        f"Sums: ${read(word + position)}$",
        f"so $R = {read(word + c)}$",
        f"c \\cdot g_t = {vector(g @ c)}$",
        f"so ${read(position - c)}$",
        f"The sums stay ${read(word + c + position - c)}$",
    ]


def ex_a_negative() -> list[str]:
    scores, loo = np.array([1.0, -3, 1]), np.array([1.0, -2, 2])
    raw, turned = (lrp.pearson(x, loo) for x in (scores, scores / scores.sum()))
    return [
        f"Raw: $r = {raw:.4f}$",
        vector(scores / scores.sum()),
        f"$r = {turned:.4f}$",
        f"$r = {raw:.4f}$ again",
        "absolute sum, $5$",
    ]


def ex_a_curves() -> list[str]:
    weights = np.array([4.0, -1.0, 2.0])
    morf, lerf = (
        lrp.perturbation_curve(lambda keep: keep @ weights, weights, order=order)
        for order in ("morf", "lerf")
    )
    return [
        f"f_0 = {morf.logits[0]:g}",
        vector(morf.logits[1:]),
        vector(lerf.logits[1:]),
        f"with the mean ${morf.mean_logit:g}$",
        f"with the mean ${lerf.mean_logit:.4f}$",
        f"Delta = {lerf.mean_logit - morf.mean_logit:.4f}",
        f"= {morf.aopc:g}$",
    ]


def ex_a_paired() -> list[str]:
    a, b = np.array([0.2, 0.4, 0.6, 0.8, 0.5]), np.array([0.3, 0.5, 0.4, 1.0, 0.8])
    d = b - a
    paired, apart = d.std(ddof=1) / 5**0.5, math.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 5)
    assert d.mean() < 2 * paired < 2 * apart and d.mean() > 2 * paired / 2
    return [
        vector(d),
        f"mean ${d.mean():g}$",
        f"${d.std(ddof=1):.4f}$",
        f"error is ${paired:.4f}$",
        f"${a.std(ddof=1):.4f}$",
        f"${b.std(ddof=1):.4f}$",
        f"= {apart:.4f}$",
        f"({a.std(ddof=1):.4f}^2 + {b.std(ddof=1):.4f}^2)",
    ]


def ex_a_ends() -> list[str]:
    word, everything = r_of(0, OURS), r_of(0, EVERYTHING)
    assert word[0] > word[-1] and everything[0] < everything[-1]
    return [f"AttnLRP ${r[0]:.2f}$, CP-LRP ${r[-1]:.2f}$" for r in (word, everything)]


def ex_a_player() -> list[str]:
    methods = curves(2, "loo", "cp-lrp")["methods"]
    cp, loo = (methods[name]["morf"]["mean"] for name in ("cp-lrp", "loo"))
    assert cp < loo
    return [f"its mean logit is ${cp:.2f}$", f"LOO's is ${loo:.2f}$"]


def ex_j_hand() -> list[str]:
    scores, loo = np.array([1.0, 2, 3, 12]), np.array([3.0, 2, 1, 10])
    r, words = lrp.pearson(scores, loo), lrp.pearson(scores[:3], loo[:3])
    rank = EXERCISES["rank-agreement"].answer(scores, loo)
    centred = (vector(x - x.mean()) for x in (scores, loo))
    return [f"${words:.0f}$", f"${r:.2f}$", f"${rank:.1f}$", *centred]


def ex_j_two() -> list[str]:
    """Every set of the three words, and every order for the Shapley values."""
    game = {(d, s, f): 4 * max(d, s) + f for d, s, f in itertools.product((0, 1), repeat=3)}
    loo = np.array([game[1, 1, 1] - game[tuple(int(i != k) for i in range(3))] for k in range(3)])
    gains = np.zeros(3)
    for order in itertools.permutations(range(3)):
        for place, k in enumerate(order):
            before = [int(i in order[:place]) for i in range(3)]
            gains[k] += game[tuple(before[:k] + [1] + before[k + 1 :])] - game[tuple(before)]
    shapley = gains / 6
    maps = np.array([2.0, 2, 0]), np.array([0.0, 0, 1])
    r = [round(lrp.pearson(one, judge)) for one in maps for judge in (loo, shapley)]
    assert r == [-1, 1, 1, -1]
    return [vector(loo), vector(shapley), f"answer still is ${game[0, 1, 1]}$"]


NUMBERS: dict[str, Callable[[], list[str]]] = {
    name.replace("_", "-"): made for name, made in dict(globals()).items() if name.startswith("ex_")
}


@pytest.mark.parametrize("label", NUMBERS)
def test_numbers_of_a_solution_are_recomputed(label: str) -> None:
    for expected in NUMBERS[label]():
        assert expected in SOLVED[label], f"{label}: the solution does not say {expected}"


def test_every_decimal_of_a_solution_is_recomputed_or_given() -> None:
    """No decimal number stands in a solution that its recomputation or the exercise does not have."""
    for label, text in SOLVED.items():
        if "```{answer}" in text:
            continue
        plain = re.sub(r"<[^>]*>", "", text)
        known = " ".join([*(NUMBERS[label]() if label in NUMBERS else []), ASKED[label]])
        unknown = [decimal for decimal in re.findall(r"\d+\.\d+", plain) if decimal not in known]
        assert not unknown, f"{label}: {unknown} are recomputed nowhere"


def state(link: str) -> tuple[str, str, dict[str, str]]:
    """Page, widget and what the link sets, as the page reads it."""
    page, _, fragment = link.partition("#")
    pairs = parse_qsl(fragment, keep_blank_values=True, strict_parsing=True)
    names = {key.partition(".")[0] for key, _ in pairs}
    assert len(names) == 1, link
    return page, names.pop(), {key.partition(".")[2]: value for key, value in pairs}


def test_links_of_the_built_book_lead_to_the_state_that_they_name(site, html, browser):
    """Of exercises and course: a widget wakes in that state at the first, and takes it on at the others."""
    from bs4 import BeautifulSoup

    pages = [*(html / "book/exercises").glob("*.html"), *(html / "book/course").rglob("*.html")]
    addresses: set[str] = set()
    for page in pages:
        soup = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")
        place = f"{site}/{page.relative_to(html).as_posix()}"
        addresses |= {urljoin(place, str(link["href"])) for link in soup.select("a.companion-state")}
    context, awake = browser.new_context(viewport={"width": 1280, "height": 900}), {}
    for address in sorted(addresses):
        _, name, given = state(f"page#{unquote(address.partition('#')[2])}".replace("+", "%2B"))
        follow(context, awake, address, name, given)
    context.close()
    assert len({address.partition("#")[2] for address in addresses}) >= len({link for *_, link in LINKS}) > 9
