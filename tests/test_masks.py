"""Masks of bypassed layers: their numbers, their names, and the paper's paths."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lrp_companion.schema import NONE, PATHS, bypassed, mask_label, mask_number, masks_on_paths, path_masks

LAYER = st.integers(min_value=1, max_value=64)
MASK = st.frozensets(LAYER)
DEPTH = st.integers(min_value=1, max_value=48)


class TestNumbers:
    @given(MASK)
    def test_the_number_of_a_mask_is_the_sum_of_its_bits_and_gives_it_back(self, mask):
        assert mask_number(mask) == sum(2 ** (layer - 1) for layer in mask)
        assert bypassed(mask_number(mask)) == mask


class TestNames:
    @given(MASK)
    def test_a_mask_comes_back_from_its_name(self, mask):
        first, to, last = mask_label(mask).partition(" to ")
        numbers = range(int(first), int(last) + 1) if to else map(int, first.split(", ")) if mask else ()
        assert frozenset(numbers) == mask

    @given(LAYER, st.integers(min_value=1, max_value=20))
    def test_successive_layers_are_named_by_their_ends(self, first, more):
        assert mask_label(frozenset(range(first, first + more + 1))) == f"{first} to {first + more}"

    @pytest.mark.parametrize(
        ("mask", "label"), [((), "none"), ((7,), "7"), ((1, 3), "1, 3"), ((12, 2, 1), "1, 2, 12")]
    )
    def test_all_other_masks_list_their_layers_in_order(self, mask, label):
        assert mask_label(frozenset(mask)) == label


class TestPaths:
    @given(DEPTH)
    def test_two_paths_add_one_layer_at_a_time(self, layers):
        paths, numbers = path_masks(layers), list(range(1, layers + 1))
        for name, order in (("front-to-back", numbers), ("back-to-front", numbers[::-1])):
            added = [after - before for before, after in itertools.pairwise([NONE, *paths[name]])]
            assert added == [{layer} for layer in order] and paths[name][-1] == set(numbers)

    @given(DEPTH)
    def test_the_third_path_bypasses_one_layer_at_a_time(self, layers):
        assert path_masks(layers)["single"] == [{layer} for layer in range(1, layers + 1)]

    @given(DEPTH)
    def test_the_masks_on_paths_are_those_of_the_paths_once_and_none_first(self, layers):
        paths, masks = path_masks(layers), masks_on_paths(layers)
        assert tuple(paths) == PATHS and masks[0] == NONE and len(masks) == len(set(masks))
        assert set(masks[1:]) == {mask for path in paths.values() for mask in path}
        # The paths share single layers at both ends and, where there is more than one layer, the full mask.
        assert len(masks) == (2 if layers == 1 else 3 * layers - 2)
