"""The embedded reviews: balanced, tagged, of the right lengths, and nobody else's."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path

import pytest

from lrp_companion.sources import SPLITS, load_dataset

FOLDER = Path(__file__).parents[1] / "lrp_companion" / "embedded"
TAGS = {"plain", "negation", "contrast", "intensifier", "irony", "mixed", "long-range"}


def rows(size: str) -> list[dict]:
    return [
        json.loads(line)
        for line in (FOLDER / f"reviews_{size}.jsonl").read_text(encoding="utf-8").splitlines()
    ]


@pytest.mark.parametrize(("size", "count"), [("short", 96), ("long", 16)])
def test_reviews_are_balanced_distinct_and_tagged(size: str, count: int) -> None:
    reviews = rows(size)
    assert Counter(r["label"] for r in reviews) == {0: count // 2, 1: count // 2}
    assert len({r["id"] for r in reviews}) == len({r["text"].lower() for r in reviews}) == count
    for review in reviews:
        assert set(review) == {"id", "text", "label", "tags"}
        assert review["tags"] and set(review["tags"]) <= TAGS
        assert len(set(review["tags"])) == len(review["tags"])
        assert review["text"] == review["text"].strip() and review["text"].isascii()
        assert "  " not in review["text"]


def test_short_reviews_have_6_to_30_words_and_every_tag_both_labels() -> None:
    reviews = rows("short")
    assert all(6 <= len(r["text"].split()) <= 30 for r in reviews)
    uses = Counter((tag, r["label"]) for r in reviews for tag in r["tags"])
    for tag in TAGS - {"long-range"}:
        assert uses[tag, 0] + uses[tag, 1] >= 8 and min(uses[tag, 0], uses[tag, 1]) >= 4, tag
    for review in reviews:
        assert ("contrast" in review["tags"]) == (", but " in review["text"]), review["id"]


def test_long_range_reviews_have_both_labels() -> None:
    uses = Counter(r["label"] for r in rows("long") if "long-range" in r["tags"])
    assert uses[0] + uses[1] >= 8 and min(uses.values()) >= 4


def test_long_reviews_have_150_to_300_wordpiece_tokens() -> None:
    tokenizer_file = FOLDER / "companion" / "tokenizer.json"
    if not tokenizer_file.is_file():
        pytest.skip("the embedded model's tokenizer is not there")
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    lengths = {r["id"]: len(tokenizer.encode(r["text"], add_special_tokens=False).ids) for r in rows("long")}
    assert all(150 <= length <= 298 for length in lengths.values()), lengths


def words(text: str) -> list[str]:
    text = text.lower().replace("<br />", " ").replace(" n't", "n't").replace(" '", "'").replace("'", "")
    return re.findall("[a-z0-9]+", text)


@pytest.mark.skipif(
    not os.environ.get("LRP_COMPANION_DATA"),
    reason="LRP_COMPANION_DATA is not set: SST-2 and IMDB are not here",
)
def test_no_eight_words_in_a_row_come_from_sst2_or_imdb() -> None:
    ours: dict[tuple[str, ...], str] = {}
    for review in rows("short") + rows("long"):
        review_words = words(review["text"])
        width = min(8, len(review_words))
        ours |= {
            tuple(review_words[k : k + width]): review["id"] for k in range(len(review_words) - width + 1)
        }
    widths = {len(window) for window in ours}
    starts = {window[:4] for window in ours}
    shared = set()
    for name in ("sst2", "imdb"):
        for split in SPLITS[name]:
            for text in load_dataset(name, split=split, source="folder").texts:
                theirs = words(text)
                for k in range(len(theirs) - 3):
                    if tuple(theirs[k : k + 4]) in starts:
                        shared |= {ours[w] for w in (tuple(theirs[k : k + n]) for n in widths) if w in ours}
    assert not shared
