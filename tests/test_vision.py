"""Families that read images: every method against the `transformers` network or a slow second form."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import oracles_pre_norm as oracles
import pytest
import torch
import transformers
from tiny_models import IMAGE_FAMILIES, vision, without_constants

import lrp_companion as lrp
from lrp_companion.checks import InputError
from lrp_companion.loading.classifier import Classifier, load_classifier
from lrp_companion.methods import kept_logits, layer_lattice, layer_relevance
from lrp_companion.registry import METHODS

MASKS: tuple[tuple[int, ...], ...] = ((), (1, 2, 3), (2,))
SITES = {"word": ("word",), "word+position": ("word", "position"), "embedding": ("word", "position")}
OPTIONS: dict[str, dict[str, Any]] = {"lrp": {"bypass": [1]}, "hybrid": {"exact": 3}}


TEACHER = "ForImageClassificationWithTeacher"
KINDS = (*IMAGE_FAMILIES, "deit, with teacher")


def tiny(kind: str, **more: Any) -> Any:
    """A network in float64; DeiT with its teacher's head reads two tokens."""
    family, comma, _ = kind.partition(", ")
    return vision(family, **({"kind": TEACHER} if comma else {}), **more).double()


@pytest.fixture(scope="module", params=KINDS)
def clf(request: pytest.FixtureRequest) -> Classifier:
    return load_classifier(tiny(request.param, layers=3), dtype="float64")


def images(count: int = 2) -> torch.Tensor:
    draw = torch.Generator().manual_seed(5)
    return torch.randn(count, 2, 6, 9, generator=draw, dtype=torch.float64)


def first_patch(clf: Classifier) -> int:
    return len(clf.encoder.wiring.patches.special)  # type: ignore[union-attr]


