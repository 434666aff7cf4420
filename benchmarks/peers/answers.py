"""`python -m benchmarks.peers.answers`: an answer of several tokens, beside captum's `LLMAttribution`.

The same random Llama, the same prompt and answer, in one run. LOO: each token of the prompt becomes the
padding token, and of every token of the answer the change of its probability is read, which captum can read,
too; captum runs at its best setting, the whole answer in one forward, and at its default, token by token with
a cache. Shapley values are those of a short prompt and the first token of the answer: all subsets here,
sampled orders there. (For a later token the package has the answer so far among the tokens, captum has not.)
"""

from __future__ import annotations

import argparse
import sys
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from captum.attr import FeatureAblation, LLMAttribution, ShapleyValueSampling, TextTokenInput
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from benchmarks import pages
from benchmarks.clock import interleaved, ratio
from lrp_companion.loading.classifier import Classifier, load_classifier
from lrp_companion.methods import attribute
from lrp_companion.metrics import pearson

RECORD = pages.ROOT / "results" / "answers.json"
PROMPT = "a quiet film of rare grace, whose jokes are old and whose plot is slow, is to me "
SHORT = "old jokes"
ANSWER = "not dull"


def talker(*, layers: int = 6, hidden: int = 256, seed: int = 0) -> Classifier:
    """A random Llama that reads and writes bytes, in float32."""
    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {symbol: k for k, symbol in enumerate([*symbols, "<pad>", "<s>"])}
    bytes_alone = Tokenizer(models.BPE(vocabulary, []))
    bytes_alone.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_alone.decoder = decoders.ByteLevel()
    start = ("<s>", vocabulary["<s>"])
    bytes_alone.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[start])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bytes_alone, pad_token="<pad>", bos_token="<s>")
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 32,
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=0.2,
        bos_token_id=tokenizer.bos_token_id,
    )
    return load_classifier(LlamaForCausalLM(config).eval(), tokenizer)


def captum_map(
    clf: Classifier,
    explainer: Any,
    prompt: str = PROMPT,
    *,
    at_once: bool,
    cache: bool = False,
    **options: Any,
) -> np.ndarray:
    """captum's scores: a row for each token of the answer, a column for each of the prompt."""
    peer = LLMAttribution(explainer(clf.network), clf.tokenizer, attr_target="prob")
    skipped = [clf.tokenizer.bos_token_id]
    given = TextTokenInput(prompt, clf.tokenizer, baselines=clf.pad_id, skip_tokens=skipped)
    settings = {"use_cached_outputs": cache, "forward_in_tokens": not at_once}
    return peer.attribute(given, target=ANSWER, **settings, **options).token_attr.numpy()


def our_map(clf: Classifier, method: str, prompt: str = PROMPT, **options: Any) -> np.ndarray:
    """The package's scores, in the same shape."""
    how: dict[str, Any] = {"removal": "pad-token", "output": "probability", "completion": ANSWER}
    answer = attribute(clf, prompt, method=method, **how, **options)
    return np.stack([record.scores[1 : 1 + len(prompt)] for record in answer])


def measure(*, repeats: int, samples: int) -> dict[str, Any]:
    """Compare scores, then times; return the record."""
    clf = talker()
    torch.set_num_threads(1)
    ours, theirs = our_map(clf, "loo"), captum_map(clf, FeatureAblation, at_once=True)
    stepwise, cached = (captum_map(clf, FeatureAblation, at_once=False, cache=on) for on in (False, True))
    exact = our_map(clf, "shapley", SHORT)
    sampled = captum_map(clf, ShapleyValueSampling, SHORT, at_once=True, n_samples=samples)
    seconds = interleaved(
        {
            "package": lambda: our_map(clf, "loo"),
            "captum": lambda: captum_map(clf, FeatureAblation, at_once=True),
            "captum, cached": lambda: captum_map(clf, FeatureAblation, at_once=False, cache=True),
        },
        repeats=repeats,
    )
    return {
        "config": {
            "prompt tokens": len(PROMPT),
            "answer tokens": len(ANSWER),
            "layers": 6,
            "hidden": 256,
            "seed": 0,
            "dtype": "float32",
            "threads": 1,
            "repeats": repeats,
            "samples": samples,
        },
        "versions": {name: version(name) for name in ("torch", "transformers", "captum")},
        "loo": {
            "difference": float(np.abs(ours - theirs).max()),
            "largest": float(np.abs(ours).max()),
            "difference, token by token": float(np.abs(ours - stepwise).max()),
            "r, token by token with a cache": pearson(ours.ravel(), cached.ravel()),
            "time, captum over package": ratio(seconds["captum"], seconds["package"]),
            "time, captum cached over package": ratio(seconds["captum, cached"], seconds["package"]),
        },
        "shapley": {"r of all subsets with sampled orders": pearson(exact[0], sampled[0])},
    }


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.answers", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="of the times (default: 5)")
    parser.add_argument(
        "--samples", type=int, default=400, help="orders of captum's Shapley values (default: 400)"
    )
    parser.add_argument("--out", type=Path, default=RECORD, help="the record (default: results/answers.json)")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    record = measure(repeats=given.repeats, samples=given.samples)
    pages.write(pages.plain(record), given.out)
    print(record["loo"], record["shapley"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
