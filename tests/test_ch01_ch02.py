"""Figures of chapters 1 and 2: what they draw is what was computed."""

from __future__ import annotations

import re

import numpy as np
import pytest
from lrp_book.ch01_products import product_figure, share_dots
from lrp_book.ch02_digits import digit_maps, share_line

from lrp_companion.checks import InputError
from lrp_companion.metrics import Interval
from lrp_companion.toys.product import Product, left


def test_figure_1_holds_the_computed_numbers() -> None:
    figure = product_figure({"left": Product([2, 3, 4], left(3)), "flat": Product([2.0, 0.5, -1.0])})
    texts = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert {"y = 24\nR = 24", "x1 x2 = 6\nR = 12", "x1 = 2\nR = 6", "x2 = 3\nR = 6", "x3 = 4\nR = 12"} <= set(
        texts
    )
    assert "x1 = 2\nR = -0.333" in texts
    assert "x1 x2 and x3 receive 12 each" in figure.alt and figure._repr_png_().startswith(b"\x89PNG")


def test_share_dots_are_where_the_shares_are() -> None:
    figure = share_dots([(0.25, 0.75), (0.5, 0.5)], labels=["a", "b"], equal=0.5, title="Shares")
    (axes,) = figure.axes
    assert [points.get_offsets()[:, 0].tolist() for points in axes.collections] == [[0.25, 0.5], [0.75, 0.5]]
    assert figure.alt == "Shares. a: 0.25, 0.75. b: 0.5, 0.5."


def test_digits_scale_each_map_and_mark_what_is_negative() -> None:
    scores = np.array([[4.0, -2.0, 0.0, -0.1]])
    figure = digit_maps(np.ones((1, 2, 2)), {"LOO": scores, "zero": np.zeros((1, 4))}, labels=["says 3"])
    digit, loo, zero = figure.axes
    assert digit.get_ylabel() == "says 3" and loo.get_title() == "LOO"
    assert loo.images[0].get_clim() == (-4, 4) and zero.images[0].get_clim() == (-1, 1)
    assert loo.lines[0].get_xydata().tolist() == [[1.0, 0.0]], (
        "a dot on the pixel below zero, none on what is close to it"
    )


def test_digits_need_as_many_maps() -> None:
    with pytest.raises(
        InputError, match=re.escape("got images of shape (2, 2, 2); expected (n, side, side), with n maps")
    ):
        digit_maps(np.ones((2, 2, 2)), {"LOO": [np.ones(4)]})


def test_line_names_its_points() -> None:
    figure = share_line(
        {0.0: Interval(0.2, 0.1, 0.3, 9), 0.5: Interval(0.6, 0.5, 0.7, 9)}, marks={"left": 0.25}
    )
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.texts] == ["left"]
    assert axes.lines[1].get_xydata().tolist() == [[0.25, pytest.approx(0.4)]]
    assert "from 0.20 at share 0.00 to 0.60 at 0.50" in figure.alt
