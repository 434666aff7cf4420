"""The game of the layers: means of all masks in recorded runs, and the tree's memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lrp_companion.lab.folder import EXAMPLES_OF
from lrp_companion.lab.load import load_run
from lrp_companion.schema import Protocol, bypassed, mask_number

ROOT = Path(__file__).resolve().parent.parent
SPARE = 12 << 20
"""The allocator's and the libraries' own buffers; they differ between processors."""
RECORDED = [path.parent for path in sorted((ROOT / "results").glob("*/lattice_means.parquet"))]


@pytest.mark.parametrize("folder", RECORDED, ids=lambda folder: folder.name)
@pytest.mark.parametrize(("site", "tokens"), [("word", "no-special"), ("word+position", "all")])
def test_means_of_all_masks_are_those_of_the_rows_that_were_kept(folder, site, tokens):
    run = load_run(folder)
    for part, examples in EXAMPLES_OF.items():
        means = run.mask_means(site=site, tokens=tokens, part=part)
        for mask in run.masks:
            rows = run.r(mask, Protocol(site=site, tokens=tokens))[examples]
            assert np.nanmean(rows) == pytest.approx(means[mask_number(mask)], abs=1e-5)


@pytest.mark.parametrize("eps", [0.0, 0.1])
def test_the_memory_budget_changes_nothing_but_the_chunks(eps, clf, monkeypatch):
    """Every chunk that a budget may choose, against one run per mask, in float64."""
    import torch
    from tiny_models import TEXTS

    from lrp_companion import layer_lattice
    from lrp_companion.methods import explain
    from lrp_companion.tape.layer import LayerBlock

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
