"""Train small sentiment classifiers of five wirings from scratch, with `companion` as their teacher.

    python training/train_wirings.py targets --data-dir DATA --out TARGETS
    python training/train_wirings.py train --wiring llama --seed 0 --data-dir DATA --targets TARGETS --out DIR

`targets` makes a tokenizer of the teacher's pieces that are frequent in the training texts, and asks the
teacher once for the logits of SST-2 train and of sentences of IMDB train. `train` learns from these logits
and from SST-2's labels. All weights are random at the start but the embeddings of the pieces: those are the
main components of the teacher's. The five differ in their wiring: data, order of the batches (per
seed), highest learning rate and size are the same. The models of chapter 8 were trained with
`--steps 5000 --bf16`. `--start MODEL` goes on from the weights of a trained one, `--masked-share 0.5` with
half of the texts under random attention masks.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import platform
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

import lrp_companion as lrp
from lrp_companion.families.mean_pooled import MeanPooledBertForSequenceClassification
from lrp_companion.sources import clean

WIRINGS = ("post-ln-first", "post-ln-mean", "modernbert", "gpt2", "llama")
LABELS = {0: "negative", 1: "positive"}
ATTENTION = "eager"  # whose backward pass is faster on a processor
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PIECES = 6_000
LOTS = (60_000, 120_000)  # sentences of IMDB: the first lot goes to the teacher with SST-2, the second alone
SHORTEST, LONGEST = 4, 30  # their words


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the result, besides data, wiring and targets."""

    seed: int = 0
    layers: int = 4
    width: int = 192
    heads: int = 4
    inner: int = 768
    gated_inner: int = 512
    positions: int = 128
    batch: int = 128
    steps: int = 2000
    learning_rate: float = 7e-4
    warmup_share: float = 0.08
    weight_decay: float = 0.01
    temperature: float = 2.0
    label_share: float = 0.3
    imdb_share: float = 0.375
    word_dropout: float = 0.1
    masked_share: float = 0.0  # of the texts: each hides its tokens with a probability drawn from 0 to 1
    embedding_scale: float = 0.06
    initial_scale: float = 0.04


def fingerprint(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


# Texts, pieces and the teacher's logits.


def sst2(folder: Path, split: str) -> tuple[list[str], list[int]]:
    table = pq.read_table(folder / "sst2" / f"{split}.parquet")
    return [clean(text) for text in table["sentence"].to_pylist()], table["label"].to_pylist()


def imdb_sentences(folder: Path) -> tuple[list[str], list[int]]:
    """A seeded sample of the sentences of IMDB train, as long as those of SST-2; their reviews' labels."""
    table = pq.read_table(folder / "imdb" / "train.parquet")
    sentences = []
    for review, label in zip(table["text"].to_pylist(), table["label"].to_pylist(), strict=True):
        for part in re.split(r"(?<=[.!?])\s+|(?:<br />)+", review):
            words = part.split()
            if SHORTEST <= len(words) <= LONGEST:
                sentences.append((clean(part), label))
    random.Random(0).shuffle(sentences)
    texts, labels = zip(*sentences[: sum(LOTS)], strict=True)
    return list(texts), list(labels)


def pieces_of(teacher: Any, texts: list[str]) -> list[str]:
    """The teacher's most frequent pieces in these texts, with every piece of one letter, in its order."""
    counts: Counter[int] = Counter()
    for ids in teacher(texts, add_special_tokens=False)["input_ids"]:
        counts.update(ids)
    vocabulary = teacher.get_vocab()
    letters = {piece for piece in vocabulary if len(piece.removeprefix("##")) == 1 and piece.isascii()}
    names = teacher.convert_ids_to_tokens(list(range(len(vocabulary))))
    chosen = set(letters)
    for index, _ in counts.most_common():
        if len(chosen) == PIECES - len(SPECIAL):
            break
        if names[index] not in SPECIAL:
            chosen.add(names[index])
    return [*SPECIAL, *sorted(chosen, key=vocabulary.__getitem__)]


def tokenizer_of(wiring: str, pieces: list[str], positions: int) -> PreTrainedTokenizerFast:
    """WordPiece with the special tokens of the wiring's family: GPT-2 has none, Llama one at the start."""
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]"}
    if wiring == "llama":
        names["bos_token"] = "[CLS]"
        single, pair = "[CLS] $A", "[CLS] $A $B"
    else:
        names |= {"cls_token": "[CLS]", "sep_token": "[SEP]"}
        single, pair = "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1"
    if wiring == "gpt2":
        names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]"}
    else:
        ends = [(piece, vocabulary[piece]) for piece in ("[CLS]", "[SEP]")]
        template = processors.TemplateProcessing(single=single, pair=pair, special_tokens=ends)
        tokenizer.post_processor = template
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=positions, **names)


