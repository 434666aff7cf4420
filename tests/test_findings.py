"""The findings on the front page: each number recomputed from the rows, and the page itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from browsing import complaints_of_axe, open_page
from lrp_book.analysis import findings
from lrp_book.committed import WORDS

from lrp_companion import InputError, Protocol
from lrp_companion.runs.load import load_run
from lrp_companion.schema import PROTOCOLS

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
pytestmark = pytest.mark.skipif(not RESULTS.is_dir(), reason="the records are not in this checkout")
ROLE = re.compile(r"\{finding\}`([^`]+)`")
NUMBER = re.compile(r"(?<![\w.])[\u2212-]?\d+\.\d+")


def mean_of(text: str) -> float:
    return float(NUMBER.findall(text)[0].replace("\u2212", "-"))


def per_example(run: str, method: str, protocol: Protocol) -> np.ndarray:
    return load_run(RESULTS / run).r(method, protocol)


@pytest.mark.parametrize("short", findings.TEXT_RUNS)
def test_differences_are_those_of_the_rows(short: str) -> None:
    run = findings.TEXT_RUNS[short]
    for name, protocol in findings.SHORT.items():
        r = [per_example(run, method, PROTOCOLS[protocol]) for method in ("cp-lrp", "attnlrp")]
        both = np.isfinite(r[0]) & np.isfinite(r[1])
        text = findings.finding(f"{short}, CP-LRP minus AttnLRP, {name}", RESULTS)
        assert mean_of(text) == pytest.approx((r[0] - r[1])[both].mean(), abs=0.0051)
        n = findings.finding(f"{short}, CP-LRP minus AttnLRP, {name}, n", RESULTS)
        assert int(n.replace(",", "")) == both.sum()


def test_the_mask_gradient_is_compared_on_the_same_sentences() -> None:
    for short, run in findings.TEXT_RUNS.items():
        method = load_run(RESULTS / "frontier" / run)
        assert set(method.examples) <= set(load_run(RESULTS / run).examples)
        r = np.nanmean(method.r("mask-gradient", PROTOCOLS[WORDS]))
        text = findings.finding(f"{short}, mask-gradient, words", RESULTS)
        assert mean_of(text) == pytest.approx(r, abs=0.0051)


def test_counts_are_those_of_the_six_protocols() -> None:
    for short in findings.TEXT_RUNS:
        counts = [
            int(findings.finding(f"{short}, stated protocols, {nearer}", RESULTS))
            for nearer in ("AttnLRP", "CP-LRP", "open")
        ]
        assert sum(counts) == 6
    named = [
        findings.finding(f"sst2-12, stated protocols, {nearer}", RESULTS) for nearer in ("AttnLRP", "CP-LRP")
    ]
    assert named == ["4", "2"]


def test_digits_are_those_of_the_rows() -> None:
    rows = pq.read_table(RESULTS / "mnist-plain" / "images.parquet").to_pylist()
    r = [row["r left-right"] for row in rows if row["explainer"] == "AttnLRP"]
    text = findings.finding("digits, AttnLRP left with right", RESULTS)
    assert mean_of(text) == pytest.approx(np.mean(r), abs=0.0051) and len(r) == 5 * 1000


def test_a_finding_that_there_is_not_is_refused() -> None:
    for name, part in (
        ("sst2-12, magic", "finding"),
        ("sst2-12, cp-lrp, paper, n", "a number of this project"),
    ):
        with pytest.raises(InputError, match=part):
            findings.finding(name, RESULTS)


def test_every_number_among_the_findings_comes_from_a_record() -> None:
    text = (ROOT / "book" / "index.md").read_text(encoding="utf-8")
    asked = ROLE.findall(text)
    assert len(asked) > 20 and all(findings.finding(name, RESULTS) for name in asked)
    section = text[text.index("## What was found") : text.index("## Where to begin")]
    assert not NUMBER.findall(re.sub(r"arXiv [\d.]+|arxiv.org/abs/[\d.]+", "", ROLE.sub("", section)))


def test_times_agree_wherever_they_stand() -> None:
    index = (ROOT / "book" / "index.md").read_text(encoding="utf-8")
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        (minutes,) = re.findall(r"\*\*Time:\*\* about (\d+) minutes", path.read_text(encoding="utf-8"))
        (row,) = [line for line in index.splitlines() if line.startswith(f"| [](../notebooks/{path.name})")]
        assert row.split("|")[-2].strip() == minutes, path.name


def test_the_front_page_tells_and_can_be_touched(html: Path, browser: Any) -> None:
    context = browser.new_context(viewport={"width": 1360, "height": 900})
    page, watch = open_page(context, (html / "book" / "index.html").as_uri())
    page.wait_for_selector("[data-ready]")
    first = page.locator('[data-companion-widget="layer_toggles"]')
    box = first.locator(".lrp-switches").bounding_box()
    assert box["y"] + box["height"] < 900, "the switches are on the first screen"
    before = first.locator("[data-r]").get_attribute("data-r")
    first.locator("button.lrp-switch").nth(6).click()
    assert first.locator("[data-r]").get_attribute("data-r") != before
    ends = first.locator(".lrp-first-title").all_inner_texts()
    first.get_by_role("button", name="CP-LRP", exact=True).click()
    r = float(first.locator("[data-r]").get_attribute("data-r"))
    assert f"r with LOO {r:.2f}" in next(text for text in ends if text.startswith("CP-LRP"))
    page.wait_for_function("location.hash === '#first.bypassed=1,2,3,4,5,6,7,8,9,10,11,12'")
    article = page.locator("article").inner_text()
    assert "0.78 [0.76, 0.79]" in article and "{finding}" not in article
    assert not complaints_of_axe(page, ".bd-article") and watch.nothing()
    context.close()
