"""`python -m benchmarks.comparison`: what comparing logits with the network's own adds to AttnLRP over SST-2.

Processor time, inside one run: that of the comparisons as a part of everything else.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import transformers

from benchmarks import pages
from benchmarks.__main__ import setting_of
from lrp_companion.loading.classifier import Classifier, load_classifier
from lrp_companion.methods import attribute
from lrp_companion.sources import load_dataset

RECORD = pages.ROOT / "results" / "comparison.json"


def measure(clf: Classifier, texts: list[Any]) -> dict[str, Any]:
    """Seconds of the processor for comparisons and for the rest, and their ratio, of AttnLRP on texts given
    one by one in their order, and all at once.
    """
    spent = 0.0
    compare = Classifier.check_logits

    def timed(*given: Any) -> None:
        nonlocal spent
        begin = time.process_time()
        compare(*given)
        spent += time.process_time() - begin

    Classifier.check_logits = timed  # type: ignore[method-assign]
    out = {}
    try:
        for name, calls in {"one by one": [[text] for text in texts], "at once": [texts]}.items():
            clf.compared.clear()
            spent, begin = 0.0, time.process_time()
            for call in calls:
                attribute(clf, call, method="attnlrp", progress=False)
            rest = time.process_time() - begin - spent
            seconds = {"comparisons": spent, "rest": rest}
            out[name] = {"seconds": seconds, "ratio": spent / rest}
            print(f"{name}: {spent:.2f} s beside {rest:.1f} s, {100 * spent / rest:.2f} %", flush=True)
    finally:
        Classifier.check_logits = compare  # type: ignore[method-assign]
    return out


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.comparison", description=__doc__)
    add = parser.add_argument
    add("--model", default="companion", help="an embedded model, a folder or a hub id")
    add("--data-dir", help="the folder with sst2/; by default the hub")
    add("--out", type=Path, default=RECORD, help="the record (default: results/comparison.json)")
    given = parser.parse_args(arguments)
    transformers.utils.logging.set_verbosity_error()
    clf = load_classifier(given.model)
    data = load_dataset("sst2", split="validation", data_dir=given.data_dir)
    config = {"model": clf.card.name, "weights": clf.card.fingerprint, "dtype": clf.card.dtype}
    rows = measure(clf, list(data.texts))
    record = {"config": {**config, "data": data.describe()}, **setting_of(clf), "rows": rows}
    pages.write(pages.plain(record), given.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
