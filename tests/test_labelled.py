"""Agreement as a labelled array: equal, to the bit, to what a run and the grid give one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lrp_companion import InputError
from lrp_companion.lab.labelled import mean, r_with_loo, side
from lrp_companion.lab.load import load_run
from lrp_companion.lab.paper.protocol_grid import DISTINCT, grid, protocols_of
from lrp_companion.metrics.statistics import over_trainings
from lrp_companion.schema import Protocol

RESULTS = Path(__file__).parents[1] / "results"
PAIR = ["cp-lrp", "attnlrp"]


@pytest.fixture(scope="module")
def run() -> Any:
    return load_run(RESULTS / "sst2-companion")


def test_every_cell_is_the_runs_and_the_grids(run: Any) -> None:
    r = r_with_loo(run, PAIR, map=DISTINCT)
    lead = r.sel(explainer="cp-lrp") - r.sel(explainer="attnlrp")
    means, cells = mean(lead), grid(run)
    for protocol in protocols_of({**run.options, "map": DISTINCT}):
        at = vars(protocol)
        assert np.array_equal(r.sel(explainer="attnlrp", **at), run.r("attnlrp", protocol), equal_nan=True)
        assert means.sel(**at).item().mean == pytest.approx(
            cells.cell(protocol)["difference"].mean, abs=1e-12
        )
    words = Protocol()
    assert means.sel(**vars(words)).item() == run.difference("cp-lrp", "attnlrp", words)
    assert mean(lead.sel(**vars(words))) == run.difference("cp-lrp", "attnlrp", words)


def test_axes_that_are_chosen_and_kept(run: Any) -> None:
    r = r_with_loo(run, ["attnlrp"], site="word", tokens=["all"], target="logit", statistic="kendall")
    assert r.dims == ("explainer", "tokens", "map", "removal", "example")
    assert r.sizes["example"] == run.n and r.sizes["tokens"] == 1
    masks = {"0": "attnlrp", "12": frozenset(range(1, 13))}
    along = r_with_loo(run, masks, **vars(Protocol()))
    assert along.dims == ("explainer", "example") and list(along.explainer.values) == ["0", "12"]


def test_over_trainings_and_sides() -> None:
    runs = [load_run(RESULTS / "sst2-companion-6")]
    runs += [load_run(path) for path in sorted((RESULTS / "trainings").glob("sst2-companion-6-seed-*"))]
    r = r_with_loo(runs, PAIR, tokens="no-special", map="raw", removal="attention-mask", target="logit")
    lead = (r.sel(explainer="cp-lrp") - r.sel(explainer="attnlrp")).sel(site="word", statistic="pearson")
    assert lead.dims == ("training", "example") and lead.sizes["training"] == len(runs) > 1
    protocol = Protocol()
    columns = {one.name: one.r("cp-lrp", protocol) - one.r("attnlrp", protocol) for one in runs}
    assert mean(lead) == over_trainings(columns)
    assert set(side(mean(lead.mean("training").expand_dims(site=["word"]))).values) <= {
        "above",
        "below",
        "across",
    }


def test_what_cannot_be_read_is_refused(run: Any) -> None:
    for call in (
        lambda: r_with_loo(run, ["attnlrp"], site="words"),
        lambda: r_with_loo(run, ["attnlrp"], place="word"),
        lambda: r_with_loo(run, ["nothing"], **vars(Protocol())),
        lambda: r_with_loo([run, load_run(RESULTS / "imdb-companion")], PAIR, **vars(Protocol())),
        lambda: r_with_loo([], PAIR),
        lambda: mean(r_with_loo(run, PAIR, **vars(Protocol())).mean("example")),
    ):
        with pytest.raises(InputError) as refused:
            call()
        assert "\n" not in str(refused.value)