def network_logits(clf: Classifier, pixels: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    with torch.no_grad():
        return clf.network(pixel_values=pixels, attention_mask=mask).logits


def embedded(clf: Classifier, pixels: torch.Tensor) -> torch.Tensor:
    """Embeddings of an image's tokens without positions, (T, E), by the network's own convolution."""
    e: Any = clf.network.base_model.embeddings  # type: ignore[union-attr]
    special = [e.cls_token, e.distillation_token] if clf.card.family == "deit" else [e.cls_token]
    patches = e.patch_embeddings.projection(pixels[None])[0]  # (E, rows, columns)
    rows = [patches[:, i, j] for i in range(patches.shape[1]) for j in range(patches.shape[2])]
    return torch.stack([*(token[0, 0] for token in special), *rows]).detach()


def test_logits_equal_the_transformers_network(clf: Classifier) -> None:
    ids, mask, _ = clf.batch(clf.encode(images(3)))
    with torch.no_grad():
        ours = clf.encoder.forward(ids, mask).logits
    torch.testing.assert_close(ours, network_logits(clf, images(3)), rtol=1e-10, atol=1e-10)
    mask[1, 4] = 0
    with torch.no_grad():
        ours = clf.encoder.forward(ids, mask).logits
    torch.testing.assert_close(ours, network_logits(clf, images(3), mask), rtol=1e-10, atol=1e-10)


def test_patches_are_those_of_the_convolution_and_come_back_as_the_image(clf: Classifier) -> None:
    pixels, patches = images(), clf.encoder.wiring.patches
    assert patches is not None
    ids = patches.cut(pixels)
    torch.testing.assert_close(patches.joined(ids), pixels)
    for k in range(2):
        torch.testing.assert_close(patches(ids)[k], embedded(clf, pixels[k]), rtol=1e-12, atol=1e-12)


def test_an_image_larger_than_its_patches_is_read_without_the_rest() -> None:
    network = vision("vit", size=(7, 10)).double()
    clf = load_classifier(network, dtype="float64")
    pixels = torch.randn(1, 2, 7, 10, dtype=torch.float64)
    (record,) = lrp.attribute(clf, pixels, method="attnlrp")
    assert record.logit == pytest.approx(float(network_logits(clf, pixels).max()), abs=1e-10)


@pytest.mark.parametrize("bypass", MASKS, ids=str)
def test_relevance_equals_the_gradient_of_the_network_with_detached_parts(clf, bypass):
    for target in (0, 2):
        for site, named in SITES.items():
            options: dict[str, Any] = {"bypass": bypass, "target": target, "site": site}
            (record,) = lrp.attribute(clf, images()[0], method="lrp", **options)
            logit, parts = oracles.modified_gradient_of_image(clf.network, images()[0], target, bypass=bypass)
            expected = sum(parts[name] for name in named)
            assert record.logit == pytest.approx(logit, rel=1e-9)
            np.testing.assert_allclose(record.scores, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("eps", [0.0, 0.05])
@pytest.mark.parametrize("bypass", MASKS, ids=str)
def test_relevance_equals_the_equations_contribution_by_contribution(clf, bypass, eps):
    (record,) = lrp.attribute(clf, images()[0], method="lrp", bypass=bypass, epsilon=eps, target=1)
    words = embedded(clf, images()[0])
    logit, parts = oracles.relevance_r_form(clf.encoder.wiring, words, 1, bypass=bypass, eps=eps)
    assert record.logit == pytest.approx(logit, rel=1e-9) and set(record.parts) == set(parts)
    for name, expected in parts.items():
        close = 1e-8 * max(1e-3, np.abs(expected).max())
        np.testing.assert_allclose(record.parts[name], expected, rtol=0, atol=close)


@pytest.mark.parametrize("eps", [0.0, 0.05])
def test_all_masks_equal_runs_one_by_one(clf: Classifier, eps: float) -> None:
    lattice = layer_lattice(clf, images()[0], target=1, epsilon=eps, site="word+position")
    assert lattice.scores.shape == (8, first_patch(clf) + 9)
    for number in range(8):
        bypass = [layer for layer in (1, 2, 3) if number >> (layer - 1) & 1]
        options: dict[str, Any] = {"bypass": bypass, "epsilon": eps, "site": "word+position"}
        (record,) = lrp.attribute(clf, images()[0], method="lrp", target=1, **options)
        np.testing.assert_allclose(lattice.scores[number], record.scores, rtol=0, atol=1e-11)


def test_without_constants_held_attention_conserves(clf: Classifier) -> None:
    bare = load_classifier(without_constants(copy.deepcopy(clf.network)), dtype="float64")
    held, attnlrp = (lrp.attribute(bare, images()[0], method=name)[0] for name in ("cp-lrp", "attnlrp"))
    assert held.scores.sum() == pytest.approx(held.logit, rel=1e-9)
    assert attnlrp.scores.sum() != pytest.approx(attnlrp.logit, rel=1e-3)  # Eq. (5) does not conserve


def test_loo_equals_one_call_of_the_network_per_token(clf: Classifier) -> None:
    records = lrp.attribute(clf, images(), method="loo", target=1)
    for k, record in enumerate(records):
        whole = float(network_logits(clf, images()[k : k + 1])[0, 1])
        for i in range(len(record.tokens)):
            mask = torch.ones(1, len(record.tokens), dtype=torch.long)
            mask[0, i] = 0
            left = float(network_logits(clf, images()[k : k + 1], mask)[0, 1])
            assert record.scores[i] == pytest.approx(whole - left, abs=1e-9)


def test_removals_do_not_depend_on_what_is_run_together(clf: Classifier) -> None:
    draw, encoded = np.random.default_rng(0), clf.encode(images(3))
    jobs = [(encoded[k % 3], keep) for k, keep in enumerate(draw.random((9, len(encoded[0]))) < 0.6)]
    together = kept_logits(clf, jobs, progress=False)
    for k, (image, keep) in enumerate(jobs):
        at = k % 3
        expected = network_logits(clf, images(3)[at : at + 1], torch.as_tensor(keep[None].astype(int)))
        torch.testing.assert_close(together[k : k + 1], expected, rtol=1e-9, atol=1e-10)
        torch.testing.assert_close(together[k], kept_logits(clf, [(image, keep)], progress=False)[0])


def test_the_mask_gradient_is_the_derivative(clf: Classifier) -> None:
    (record,) = lrp.attribute(clf, images()[0], method="mask-gradient", target=1)
    assert abs(record.scores.sum()) < 1e-9 * np.abs(record.scores).sum()
    np.testing.assert_allclose(record.scores, oracles.mask_slopes(clf, images()[0], 1), rtol=0, atol=2e-7)


def test_a_group_for_each_token_and_many_nodes_give_loo(clf: Classifier) -> None:
    (loo,) = lrp.attribute(clf, images()[0], method="loo", target=1)
    (fine,) = lrp.attribute(clf, images()[0], method="mask-gradient", target=1, groups="all", nodes=24)
    np.testing.assert_allclose(fine.scores, loo.scores, rtol=0, atol=1e-4 * np.abs(loo.scores).max())


def test_with_every_token_exact_hybrid_and_samples_are_loo(clf: Classifier) -> None:
    (loo,) = lrp.attribute(clf, images()[0], method="loo")
    for method, options in (("hybrid", {"exact": 99}), ("sampled-loo", {"budget": 99})):
        (record,) = lrp.attribute(clf, images()[0], method=method, **options)  # type: ignore[arg-type]
        np.testing.assert_allclose(record.scores, loo.scores, rtol=0, atol=1e-10)


def test_gradient_x_input_and_ig_equal_gradients_at_the_pixels(clf: Classifier) -> None:
    """The patch map is linear: per patch, sums over pixels are sums over the embedding, but for the bias.

    The weights of captum's nodes are float32.
    """
    first, down, right = first_patch(clf), 2, 3
    pixels = images()[:1].clone().requires_grad_(True)
    (g,) = torch.autograd.grad(clf.network(pixel_values=pixels).logits[0, 1], pixels)
    e: Any = clf.network.base_model.embeddings  # type: ignore[union-attr]
    (plain,) = lrp.attribute(clf, images()[0], method="gradient-x-input", target=1)
    bias, e.patch_embeddings.projection.bias = e.patch_embeddings.projection.bias, None
    without = load_classifier(clf.network, dtype="float64")
    e.patch_embeddings.projection.bias = bias
    pixels = images()[:1].clone().requires_grad_(True)
    (g_without,) = torch.autograd.grad(without.network(pixel_values=pixels).logits[0, 1], pixels)
    (bare,) = lrp.attribute(without, images()[0], method="gradient-x-input", target=1)
    by_pixel = (images()[0] * g_without[0]).sum(0)
    blocks = by_pixel.unflatten(0, (3, down)).unflatten(2, (3, right)).sum((1, 3)).flatten()
    np.testing.assert_allclose(bare.scores[first:], blocks.numpy(), rtol=0, atol=1e-10)
    assert not np.allclose(plain.scores[first:], bare.scores[first:]) and g.isfinite().all()
    nodes = np.polynomial.legendre.leggauss(40)
    total = torch.zeros(6, 9, dtype=torch.float64)
    for node, weight in zip(*nodes, strict=True):
        at = (images()[:1] * (node + 1) / 2).requires_grad_(True)
        (step,) = torch.autograd.grad(clf.network(pixel_values=at).logits[0, 1], at)
        total += weight / 2 * (images()[0] * step[0]).sum(0)
    (ig,) = lrp.attribute(clf, images()[0], method="ig", target=1, n_steps=40)
    blocks = total.unflatten(0, (3, down)).unflatten(2, (3, right)).sum((1, 3)).flatten()
    np.testing.assert_allclose(ig.scores[first:], blocks.numpy(), rtol=0, atol=1e-6)
    assert ig.choices["baseline"] == "zero-pixels" and (ig.scores[:first] == 0).all()


def test_rollout_is_the_product_of_the_networks_attention_maps(clf: Classifier) -> None:
    (record,) = lrp.attribute(clf, images()[0], method="rollout")
    network = copy.deepcopy(clf.network)
    network.set_attn_implementation("eager")
    with torch.no_grad():
        maps = network(pixel_values=images()[:1], output_attentions=True).attentions
    state = torch.eye(len(record.tokens), dtype=torch.float64)
    for attention in maps:
        state = attention[0].mean(0).double() @ state
    read = state[:2].mean(0) if clf.encoder.wiring.readout == "two" else state[0]
    np.testing.assert_allclose(record.scores, read.numpy(), rtol=0, atol=1e-6)  # its softmax: float32


def test_every_method_explains_images_alone_as_in_a_batch(clf: Classifier) -> None:
    for method in METHODS:
        options = OPTIONS.get(method, {})
        together = lrp.attribute(clf, images(3), method=method, batch_tokens=24, **options)
        for k, record in enumerate(together):
            (alone,) = lrp.attribute(clf, images(3)[k].numpy(), method=method, **options)
            np.testing.assert_allclose(record.scores, alone.scores, rtol=0, atol=1e-9)
            assert record.tokens[first_patch(clf) :][4] == "patch 1,1" and record.tokens[0] == "[CLS]"
            assert record.special.sum() == first_patch(clf) and record.text == "" and not record.offsets
            assert record.details["pixels"] == "as given"
            assert record.details["label"] == ("circle", "cross", "line")[record.target]


def test_relevance_between_layers_ends_at_the_patches(clf: Classifier) -> None:
    flow = layer_relevance(clf, images()[0], bypass=[2], target=1)
    (record,) = lrp.attribute(clf, images()[0], method="lrp", bypass=[2], target=1)
    np.testing.assert_allclose(flow.scores[-1], record.scores, rtol=0, atol=1e-12)
    gone = sum(parts.sum() for parts in flow.lost.values())
    assert flow.scores[-1].sum() + gone == pytest.approx(flow.logit, abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_recomputed_layers_give_the_same_scores(kind: str) -> None:
    network = tiny(kind)
    whole, less = (load_classifier(network, dtype="float64", recompute=flag) for flag in (False, True))
    for method in ("attnlrp", "mask-gradient"):
        a, b = (lrp.attribute(clf, images()[0], method=method)[0].scores for clf in (whole, less))
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_is_read_as_the_network_in_memory(kind: str, tmp_path: Path) -> None:
    """With the processor beside it whole numbers and floats from 0 to 1 are what the processor gives."""
    network = tiny(kind).float()
    network.save_pretrained(tmp_path)
    pixels = np.random.default_rng(0).integers(0, 256, (2, 2, 6, 9), dtype=np.uint8)
    plain = load_classifier(tmp_path)
    assert plain.card.fingerprint == load_classifier(network).card.fingerprint
    with pytest.raises(InputError, match="no image processor"):
        lrp.attribute(plain, pixels, method="loo")
    processor = transformers.ViTImageProcessor(image_mean=[0.5, 0.25], image_std=[0.5, 0.125])
    processor.save_pretrained(tmp_path)
    scaled, given = load_classifier(tmp_path), load_classifier(network, processor)
    assert scaled.card.tokenizer != plain.card.tokenizer
    by_hand = np.stack([(pixels[:, 0] / 255 - 0.5) / 0.5, (pixels[:, 1] / 255 - 0.25) / 0.125], axis=1)
    wanted = {
        "pixel_values": processor(
            pixels[0], do_resize=False, input_data_format="channels_first", return_tensors="np"
        )["pixel_values"]
    }
    for clf in (scaled, given):
        for what in (pixels[0], pixels[0] / 255, wanted, [dict(wanted)]):
            (image,) = clf.encode(what)
            np.testing.assert_allclose(image.values, by_hand[0], rtol=0, atol=1e-6)
            (again,) = clf.encode(image.source)
            assert np.array_equal(again.values, image.values) and again.details == {"pixels": "as given"}
        assert clf.encode(pixels[0])[0].details["pixels"] == "as ViTImageProcessorPil gives them"
        for odd in (by_hand[0], pixels[0].astype(int) + 300, np.ones((2, 6, 9), bool)):
            with pytest.raises(InputError, match="ImageProcessor|bool"):
                clf.encode(odd)


def test_a_processor_that_shifts_reads_no_floats() -> None:
    """It is not told that they are rescaled already."""
    processor = transformers.EfficientNetImageProcessor(
        rescale_offset=True, image_mean=[0.5] * 2, image_std=[0.5] * 2, do_resize=False, do_center_crop=False
    )
    clf = load_classifier(vision("vit"), processor)
    with pytest.raises(InputError, match="EfficientNetImageProcessor"):
        clf.encode(np.ones((2, 6, 9)))
    wanted = processor(np.ones((2, 6, 9), np.uint8), input_data_format="channels_first", return_tensors="np")
    assert np.array_equal(clf.encode(np.ones((2, 6, 9), int))[0].values, wanted["pixel_values"][0])


@pytest.mark.parametrize("kind", KINDS)
def test_lower_precision_gives_nearly_the_same(kind: str) -> None:
    network = tiny(kind)
    exact = load_classifier(network, dtype="float64")
    for dtype, close in (("float32", 1e-4), ("bfloat16", 0.15)):
        clf = load_classifier(network, dtype=dtype)
        for method in METHODS:
            options = {"target": 1, **OPTIONS.get(method, {})}
            (a,), (b,) = (lrp.attribute(c, images()[0], method=method, **options) for c in (exact, clf))
            assert np.abs(a.scores - b.scores).max() < close * np.abs(a.scores).max() + close * abs(a.logit)
            assert b.details["dtype"] == dtype
