"""Train a small Vision Transformer on MNIST at 28 x 28 pixels, from scratch.

    python training/train_vit.py --seed 0 --data-dir DATA --out DIR

`DATA` has mnist/train.parquet and mnist/test.parquet, columns as on the hub. Pixels are divided by 255,
nothing more. A seed decides the first weights, the order of the images and how far each is moved.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import platform
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
import transformers

import lrp_companion as lrp

CLASSES = 10
PROCESSOR = {
    "image_processor_type": "ViTImageProcessor",
    "do_resize": False,
    "size": {"height": 28, "width": 28},
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": False,
}
"""How pixels from 0 to 255 become what the network reads."""


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the result, besides the data."""

    seed: int = 0
    layers: int = 4
    width: int = 64
    heads: int = 4
    inner: int = 128
    side: int = 28
    patch: int = 4
    batch: int = 128
    steps: int = 1600
    learning_rate: float = 2e-3
    warmup_share: float = 0.08
    weight_decay: float = 0.02
    moved: int = 1
    initial_scale: float = 0.12


def fingerprint(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def digits(folder: str, split: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Images (n, 1, 28, 28) in [0, 1] and their labels (n,)."""
    data = lrp.load_dataset("mnist", split=split, source="folder", data_dir=folder, side=28)
    assert data.images is not None
    return torch.from_numpy(data.images.astype(np.float32))[:, None], torch.from_numpy(data.labels.copy())


def network_of(recipe: Recipe) -> Any:
    """A network with random weights."""
    config = transformers.ViTConfig(
        hidden_size=recipe.width,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        intermediate_size=recipe.inner,
        image_size=recipe.side,
        patch_size=recipe.patch,
        num_channels=1,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=recipe.initial_scale,
        id2label={k: str(k) for k in range(CLASSES)},
        label2id={str(k): k for k in range(CLASSES)},
    )
    return transformers.ViTForImageClassification(config)


def shifted(images: torch.Tensor, most: int, draw: torch.Generator) -> torch.Tensor:
    """Each image moved by up to `most` pixels in both directions, black at the edges."""
    side = images.shape[-1]
    padded = F.pad(images, (most,) * 4)[:, 0]
    down, right = torch.randint(0, 2 * most + 1, (2, len(images)), generator=draw)
    places = torch.arange(side)
    rows, columns = down[:, None] + places, right[:, None] + places
    return padded[torch.arange(len(images))[:, None, None], rows[:, :, None], columns[:, None, :]][:, None]


@torch.no_grad()
def accuracy(network: Any, images: torch.Tensor, labels: torch.Tensor) -> float:
    network.eval()
    pairs = zip(images.split(500), labels.split(500), strict=True)
    right = sum(int((network(pixel_values=x).logits.argmax(-1) == y).sum()) for x, y in pairs)
    network.train()
    return right / len(images)


def train(args: argparse.Namespace, recipe: Recipe) -> None:
    torch.set_num_threads(args.threads)
    torch.manual_seed(recipe.seed)
    draw = torch.Generator().manual_seed(recipe.seed)
    images, labels = digits(args.data_dir, "train")
    test = digits(args.data_dir, "test")
    network = network_of(recipe)
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
    curve, running, began = [], None, time.time()
    order = torch.randperm(len(images), generator=draw)
    network.train()
    for step in range(1, recipe.steps + 1):
        if len(order) < recipe.batch:
            order = torch.randperm(len(images), generator=draw)
        rows, order = order[: recipe.batch], order[recipe.batch :]
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.bf16):
            logits = network(pixel_values=shifted(images[rows], recipe.moved, draw)).logits
        loss = F.cross_entropy(logits.float(), labels[rows])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        running = loss.item() if running is None else 0.98 * running + 0.02 * loss.item()
        if step % 250 == 0 or step == recipe.steps:
            row: dict[str, Any] = {"step": step, "seconds": round(time.time() - began)}
            row["loss"] = round(running, 4)
            row["first_2000_of_test"] = accuracy(network, test[0][:2000], test[1][:2000])
            curve.append(row)
            print(recipe.seed, json.dumps(row), flush=True)
    save(args, recipe, network.eval(), test, curve)


def save(
    args: argparse.Namespace,
    recipe: Recipe,
    network: Any,
    test: tuple[torch.Tensor, torch.Tensor],
    curve: list[dict],
) -> None:
    """Write the model in float16, how its pixels are scaled, and the record of the training."""
    out, data = Path(args.out), Path(args.data_dir)
    network.half().save_pretrained(out)
    (out / "preprocessor_config.json").write_text(json.dumps(PROCESSOR, indent=1) + "\n")
    right = accuracy(network.float(), *test)
    record = {
        "recipe": {**asdict(recipe), "bfloat16": args.bf16},
        "data": {name: fingerprint(data / f"{name}.parquet") for name in ("mnist/train", "mnist/test")},
        "parameters": sum(p.numel() for p in network.parameters()),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
        "weights": hashlib.sha256((out / "model.safetensors").read_bytes()).hexdigest(),
        "mnist_test": {"accuracy": round(right, 4), "n": len(test[0])},
        "curve": curve,
    }
    (out / "training.json").write_text(json.dumps(record, indent=1) + "\n")
    print(recipe.seed, record["mnist_test"])


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--data-dir", required=True, help="folder with mnist/ parquet files")
    parser.add_argument("--out", required=True)
    parser.add_argument("--threads", type=int, default=1, help="bits depend on it")
    parser.add_argument("--bf16", action="store_true", help="bfloat16 in the matrix products")
    for name, value in asdict(Recipe()).items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(value), default=value)
    args = parser.parse_args()
    train(args, Recipe(**{name: getattr(args, name) for name in asdict(Recipe())}))


if __name__ == "__main__":
    main()
