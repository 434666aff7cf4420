"""Rows of this record once more, by code that shares nothing with the package.

    python results/base/recompute.py DATA BASE [TEXTS]

draws TEXTS texts (default 1) of at most 120 tokens from every part with maps and explains them by plain
`transformers` and autograd: LOO by taking each token out of the attention mask, integrated gradients, and the
rules as a modified gradient (what a rule holds constant is detached, what it halves is scaled). DATA is the
folder of the data sets, BASE that of all-mpnet-base-v2. It prints, by method, how far the record lies off.
"""

import json
import math
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file
from torch import nn
from transformers import AutoTokenizer, MPNetForSequenceClassification

HERE = Path(__file__).parent
ADAPTERS = HERE.parents[1] / "training/base"
PARTS = (
    "sst2-seed-*-maps",
    "sst2-imdb-seed-0-sst2",
    "sst2-imdb-seed-0-imdb-maps",
    "sst2-imdb-seed-0-imdb-rest",
)
RULES = {"attnlrp": False, "cp-lrp": True}
state = {"bypassed": False, "rules": False, "keep": None}


def half(x):
    """The same value with half of its gradient."""
    return x / 2 + x.detach() / 2 if state["rules"] else x


def identity_rule(function):
    """An element-wise function whose output's relevance is its input's."""
    return lambda x: x * (function(x) / x).detach() if state["rules"] else function(x)


class Rule(nn.Module):
    def forward(self, x):
        return identity_rule(nn.functional.gelu)(x)


class Norm(nn.LayerNorm):
    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        scale = (centred.square().mean(-1, keepdim=True) + self.eps).rsqrt()
        return centred * (scale.detach() if state["rules"] else scale) * self.weight + self.bias


def attention(self, x, attention_mask=None, position_bias=None, output_attentions=False, **_):
    heads, size = self.num_attention_heads, self.attention_head_size
    q, k, v = (part(x).view(*x.shape[:2], heads, size).transpose(1, 2) for part in (self.q, self.k, self.v))
    scores = half(q) @ half(k).transpose(-1, -2) / math.sqrt(size) + position_bias
    if state["keep"] is not None:
        scores = scores + state["keep"].log()
    a = (scores if attention_mask is None else scores + attention_mask).softmax(-1)
    out = a.detach() @ v if state["bypassed"] else half(a) @ half(v)
    return (self.o(out.transpose(1, 2).flatten(2)),)


def head(self, features, **_):
    return self.out_proj(identity_rule(torch.tanh)(self.dense(features[:, 0])))


def model(base, adapter):
    """The classifier, adapters added to the weights."""
    net = MPNetForSequenceClassification.from_pretrained(base, num_labels=2, attn_implementation="eager")
    kept = {k.removeprefix("base_model.model."): v.float() for k, v in load_file(adapter).items()}
    weights = net.state_dict()
    for name, value in kept.items():
        if name.endswith("lora_A.weight"):
            at = name.replace("lora_A.", "")
            weights[at] = weights[at] + 2 * kept[name.replace("lora_A", "lora_B")] @ value  # alpha / rank
        elif "lora" not in name:
            weights[name] = value
    net.load_state_dict(weights)
    return with_rules(net)


def with_rules(net):
    """The same network with modules that can follow a rule."""
    for module in list(net.modules()):
        for name, child in module.named_children():
            if type(child) is nn.LayerNorm:
                norm = Norm(child.normalized_shape, eps=child.eps)
                norm.load_state_dict(child.state_dict())
                setattr(module, name, norm)
    for layer in net.mpnet.encoder.layer:
        layer.attention.attn.forward = attention.__get__(layer.attention.attn)
        layer.intermediate.intermediate_act_fn = Rule()
    net.classifier.forward = head.__get__(net.classifier)
    return net.eval().requires_grad_(False)


def logit(net, target, word, position, mask=None):
    inner = net.mpnet
    x = inner.embeddings.LayerNorm(word + position)
    extended = None if mask is None else (1 - mask[:, None, None, :]) * -1e9
    x = x if mask is None else x.expand(len(mask), -1, -1)
    return net.classifier(inner.encoder(x, attention_mask=extended)[0])[:, target]


