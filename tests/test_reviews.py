"""The embedded reviews: balanced, tagged, of the right lengths, and nobody else's."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from lrp_companion.sources import SPLITS, load_dataset

FOLDER = Path(__file__).parents[1] / "lrp_companion" / "embedded"


def rows(size: str) -> list[dict]:
    return [
        json.loads(line)
        for line in (FOLDER / f"reviews_{size}.jsonl").read_text(encoding="utf-8").splitlines()
    ]


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
