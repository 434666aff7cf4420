"""Train an adapter and a head that make a sentiment classifier of all-mpnet-base-v2 (12 layers, 768 wide).

LoRA on the maps q, k, v, o and on both maps of the MLP, and the head in full, on SST-2 train; with `--imdb`
on IMDB train, too. What is written is small (float16, below 5 MB) and is read with the base, or merged
into it, by `peft`. `lrp-companion sources` says how to get the base.

Checkpoints are written while training; the same command again goes on from the last one.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import random
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import peft
import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from train_companion import (
    LABELS,
    Training,
    adamw,
    classified_right,
    digest,
    fingerprint,
    plan_batches,
    read_split,
    tokenise,
    train,
)
from transformers import AutoTokenizer, MPNetForSequenceClassification

BASE = "sentence-transformers/all-mpnet-base-v2"
TARGETS = ["q", "k", "v", "o", "intermediate.dense", "output.dense"]
REVIEWS = 2_000
"""Reviews of IMDB test that are classified at the end."""


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the result, besides the data and the base weights."""

    seed: int = 0
    imdb: bool = False
    rank: int = 8
    alpha: int = 16
    sst2_epochs: float = 1.0
    imdb_epochs: float = 0.32
    imdb_short_window: int = 128
    imdb_long_window: int = 320
    imdb_long_share: float = 0.25
    sst2_batch: int = 64
    imdb_batch_tokens: int = 4096
    learning_rate: float = 5e-4
    warmup_share: float = 0.06
    weight_decay: float = 0.01
    dropout: float = 0.1


def classifier(base: str, dropout: float) -> Any:
    """The base with a new head."""
    return MPNetForSequenceClassification.from_pretrained(
        base,
        id2label=LABELS,
        label2id={label: number for number, label in LABELS.items()},
        problem_type="single_label_classification",
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=0.0,
        dtype=torch.float32,
    )


class AdapterTraining(Training):
    """An adapter and a head in training."""

    recipe: Recipe
    validated = 250

    def __init__(self, args: argparse.Namespace, recipe: Recipe) -> None:
        self.start(args, recipe)
        self.tokenizer = AutoTokenizer.from_pretrained(args.base, trust_remote_code=False)
        self.validation = read_split(self.data, "sst2", "validation")
        ids: dict[str, list[list[int]]] = {"imdb": []}
        for name in self.sets:
            texts, self.labels[name] = read_split(self.data, name, "train")
            ids[name] = tokenise(self.tokenizer, texts)
        self.batches = plan_batches(recipe, ids["sst2"], ids["imdb"])
        if args.max_steps:
            self.batches = self.batches[: args.max_steps]
        config = LoraConfig(
            task_type="SEQ_CLS",
            r=recipe.rank,
            lora_alpha=recipe.alpha,
            target_modules=TARGETS,
            modules_to_save=["classifier"],
        )
        self.model = get_peft_model(classifier(args.base, recipe.dropout), config).to(args.device)
        self.optimizer, self.schedule = adamw(self.model, recipe, len(self.batches))

    @property
    def sets(self) -> tuple[str, ...]:
        return ("sst2", "imdb") if self.recipe.imdb else ("sst2",)

    def finish(self) -> None:
        """Write adapter and head in float16, classify with them, and write the record."""
        args, out = self.args, self.out
        for value in self.model.parameters():
            if value.requires_grad:
                value.data = value.data.half()
        self.model.peft_config["default"].base_model_name_or_path = BASE
        self.model.save_pretrained(out, save_embedding_layers=False)
        (out / "README.md").unlink(missing_ok=True)  # of peft, on nothing that it knows
        network = classifier(args.base, self.recipe.dropout)
        network.config.save_pretrained(out)
        plain = PeftModel.from_pretrained(network, out).merge_and_unload().float().to(args.device)
        on_card = args.device != "cpu"
        versions = {kit.__name__: kit.__version__ for kit in (torch, transformers, peft)}
        record = {
            "recipe": asdict(self.recipe),
            "base": BASE,
            "data": {f"{name}/train": fingerprint(self.data / name / "train.parquet") for name in self.sets},
            "versions": {"python": platform.python_version(), **versions},
            "bfloat16": args.bf16,
            "device": torch.cuda.get_device_name(args.device) if on_card else platform.processor() or "cpu",
            "weights": {
                "model.safetensors": digest(Path(args.base) / "model.safetensors"),
                "adapter_model.safetensors": digest(out / "adapter_model.safetensors"),
            },
            "steps": len(self.batches),
            "seconds": round(self.seconds),
            "accuracy": {name: self.accuracy(plain, name) for name in self.sets},
            "curve": self.curve,
        }
        (out / "training.json").write_text(json.dumps(record, indent=1) + "\n")
        self.checkpoint.unlink(missing_ok=True)

    def accuracy(self, network: Any, name: str) -> dict[str, Any]:
        """Accuracy on SST-2 validation, or on a seeded sample of IMDB test, in float32."""
        split = "validation" if name == "sst2" else "test"
        texts, labels = read_split(self.data, name, split)
        rows = list(range(len(texts)))
        random.Random(0).shuffle(rows)
        rows = rows[: self.args.max_reviews]
        size = 8192 if self.args.device == "cpu" else 65536
        chosen = [texts[k] for k in rows], [labels[k] for k in rows]
        right = sum(classified_right(network, self.tokenizer, *chosen, batch_tokens=size))
        p, n = right / len(rows), len(rows)
        row = {"split": split, "right": right, "n": n, "accuracy": round(p, 4)}
        row["standard_error"] = round(math.sqrt(p * (1 - p) / n), 4)
        row["data"] = fingerprint(self.data / name / f"{split}.parquet")
        print(name, json.dumps(row), flush=True)
        return row


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--data-dir", required=True, help="folder with sst2/ and imdb/ parquet files")
    parser.add_argument("--out", required=True, help="folder for the adapter, the checkpoint and the record")
    parser.add_argument("--base", required=True, help="folder of the base, as `lrp-companion sources` shows")
    parser.add_argument("--imdb", action="store_true", help="train on IMDB, too")
    parser.add_argument("--device", default="cpu")
    text = "bfloat16 autocast: faster where the processor has the units for it"
    parser.add_argument("--bf16", action="store_true", help=text)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--max-steps", type=int, default=0, help="stop early (for a trial)")
    parser.add_argument("--max-reviews", type=int, default=REVIEWS, help="texts classified at the end")
    for name, value in asdict(Recipe()).items():
        if name != "imdb":
            parser.add_argument("--" + name.replace("_", "-"), type=type(value), default=value)
    args = parser.parse_args()
    train(args, Recipe(**{name: getattr(args, name) for name in asdict(Recipe())}), AdapterTraining)


if __name__ == "__main__":
    main()
