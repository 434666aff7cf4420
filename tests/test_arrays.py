"""Numbers as people give them: text that looks like numbers is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lrp_companion.arrays import real_array
from lrp_companion.schema import InputError


@pytest.mark.parametrize("values", [["1", "2"], "12", b"12", [1j], [[1], [1, 2]], {"a": 1}])
def test_what_holds_no_numbers_is_refused(values: Any) -> None:
    with pytest.raises(InputError, match="real numbers"):
        real_array("agreement", "scores", values)


@pytest.mark.parametrize(
    "values", [[1, 2], (1.0, 2.0), np.array([True, False]), np.array([1, 2], dtype=object)]
)
def test_numbers_are_float64(values: Any) -> None:
    assert real_array("agreement", "scores", values).dtype == np.float64
