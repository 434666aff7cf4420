"""The forward with a tape equals the Hugging Face model, padding and holes in the mask included."""

from __future__ import annotations

import pytest
import torch
from tiny_models import TEXTS, build

from lrp_companion.loading.classifier import Classifier
from lrp_companion.tape.encoder import Encoder, pad, some_masks, token_batches
from lrp_companion.tape.steps import slope_at_zero

CPU = torch.device("cpu")


def batch(clf: Classifier, texts: tuple[str, ...] = TEXTS) -> tuple[torch.Tensor, torch.Tensor]:
    return pad([text.input_ids for text in clf.encode(list(texts))], clf.pad_id, CPU)


def test_logits_equal_the_hugging_face_model(family_clf: Classifier) -> None:
    ids, mask = batch(family_clf)
    assert (mask == 0).any()
    tape = family_clf.encoder.forward(ids, mask)
    with torch.no_grad():
        plain = family_clf.network(input_ids=ids, attention_mask=mask).logits
    torch.testing.assert_close(tape.logits, plain, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(family_clf.logits(ids, mask), plain, rtol=1e-11, atol=1e-11)


def test_logits_of_a_batch_equal_those_of_each_text_alone(family_clf: Classifier) -> None:
    tape = family_clf.encoder.forward(*batch(family_clf))
    for k, text in enumerate(TEXTS):
        alone = family_clf.encoder.forward(*batch(family_clf, (text,)))
        torch.testing.assert_close(tape.logits[k], alone.logits[0], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("epsilon", [0.0, 0.01])
def test_a_last_layer_for_what_is_read_alone_carries_back_the_same(
    family_clf: Classifier, epsilon: float
) -> None:
    encoder, given = family_clf.encoder, batch(family_clf)
    start, masks = (
        torch.eye(len(family_clf.labels))[[1] * len(TEXTS)].double(),
        [frozenset(), frozenset({1, 2})],
    )
    with torch.no_grad():
        whole, alone = encoder.forward(*given), encoder.forward(*given, only_read=True)
        expected, got = (some_masks(tape, start, masks, epsilon=epsilon) for tape in (whole, alone))
    torch.testing.assert_close(alone.logits, whole.logits, rtol=1e-11, atol=1e-11)
    assert encoder.wiring.readout == "mean" or alone.attentions[-1].shape[-2] < whole.attentions[-1].shape[-2]
    for mask in masks:
        torch.testing.assert_close(got[mask], expected[mask], rtol=1e-10, atol=1e-12)


def test_a_hole_in_the_mask_is_seen_as_the_model_sees_it(family_clf: Classifier) -> None:
    ids, mask = batch(family_clf, TEXTS[:2])
    mask[0, 2] = mask[1, 0] = 0
    with torch.no_grad():
        plain = family_clf.network(input_ids=ids, attention_mask=mask).logits
    torch.testing.assert_close(family_clf.encoder.forward(ids, mask).logits, plain, rtol=1e-11, atol=1e-11)


def test_attention_equals_the_hugging_face_model_and_is_zero_on_padding(family_clf: Classifier) -> None:
    ids, mask = batch(family_clf)
    tape = family_clf.encoder.forward(ids, mask)
    twin = type(family_clf.network)(family_clf.network.config).double().eval()
    twin.load_state_dict(family_clf.network.state_dict())
    twin.set_attn_implementation("eager")
    with torch.no_grad():
        maps = twin(input_ids=ids, attention_mask=mask, output_attentions=True).attentions
    assert len(tape.attentions) == len(maps) == 2
    for ours, theirs in zip(tape.attentions, maps, strict=True):
        real = mask[:, None, :, None].bool()  # what padded positions attend to is read by nobody
        torch.testing.assert_close(ours * real, theirs * real, rtol=1e-11, atol=1e-12)
        assert (ours.masked_select(mask[:, None, None, :] == 0) == 0).all()


@pytest.mark.parametrize("activation", ["relu", "gelu_new", "silu"])
def test_other_activations(activation: str) -> None:
    network, tokenizer = build("bert", activation=activation)
    ids, mask = pad([tokenizer(text)["input_ids"] for text in TEXTS], 0, CPU)
    network = network.double()
    with torch.no_grad():
        torch.testing.assert_close(
            Encoder(network).forward(ids, mask).logits,
            network(input_ids=ids, attention_mask=mask).logits,
            rtol=1e-11,
            atol=1e-11,
        )


@pytest.mark.parametrize(
    ("activation", "slope"),
    [
        (torch.nn.functional.gelu, 0.5),
        (torch.tanh, 1.0),
        (torch.relu, 0.0),
        (torch.nn.functional.silu, 0.5),
        (torch.nn.ReLU(inplace=True), 0.0),
    ],
)
def test_slope_at_zero(activation, slope: float) -> None:
    with torch.no_grad():  # also where no gradient is kept
        assert slope_at_zero(activation) == slope


def test_batches_cover_every_text_once_within_the_budget() -> None:
    lengths = [3, 9, 4, 1, 7, 30, 9]
    plan = token_batches(lengths, 18)
    assert sorted(i for rows in plan for i in rows) == list(range(len(lengths)))
    assert all(len(rows) == 1 or len(rows) * max(lengths[i] for i in rows) <= 18 for rows in plan)
    assert token_batches([], 5) == []
    ids, mask = pad([[5, 6], [7]], 9, CPU)
    assert ids.tolist() == [[5, 6], [7, 9]] and mask.tolist() == [[1, 1], [1, 0]]
