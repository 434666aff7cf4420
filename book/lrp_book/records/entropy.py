"""The entropy of attention of each layer and sentence: `python -m lrp_book.records.entropy [DATA]`."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from lrp_book.records import Arrays, config_of, in_chunks
from lrp_companion.loading.classifier import Classifier, EncodedText, load_classifier
from lrp_companion.sources import load_dataset

OUT = Path(__file__).resolve().parents[3] / "results/attention-entropy/companion.npz"


@torch.no_grad()
def entropy_of(clf: Classifier, text: EncodedText) -> np.ndarray:
    """The entropy of a query's attention, in nats, mean over heads and queries, (layers,)."""
    attention = torch.stack([weights.double() for weights in clf.tape(text).attentions])
    return torch.special.entr(attention).sum(-1).mean((1, 2, 3)).numpy()


def make(out: Path, data_dir: str | None = None) -> None:
    """Write the record of SST-2's validation part."""
    clf, data = load_classifier("companion"), load_dataset("sst2", source="folder", data_dir=data_dir)
    texts = dict(enumerate(clf.encode(list(data.texts), truncate=True)))
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")

    def of_examples(some: Sequence[int]) -> Arrays:
        return {"example": np.array(some), "entropy": np.stack([entropy_of(clf, texts[k]) for k in some])}

    config = config_of(clf, data, list(texts.values()), 0) | {"entropy": entropy_of.__doc__}
    lengths = {k: len(text) for k, text in texts.items()}
    told = {"started": started, "rounding": "float32"}
    in_chunks(out, lengths, of_examples, config=config, told=lambda _: told, chunk=109, say=print)


if __name__ == "__main__":
    make(OUT, *sys.argv[1:])
