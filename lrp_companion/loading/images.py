"""Images as a model reads them: pixels as its image processor of `transformers` gives them, in patches."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lrp_companion.checks import InputError, plain_array
from lrp_companion.families.patches import PatchEmbedding
from lrp_companion.loading.texts import EncodedText
from lrp_companion.tape.encoder import as_recorded

SPECIAL_NAMES = ("[CLS]", "[DIST]")
LARGEST = 255
GIVEN = "pixel_values"
"""The name under which an image processor gives what a network reads."""
EXPECTED = f"whole numbers from 0 to {LARGEST}, or floats from 0 to 1, and the model's image processor"


@dataclass(frozen=True)
class EncodedImage(EncodedText):
    """An image as the model reads it; its tokens are special ones and patches, named "patch row,column".

    Attributes
    ----------
    values : float64, shape (C, H, W): the image as the network reads it.
    patches : float64, shape (T, P): the same, a row for each token; 0 of special ones.
    details : "pixels", what was done to the pixels.
    """

    values: np.ndarray = field(default_factory=lambda: np.zeros((0, 0, 0)))
    patches: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))

    @property
    def source(self) -> Any:
        """What the network reads, by its name; encoded again, it is the same image."""
        return {GIVEN: self.values}

    @property
    def key(self) -> tuple[int, ...]:
        """Numbers that differ where images do."""
        return tuple(hashlib.sha256(self.patches.tobytes()).digest())


@dataclass(frozen=True)
class ImageReader:
    """Patches of a network's images, and the image processor that scales their pixels, or None."""

    patches: PatchEmbedding
    processor: Any

    @as_recorded(torch.device("cpu"))
    def encode(self, images: Any) -> list[EncodedImage]:
        """Cut images into patches, with their pixels as the processor gives them; it resizes none.

        An array or tensor of one image, (H, W) of one channel or (C, H, W), or of several, (B, H, W) or
        (B, C, H, W); a Pillow image; or a list of single images. Whole numbers from 0 to 255, or floats from
        0 to 1. `{"pixel_values": images}` is read as it is, and so are floats where there is no processor.
        """
        read = [self._read(pixels, named) for pixels, named in self._listed(images)]
        cut = self.patches.cut(torch.as_tensor(np.stack([pixels for pixels, _ in read]))).numpy()
        return [self._encoded(rows, *image) for rows, image in zip(cut, read, strict=True)]

    def _listed(self, images: Any) -> Iterator[tuple[np.ndarray, bool]]:
        """The images one by one, (C, H, W) each, and whether they were given by name."""
        several, channels = isinstance(images, (list, tuple)), self.patches.channels
        for one in images if several else [images]:
            named = isinstance(one, Mapping)
            given = one[GIVEN] if named else one
            if hasattr(given, "getbands"):  # of Pillow
                given = read_image(given, channels=channels)
            array = plain_array("encode", "image", given)
            single = array.ndim == 2 or (array.ndim == 3 and (several or channels > 1))
            for image in [array] if single else array:
                yield image[None] if image.ndim == 2 else image, named

    def _read(self, pixels: np.ndarray, named: bool) -> tuple[np.ndarray, str]:
        """An image as the network reads it, and what was done to it."""
        shape, floats = (self.patches.channels, *self.patches.size), pixels.dtype.kind == "f"
        if pixels.shape != shape or pixels.dtype.kind == "b" or not np.isfinite(pixels).all():
            got = f"an image of shape {pixels.shape}, of {pixels.dtype}"
            hint = "resize it as the model's image processor does, and put channels first"
            raise InputError("encode", got=got, expected=f"finite numbers of shape {shape}", hint=hint)
        if named or (floats and self.processor is None):
            return pixels.astype(np.float64), "as given"
        low, high = pixels.min(), pixels.max()
        shifted = floats and getattr(self.processor, "rescale_offset", False)  # of what it rescales itself
        known = self.processor is not None and not shifted
        if not known or low < 0 or high > (1 if floats else LARGEST):
            processor = "no image processor" if self.processor is None else type(self.processor).__name__
            got = f"an image of {pixels.dtype} from {low:g} to {high:g}, and {processor}"
            hint = (
                f'load_classifier(network, processor), or pass what the network reads: {{"{GIVEN}": image}}'
            )
            raise InputError("encode", got=got, expected=EXPECTED, hint=hint)
        options = {"do_resize": False, **({"do_rescale": False} if floats else {})}
        out = self.processor(pixels, input_data_format="channels_first", return_tensors="np", **options)
        return out[GIVEN][0].astype(np.float64), f"as {type(self.processor).__name__} gives them"

    def _encoded(self, rows: np.ndarray, values: np.ndarray, done: str) -> EncodedImage:
        first, (down, right) = len(self.patches.special), self.patches.grid
        names = [f"patch {row},{column}" for row in range(down) for column in range(right)]
        special = np.arange(len(rows)) < first
        tokens = (*SPECIAL_NAMES[:first], *names)
        places, types = tuple(range(len(rows))), (0,) * len(rows)
        of_image: dict[str, Any] = {"values": values, "patches": rows, "details": {"pixels": done}}
        return EncodedImage("", places, tokens, special, types, **of_image)


def read_image(given: Any, *, channels: int) -> np.ndarray:
    """The pixels of an image of Pillow or of a file: whole numbers (C, H, W) of 1 (grey) or 3 (RGB) channels;
    or the array of a `.npy` file as it is.

    A photograph is turned as its EXIF orientation says, as `transformers` does. What Pillow cannot read, it
    refuses.
    Pixels that Pillow would bring to other values in silence are refused: of more than 8 bits in grey, not
    opaque, or of one of several frames.
    """
    from PIL import Image, ImageOps

    image: Any = given
    if not isinstance(given, Image.Image):
        path = Path(given).expanduser()
        if path.suffix.lower() == ".npy":
            return np.asarray(np.load(path, allow_pickle=False))
        image = Image.open(io.BytesIO(path.read_bytes()))  # a path: Pillow scrambles a TIFF on its side
    frames = getattr(image, "n_frames", 1) if getattr(image, "format", None) not in ("MPO", "PSD") else 1
    clear = "transparency" in image.info and image.mode != "P"  # of pixels before they were rounded
    turned = ImageOps.exif_transpose(image)
    if turned.has_transparency_data:
        lowest: Any = turned.convert("RGBA").getextrema()
        clear = clear or lowest[3][0] < 255
    deep = image.mode in ("I", "F") or image.mode.startswith("I;16")
    if deep or clear or frames > 1 or channels not in (1, 3):
        got = f"an image of mode {image.mode}, {frames} frames{', not opaque' * clear}"
        expected = f"8 bits a pixel in each of {channels} channels, one frame, nothing transparent"
        raise InputError("explain", got=got, expected=expected, hint="save it so as PNG, or as .npy")
    pixels = np.asarray(turned.convert("RGB") if channels == 3 else turned.convert("L"))
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)
