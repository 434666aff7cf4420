"""Train the embedded sentiment classifiers `companion-6` (6 layers) and `companion` (12 layers).

The recipe has two stages, both seeded and both one call of this script:

1. `--layers 6` fine-tunes the six layers of all-MiniLM-L6-v2 on SST-2 train and IMDB train together.
2. `--layers 12 --teacher DIR` puts each of the teacher's layers in twice, with both copies' output
   projections scaled by `--branch-scale` so that two steps walk about as far as one did, and fine-tunes
   on the same data with the labels, the teacher's probabilities and the teacher's hidden states as targets.

Base weights: the hub id `sentence-transformers/all-MiniLM-L6-v2`, or a folder with the same files.
Checkpoints are written while training; the same command again goes on from the last one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import platform
import random
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
import torch.nn.functional as F
import transformers
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

from lrp_companion.sources.dataset import clean

LABELS = {0: "negative", 1: "positive"}


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the result, besides the data and the base weights."""

    layers: int
    seed: int = 0
    sst2_epochs: float = 3.0
    imdb_epochs: float = 1.0
    imdb_short_window: int = 128
    imdb_long_window: int = 320
    imdb_long_share: float = 0.25
    sst2_batch: int = 64
    imdb_batch_tokens: int = 2048
    learning_rate: float = 8e-5
    warmup_share: float = 0.06
    weight_decay: float = 0.01
    dropout: float = 0.1
    branch_scale: float = 0.65
    distil_share: float = 0.5
    distil_temperature: float = 2.0
    hidden_weight: float = 1.0
    hidden_until: float = 0.7


def read_split(folder: Path, dataset: str, split: str) -> tuple[list[str], list[int]]:
    table = pq.read_table(folder / dataset / f"{split}.parquet")
    column = "sentence" if dataset == "sst2" else "text"
    return table[column].to_pylist(), table["label"].to_pylist()


