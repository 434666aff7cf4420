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

from lrp_companion.families.mean_pooled import MeanPooledBertForSequenceClassification
from lrp_companion.lab.execute import surroundings
from lrp_companion.sources import clean

LABELS = {0: "negative", 1: "positive"}
READS = {"first": BertForSequenceClassification, "mean": MeanPooledBertForSequenceClassification}
BASE = "sentence-transformers/all-MiniLM-L6-v2"
Batch = tuple[str, list[tuple[int, list[int]]]]  # a data set's name, and examples: their rows and tokens


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
    reads: str = "first"
    attention: str = "sdpa"


def read_split(folder: Path, dataset: str, split: str) -> tuple[list[str], list[int]]:
    table = pq.read_table(folder / dataset / f"{split}.parquet")
    column = "sentence" if dataset == "sst2" else "text"
    return table[column].to_pylist(), table["label"].to_pylist()


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def fingerprint(path: Path) -> str:
    return digest(path)[:16]


def tokenise(tokenizer: Any, texts: list[str]) -> list[list[int]]:
    cleaned = [clean(text) for text in texts]
    return tokenizer(cleaned, add_special_tokens=False, truncation=False, verbose=False)["input_ids"]


def window(ids: list[int], recipe: Any, rng: random.Random) -> list[int]:
    """A window of a long review: half of them are its end, three in ten its start, two in ten anywhere."""
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


def plan_batches(recipe: Any, sst2: list[list[int]], imdb: list[list[int]]) -> list[Batch]:
    """All batches in order: a function of the recipe and the data alone, so that a resumed run repeats it."""
    rng = random.Random(recipe.seed)
    batches: list[Batch] = []
    size, pool = recipe.sst2_batch, 64 * recipe.sst2_batch
    order = epochs_of(list(range(len(sst2))), recipe.sst2_epochs, rng)
    for start in range(0, len(order), pool):
        alike = sorted(order[start : start + pool], key=lambda i: len(sst2[i]))
        for at in range(0, len(alike), size):
            batches.append(("sst2", [(i, sst2[i]) for i in alike[at : at + size]]))
    order = epochs_of(list(range(len(imdb))), recipe.imdb_epochs, rng)
    for start in range(0, len(order), 1024):
        windows = [(i, window(imdb[i], recipe, rng)) for i in order[start : start + 1024]]
        batch: list[tuple[int, list[int]]] = []
        for item in sorted(windows, key=lambda item: len(item[1])):
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
    layers = 2 * teacher.config.num_hidden_layers
    config = BertConfig.from_dict({**teacher.config.to_dict(), "num_hidden_layers": layers})
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
            place = f"{head}.encoder.layer.{2 * int(index) + copy}.{tail}"
            state[place] = value * scale if is_branch_end else value.clone()
    student.load_state_dict(state)
    return student


def start_model(
    recipe: Recipe, base: str, teacher: BertForSequenceClassification | None
) -> BertForSequenceClassification:
    if teacher is not None:
        return doubled(teacher, recipe.branch_scale, recipe.dropout)
    number_of = {label: number for number, label in LABELS.items()}
    config = BertConfig.from_pretrained(base, num_labels=2, id2label=LABELS, label2id=number_of)
    config.hidden_dropout_prob = recipe.dropout
    config.attention_probs_dropout_prob = 0.0
    config.problem_type = "single_label_classification"
    return READS[recipe.reads].from_pretrained(
        base, config=config, dtype=torch.float32, attn_implementation=recipe.attention
    )


def distillation(recipe: Recipe, out: Any, ref: Any, mask: torch.Tensor, progress: float) -> torch.Tensor:
    t = recipe.distil_temperature
    log_student, probabilities = F.log_softmax(out.logits / t, -1), F.softmax(ref.logits / t, -1)
    soft = F.kl_div(log_student, probabilities, reduction="batchmean") * t * t
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
    """Whether each text is classified right; texts are cut to `max_tokens`, [CLS] and [SEP] included."""
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


