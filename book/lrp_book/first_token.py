"""Two networks that compute one function of the tokens, and LOO by the attention mask tells them apart.

In one a head of the first layer attends to the first token alone and reads the same vector there, whatever
the text is; in the other this vector is a bias. No text, and no text with a word deleted or replaced, has
another logit. But nobody may attend to the first token when LOO masks it: then the head reads others, and the
bias stays. So `f(x without i)`, as the mask defines it, is not a value of the function that f is.
"""

from __future__ import annotations

import torch
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerBase

from lrp_companion.loading.classifier import Classifier, load_classifier

WIDTH, HEADS, POSITIONS = 16, 2, 12


def signs(rows: int, width: int) -> torch.Tensor:
    """Distinct vectors (rows, width) of as many 1 as -1."""
    half = [k for k in range(2**width) if k.bit_count() == width // 2]
    return torch.tensor([[1.0 if k >> bit & 1 else -1.0 for bit in range(width)] for k in half[:rows]])


def pair(tokenizer: PreTrainedTokenizerBase, *, seed: int = 0) -> tuple[Classifier, Classifier]:
    """A head that reads only the first token, and the bias that it equals: two BERTs, float64.

    Words are in one half of the coordinates, positions in the other, all 1 or -1: LayerNorm does not change
    such a sum, so a position can be read whatever the word is.

    >>> from lrp_companion import load_classifier
    >>> head, bias = pair(load_classifier("companion").tokenizer)
    >>> head.card.layers, bias.card.hidden
    (2, 16)
    """
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        intermediate_size=24,
        max_position_embeddings=POSITIONS,
        layer_norm_eps=1e-12,
        pad_token_id=tokenizer.pad_token_id,
    )
    draw, networks = torch.Generator().manual_seed(seed), []
    network = BertForSequenceClassification(config).double().eval()
    half, width = WIDTH // 2, WIDTH // HEADS
    with torch.no_grad():
        for value in network.parameters():
            if value.ndim == 2:
                value.copy_(
                    torch.randn(value.shape, generator=draw, dtype=value.dtype) / value.shape[1] ** 0.5
                )
        embeddings, layer = network.bert.embeddings, network.bert.encoder.layer[0].attention
        embeddings.token_type_embeddings.weight.zero_()
        for table, at in (
            (embeddings.word_embeddings, slice(half)),
            (embeddings.position_embeddings, slice(half, None)),
        ):
            table.weight.zero_()
            patterns = signs(table.num_embeddings, half)
            table.weight[:, at] = patterns.repeat(-(-table.num_embeddings // len(patterns)), 1)[
                : len(table.weight)
            ]
        first = embeddings.position_embeddings.weight[0] / half  # 1 at the first position, less at others
        read = torch.randn(width, generator=draw, dtype=first.dtype)
        query, key, value = (getattr(layer.self, name) for name in ("query", "key", "value"))
        for linear in (query, key, value):
            linear.weight[:width], linear.bias[:width] = 0.0, 0.0
        query.bias[0], key.weight[0] = 1e4, first  # all other weights underflow to 0
        value.weight[:width] = read[:, None] * first
        networks.append(network)
        twin = BertForSequenceClassification(config).double().eval()
        twin.load_state_dict(network.state_dict())
        other = twin.bert.encoder.layer[0].attention
        other.self.value.weight[:width] = 0.0
        other.output.dense.bias += other.output.dense.weight[:, :width] @ read
        networks.append(twin)
    head, bias = (load_classifier(one, tokenizer, dtype="float64") for one in networks)
    return head, bias
