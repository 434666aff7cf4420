"""BERT whose classifier reads the mean of all tokens instead of the first one."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers import BertForSequenceClassification
from transformers.modeling_outputs import SequenceClassifierOutput

from lrp_companion.families.sentences import pooled


class MeanPooledBertForSequenceClassification(BertForSequenceClassification):
    """BERT with the same modules as `BertForSequenceClassification` and one change: the pooler's dense layer
    reads the mean of the last hidden states over the tokens that the attention mask keeps.

    In a saved folder `architectures` names this class, and `load_classifier` reads it; AutoModel does not.

    Shapes: `input_ids` and `attention_mask` (B, T); logits (B, C).
    """

    readout = "mean"

    def forward(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None, **inputs: Any
    ) -> SequenceClassifierOutput:
        """The logits of the mean; no loss is computed here."""
        hidden = self.bert(input_ids, attention_mask=attention_mask, **inputs).last_hidden_state
        pooler: Any = self.bert.pooler
        mean = pooled(hidden, attention_mask, "mean")
        logits = self.classifier(self.dropout(pooler.activation(pooler.dense(mean))))
        return SequenceClassifierOutput(logits=logits)