@torch.no_grad()
def asked(teacher: Any, texts: list[str]) -> np.ndarray:
    """The teacher's logits of these texts, (n, 2), in batches of texts of like length."""
    ids = teacher.tokenizer(texts, truncation=True, max_length=128)["input_ids"]
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    logits = np.zeros((len(ids), 2), np.float32)
    began = time.time()
    for start in range(0, len(order), 256):
        rows = order[start : start + 256]
        width = max(len(ids[i]) for i in rows)
        batch = torch.tensor([[*ids[i], *[teacher.pad_id] * (width - len(ids[i]))] for i in rows])
        mask = torch.tensor([[1] * len(ids[i]) + [0] * (width - len(ids[i])) for i in rows])
        logits[rows] = teacher.network(input_ids=batch, attention_mask=mask).logits.numpy()
        if start % (256 * 50) == 0:
            print(start, "of", len(order), round(time.time() - began), "s", flush=True)
    return logits


@torch.no_grad()
def make_targets(args: argparse.Namespace) -> None:
    """Write pieces.json and targets.npz: the teacher's logits of all training texts."""
    data, out = Path(args.data_dir), Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    teacher = lrp.load_classifier("companion")
    texts = [*sst2(data, "train")[0], *imdb_sentences(data)[0]]
    (out / "pieces.json").write_text(json.dumps(pieces_of(teacher.tokenizer, texts)) + "\n")
    logits = [asked(teacher, lot) for lot in (texts[: -LOTS[1]], texts[-LOTS[1] :])]
    np.savez_compressed(out / "targets.npz", logits=np.concatenate(logits).astype(np.float16))


def components(pieces: list[str], width: int, scale: float) -> torch.Tensor:
    """The main components of the teacher's embeddings of these pieces (P, width), of this standard deviation.

    A component's sign is that of its largest entry, so that it does not depend on the processor.
    """
    teacher = lrp.load_classifier("companion", dtype="float64")
    table = teacher.network.get_input_embeddings().weight
    rows = table[teacher.tokenizer.convert_tokens_to_ids(pieces)]
    rows = rows - rows.mean(0)
    _, axes = torch.linalg.eigh(rows.T @ rows)
    axes = axes[:, -width:]
    axes = axes * axes.gather(0, axes.abs().argmax(0, keepdim=True)).sign()
    x = rows @ axes
    return (x * scale / x.std()).float()


# Models.


