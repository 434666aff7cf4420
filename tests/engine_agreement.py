"""The browser's engine beside Python, sentence by sentence: `python tests/engine_agreement.py` runs all 200.

With `--record` the result goes into `results/browser-engine/companion.json`, which a page of the book quotes.
Python is asked twice: with the weights that the browser has, to which the engine must agree to rounding, and
with the model's own, which says what 8 bits cost.
"""

from __future__ import annotations

import base64
import copy
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from front.check import ROOT, find_deno

import lrp_companion as lrp
from lrp_companion.lab.execute import surroundings
from lrp_companion.loading.classifier import Classifier
from lrp_companion.page import browser_engine

RECORD = ROOT / "results" / "browser-engine" / "companion.json"
LONG = 60
"""Words from which a text is too long for LOO here."""
METHODS = ("loo", "attnlrp", "cp-lrp", "mask-gradient", "lrp")
BYPASS = [7, 8]
EXPORTS = "Weights, Explainer, Tokenizer, allMasks, kernelFrom, bytesOf, fours, correlation, settle, normal"
STRANGE = (
    "unforgettable",
    "no",
    "😀",
    "a 😀 film 👨\u200d👩\u200d👧 of 🇩🇪 grace 🎬🎬",
    "naïve café, très bien, señor Ångström!",
    "e\u0301te\u0301 n\u0303o",
    "這部電影很好看",
    "이 영화는 정말 좋다",
    "映画はとても良い。でも長い",
    "שלום עולם, סרט טוב",
    "فيلم رائع جدا",
    "a\u200bb\u200c c\x00d\x07e\xadf",
    "tabs\tand\nlines\r\nand\xa0spaces\u3000here",
    "İstanbul ß ẞ Σας ﬁne",
    "</script><script>alert(1)</script>",
    "x" * 101 + " is long",
    "3.5/5 -- don't!!! ... it's $9,99 & more",
    "?",
    "ＦＵＬＬ width ½ ² Ⅷ",
)