def fingerprint(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def tokenise(tokenizer: Any, texts: list[str]) -> list[list[int]]:
    return tokenizer([clean(t) for t in texts], add_special_tokens=False, truncation=False, verbose=False)[
        "input_ids"
    ]


def window(ids: list[int], recipe: Recipe, rng: random.Random) -> list[int]:
    """Part of a long review: half of the windows are its end, three in ten its start, two in ten from
    anywhere.
    """
    length = recipe.imdb_long_window if rng.random() < recipe.imdb_long_share else recipe.imdb_short_window
    length -= 2
    spare = len(ids) - length
    if spare <= 0:
        return ids
    where = rng.random()
    start = spare if where < 0.5 else 0 if where < 0.8 else rng.randrange(spare + 1)
    return ids[start : start + length]


def epochs_of(indices: list[int], epochs: float, rng: random.Random) -> list[int]:
    out: list[int] = []
    while epochs > 0:
        order = indices[:]
        rng.shuffle(order)
        out += order[: math.ceil(len(order) * min(1.0, epochs))]
        epochs -= 1
    return out


def plan_batches(
    recipe: Recipe, sst2: list[list[int]], imdb: list[list[int]]
) -> list[tuple[str, list[tuple[int, list[int]]]]]:
    """All batches in order: a function of the recipe and the data alone, so that a resumed run repeats it."""
    rng = random.Random(recipe.seed)
    batches: list[tuple[str, list[tuple[int, list[int]]]]] = []
    pool = 64
    order = epochs_of(list(range(len(sst2))), recipe.sst2_epochs, rng)
    for start in range(0, len(order), pool * recipe.sst2_batch):
        part = sorted(order[start : start + pool * recipe.sst2_batch], key=lambda i: len(sst2[i]))
        for at in range(0, len(part), recipe.sst2_batch):
            batches.append(("sst2", [(i, sst2[i]) for i in part[at : at + recipe.sst2_batch]]))
    order = epochs_of(list(range(len(imdb))), recipe.imdb_epochs, rng)
    for start in range(0, len(order), 1024):
        windows = sorted(
            ((i, window(imdb[i], recipe, rng)) for i in order[start : start + 1024]), key=lambda p: len(p[1])
        )
        batch: list[tuple[int, list[int]]] = []
        for item in windows:
            if batch and (len(batch) + 1) * (len(item[1]) + 2) > recipe.imdb_batch_tokens:
                batches.append(("imdb", batch))
                batch = []
            batch.append(item)
        batches.append(("imdb", batch))
    rng.shuffle(batches)
    return batches


def collate(items: list[list[int]], tokenizer: Any) -> dict[str, torch.Tensor]:
    rows = [[tokenizer.cls_token_id, *ids, tokenizer.sep_token_id] for ids in items]
    width = max(map(len, rows))
    ids = torch.full((len(rows), width), tokenizer.pad_token_id)
    mask = torch.zeros((len(rows), width), dtype=torch.long)
    for k, row in enumerate(rows):
        ids[k, : len(row)] = torch.tensor(row)
        mask[k, : len(row)] = 1
    return {"input_ids": ids, "attention_mask": mask}


def doubled(
    teacher: BertForSequenceClassification, scale: float, dropout: float
) -> BertForSequenceClassification:
    """The teacher with each layer in twice; both copies' residual branches are scaled."""
    config = BertConfig.from_dict(
        {**teacher.config.to_dict(), "num_hidden_layers": 2 * teacher.config.num_hidden_layers}
    )
    config.hidden_dropout_prob = dropout
    student = BertForSequenceClassification(config)
    state = {k: v.clone() for k, v in teacher.state_dict().items() if ".encoder.layer." not in k}
    for name, value in teacher.state_dict().items():
        if ".encoder.layer." not in name:
            continue
        head, rest = name.split(".encoder.layer.")
        index, tail = rest.split(".", 1)
        is_branch_end = tail.startswith(("attention.output.dense", "output.dense"))
        for copy in (0, 1):
            state[f"{head}.encoder.layer.{2 * int(index) + copy}.{tail}"] = (
                value * scale if is_branch_end else value.clone()
            )
    student.load_state_dict(state)
    return student


def start_model(
    recipe: Recipe, base: str, teacher: BertForSequenceClassification | None
) -> BertForSequenceClassification:
    if teacher is not None:
        return doubled(teacher, recipe.branch_scale, recipe.dropout)
    config = BertConfig.from_pretrained(
        base, num_labels=2, id2label=LABELS, label2id={v: k for k, v in LABELS.items()}
    )
    config.hidden_dropout_prob = recipe.dropout
    config.attention_probs_dropout_prob = 0.0
    config.problem_type = "single_label_classification"
    return BertForSequenceClassification.from_pretrained(base, config=config, dtype=torch.float32)


def distillation(recipe: Recipe, out: Any, ref: Any, mask: torch.Tensor, progress: float) -> torch.Tensor:
    t = recipe.distil_temperature
    soft = (
        F.kl_div(F.log_softmax(out.logits / t, -1), F.softmax(ref.logits / t, -1), reduction="batchmean")
        * t
        * t
    )
    weight = recipe.hidden_weight * max(0.0, 1 - progress / recipe.hidden_until)
    if weight == 0.0:
        return recipe.distil_share * soft
    keep = mask.bool()
    far = [
        1 - F.cosine_similarity(out.hidden_states[2 * k][keep], ref.hidden_states[k][keep], dim=-1).mean()
        for k in range(1, len(ref.hidden_states))
    ]
    return recipe.distil_share * soft + weight * torch.stack(far).mean()


@torch.no_grad()
def classified_right(
    model: Any,
    tokenizer: Any,
    texts: list[str],
    labels: list[int],
    *,
    max_tokens: int = 512,
    batch_tokens: int = 8192,
) -> list[bool]:
    """Whether each text is classified right; texts beyond `max_tokens` (with [CLS] and [SEP]) are cut at the
    end.
    """
    model.eval()
    device = next(model.parameters()).device
    ids = [x[: max_tokens - 2] for x in tokenise(tokenizer, texts)]
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    right = [False] * len(ids)
    at = 0
    while at < len(order):
        size = 1
        while at + size < len(order) and (size + 1) * (len(ids[order[at + size]]) + 2) <= batch_tokens:
            size += 1
        rows = order[at : at + size]
        batch = {k: v.to(device) for k, v in collate([ids[i] for i in rows], tokenizer).items()}
        for i, predicted in zip(rows, model(**batch).logits.argmax(-1).tolist(), strict=True):
            right[i] = predicted == labels[i]
        at += size
    return right


def train(args: argparse.Namespace, recipe: Recipe) -> None:
    torch.manual_seed(recipe.seed)
    random.seed(recipe.seed)
    np.random.seed(recipe.seed)
    if args.threads:
        torch.set_num_threads(args.threads)
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = AutoTokenizer.from_pretrained(args.teacher or args.base, trust_remote_code=False)
    data = Path(args.data_dir)
    sst2_texts, sst2_labels = read_split(data, "sst2", "train")
    imdb_texts, imdb_labels = read_split(data, "imdb", "train")
    labels = {"sst2": sst2_labels, "imdb": imdb_labels}
    batches = plan_batches(recipe, tokenise(tokenizer, sst2_texts), tokenise(tokenizer, imdb_texts))
    if args.max_steps:
        batches = batches[: args.max_steps]
    teacher = None
    if args.teacher:
        teacher = (
            BertForSequenceClassification.from_pretrained(args.teacher, dtype=torch.float32)
            .eval()
            .to(args.device)
        )
    model = start_model(recipe, args.base, teacher).to(args.device)
    decay = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": recipe.weight_decay}, {"params": rest, "weight_decay": 0.0}],
        lr=recipe.learning_rate,
        fused=True,
    )
    warmup = max(1, int(recipe.warmup_share * len(batches)))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min((s + 1) / warmup, max(0.0, (len(batches) - s) / (len(batches) - warmup + 1)))
    )
    valid_texts, valid_labels = read_split(data, "sst2", "validation")
    checkpoint, first, seconds, curve = out / "checkpoint.pt", 0, 0.0, []
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=False)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        schedule.load_state_dict(saved["schedule"])
        torch.set_rng_state(saved["rng"])
        first, seconds, curve = saved["step"], saved["seconds"], saved["curve"]
    print(f"{len(batches)} steps, from {first}", flush=True)
    begin, last_saved = time.time(), time.time()
    running: dict[str, float] = {}
    for step in range(first, len(batches)):
        name, items = batches[step]
        batch = {k: v.to(args.device) for k, v in collate([ids for _, ids in items], tokenizer).items()}
        target = torch.tensor([labels[name][i] for i, _ in items], device=args.device)
        model.train()
        with torch.autocast(args.device.split(":")[0], torch.bfloat16, enabled=args.bf16):
            result = model(**batch, output_hidden_states=teacher is not None)
            loss = F.cross_entropy(result.logits.float(), target)
            if teacher is not None:
                with torch.no_grad():
                    reference = teacher(**batch, output_hidden_states=True)
                loss = (1 - recipe.distil_share) * loss + distillation(
                    recipe, result, reference, batch["attention_mask"], step / len(batches)
                )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        right = (result.logits.argmax(-1) == target).float().mean().item()
        for key, value in ((f"{name}_accuracy", right), (f"{name}_loss", loss.item())):
            running[key] = 0.98 * running.get(key, value) + 0.02 * value
        if (step + 1) % 100 == 0 or step + 1 == len(batches):
            spent = seconds + time.time() - begin
            row = {"step": step + 1, "seconds": round(spent), **{k: round(v, 4) for k, v in running.items()}}
            if (step + 1) % 1000 == 0 or step + 1 == len(batches):
                right = classified_right(model, tokenizer, valid_texts, valid_labels)
                row["sst2_validation"] = round(sum(right) / len(right), 4)
            curve.append(row)
            print(json.dumps(row), flush=True)
        if time.time() - last_saved > 300:
            last_saved = time.time()
            part = checkpoint.with_suffix(".part")
            torch.save(
                {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "schedule": schedule.state_dict(),
                    "rng": torch.get_rng_state(),
                    "step": step + 1,
                    "seconds": seconds + time.time() - begin,
                    "curve": curve,
                },
                part,
            )
            part.replace(checkpoint)
    model.config.hidden_dropout_prob = model.config.attention_probs_dropout_prob = 0.1
    model.half().save_pretrained(out, max_shard_size="45MB")
    tokenizer.save_pretrained(out)
    record = {
        "recipe": asdict(recipe),
        "teacher": Path(args.teacher).name if args.teacher else None,
        "base": "sentence-transformers/all-MiniLM-L6-v2",
        "data": {f"{d}/train": fingerprint(data / d / "train.parquet") for d in ("sst2", "imdb")},
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
        "bfloat16": args.bf16,
        "steps": len(batches),
        "seconds": round(seconds + time.time() - begin),
        "curve": curve,
    }
    (out / "training.json").write_text(json.dumps(record, indent=1) + "\n")
    checkpoint.unlink(missing_ok=True)


