"""An image in a file, as pixels that a model of images can be given."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from lrp_companion.checks import InputError


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