def network_of(wiring: str, recipe: Recipe, pieces: int) -> Any:
    """A network with random weights."""
    shared = {
        "vocab_size": pieces,
        "hidden_size": recipe.width,
        "num_hidden_layers": recipe.layers,
        "num_attention_heads": recipe.heads,
        "pad_token_id": 0,
        "id2label": LABELS,
        "initializer_range": recipe.initial_scale,
        "label2id": {label: number for number, label in LABELS.items()},
    }
    plain = {
        "intermediate_size": recipe.inner,
        "max_position_embeddings": recipe.positions,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    gated = {"intermediate_size": recipe.gated_inner, "max_position_embeddings": recipe.positions}
    if wiring.startswith("post-ln"):
        kind = transformers.BertForSequenceClassification
        if wiring == "post-ln-mean":
            kind = MeanPooledBertForSequenceClassification
        return kind(transformers.BertConfig(**shared, **plain))
    if wiring == "modernbert":
        specials = {"cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}
        config = transformers.ModernBertConfig(
            **shared, **gated, **specials, classifier_pooling="mean", initializer_cutoff_factor=2.0
        )
        return transformers.ModernBertForSequenceClassification(config)
    ends: dict[str, int | None]
    if wiring == "gpt2":
        sizes = {"n_inner": recipe.inner, "n_positions": recipe.positions}
        none = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
        ends = {"bos_token_id": None, "eos_token_id": None}
        return transformers.GPT2ForSequenceClassification(
            transformers.GPT2Config(**shared, **sizes, **none, **ends)
        )
    ends = {"bos_token_id": 2, "eos_token_id": None, "num_key_value_heads": recipe.heads // 2}
    return transformers.LlamaForSequenceClassification(transformers.LlamaConfig(**shared, **gated, **ends))


def collate(rows: list[list[int]]) -> dict[str, torch.Tensor]:
    """Ids and mask, padded on the right."""
    width = max(map(len, rows))
    ids = torch.zeros((len(rows), width), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for k, row in enumerate(rows):
        ids[k, : len(row)] = torch.tensor(row)
        mask[k, : len(row)] = 1
    return {"input_ids": ids, "attention_mask": mask}


def on(device: Any, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: values.to(device) for name, values in batch.items()}


# Training.


def plan(recipe: Recipe, lengths: list[int], of_sst2: int) -> list[list[int]]:
    """The rows of every batch: texts alike in length, SST-2 and IMDB by their shares; seeded."""
    rng = random.Random(recipe.seed)
    pools: dict[str, list[int]] = {"sst2": [], "imdb": []}
    everything = {"sst2": range(of_sst2), "imdb": range(of_sst2, len(lengths))}
    batches: list[list[int]] = []
    while len(batches) < recipe.steps:
        rows = []
        for name, count in (("imdb", 32 * recipe.imdb_share), ("sst2", 32 * (1 - recipe.imdb_share))):
            wanted = int(count) * recipe.batch
            while len(pools[name]) < wanted:
                fresh = list(everything[name])
                rng.shuffle(fresh)
                pools[name] += fresh
            rows += pools[name][:wanted]
            pools[name] = pools[name][wanted:]
        rows.sort(key=lengths.__getitem__)
        group = [rows[k : k + recipe.batch] for k in range(0, len(rows), recipe.batch)]
        rng.shuffle(group)
        batches += group
    return batches[: recipe.steps]


@torch.no_grad()
def accuracy(network: Any, tokenizer: Any, texts: list[str], labels: list[int]) -> float:
    network.eval()
    right = 0
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    for start in range(0, len(order), 109):
        rows = order[start : start + 109]
        batch = collate(tokenizer([texts[i] for i in rows])["input_ids"])
        logits = network(**on(network.device, batch)).logits
        right += sum(p == labels[i] for i, p in zip(rows, logits.argmax(-1).tolist(), strict=True))
    network.train()
    return right / len(texts)


def loss_of(recipe: Recipe, logits: torch.Tensor, soft: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Cross-entropy with the teacher's probabilities, and with the labels where there are any (-1: none)."""
    t = recipe.temperature
    distilled = F.cross_entropy(logits / t, (soft / t).softmax(-1)) * t * t
    known = labels >= 0
    if not known.any():
        return distilled
    return distilled + recipe.label_share * F.cross_entropy(logits[known], labels[known])


def train(args: argparse.Namespace, recipe: Recipe) -> None:
    data, targets = Path(args.data_dir), Path(args.targets)
    pieces = json.loads((targets / "pieces.json").read_text())
    tokenizer = tokenizer_of(args.wiring, pieces, recipe.positions)
    texts, labels = sst2(data, "train")
    of_sst2 = len(texts)
    texts += imdb_sentences(data)[0]
    labels += [-1] * (len(texts) - of_sst2)
    soft = torch.from_numpy(np.load(targets / "targets.npz")["logits"]).float()
    ids = tokenizer(texts, truncation=True)["input_ids"]
    network = begin(args, recipe, len(pieces))
    about: dict[str, Any] = {"teacher": "companion"}
    if args.start:
        network.load_state_dict(load_file(Path(args.start) / "model.safetensors"))
        about["start"] = fingerprint(Path(args.start) / "model.safetensors")
    else:
        with torch.no_grad():
            first = components(pieces, recipe.width, recipe.embedding_scale)
            network.get_input_embeddings().weight.copy_(first)
    batches = (
        (collate([ids[i] for i in rows]), soft[rows], torch.tensor([labels[i] for i in rows]))
        for rows in plan(recipe, [len(x) for x in ids], of_sst2)
    )
    curve = fit(args, recipe, network, tokenizer, batches, loss_of)
    files = {name: fingerprint(targets / name) for name in ("pieces.json", "targets.npz")}
    save(args, recipe, network, tokenizer, curve, **about, targets=files)


def begin(args: argparse.Namespace, recipe: Recipe, pieces: int) -> Any:
    """A network with random weights by the recipe's seed."""
    torch.set_num_threads(args.threads)
    torch.manual_seed(recipe.seed)
    network = network_of(args.wiring, recipe, pieces)
    network.set_attn_implementation(ATTENTION)
    return network


def fit(
    args: argparse.Namespace,
    recipe: Recipe,
    network: Any,
    tokenizer: Any,
    batches: Iterable[tuple[Any, ...]],
    loss_of: Callable[..., torch.Tensor],
    kept: Iterable[int] = (),
) -> list[dict[str, Any]]:
    """Train in place and return the learning curve.

    A batch is its ids and mask, then what `loss_of(recipe, logits, ...)` takes; `kept` are pieces that word
    dropout leaves, besides the special ones.
    """
    network.to(args.device).train()
    matrices = [p for p in network.parameters() if p.ndim > 1]
    vectors = [p for p in network.parameters() if p.ndim <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": recipe.weight_decay}, {"params": vectors, "weight_decay": 0.0}],
        lr=recipe.learning_rate,
        betas=(0.9, 0.98),
        fused=True,
    )
    warmup = max(1, int(recipe.warmup_share * recipe.steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda k: min((k + 1) / warmup, 0.5 * (1 + math.cos(math.pi * min(1.0, k / recipe.steps)))),
    )
    validation = sst2(Path(args.data_dir), "validation")
    curve, running, began = [], torch.zeros(()), time.time()
    stays = torch.tensor([*tokenizer.all_special_ids, *kept])
    for step, (batch, *wanted) in enumerate(batches, 1):
        if recipe.word_dropout:
            drop = torch.rand(batch["input_ids"].shape) < recipe.word_dropout
            batch["input_ids"][drop & ~torch.isin(batch["input_ids"], stays)] = tokenizer.unk_token_id
        if recipe.masked_share:
            mask = batch["attention_mask"]  # (texts, tokens)
            some = torch.rand(len(mask), 1) < recipe.masked_share
            mask[some & (torch.rand(mask.shape) < torch.rand(len(mask), 1))] = 0
        with torch.autocast(torch.device(args.device).type, dtype=torch.bfloat16, enabled=args.bf16):
            logits = network(**on(args.device, batch)).logits
        loss = loss_of(recipe, logits.float(), *(values.to(args.device) for values in wanted))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        running = loss.detach() if step == 1 else 0.98 * running + 0.02 * loss.detach()
        if step % 250 == 0 or step == recipe.steps:
            row: dict[str, Any] = {"step": step, "seconds": round(time.time() - began)}
            row["loss"] = round(running.item(), 4)
            row["sst2_validation"] = round(accuracy(network, tokenizer, *validation), 4)
            curve.append(row)
            print(args.wiring, recipe.seed, json.dumps(row), flush=True)
    network.cpu().eval()
    return curve


def save(
    args: argparse.Namespace, recipe: Recipe, network: Any, tokenizer: Any, curve: list[dict], **about: Any
) -> None:
    """Write the model in float16, its tokenizer and the record of the training, with what it is `about`."""
    out, data = Path(args.out), Path(args.data_dir)
    network.half().save_pretrained(out)
    tokenizer.save_pretrained(out)
    right = accuracy(network.float(), tokenizer, *sst2(data, "validation"))
    record = {
        "wiring": args.wiring,
        "recipe": {**asdict(recipe), "bfloat16": args.bf16, "attention": ATTENTION, "device": args.device},
        "data": {name: fingerprint(data / f"{name}.parquet") for name in ("sst2/train", "imdb/train")},
        **about,
        "parameters": sum(p.numel() for p in network.parameters()),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
        "weights": hashlib.sha256((out / "model.safetensors").read_bytes()).hexdigest(),
        "sst2_validation": {"accuracy": round(right, 4), "n": 872},
        "curve": curve,
    }
    (out / "training.json").write_text(json.dumps(record, indent=1) + "\n")


def options(command: argparse.ArgumentParser, recipe: Recipe) -> None:
    """What every training takes, and an option for each entry of the recipe."""
    command.add_argument("--data-dir", required=True, help="folder with sst2/ and imdb/ parquet files")
    command.add_argument("--out", required=True)
    command.add_argument("--wiring", required=True, choices=WIRINGS)
    command.add_argument("--threads", type=int, default=1, help="bits depend on it")
    command.add_argument("--bf16", action="store_true", help="bfloat16 in the matrix products")
    command.add_argument("--device", default="cpu", help="such as cuda")
    for name, value in asdict(recipe).items():
        command.add_argument("--" + name.replace("_", "-"), type=type(value), default=value)


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("targets")
    command.add_argument("--data-dir", required=True, help="folder with sst2/ and imdb/ parquet files")
    command.add_argument("--out", required=True)
    command = commands.add_parser("train")
    command.add_argument("--targets", required=True, help="folder that `targets` wrote")
    command.add_argument("--start", help="folder of a model of this wiring, to go on from")
    options(command, Recipe())
    args = parser.parse_args()
    if args.command == "targets":
        make_targets(args)
    else:
        train(args, Recipe(**{name: getattr(args, name) for name in asdict(Recipe())}))


if __name__ == "__main__":
    main()
