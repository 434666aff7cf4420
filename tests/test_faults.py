"""40 of the kills of `kill_runs.py`: at places all over a run's life, none of which may cost a row."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from kill_runs import digit_jobs, places, review_jobs, rows, trial

from lrp_companion.lab.execute import Jobs

KILLS = {"reviews": 28, "digits": 12}
pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="a process that has used autograd beside a GPU cannot be forked"
)


@pytest.mark.parametrize("kind", KILLS)
def test_a_run_that_is_killed_anywhere_loses_no_row(kind: str, model_folder, tmp_path: Path) -> None:
    jobs: Jobs = digit_jobs() if kind == "digits" else review_jobs(model_folder("bert", layers=3))
    count = places(jobs, tmp_path / "whole")
    whole = rows(tmp_path / "whole")
    assert count > 80  # before and after each operation, and within each write
    chosen = [k * count // KILLS[kind] for k in range(KILLS[kind])]
    problems = [trial(place, jobs, tmp_path / str(place), whole) for place in chosen]
    assert not [problem for problem in problems if problem]
