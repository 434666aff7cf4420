"""What a hunt for a mask has to find: against all masks one by one."""

from __future__ import annotations

import itertools

import nbformat
import numpy as np
import pytest
from browsing import ROOT
from lrp_book.sphinx.mask_hunt import hunt, table_of


def test_the_hunt_finds_what_a_search_through_all_masks_finds() -> None:
    r = np.random.default_rng(3).uniform(-1, 1, 2**5)
    result = hunt(r, most=3)
    for size, layers, best in result["best"]:
        few = [
            set(chosen) for count in range(size + 1) for chosen in itertools.combinations(range(1, 6), count)
        ]
        scores = [r[sum(2 ** (layer - 1) for layer in chosen)] for chosen in few]
        assert best == max(scores) and few[int(np.argmax(scores))] == set(layers)
    assert result["ends"] == (r[0], r[31]) and result["masks"] == len(few)
    assert result["better"] == sum(score > max(r[0], r[31]) for score in scores)


def test_the_hunt_of_session_2_has_an_answer_and_takes_thought() -> None:
    path = ROOT / "_build/executed/03_bert_layers.ipynb"
    if not path.is_file():
        pytest.skip("the notebooks were not executed; run make book")
    notebook = nbformat.read(path, as_version=4)
    result = hunt(table_of(notebook, "layers", sentence=2, site="word+position", tokens="all"))
    tops = [r for _, _, r in result["best"]]
    assert tops[1] < max(result["ends"]) < tops[3], "no two layers will do, four will"
    assert 0 < result["better"] < 0.15 * result["masks"]