def evaluate(args: argparse.Namespace) -> None:
    """Accuracy on all of SST-2 validation and all of IMDB test, as the float16 weights on disk give it in
    float32.

    Texts are taken in a seeded random order, 1,000 at a time, and the record is written after each thousand,
    so that an interrupted measurement is one of a random sample and the same command goes on with it.
    """
    if args.threads:
        torch.set_num_threads(args.threads)
    out, data = Path(args.out), Path(args.data_dir)
    tokenizer = AutoTokenizer.from_pretrained(out, trust_remote_code=False)
    model = BertForSequenceClassification.from_pretrained(out, dtype=torch.float32).to(args.device)
    target = out / "accuracy.json"
    record = json.loads(target.read_text()) if target.exists() else {}
    for dataset, split in (("sst2", "validation"), ("imdb", "test")):
        texts, labels = read_split(data, dataset, split)
        order = list(range(len(texts)))
        random.Random(0).shuffle(order)
        row = record.setdefault(
            f"{dataset}/{split}",
            {
                "right": 0,
                "n": 0,
                "of": len(texts),
                "max_tokens": 512,
                "data": fingerprint(data / dataset / f"{split}.parquet"),
            },
        )
        while row["n"] < len(order):
            part = order[row["n"] : row["n"] + 1000]
            right = classified_right(model, tokenizer, [texts[i] for i in part], [labels[i] for i in part])
            row["right"] += sum(right)
            row["n"] += len(part)
            p = row["right"] / row["n"]
            row["accuracy"] = round(p, 4)
            row["standard_error"] = round(math.sqrt(p * (1 - p) / row["n"]), 4)
            partial = target.with_suffix(".part")
            partial.write_text(json.dumps(record, indent=1) + "\n")
            partial.replace(target)
            print(dataset, split, json.dumps(row), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", required=True, help="folder with sst2/ and imdb/ parquet files")
    parser.add_argument("--out", required=True, help="folder for the model, the checkpoint and the record")
    parser.add_argument(
        "--base",
        default="sentence-transformers/all-MiniLM-L6-v2",
        help="hub id or folder of the base weights",
    )
    parser.add_argument("--teacher", help="folder of the finished 6-layer model (for --layers 12)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--bf16",
        action="store_true",
        help="bfloat16 autocast: faster where the processor has the units for it",
    )
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--max-steps", type=int, default=0, help="stop early (for a trial)")
    parser.add_argument(
        "--evaluate", action="store_true", help="measure the model in --out instead of training"
    )
    parser.add_argument("--layers", type=int, choices=(6, 12), default=12)
    for name, value in asdict(Recipe(layers=12)).items():
        if name != "layers":
            parser.add_argument("--" + name.replace("_", "-"), type=type(value), default=value)
    args = parser.parse_args()
    if args.evaluate:
        evaluate(args)
        return
    if (args.layers == 12) != bool(args.teacher):
        parser.error("--layers 12 needs --teacher (the finished 6-layer model); --layers 6 takes none")
    train(args, Recipe(**{name: getattr(args, name) for name in asdict(Recipe(layers=12))}))


if __name__ == "__main__":
    main()
