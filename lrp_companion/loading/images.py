"""Images as a model reads them: pixels checked, scaled where they are whole numbers, and cut into patches."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from lrp_companion.arrays import plain_array
from lrp_companion.checks import InputError
from lrp_companion.families.patches import PatchEmbedding
from lrp_companion.loading.texts import EncodedText

SPECIAL_NAMES = ("[CLS]", "[DIST]")
LARGEST = 255
KINDS = re.compile(r"(ViT|DeiT)(ImageProcessor(Fast|Pil)?|FeatureExtractor)")
"""Image processors that do nothing to the values of pixels but rescale and normalise them."""
GIVEN = "pixel_values"
"""The name under which an image processor gives what a network reads."""
HINT = "resize it as the model's image processor does, and put channels first"


@dataclass(frozen=True)
class PixelScale:
    """How pixels become what a network reads: `(factor x - mean) / std` per channel.

    Attributes
    ----------
    factor, mean, std : numbers, of a processor that normalises one for each channel; `factor` None where
        nothing is known of the scaling.
    origin : where this was read.
    """

    factor: float | None = None
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    origin: str = ""

    @classmethod
    def of(cls, processor: Any, origin: str, channels: int) -> PixelScale:
        """From an image processor of `transformers` or its settings; of another kind than ViT's, or without
        its means, nothing but its origin is known.

        >>> PixelScale.of({"do_normalize": False}, "preprocessor_config.json", 1).factor == 1 / 255
        True
        """
        if processor is None:
            return cls()
        settings = processor.to_dict() if hasattr(processor, "to_dict") else processor
        kind = settings.get("image_processor_type") or settings.get("feature_extractor_type")
        normalises = settings.get("do_normalize", True)
        if not KINDS.fullmatch(kind or "ViTImageProcessor"):
            return cls(origin=f"{origin}, {kind}")
        if normalises and not {"image_mean", "image_std"} <= set(settings):
            return cls(origin=origin)
        factor = settings.get("rescale_factor", 1 / LARGEST) if settings.get("do_rescale", True) else 1.0
        mean = np.broadcast_to(settings["image_mean"] if normalises else 0.0, channels).astype(float)
        std = np.broadcast_to(settings["image_std"] if normalises else 1.0, channels).astype(float)
        return cls(float(factor), tuple(mean.tolist()), tuple(std.tolist()), origin)

    def __call__(self, pixels: np.ndarray, *, factor: float) -> np.ndarray:
        """Images (..., C, H, W) as the network reads them."""
        mean, std = (np.reshape(values, (-1, 1, 1)) for values in (self.mean, self.std))
        return (pixels * factor - mean) / std

    def words(self, factor: float) -> str:
        """What a record says of images that were scaled."""
        numbers = [", ".join(f"{value:g}" for value in values) for values in (self.mean, self.std)]
        plain = set(self.mean) == {0.0} and set(self.std) == {1.0}
        rest = "" if plain else f", less {numbers[0]}, divided by {numbers[1]}"
        return f"scaled by {factor:.6g}{rest} ({self.origin})"


@dataclass(frozen=True)
class EncodedImage(EncodedText):
    """An image as the model reads it; its tokens are special ones and patches, named "patch row,column".

    Attributes
    ----------
    values : float64, shape (C, H, W): the image as the network reads it.
    patches : float64, shape (T, P): the same, a row for each token; 0 of special ones.
    pixels : what was done to the pixels.
    """

    values: np.ndarray = field(default_factory=lambda: np.zeros((0, 0, 0)))
    patches: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    pixels: str = "as given"

    @property
    def source(self) -> Any:
        """What the network reads, by its name; encoded again, it is the same image."""
        return {GIVEN: self.values}

    @property
    def details(self) -> dict[str, str]:
        """What a record says of its pixels."""
        return {"pixels": self.pixels}

    @property
    def key(self) -> tuple[int, ...]:
        """Numbers that differ where images do."""
        return tuple(hashlib.sha256(self.patches.tobytes()).digest())


@dataclass(frozen=True)
class ImageReader:
    """What a network's images must be, and how they are scaled."""

    patches: PatchEmbedding
    scale: PixelScale

    def encode(self, images: Any) -> list[EncodedImage]:
        """Cut images into patches, with their pixels scaled as the image processor does it: whole numbers
        from 0 to 255, or floats from 0 to 1, which are rescaled already.

        Parameters
        ----------
        images : an array or tensor of one image (H, W) of one channel or (C, H, W), or of several, (B, H, W)
            of one channel or (B, C, H, W); or a list of single images. `{"pixel_values": images}`, as an
            image processor gives them, is read as it is, and so are floats where there is no processor.

        Raises
        ------
        InputError : no images; another type or size; values that are not finite, or beyond these; pixels
            where nothing is known of their scale.
        """
        listed = list(_listed(images, self.patches.channels))
        if not listed:
            raise _refused("no images", "at least one image", "pass an array, or a list of arrays")
        read = [self._read(k, pixels, named) for k, (pixels, named) in enumerate(listed)]
        cut = self.patches.cut(torch.as_tensor(np.stack([pixels for pixels, _ in read]))).numpy()
        return [self._encoded(rows, *image) for rows, image in zip(cut, read, strict=True)]

    def _read(self, k: int, pixels: np.ndarray, named: bool) -> tuple[np.ndarray, str]:
        """Image k as the network reads it, and what was done to it."""
        expected, scale = (self.patches.channels, *self.patches.size), self.scale
        if pixels.shape != expected:
            sides = "channels, height, width"
            raise _refused(f"image {k} of shape {pixels.shape}", f"shape {expected}: {sides}", HINT)
        if not np.isfinite(pixels).all():
            hint = "correct the values before you explain them"
            raise _refused(f"image {k} with values that are not finite", "finite numbers", hint)
        floats = pixels.dtype.kind == "f"
        if named or (floats and not scale.origin):
            return pixels.astype(np.float64), "as given"
        if scale.factor is None:
            got = f"image {k}, and no image processor that says how to scale it"
            got += f" ({scale.origin} is not read)" if scale.origin else ""
            hint = "load_classifier(network, processor), or save preprocessor_config.json with the model"
            raise _refused(got, f'what the network reads: {{"{GIVEN}": image}}', hint)
        low, high = pixels.min(), pixels.max()
        if low < 0 or high > (1 if floats else LARGEST):
            got, hint = (
                f"image {k} of {pixels.dtype} from {low:g} to {high:g}",
                f'or pass {{"{GIVEN}": image}}',
            )
            both = f"whole numbers from 0 to {LARGEST}, or floats from 0 to 1"
            raise _refused(got, both, f"pass pixels, {hint}")
        factor = 1.0 if floats else scale.factor
        return scale(pixels.astype(np.float64), factor=factor), scale.words(factor)

    def _encoded(self, rows: np.ndarray, values: np.ndarray, done: str) -> EncodedImage:
        first, (down, right) = len(self.patches.special), self.patches.grid
        names = [f"patch {row},{column}" for row in range(down) for column in range(right)]
        special = np.arange(len(rows)) < first
        tokens = (*SPECIAL_NAMES[:first], *names)
        places = tuple(range(len(rows)))
        return EncodedImage("", places, tokens, special, values=values, patches=rows, pixels=done)


