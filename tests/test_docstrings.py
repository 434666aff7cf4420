"""House-style docstrings as reStructuredText."""

from __future__ import annotations

import pytest

pytest.importorskip("sphinx")

from lrp_book.sphinx.docstrings import to_rst

HOUSE = """Do it.

Parameters
----------
a, b : two `things`,
    on two lines.

Returns
-------
A list.

Raises
------
InputError : bad.

>>> f(`x`)
1"""
FIELDS = """Do it.

:param a,b: two ``things``,
    on two lines.

:returns: A list.

:raises InputError: bad.

>>> f(`x`)
1"""


def test_sections_become_fields_and_a_doctest_ends_them() -> None:
    assert "\n".join(to_rst(HOUSE.splitlines())) == FIELDS


def test_roles_and_double_backticks_stay_as_they_are() -> None:
    assert to_rst([":class:`X` and ``y`` and `z`s"]) == [r":class:`X` and ``y`` and ``z``\ s"]


def test_stars_and_bars_are_no_markup() -> None:
    assert to_rst(["All 2**L masks; the largest |score| is `|x|`; ``a|b``"]) == [
        r"All 2\*\*L masks; the largest \|score\| is ``|x|``; ``a|b``"
    ]