def adamw(
    model: torch.nn.Module, recipe: Any, steps: int
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    """AdamW, and a rate that warms up and falls to almost zero; no weight decay on vectors."""
    trained = [p for p in model.parameters() if p.requires_grad]
    matrices, vectors = [p for p in trained if p.ndim > 1], [p for p in trained if p.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": recipe.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=recipe.learning_rate, fused=True)
    warmup = max(1, int(recipe.warmup_share * steps))

    def rate(step: int) -> float:
        return min((step + 1) / warmup, max(0.0, (steps - step) / (steps - warmup + 1)))

    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, rate)


class Training:
    """A model in training: what a step changes, what a checkpoint keeps, and what is recorded."""

    validated = 1000
    """Steps between two measurements of accuracy on validation."""

    def __init__(self, args: argparse.Namespace, recipe: Recipe) -> None:
        self.start(args, recipe)
        self.tokenizer = AutoTokenizer.from_pretrained(args.teacher or args.base, trust_remote_code=False)
        sst2_texts, sst2_labels = read_split(self.data, "sst2", "train")
        imdb_texts, imdb_labels = read_split(self.data, "imdb", "train")
        self.labels |= {"sst2": sst2_labels, "imdb": imdb_labels}
        sst2, imdb = tokenise(self.tokenizer, sst2_texts), tokenise(self.tokenizer, imdb_texts)
        self.batches = plan_batches(recipe, sst2, imdb)
        if args.max_steps:
            self.batches = self.batches[: args.max_steps]
        self.validation = read_split(self.data, "sst2", "validation")
        if args.teacher:
            teacher = BertForSequenceClassification.from_pretrained(args.teacher, dtype=torch.float32)
            self.teacher = teacher.eval().to(args.device)
        self.model: Any = start_model(recipe, args.base, self.teacher).to(args.device)
        self.optimizer, self.schedule = adamw(self.model, recipe, len(self.batches))

    def start(self, args: argparse.Namespace, recipe: Any) -> None:
        """What every training begins with."""
        self.args, self.recipe, self.out = args, recipe, Path(args.out)
        self.data, self.teacher = Path(args.data_dir), None
        self.done, self.before, self.began = 0, 0.0, time.time()  # steps, seconds of earlier sessions, start
        self.labels: dict[str, list[int]] = {}
        self.curve: list[dict[str, Any]] = []
        self.running: dict[str, float] = {}

    @property
    def checkpoint(self) -> Path:
        return self.out / "checkpoint.pt"

    @property
    def trained(self) -> dict[str, torch.Tensor]:
        """What a step changes; the rest is read again."""
        return {name: value for name, value in self.model.named_parameters() if value.requires_grad}

    @property
    def seconds(self) -> float:
        return self.before + time.time() - self.began

    def resume(self) -> None:
        """Go on from the last checkpoint, if there is one."""
        if self.checkpoint.exists():
            saved = torch.load(self.checkpoint, weights_only=False, map_location="cpu")
            with torch.no_grad():
                for name, value in self.trained.items():
                    value.copy_(saved["model"][name])
            self.optimizer.load_state_dict(saved["optimizer"])
            self.schedule.load_state_dict(saved["schedule"])
            torch.set_rng_state(saved["rng"])
            if saved["card_rng"]:
                torch.cuda.set_rng_state_all(saved["card_rng"])
            self.done, self.before, self.curve = saved["step"], saved["seconds"], saved["curve"]
        print(f"{len(self.batches)} steps, from {self.done}", flush=True)
        self.began = time.time()

    def save(self) -> None:
        """Write a checkpoint, whole or not at all."""
        part = self.checkpoint.with_suffix(".part")
        state = {
            "model": self.trained,
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "rng": torch.get_rng_state(),
            "card_rng": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
            "step": self.done,
            "seconds": self.seconds,
            "curve": self.curve,
        }
        torch.save(state, part)
        part.replace(self.checkpoint)

    def step(self) -> None:
        """Learn from the next batch."""
        args, recipe = self.args, self.recipe
        name, items = self.batches[self.done]
        inputs = collate([ids for _, ids in items], self.tokenizer)
        batch = {key: tensor.to(args.device) for key, tensor in inputs.items()}
        target = torch.tensor([self.labels[name][i] for i, _ in items], device=args.device)
        self.model.train()
        with torch.autocast(args.device.split(":")[0], torch.bfloat16, enabled=args.bf16):
            result = self.model(**batch, output_hidden_states=self.teacher is not None)
            loss = F.cross_entropy(result.logits.float(), target)
            if self.teacher is not None:
                with torch.no_grad():
                    reference = self.teacher(**batch, output_hidden_states=True)
                progress = self.done / len(self.batches)
                learned = distillation(recipe, result, reference, batch["attention_mask"], progress)
                loss = (1 - recipe.distil_share) * loss + learned
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad()
        self.done += 1
        right = (result.logits.argmax(-1) == target).float().mean().item()
        for key, value in ((f"{name}_accuracy", right), (f"{name}_loss", loss.item())):
            self.running[key] = 0.98 * self.running.get(key, value) + 0.02 * value

    def report(self) -> None:
        """Add to the curve: every 100 steps running means, every 1,000 also accuracy on validation."""
        last = self.done == len(self.batches)
        if self.done % 100 and not last:
            return
        row: dict[str, Any] = {"step": self.done, "seconds": round(self.seconds)}
        row |= {key: round(value, 4) for key, value in self.running.items()}
        if self.done % self.validated == 0 or last:
            right = classified_right(self.model, self.tokenizer, *self.validation)
            row["sst2_validation"] = round(sum(right) / len(right), 4)
        self.curve.append(row)
        print(json.dumps(row), flush=True)

    def finish(self) -> None:
        """Write the model in float16, its tokenizer and the record; remove the checkpoint."""
        self.model.config.hidden_dropout_prob = self.model.config.attention_probs_dropout_prob = 0.1
        self.model.half().save_pretrained(self.out, max_shard_size="45MB")
        self.tokenizer.save_pretrained(self.out)
        versions = {"torch": torch.__version__, "transformers": transformers.__version__}
        data = {f"{name}/train": fingerprint(self.data / name / "train.parquet") for name in ("sst2", "imdb")}
        record = {
            "recipe": asdict(self.recipe),
            "teacher": Path(self.args.teacher).name if self.args.teacher else None,
            "base": BASE,
            "data": data,
            "versions": {"python": platform.python_version(), **versions},
            "bfloat16": self.args.bf16,
            "hardware": surroundings()["hardware"],
            "weights": {path.name: digest(path) for path in sorted(self.out.glob("*.safetensors"))},
            "steps": len(self.batches),
            "seconds": round(self.seconds),
            "curve": self.curve,
        }
        (self.out / "training.json").write_text(json.dumps(record, indent=1) + "\n")
        self.checkpoint.unlink(missing_ok=True)


def train(args: argparse.Namespace, recipe: Any, kind: type[Training] = Training) -> None:
    """Train from the start or from the last checkpoint; a checkpoint is written every five minutes."""
    torch.manual_seed(recipe.seed)
    random.seed(recipe.seed)
    np.random.seed(recipe.seed)
    if args.threads:
        torch.set_num_threads(args.threads)
    Path(args.out).mkdir(parents=True, exist_ok=True)
    training = kind(args, recipe)
    training.resume()
    last_saved = time.time()
    while training.done < len(training.batches):
        training.step()
        training.report()
        if time.time() - last_saved > 300:
            last_saved = time.time()
            training.save()
    training.finish()


def evaluate(args: argparse.Namespace) -> None:
    """Accuracy on all of SST-2 validation and all of IMDB test, of the float16 weights on disk, in float32.

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
        described = {"max_tokens": 512, "data": fingerprint(data / dataset / f"{split}.parquet")}
        fresh = {"right": 0, "n": 0, "of": len(texts), **described}
        row = record.setdefault(f"{dataset}/{split}", fresh)
        while row["n"] < len(order):
            rows = order[row["n"] : row["n"] + 1000]
            right = classified_right(model, tokenizer, [texts[i] for i in rows], [labels[i] for i in rows])
            row["right"] += sum(right)
            row["n"] += len(rows)
            p = row["right"] / row["n"]
            row["accuracy"] = round(p, 4)
            row["standard_error"] = round(math.sqrt(p * (1 - p) / row["n"]), 4)
            partial = target.with_suffix(".part")
            partial.write_text(json.dumps(record, indent=1) + "\n")
            partial.replace(target)
            print(dataset, split, json.dumps(row), flush=True)


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--data-dir", required=True, help="folder with sst2/ and imdb/ parquet files")
    parser.add_argument("--out", required=True, help="folder for the model, the checkpoint and the record")
    parser.add_argument("--base", default=BASE, help="hub id or folder of the base weights")
    parser.add_argument("--teacher", help="folder of the finished 6-layer model (for --layers 12)")
    parser.add_argument("--device", default="cpu")
    text = "bfloat16 autocast: faster where the processor has the units for it"
    parser.add_argument("--bf16", action="store_true", help=text)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--max-steps", type=int, default=0, help="stop early (for a trial)")
    text = "measure the model in --out instead of training"
    parser.add_argument("--evaluate", action="store_true", help=text)
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
