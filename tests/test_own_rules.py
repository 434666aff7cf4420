"""Rule sets of one's own: a run's configuration has them, and the command line reads them from a file."""

from __future__ import annotations

import pytest
from tiny_models import TEXTS, reviews

import lrp_companion as lrp
from lrp_companion.cli import main
from lrp_companion.lab.execute import execute
from lrp_companion.lab.review_jobs import TextJobs
from lrp_companion.registry import forget


def test_a_run_knows_the_shares_of_a_rule_set(clf: lrp.Classifier, tmp_path) -> None:
    """The same command with other shares would mix two rules in one folder."""
    data, lean = reviews(TEXTS), {"masks": "none", "curves": False, "methods": ["attnlrp", "mine"]}
    shares = ((0.25, 0.75), (0.5, 0.5))
    try:
        lrp.rule_set("mine", shares=shares, bypass=lambda layers: [layers])
        jobs = TextJobs(clf, data, **lean)
        rules = {"mine": {"bypass": [3], "site": None, "cut": [], "shares": [[0.25, 0.75], [0.5, 0.5]]}}
        assert jobs.config["rules"] == rules
        execute(jobs, tmp_path, progress=False)
        execute(jobs, tmp_path, progress=False, resume=True)
        forget("mine")
        lrp.rule_set("mine", shares=(shares[1], shares[0]), bypass=[3])
        with pytest.raises(lrp.InputError, match="rules: .*0.25"):
            execute(TextJobs(clf, data, **lean), tmp_path, progress=False)
    finally:
        forget("mine")
    assert "rules" not in TextJobs(clf, data, masks="none").config


def test_the_command_reads_your_rules_from_a_file(tmp_path, refused, capsys) -> None:
    file = tmp_path / "mine.py"
    file.write_text("import lrp_companion as lrp\nlrp.rule_set('mine', shares=((0.25, 0.75), (0.5, 0.5)))\n")
    asked = ["explain", "a fine film", "--method", "mine", "--json"]
    assert "'mine'" in refused(asked)
    try:
        assert main([*asked, "--rules", str(file)]) == 0
        record = lrp.Attribution.from_json(capsys.readouterr().out)
        assert record.choices["shares"] == ((0.25, 0.75), (0.5, 0.5))
    finally:
        forget("mine")