def _refused(got: str, expected: str, hint: str) -> InputError:
    return InputError("encode", got=got, expected=expected, hint=hint)


def _listed(images: Any, channels: int) -> Iterator[tuple[np.ndarray, bool]]:
    """The images one by one, (C, H, W) each, and whether they were given by name."""
    several = isinstance(images, (list, tuple))
    for k, one in enumerate(images if several else [images]):
        named = isinstance(one, Mapping)
        array = _array(one[GIVEN] if named else one, f"image {k}" if several else "images")
        single = array.ndim == 2 or (array.ndim == 3 and (several or channels > 1))
        for image in [array] if single else array:
            yield image[None] if image.ndim == 2 else image, named


def _array(value: Any, name: str) -> np.ndarray:
    """A NumPy array of numbers with two to four axes."""
    if getattr(value, "mode", "L") not in ("L", "RGB") and hasattr(value, "getbands"):  # an image of Pillow
        hint = "convert it: image.convert('RGB'), or 'L' for grey"
        raise _refused(f"{name} of Pillow's mode {value.mode}", "an array of pixels", hint)
    expected = "an image (H, W) or (C, H, W) of numbers, a batch (B, C, H, W), or a list of images"
    try:
        array = plain_array("encode", name, value)
    except ValueError:
        array = np.array(None)
    if np.ma.is_masked(value):  # NumPy would read what is under the mask
        raise _refused(
            f"{name}, of which {np.ma.count_masked(value)} entries are masked", expected, "fill them"
        )
    if array.dtype.kind in "uif" and array.ndim in (2, 3, 4) and array.size:
        return array
    kind = f"shape {array.shape}" if array.dtype.kind in "uif" else f"type {type(value).__name__}"
    raise _refused(f"{name} of {kind}", expected, "this model reads images: pass pixels")
