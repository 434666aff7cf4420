"""r with LOO of key cut and the secant form on the base-size classifier, beside methods of its record.

    python results/edge-formula/base.py --limit 30 --data-dir DATA --out results/edge-formula/base.json

LOO and the maps of known methods are those of `results/base`; the texts are the first ones of its sample.
Of each training the r of every text is kept, by reading.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from lrp_book.records import real, rounded

import lrp_companion as lrp
from lrp_companion.attribution import Attribution
from lrp_companion.methods import method_call
from lrp_companion.metrics import pearson, spearman
from lrp_companion.provenance import surroundings
from lrp_companion.sources import load_dataset

RECORDS = Path(__file__).resolve().parents[1]
NEW = ("key-cut", "lrp:cut=key+all", "secant-mask-gradient:special=secant")
KNOWN = {"attnlrp": "attnlrp+position", "cp-lrp": "cp-lrp+position", "mask-gradient": "mask-gradient"}
KNOWN["mask-gradient:groups=4"] = "mask-gradient-4"


def main() -> None:
    """Explain the texts, training by training."""
    parser = argparse.ArgumentParser(allow_abbrev=False, description=__doc__)
    parser.add_argument("--limit", type=int, default=30, help="texts of each training")
    parser.add_argument("--data-dir")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    sentences = load_dataset("sst2", data_dir=asked.data_dir).texts
    made: dict[str, object] = {"start": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())} | surroundings()
    for name in ("sst2-seed-0", "sst2-seed-1", "sst2-seed-2"):
        clf = lrp.load_classifier(str(RECORDS.parent / "training" / "base" / name))
        arrays = dict(np.load(RECORDS / "base" / f"{name}-maps.npz"))
        kept = {key: real.by_text(arrays, of) for key, of in KNOWN.items()}
        loos, r = real.by_text(arrays, "loo attention-mask"), dict[str, list[list[float]]]()
        for k, row in enumerate(arrays["example"][: asked.limit].tolist()):
            maps = {key: maps[k].astype(float) for key, maps in kept.items()}
            for call in NEW:
                method, options = method_call(call)
                options |= {} if method == "secant-mask-gradient" else {"site": "word+position"}
                record: Attribution = lrp.attribute(
                    clf, sentences[row], method=method, target=int(arrays["target"][k]), **options
                )[0]
                maps[call] = record.scores
            loo, words = loos[k].astype(float), ~record.special
            maps["secant-mask-gradient"] = np.where(words, maps[NEW[-1]], loo)
            for key, scores in maps.items():
                of = [f(scores[at], loo[at]) for at in (words, words | True) for f in (pearson, spearman)]
                r.setdefault(key, []).append(rounded(of))
        made[name] = {"examples": arrays["example"][: asked.limit].tolist(), "r": r}
        asked.out.write_text(json.dumps(made) + "\n", encoding="utf-8")
        print(name, {key: np.nanmean(np.array(rows, float), 0).round(3).tolist() for key, rows in r.items()})


if __name__ == "__main__":
    main()
