"""CP-LRP's r minus AttnLRP's without punctuation: `python -m lrp_book.records.punctuation [DATA]`.

At the words, of each sentence of SST-2's validation part. MiniLM and MPNet share their pieces of words.
"""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path

import numpy as np

from lrp_book.records import config_of, rounded
from lrp_companion.lab.execute import surroundings
from lrp_companion.lab.record import open_record
from lrp_companion.loading.classifier import load_classifier
from lrp_companion.sources import load_dataset

RESULTS = Path(__file__).resolve().parents[3] / "results"
PAIR = ["cp-lrp", "attnlrp"]
RECORDS = {"sst2-12": ["maps/sst2-companion"], "base": [f"base/sst2-seed-{k}-maps" for k in range(3)]}


def make(out: Path, data_dir: str | None = None) -> None:
    """Write d of each sentence by record and statistic; None where it is undefined."""
    clf, data = load_classifier("companion"), load_dataset("sst2", source="folder", data_dir=data_dir)
    encoded = clf.encode(list(data.texts), truncate=True)
    pieces = [(k, place, piece) for k, text in enumerate(encoded) for place, piece in enumerate(text.tokens)]
    spoken = {(k, place) for k, place, piece in pieces if any(map(str.isalnum, piece))}
    made = {"started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")} | surroundings()
    made["config"] = config_of(clf, data, encoded, 0) | {"left out": "tokens without a letter or a digit"}
    for name, records in RECORDS.items():
        made[name] = {"pearson": [], "spearman": []}
        for record in records:
            tokens = open_record(record, results=RESULTS).tokens(methods=PAIR)
            assert tokens.groupby("text").size().tolist() == [len(text) for text in encoded]
            said = np.array([at in spoken for at in zip(tokens.text, tokens.place, strict=True)])
            words = tokens[said & ~tokens.special]
            for statistic, trainings in made[name].items():
                maps = words.groupby("text")[[*PAIR, "loo"]]
                r = maps.corr(method=statistic)["loo"].unstack()
                trainings.append(rounded((r[PAIR[0]] - r[PAIR[1]]).reindex(range(len(data))).to_numpy()))
    out.write_text(json.dumps(made) + "\n", encoding="utf-8")


if __name__ == "__main__":
    make(RESULTS / "punctuation.json", *sys.argv[1:])