def restored(steps: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Return what the engine multiplies with, (rows, columns), 32-bit: step times scale."""
    return steps.astype(np.float32) * np.repeat(scales, browser_engine.BLOCK, axis=1)[:, : steps.shape[1]]


def as_staged(clf: Classifier) -> Classifier:
    """Return a classifier with the weights that the browser uses; `clf` does not change."""
    network = copy.deepcopy(clf.network)
    out = Classifier(network, clf.tokenizer, card=clf.card)
    with torch.no_grad():
        for name, tensor in browser_engine.tensors(out.encoder.wiring):
            if browser_engine._in_steps(name, tensor):
                kept = torch.from_numpy(restored(*browser_engine.quantised(tensor.detach().cpu().numpy())))
                tensor.copy_(kept)
    return out


def sentences(clf: Classifier, count: int = 200) -> list[str]:
    """Embedded reviews, long texts of 100 tokens and more, random words, and what is seldom typed."""
    generator = np.random.default_rng(0)
    reviews = list(lrp.load_dataset("sst2", split="validation", source="embedded").texts)
    words = sorted(word for word in clf.tokenizer.get_vocab() if word.isalpha() and len(word) > 1)
    long = [_of_length(clf, reviews[k:] + reviews[:k], 100 + 3 * k) for k in (0, 4, 9)]
    out = [*STRANGE, *long, *reviews]
    while len(out) < count:
        out.append(" ".join(generator.choice(words, generator.integers(1, 24))))
    return out[:count]


def _of_length(clf: Classifier, texts: Sequence[str], tokens: int) -> str:
    """The beginning of these texts, as many words as fit into so many tokens."""
    words = " ".join(texts).split()
    return next(
        text for n in range(tokens, 0, -1) if len(clf.encode(text := " ".join(words[:n]))[0]) <= tokens
    )


class Engine:
    """The engine under deno, on a staged folder."""

    def __init__(self, folder: Path, *, change: tuple[str, str] | None = None, relaxed: bool = False) -> None:
        self.folder, self.relaxed = folder, relaxed
        text = browser_engine.joined(*browser_engine.WORKER)
        if change:
            assert text.count(change[0]) == 1, change
            text = text.replace(*change)
        (folder / "engine_under_test.js").write_text(f"{text}\nexport {{ {EXPORTS} }};\n", encoding="utf-8")
        kernels = [base64.b64encode(kernel).decode() for kernel in browser_engine.kernels()]
        (folder / "kernels.json").write_text(json.dumps(kernels))

    def ask(self, questions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Answers, each with `result` and the `seconds` it took."""
        modules = (self.folder / "engine_under_test.js").as_uri()
        given = {"folder": str(self.folder), "modules": modules, "questions": list(questions)}
        command = [str(find_deno()), "run", "--no-remote", "--no-check", f"--allow-read={self.folder}"]
        done = subprocess.run(
            [*command, "tests/front/ask_engine.js"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            input=json.dumps({**given, "relaxed": self.relaxed}),
            encoding="utf-8",
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]


@dataclass(frozen=True)
class Agreement:
    """What came out: ids that differ, the largest difference of a logit, and r and error per method."""

    texts: int
    wrong_ids: int
    logits: float
    same_class: float
    r: dict[str, np.ndarray]
    error: dict[str, np.ndarray]

    def __str__(self) -> str:
        head = f"{self.texts} texts, {self.wrong_ids} with other ids, logits within {self.logits:.2g}"
        rows = [
            f"  {name:14} r mean {np.nanmean(r):.7f}, worst {np.nanmin(r):.7f}; "
            f"relative error mean {np.mean(self.error[name]):.2g}, worst {np.max(self.error[name]):.2g}"
            for name, r in self.r.items()
        ]
        return "\n".join([f"{head}, predicted class equal in {self.same_class:.2%}", *rows])

    def to_dict(self) -> dict[str, Any]:
        """What a record keeps."""
        rows = {
            name: {
                "n": int(np.isfinite(r).sum()),
                "r": {"mean": float(np.nanmean(r)), "least": float(np.nanmin(r))},
                "relative error": {
                    "mean": float(self.error[name].mean()),
                    "most": float(self.error[name].max()),
                },
            }
            for name, r in self.r.items()
        }
        head = {
            "texts": self.texts,
            "other ids": self.wrong_ids,
            "largest difference of a logit": self.logits,
        }
        return {**head, "predicted class equal": self.same_class, "methods": rows}


def questions_of(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Every method of every text, but LOO of long ones, which takes a minute each."""
    return [
        {"kind": "explain", "text": text, "choices": {"method": name, **_options(name)}}
        for text in texts
        for name in METHODS
        if name != "loo" or len(text.split()) < LONG
    ]


def _options(method: str) -> dict[str, Any]:
    return {"bypass": BYPASS} if method == "lrp" else {}


def agreement(clf: Classifier, texts: Sequence[str], answers: Sequence[dict[str, Any]]) -> Agreement:
    """The engine's answers to `questions_of` against Python's, for the classes that the engine explains."""
    asked = [(q["choices"]["method"], q["text"]) for q in questions_of(texts)]
    results = {key: answer["result"] for key, answer in zip(asked, answers, strict=True)}
    r, error = {}, {}
    for name in METHODS:
        rows = [(text, row) for (method, text), row in results.items() if method == name]
        targets = [row["target"] for _, row in rows]
        options = {"method": name, "target": targets, "progress": False, **_options(name)}
        maps = lrp.attribute(clf, [text for text, _ in rows], **options)
        pairs = [(np.array(x["scores"]), y.scores, ~y.special) for (_, x), y in zip(rows, maps, strict=True)]
        r[name] = np.array([lrp.pearson(a[w], b[w]) if w.sum() > 2 else np.nan for a, b, w in pairs])
        error[name] = np.array([np.linalg.norm(a - b) / np.linalg.norm(b) for a, b, _ in pairs])
    encoded, firsts = clf.encode(list(texts)), [results["attnlrp", text] for text in texts]
    wrong = sum(list(text.input_ids) != row["ids"] for text, row in zip(encoded, firsts, strict=True))
    logits = np.array([_logits(clf, text) for text in encoded])
    browser = np.array([row["logits"] for row in firsts])
    same = float(np.mean(logits.argmax(-1) == browser.argmax(-1)))
    return Agreement(len(texts), wrong, float(np.abs(logits - browser).max()), same, r, error)


def _logits(clf: Classifier, text: Any) -> list[float]:
    import torch

    ids = torch.tensor([text.input_ids])
    return clf.logits(ids, torch.ones_like(ids))[0].tolist()


def main(count: int = 200, *, record: bool = False) -> None:
    """Stage the embedded model, ask the engine, print what came out, and keep it if that is asked for."""
    clf = lrp.load_classifier("companion")
    texts = sentences(clf, count)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(browser_engine.stage(clf, folder))
        answers = Engine(folder).ask(questions_of(texts))
    seconds = sum(answer["seconds"] for answer in answers)
    print(seconds, "s in the engine")
    same = agreement(as_staged(clf), texts, answers)
    print("against the weights of the browser:", same)
    rounded = agreement(clf, texts, answers)
    print("against the model's own:", rounded)
    if record:
        config = {"model": clf.card.name, "weights": clf.card.fingerprint, "texts": count, "seed": 0}
        content = {
            "config": {**config, "bits": 8, "block": browser_engine.BLOCK, "methods": list(METHODS)},
            "made with": surroundings(),
            "seconds in the engine": seconds,
            "the browser's weights": same.to_dict(),
            "the model's own weights": rounded.to_dict(),
        }
        RECORD.parent.mkdir(exist_ok=True)
        RECORD.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:] if argument.isdecimal()]
    main(*numbers, record="--record" in sys.argv)