def gradients(net, target, *leaves, **options):
    leaves = [leaf.detach().requires_grad_() for leaf in leaves]
    return leaves, torch.autograd.grad(logit(net, target, *leaves, **options).sum(), leaves)


def maps(net, tokenizer, ids, target, methods):
    """Each method's scores of one text, by name."""
    table = net.mpnet.embeddings
    word, position = (
        table.word_embeddings(ids)[None],
        table.position_embeddings(torch.arange(len(ids)) + 2)[None],
    )
    special = torch.tensor([i in tokenizer.all_special_ids for i in ids.tolist()])
    out = {}
    full = logit(net, target, word, position)
    if "loo attention-mask" in methods:
        kept = 1 - torch.eye(len(ids))
        without = [logit(net, target, word, position, mask=rows) for rows in kept.split(16)]
        out["loo attention-mask"] = full - torch.cat(without)
    for name in RULES.keys() & set(methods):
        state.update(rules=True, bypassed=RULES[name])
        leaves, grads = gradients(net, target, word, position)
        state.update(rules=False, bypassed=False)
        parts = [(leaf * grad).sum(-1)[0].detach() for leaf, grad in zip(leaves, grads, strict=True)]
        out[name], out[f"{name}+position"] = parts[0], sum(parts)
    if "gradient-x-input" in methods:
        (leaf, _), (grad, _) = gradients(net, target, word, position)
        out["gradient-x-input"] = (leaf * grad).sum(-1)[0].detach()
    if "mask-gradient" in methods:
        state["keep"] = torch.ones(len(ids), requires_grad=True)
        (out["mask-gradient"],) = torch.autograd.grad(logit(net, target, word, position).sum(), state["keep"])
        state["keep"] = None
    if "ig" in methods:
        filler = table.word_embeddings(torch.full_like(ids, tokenizer.pad_token_id))[None]
        start, total = torch.where(special[:, None], word, filler), torch.zeros_like(word)
        for at, weight in zip(*np.polynomial.legendre.leggauss(50), strict=True):
            _, (grad, _) = gradients(net, target, start + (at + 1) / 2 * (word - start), position)
            total += weight / 2 * grad
        out["ig"] = ((word - start) * total).sum(-1)[0]
    return {name: scores.double().numpy() for name, scores in out.items()}


def main(data, base, count=1):
    draw, far = np.random.default_rng(0), defaultdict(list)
    tokenizer = AutoTokenizer.from_pretrained(base)
    tables = {
        name: pd.read_parquet(Path(data) / name / file)
        for name, file in (("sst2", "validation.parquet"), ("imdb", "test.parquet"))
    }
    for path in sorted(path for part in PARTS for path in HERE.glob(f"{part}.npz")):
        kept, config = np.load(path), json.loads(path.with_suffix(".json").read_text())["config"]
        table = tables[config["data"].split("/")[0]]
        texts = table["sentence" if "sentence" in table else "text"]
        net = model(base, ADAPTERS / config["model"] / "adapter_model.safetensors")
        ends = np.cumsum(kept["tokens"])
        short = np.flatnonzero(kept["tokens"] <= 120)
        for k in draw.choice(short, min(count, len(short)), replace=False):
            text = texts[int(kept["example"][k])].replace("<br />", " ")
            ids = tokenizer(text, truncation=True, max_length=512, return_tensors="pt")["input_ids"][0]
            found = maps(net, tokenizer, ids, int(kept["target"][k]), kept.files)
            for name, scores in found.items():
                there = kept[name][ends[k] - kept["tokens"][k] : ends[k]]
                far[name].append(np.abs(scores - there).max() / np.abs(there).max())
    for name, each in far.items():
        print(f"{name:28} rows {len(each):3}   largest difference {max(each):.1e} of the largest score")


if __name__ == "__main__":
    main(*sys.argv[1:3], *map(int, sys.argv[3:]))
