"""The game of the layers: permutations, additive games, axioms; gains of layers; the tree's memory."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lrp_book import layers
from lrp_book.layers import (
    LayerGame,
    best_mask,
    gain_under,
    greedy_path,
    layer_gains,
    layer_game,
    layer_game_figure,
    mask_choices,
    shapley_interactions,
    shapley_values,
)
from test_protocol_grid import text
from test_report import level

from lrp_companion.checks import CompanionError, InputError
from lrp_companion.lab.base_run import EXAMPLES_OF
from lrp_companion.lab.labelled import side
from lrp_companion.lab.load import TextRun, load_run
from lrp_companion.masks import bypassed
from lrp_companion.metrics import bootstrap_mean
from lrp_companion.schema import Protocol

ROOT = Path(__file__).resolve().parent.parent
SPARE = 12 << 20
"""The allocator's and the libraries' own buffers; they differ between processors."""
RECORDED = [path.parent for path in sorted((ROOT / "results").glob("*/lattice_means.parquet"))]


def games(layers: int) -> st.SearchStrategy[np.ndarray]:
    return st.lists(st.floats(-1, 1), min_size=2**layers, max_size=2**layers).map(np.array)


def by_permutations(game: np.ndarray, layers: int) -> np.ndarray:
    """Shapley 1953 as it is told: every order in which layers may come, and what each adds when it comes."""
    total = np.zeros(layers)
    for order in itertools.permutations(range(layers)):
        mask = 0
        for layer in order:
            total[layer] += game[mask | 1 << layer] - game[mask]
            mask |= 1 << layer
    return total / math.factorial(layers)


def interaction_by_permutations(game: np.ndarray, layers: int, first: int, second: int) -> float:
    """Grabisch and Roubens 1999: the pair enters as one player in every order of the others and it."""
    total, players = 0.0, [*(layer for layer in range(layers) if layer not in (first, second)), "pair"]
    for order in itertools.permutations(players):
        mask = sum(1 << layer for layer in order[: order.index("pair")])
        a, b = 1 << first, 1 << second
        total += game[mask | a | b] - game[mask | a] - game[mask | b] + game[mask]
    return total / math.factorial(layers - 1)


@given(games(4))
def test_shapley_values_are_the_mean_over_all_orders(game):
    np.testing.assert_allclose(shapley_values(game), by_permutations(game, 4), atol=1e-12)


@given(games(4))
def test_interactions_are_the_mean_over_all_orders(game):
    interactions = shapley_interactions(game)
    assert np.isnan(interactions.diagonal()).all()
    for first, second in itertools.permutations(range(4), 2):
        assert interactions[first, second] == pytest.approx(
            interaction_by_permutations(game, 4, first, second), abs=1e-12
        )


@given(games(5))
def test_efficiency(game):
    assert shapley_values(game).sum() == pytest.approx(game[-1] - game[0], abs=1e-12)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=6), st.floats(-1, 1))
def test_an_additive_game_gives_back_its_summands_and_has_no_interactions(gains, start):
    layers = len(gains)
    game = np.array(
        [start + sum(g for k, g in enumerate(gains) if mask >> k & 1) for mask in range(2**layers)]
    )
    np.testing.assert_allclose(shapley_values(game), gains, atol=1e-12)
    off = shapley_interactions(game)[~np.eye(layers, dtype=bool)]
    np.testing.assert_allclose(off, 0, atol=1e-12)


@given(st.lists(st.floats(-1, 1), min_size=6, max_size=6))
def test_layers_that_do_the_same_get_the_same(by_count):
    game = np.array([by_count[mask.bit_count()] for mask in range(32)])
    np.testing.assert_allclose(shapley_values(game), (game[-1] - game[0]) / 5, atol=1e-12)


def test_a_stack_of_games_is_each_game_and_undefined_stays_undefined():
    stack = np.random.default_rng(0).normal(size=(3, 2, 8))
    stack[1, 0, 5] = np.nan
    values, pairs = shapley_values(stack), shapley_interactions(stack)
    assert values.shape == (3, 2, 3) and pairs.shape == (3, 2, 3, 3)
    assert np.isnan(values[1, 0]).all() and not np.isnan(values[0]).any()
    np.testing.assert_allclose(values[2, 1], shapley_values(stack[2, 1]))
    np.testing.assert_allclose(pairs[2, 1], shapley_interactions(stack[2, 1]))


@given(games(4))
def test_the_greedy_path_takes_the_best_next_layer_and_ends_at_all(game):
    path = greedy_path(game)
    assert path[0] == 0 and path[-1] == 15 and [mask.bit_count() for mask in path] == [0, 1, 2, 3, 4]
    for here, there in itertools.pairwise(path):
        assert here & there == here
        assert game[there] == max(game[here | 1 << layer] for layer in range(4) if not here >> layer & 1)


def test_of_equals_the_fewest_layers_win():
    assert best_mask([1.0, 1.0, 1.0, 1.0]) == 0 and best_mask([0.0, 1.0, 1.0, 1.0]) == 1
    assert bypassed(0) == frozenset() and bypassed(6) == {2, 3}


def game_of(rows: np.ndarray) -> LayerGame:
    means = {"all": rows.mean(0), "first half": rows[0::2].mean(0), "second half": rows[1::2].mean(0)}
    return LayerGame(means, len(rows), rows, "test")


def test_masks_are_chosen_on_one_half_and_judged_on_the_other():
    """In the halves another mask is best; what is judged never had a say in the choice."""
    rows = np.zeros((20, 4))
    rows[0::2, 1], rows[1::2, 2] = 0.5, 0.4
    rows[1::2, 1] = np.linspace(0.0, 0.2, 10)
    for on, best, chosen, judged in (("first half", 1, 0.5, 0.1), ("second half", 2, 0.4, 0.0)):
        row = {choice["choice"]: choice for choice in game_of(rows).choices(chosen_on=on)}
        assert row["best of all"]["mask"] == best and row["best of all"]["gap"].mean == 0
        assert row["best of all"]["chosen"].mean == pytest.approx(chosen)
        assert row["best of all"]["judged"].mean == pytest.approx(judged)
        assert row["best of all"]["judged"].n == 10
        assert row["AttnLRP"]["mask"] == 0 and row["CP-LRP"]["mask"] == 3
        assert row["AttnLRP"]["gap"].mean == pytest.approx(judged)
    assert row["best, front to back"]["mask"] == 1 and row["best, back to front"]["mask"] == 2


def test_intervals_are_over_examples_where_their_rows_are_there():
    rows = np.random.default_rng(1).normal(size=(30, 8))
    game = game_of(rows)
    assert game.shapley()[1] == bootstrap_mean(shapley_values(rows)[:, 1])
    bare = LayerGame(game.means, 30)
    for interval, without in zip(game.shapley(), bare.shapley(), strict=True):
        assert without.mean == pytest.approx(interval.mean) and np.isnan(without.low)
    assert [row["mask"] for row in bare.choices()] == [row["mask"] for row in game.choices()]


@pytest.mark.parametrize("folder", RECORDED, ids=lambda folder: folder.name)
@pytest.mark.parametrize(("site", "tokens"), [("word", "no-special"), ("word+position", "all")])
def test_a_recorded_run_is_read(folder, site, tokens):
    run = load_run(folder)
    game = layer_game(run, site=site, tokens=tokens)
    assert game.layers == run.layers
    assert sum(interval.mean for interval in game.shapley()) == pytest.approx(
        game.means["all"][-1] - game.means["all"][0], abs=1e-4
    )
    for part in ("all", "first half", "second half"):  # means of the rows are the means that were kept
        if game.rows is not None:
            means = np.nanmean(game.rows[EXAMPLES_OF[part]], 0)
            np.testing.assert_allclose(means, game.means[part], atol=1e-5)
        on_paths = {mask for path in game.paths() if path != "greedy" for mask in game.paths()[path]}
        for mask in on_paths:
            interval = game.interval(mask, part)
            assert interval.mean == pytest.approx(game.means[part][mask], abs=1e-5)
            assert interval.low < interval.mean < interval.high


def test_masks_whose_rows_were_kept_have_intervals_where_others_have_none():
    rows = np.random.default_rng(3).normal(size=(30, 8))
    rows[:, 7] += 2  # the best mask is one whose rows are kept
    whole = game_of(rows)
    kept = LayerGame(whole.means, 30, columns={mask: rows[:, mask] for mask in (0, 7)})
    assert kept.interval(7, "second half") == whole.interval(7, "second half")
    assert np.isnan(kept.interval(3).low) and kept.interval(3).mean == pytest.approx(whole.interval(3).mean)
    best = {row["choice"]: row["mask"] for row in kept.choices()}["best of all"]
    for ours, theirs in zip(kept.choices(), whole.choices(), strict=True):
        assert ours["gap"].mean == pytest.approx(theirs["gap"].mean)
        known = {ours["mask"], best} <= {0, 7}
        assert ours["gap"] == theirs["gap"] if known else np.isnan(ours["gap"].low)
    assert best == 7


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: shapley_values([1.0, 2.0, 3.0]), r"values of shape \(3,\); expected \(..., 2\*\*L\)"),
        (lambda: shapley_values(1.0), "2\\*\\*L"),
        (lambda: shapley_values([1.0, np.inf]), "infinite"),
        (lambda: shapley_interactions([1.0]), "shapley_interactions"),
        (lambda: greedy_path([0.0, np.nan]), "1 undefined"),
        (lambda: best_mask(np.zeros((2, 2))), "best_mask"),
        (lambda: game_of(np.zeros((4, 4))).choices(chosen_on="all"), "chosen_on"),
    ],
)
def test_bad_games_are_refused(call, words):
    with pytest.raises(InputError, match=words):
        call()


def test_the_figure_and_the_table_hold_the_numbers():
    rows = np.random.default_rng(2).normal(0.5, 0.1, size=(40, 16))
    game = game_of(rows)
    figure = layer_game_figure(game, title="four layers", pairs=True)
    cloud, bars, heat = figure.axes[:3]
    np.testing.assert_allclose(
        [bar.get_height() for bar in bars.patches], [interval.mean for interval in game.shapley()]
    )
    drawn = {line.get_label(): line.get_ydata() for line in cloud.lines}
    np.testing.assert_allclose(drawn["greedy"], game.means["all"][greedy_path(game.means["all"])])
    np.testing.assert_allclose(heat.images[0].get_array().filled(np.nan), game.interactions())
    assert "all 16 masks" in repr(figure) and figure._repr_png_()
    shown = mask_choices(game)
    assert len(shown.cells) == 8 and "first half" in str(shown.caption)


# -- gains along a path --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stepped(tmp_path_factory: pytest.TempPathFactory) -> TextRun:
    """From the back r goes 0.1, 0.2 (layer 4), 0.5 (3), 0.6 (2), 0.5 (1); alone layer 2 adds most."""
    along = {"attnlrp": 0.1, "cp-lrp": 0.5, (4,): 0.2, (3, 4): 0.5, (2, 3, 4): 0.6}
    along |= {(1,): 0.1, (2,): 0.4, (3,): 0.1}
    r = {
        name if isinstance(name, str) else frozenset(name): level(
            *(value + noise for noise in (0.0, 0.01, -0.01, 0.02))
        )
        for name, value in along.items()
    }
    return text(tmp_path_factory.mktemp("runs") / "stepped", r, layers=4)


@pytest.mark.parametrize(
    ("path", "gains", "later"),
    [
        ("back-to-front", [-0.1, 0.1, 0.3, 0.1], 0.4),
        ("single", [0.0, 0.3, 0.0, 0.1], -0.2),
        ("front-to-back", None, None),
    ],
)
def test_gains_of_layers_are_steps_of_the_path(stepped, path, gains, later):
    made = layer_gains(stepped, path=path)
    first = gain_under(made, Protocol())
    assert made["total"].size == 3 * 2 * 2 * 4 * 3
    if gains is None:
        assert first["gains"][0].mean == pytest.approx(0, abs=1e-6)
        assert first["total"].mean == pytest.approx(0.4, abs=1e-6)
        return
    assert [gain.mean for gain in first["gains"]] == pytest.approx(gains, abs=1e-6)
    assert first["largest"] == 1 + int(np.argmax(gains)) and first["largest in draws"] == 1.0
    assert first["later - first"].mean == pytest.approx(later, abs=1e-6)
    assert first["total"].mean == pytest.approx(sum(gains), abs=1e-6)


def test_a_share_needs_a_total_and_halves_are_counted(stepped):
    made = layer_gains(stepped)
    assert gain_under(made, Protocol())["share"].mean == pytest.approx(1.0, abs=1e-5)
    flat = gain_under(made, Protocol(site="embedding"))
    assert flat["share"] is None and flat["total"].mean == 0, "without a total there is no part of it"
    shown = layers.late_table(
        {"back-to-front": made, "single": layer_gains(stepped, path="single")}, title="t"
    )
    later, total = (side(made[name].sel(tokens="all")).values.ravel() for name in ("later - first", "total"))
    row = next(cells for cells in shown.cells if cells[0] == "back to front; all")
    sides = [np.sum(later == "above"), np.sum(later == "across"), np.sum(later == "below")]
    sides += [np.sum(total == "above"), np.sum(total == "below")]
    sides.append(sum(a == b == "above" for a, b in zip(later, total, strict=True)))
    assert row[1:] == (str(later.size), *map(str, sides)) and len(shown.cells) == 4
    figure = layers.gain_map(made, title="gains")
    assert "words, no special, raw: layer 3" in figure.alt
    assert figure._repr_png_().startswith(b"\x89PNG")
    bare = replace(stepped, tables={name: rows for name, rows in stepped.tables.items() if name != "masks"})
    for call, words in (
        (lambda: layer_gains(bare), "a run without masks"),
        (lambda: layer_gains(stepped, path="sideways"), "path 'sideways'"),
    ):
        with pytest.raises(CompanionError, match=words):
            call()


# -- the engine: chunks, and memory --------------------------------------------------------------------------


@pytest.mark.parametrize("eps", [0.0, 0.1])
def test_the_memory_budget_changes_nothing_but_the_chunks(eps, clf, monkeypatch):
    """Every chunk that a budget may choose, against one run per mask, in float64."""
    import torch
    from tiny_models import TEXTS

    from lrp_companion import layer_lattice
    from lrp_companion.methods import explain
    from lrp_companion.tape.encoder import LayerBlock

    carried, children = [], LayerBlock.children
    monkeypatch.setattr(
        LayerBlock,
        "children",
        lambda self, g, *, eps=0.0: carried.append(len(g)) or children(self, g, eps=eps),
    )
    (text,) = clf.encode(TEXTS[1])
    masks = [bypassed(k) for k in range(8)]
    alone = [explain("lrp", clf, [text], [1], bypass=mask, epsilon=eps)[0].parts for mask in masks]
    seen = set()
    for memory in (2**31, 40_000, 30_000, 26_000):
        carried.clear()
        lattice = layer_lattice(clf, TEXTS[1], target=1, epsilon=eps, memory=memory)
        assert sum(carried) == 7
        seen.add(max(carried))
        for name, values in lattice.parts.items():
            wanted = np.stack([parts[name] for parts in alone])
            np.testing.assert_allclose(values, wanted, rtol=0, atol=1e-10 * np.abs(wanted).max())
    assert max(seen) == 4 and min(seen) < 4
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("memory", [0, -1, 1.5, True, 100])
def test_a_budget_that_cannot_hold_one_mask_is_refused_before_the_walk(memory, clf):
    from lrp_companion import layer_lattice

    with pytest.raises(InputError, match="memory|bytes for 2"):
        layer_lattice(clf, "a film of rare grace", memory=memory)


@pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="reads /proc")
def test_memory_stays_within_its_budget_at_bert_base_width():
    """Five layers, 64 tokens, 24 MiB: what a process of its own grows by. The whole is in the benchmarks."""
    budget = 24 << 20
    command = [sys.executable, "-m", "benchmarks.lattice_memory", "5", "64", str(budget), "1"]
    grown = []
    for _ in range(3):  # what libraries load late differs from run to run; what the walk holds does not
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            check=True,
        )
        grown.append(int(done.stdout.split()[0]))
        if grown[-1] < budget + SPARE:
            break
    assert 0 < min(grown) < budget + SPARE, grown
