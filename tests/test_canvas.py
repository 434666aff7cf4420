"""Names at lines and points: moved apart as little as possible, and covering nothing."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from matplotlib.text import Text

from lrp_companion.show.canvas import Name, drawing, headline, label_ends, label_points, settle, spread
from lrp_companion.show.palette import INK


def slow_spread(wanted: list[int], gap: int, low: int, high: int) -> float:
    """The least sum of squares over all whole places, by trying them."""
    order = sorted(range(len(wanted)), key=lambda k: wanted[k])
    return min(
        sum((place - wanted[k]) ** 2 for place, k in zip(places, order, strict=True))
        for places in itertools.combinations(range(low, high + 1), len(wanted))
        if all(after - before >= gap for before, after in itertools.pairwise(places))
    )


@given(
    wanted=some.lists(some.integers(0, 12), min_size=1, max_size=4),
    gap=some.integers(1, 3),
    low=some.integers(-2, 0),
    high=some.integers(12, 14),
)
def test_places_move_apart_as_little_as_possible(wanted: list[int], gap: int, low: int, high: int) -> None:
    places = spread(wanted, gap=gap, low=low, high=high)
    order = np.argsort(wanted, kind="stable")
    assert (np.diff(places[order]) >= gap - 1e-9).all(), "a smallest gap, and the order that was asked for"
    assert places.min() >= low - 1e-9 and places.max() <= high + 1e-9
    # Whole places can only be as good or worse.
    assert ((places - wanted) ** 2).sum() <= slow_spread(wanted, gap, low, high) + 1e-9


def test_places_that_are_free_stay_and_groups_keep_their_middle() -> None:
    assert spread([3.0, 0.0], gap=1.0, low=0, high=9).tolist() == [3.0, 0.0]
    assert spread([5.0, 5.0, 5.0], gap=2.0, low=0, high=9).tolist() == [3.0, 5.0, 7.0]
    assert spread([9.0, 9.0], gap=2.0, low=0, high=9).tolist() == [7.0, 9.0]
    assert spread([1.0, 1.0, 1.0], gap=5.0, low=0, high=6).tolist() == [0.0, 5.0, 10.0]
    assert spread([], gap=1.0, low=0, high=1).shape == (0,)


def boxes_of(axes):
    return [Text.get_window_extent(text) for text in axes.texts]


def test_ends_are_named_at_their_heights_and_apart() -> None:
    figure, (axes,) = drawing("three lines")
    for height in (0.5, 0.51, 0.9):
        axes.plot([0, 1], [0, height])
    names = [Name(text, 1, y, INK) for text, y in (("first", 0.5), ("second", 0.51), ("third", 0.9))]
    label_ends(axes, names)
    settle(figure)
    figure.draw_without_rendering()
    first, second, third = boxes_of(axes)
    assert first.y1 <= second.y0 + 0.5 and second.y1 < third.y0, "the order of the lines, none over another"
    panel = axes.get_window_extent()
    assert all(box.x0 >= panel.x1 and box.x1 <= figure.bbox.x1 for box in (first, second, third))
    height = axes.transData.transform((1, 0.9))[1]
    assert third.y0 < height < third.y1


def test_names_of_points_cover_no_point_line_or_name() -> None:
    figure, (axes,) = drawing("points in a row, and a line through them")
    x = np.linspace(0, 1, 6)
    axes.plot(x, 0.5 + 0 * x, marker="o")
    label_points(axes, [Name(f"the point {k}", place, 0.5, INK) for k, place in enumerate(x)])
    settle(figure)
    figure.draw_without_rendering()
    boxes, panel = boxes_of(axes), axes.get_window_extent()
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    line = axes.transData.transform((0.5, 0.5))[1]
    assert all(box.y1 < line or box.y0 > line for box in boxes)
    assert all(box.x0 >= panel.x0 and box.x1 <= panel.x1 for box in boxes)


@pytest.mark.parametrize(
    "title", ["Short", "What does agreement with LOO cost on a data set with long names, n = 872"]
)
def test_no_title_is_cut(title: str) -> None:
    figure, _ = drawing("empty")
    headline(figure, title)
    figure.draw_without_rendering()
    (head,) = [text for text in figure.texts if text.get_text()]
    box = head.get_window_extent()
    assert box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1 + 1
    assert head.get_text().replace("\n", " ").replace("\N{NO-BREAK SPACE}", " ") == title
    assert "n\n" not in head.get_text()
