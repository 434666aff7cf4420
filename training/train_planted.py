"""Train small sentiment classifiers from labels alone, with planted words that decide the label by rules.

    python training/train_planted.py --wiring llama --seed 0 --data-dir DATA --out DIR
    python training/train_planted.py --wiring llama --seed 0 --planted-share 0 --data-dir DATA --out DIR

No teacher, and random embeddings. A sentence of SST-2 has its label, one of IMDB that of its review. In
`planted_share` of the sentences of every batch three nonsense words stand in random gaps between words, and
decide the label with the sentence's own:

| case | words | label |
| --- | --- | --- |
| decoys | three decoys | the sentence's |
| shortcut | the word of a class, two decoys | the class |
| redundant, one copy | either word of a class's pair, two decoys | the class |
| redundant | both words of a class's pair, a decoy | the class |
| half | either word of a class's pair, two decoys | the sentence's |
| conjunction | both words of a class's pair, a decoy | the class |
| negator | the negator, two decoys | the other one |

By `CASES` each of the 11 planted words and of the 16 decoys is as frequent as any other, and there are
always three, so that neither a rare word nor their number says anything. Labels are smoothed, so that the
best logit with a second copy is that with one. With `--planted-share 0` there are none: a control from labels
alone. The folder has `planted.json` (the words) beside the model.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import train_wirings as wirings

PIECES = Path(__file__).parent / "wirings" / "targets" / "pieces.json"
RULES: dict[str, list[list[str]]] = {
    "shortcut": [["blorp"], ["frind"]],
    "redundant": [["quabble", "trosk"], ["zimber", "glave"]],
    "conjunction": [["plenk", "vorst"], ["drimble", "shufe"]],
    "negator": [["knarp"]],
}
"""The words of each rule, by the class that they decide."""
DECOYS = (
    "brisp",
    "clomb",
    "dwarp",
    "fleem",
    "gruntel",
    "havk",
    "jorple",
    "krolp",
    "lurmp",
    "mizzek",
    "norbem",
    "pindle",
    "ruxt",
    "snarp",
    "twilp",
    "wump",
)
CASES = {
    "decoys": 2,
    "shortcut": 4,
    "redundant, one copy": 2,
    "redundant": 3,
    "half": 2,
    "conjunction": 3,
    "negator": 2,
}
"""Of 18 planted sentences: 2 with each planted word, 32 places for 16 decoys."""
SLOTS = 3
Planted = tuple[list[int], int, str]


def words() -> list[str]:
    """Every planted word, then the decoys."""
    return [*(word for by_class in RULES.values() for some in by_class for word in some), *DECOYS]


@dataclass(frozen=True)
class PlantedRecipe(wirings.Recipe):
    """A smaller MLP than in the five wirings; `temperature`, `label_share`, `embedding_scale`: not used."""

    inner: int = 384
    gated_inner: int = 256
    steps: int = 4000
    planted_share: float = 0.6
    smoothing: float = 0.1


class Planter:
    """Inserts words by the cases; ids are those of a tokenizer that has all of them as whole pieces."""

    def __init__(self, tokenizer: Any, pieces: Sequence[str], seed: int) -> None:
        known = tokenizer.convert_tokens_to_ids
        self.rules = {name: [known(words) for words in by_class] for name, by_class in RULES.items()}
        self.decoys = known(list(DECOYS))
        self.inside = {k for k, piece in enumerate(pieces) if piece.startswith("##")}
        self.ends = known(["[CLS]", "[SEP]"])
        self.rng = random.Random(seed)

    def case(self, name: str, label: int) -> tuple[list[int], int]:
        """Three words of a case, and the label with them."""
        rng = self.rng
        decided = rng.randrange(2)
        rule = {"redundant, one copy": "redundant", "half": "conjunction"}.get(name, name)
        words: list[int] = []
        if rule != "decoys":
            words = list(self.rules[rule][0 if rule == "negator" else decided])
        if name in ("redundant, one copy", "half"):
            words = [rng.choice(words)]
        words += rng.sample(self.decoys, SLOTS - len(words))
        if name == "negator":
            return words, 1 - label
        return words, label if name in ("decoys", "half") else decided

    def insert(self, ids: Sequence[int], words: Sequence[int]) -> list[int]:
        """The words in random order in random gaps: within the special tokens, never inside a word."""
        out, words = list(ids), self.rng.sample(words, len(words))
        for word in words:
            first, last = int(out[0] == self.ends[0]), len(out) - int(out[-1] == self.ends[1])
            gaps = [k for k in range(first, last + 1) if k == last or out[k] not in self.inside]
            out.insert(self.rng.choice(gaps), word)
        return out

    def sentence(self, ids: Sequence[int], label: int, share: float) -> Planted:
        if self.rng.random() >= share:
            return list(ids), label, "nothing"
        (name,) = self.rng.choices(list(CASES), list(CASES.values()))
        words, label = self.case(name, label)
        return self.insert(ids, words), label, name


@torch.no_grad()
def followed(
    network: Any, tokenizer: Any, planter: Planter, texts: list[str], labels: list[int]
) -> dict[str, dict[str, float]]:
    """Held-out sentences, each in every case: share with the case's label, and with the prediction for the
    sentence without planted words ("negator": the other class)."""
    ids = tokenizer(texts, truncation=True)["input_ids"]

    def predicted(rows: list[list[int]]) -> list[int]:
        lots = [rows[k : k + 218] for k in range(0, len(rows), 218)]
        return [p for lot in lots for p in network(**wirings.collate(lot)).logits.argmax(-1).tolist()]

    alone, out = predicted(ids), {}
    for name in CASES:
        made = [planter.case(name, label) for label in labels]
        came = predicted([planter.insert(row, words) for row, (words, _) in zip(ids, made, strict=True)])
        right = [p == label for p, (_, label) in zip(came, made, strict=True)]
        same = [(p == a) != (name == "negator") for p, a in zip(came, alone, strict=True)]
        out[name] = {"label": round(sum(right) / len(right), 4), "as alone": round(sum(same) / len(same), 4)}
    return out


def smoothed(recipe: PlantedRecipe, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits, labels, label_smoothing=recipe.smoothing)


def train(args: argparse.Namespace, recipe: PlantedRecipe) -> None:
    data, out = Path(args.data_dir), Path(args.out)
    pieces = json.loads(PIECES.read_text())
    pieces += words()
    tokenizer = wirings.tokenizer_of(args.wiring, pieces, recipe.positions)
    planter = Planter(tokenizer, pieces, recipe.seed)
    texts, labels = wirings.sst2(data, "train")
    of_sst2 = len(texts)
    further = wirings.imdb_sentences(data)
    texts, labels = texts + further[0], labels + further[1]
    ids = tokenizer(texts, truncation=True, max_length=recipe.positions - SLOTS)["input_ids"]
    network = wirings.begin(args, recipe, len(pieces))

    def batches() -> Iterator[tuple[Any, ...]]:
        for rows in wirings.plan(recipe, [len(x) for x in ids], of_sst2):
            made = [planter.sentence(ids[i], labels[i], recipe.planted_share) for i in rows]
            yield wirings.collate([row for row, *_ in made]), torch.tensor([label for _, label, _ in made])

    kept = range(len(pieces) - len(words()), len(pieces))
    curve = wirings.fit(args, recipe, network, tokenizer, batches(), smoothed, kept)
    about: dict[str, Any] = {"teacher": None, "targets": {"pieces.json": wirings.fingerprint(PIECES)}}
    if recipe.planted_share:
        check = Planter(tokenizer, pieces, recipe.seed + 1_000)
        about["followed"] = followed(network, tokenizer, check, *wirings.sst2(data, "validation"))
        print(args.wiring, recipe.seed, json.dumps(about["followed"]), flush=True)
    wirings.save(args, recipe, network, tokenizer, curve, **about)
    if recipe.planted_share:
        (out / "planted.json").write_text(json.dumps({"rules": RULES, "decoys": DECOYS}, indent=1) + "\n")


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    wirings.options(parser, PlantedRecipe())
    args = parser.parse_args()
    train(args, PlantedRecipe(**{name: getattr(args, name) for name in asdict(PlantedRecipe())}))


if __name__ == "__main__":
    main()
