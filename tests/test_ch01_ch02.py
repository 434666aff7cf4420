"""Figures of chapters 1 and 2: what they draw is what was computed."""

from __future__ import annotations

import re

import numpy as np
import pytest
from lrp_book.ch02_digits import digit_maps, share_line

from lrp_companion.checks import InputError
from lrp_companion.metrics import Interval


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
