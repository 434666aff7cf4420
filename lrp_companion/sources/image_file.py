"""An image in a file, as pixels that a model of images can be given."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lrp_companion.checks import CompanionError, InputError, as_path, is_whole

LARGEST_SIDE = 4096
LONGEST_HEAD = 10_000
"""Bytes of the head of a `.npy` file, as NumPy has it."""
FIRST_IS_THE_IMAGE = ("MPO", "PSD")
"""Formats whose further frames are previews or layers of the first one."""
TRANSPARENT = "with pixels that are not opaque", "paint it on a background, and save it without transparency"
PHOTOMETRIC, BITS = 262, 258  # tags of TIFF
NOT_8_BITS = ("L;2", "L;4", ";16")
"""In Pillow's names of what a file holds: pixels that it brings to 8 bits, but not the clear colour."""
SMALLER = "resize it to the model's size"


class ManyPixels(Exception):
    """An image that claims more pixels than Pillow decodes."""


class Unreadable(Exception):
    """Bytes that are not one image whose pixels are plain; `got` and `hint` say why."""

    def __init__(
        self, got: str = "which cannot be read as an image", hint: str = "save it again as PNG"
    ) -> None:
        super().__init__(got)
        self.got, self.hint = got, hint


def read_image(file: Any, *, channels: int, operation: str = "explain") -> np.ndarray:
    """The pixels of an image file: whole numbers (C, H, W), or the array of a `.npy` file as it is.

    A photograph is turned as its EXIF orientation says, as `transformers` does. Pixels of 16 bits are brought
    to 0 to 255.

    Parameters
    ----------
    file : a `.npy` file of one image, or a PNG, JPEG or other format that Pillow reads.
    channels : how many the model reads: 1 (made grey) or 3 (made RGB); a `.npy` file is not changed.

    Raises
    ------
    InputError : no such file; one that is not an image; sides beyond 4,096 pixels; a model of other channels;
        a pixel that is not opaque (`transformers` would show the hidden colour), or may not be: transparency
        of pixels of 2, 4 or 16 bits is not read, but in grey of 16; several frames or pages;
        pixels of 32 bits, which do not say what is white; a `.npy` file of anything but numbers, or whose
        head claims other bytes than it has.
    """
    path = as_path(operation, "image", file)

    def refuse(got: str, hint: str) -> InputError:
        expected = "an image: a .npy file of an array, or a PNG or JPEG"
        return InputError(operation, got=f"{path.name!r}, {got}", expected=expected, hint=hint)

    if not path.is_file():
        raise refuse("which is not a file", "this model reads images: name a file")
    if path.suffix.lower() == ".npy":
        try:
            return _saved_array(path)
        except Exception:  # the head is an expression of Python, which may fail in any way
            raise refuse("which holds no array of numbers", "write it with numpy.save") from None
    if channels not in (1, 3):
        raise refuse(f"for a model of {channels} channels", "save the array with numpy.save")

    def check(width: int, height: int) -> None:
        if max(width, height) > LARGEST_SIDE:
            raise refuse(f"of {width} x {height} pixels", SMALLER)

    try:
        with path.open("rb") as file:  # from a path, Pillow scrambles a TIFF that lies on its side
            pixels = decoded(file, mode="L" if channels == 1 else "RGB", check=check)
    except OSError:
        raise refuse("which cannot be read", "is it yours to read?") from None
    except ManyPixels:
        raise refuse("of very many pixels", SMALLER) from None
    except Unreadable as error:
        raise refuse(error.got, error.hint) from None
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)


def _saved_array(path: Path) -> np.ndarray:
    """The array of a `.npy` file; its head is read, and must fit the file, before any memory is taken."""
    with path.open("rb") as file:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        else:  # 3.0 is 2.0 in UTF-8, and a head of plain numbers is ASCII
            here, length = file.tell(), int.from_bytes(file.read(4), "little")
            if version not in ((2, 0), (3, 0)) or length > LONGEST_HEAD:
                raise ValueError(f"version {version}, a head of {length} bytes")
            file.seek(here)
            shape, _, dtype = np.lib.format.read_array_header_2_0(file)
        there = path.stat().st_size - file.tell()
    sides = all(is_whole(side) and 0 < side <= LARGEST_SIDE for side in shape)
    if not sides or dtype.kind not in "biuf" or math.prod(shape) * dtype.itemsize != there:
        raise ValueError(f"{dtype} of shape {shape} in {there} bytes")
    return np.asarray(np.load(path, allow_pickle=False))


def decoded(source: Any, *, mode: str, check: Callable[[int, int], None]) -> np.ndarray:
    """The pixels of a file, or of bytes to read from: (H, W) in mode "L", (H, W, 3) in mode "RGB".

    Parameters
    ----------
    check : is given width and height, and may refuse them before the pixels are made: a few bytes may claim
        billions.

    Raises
    ------
    ManyPixels : Pillow refuses so many.
    Unreadable : this is not one image of opaque pixels whose white is known.
    """
    from PIL import Image, ImageOps

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(source)
            check(*image.size)
            frames = 1 if image.format in FIRST_IS_THE_IMAGE else getattr(image, "n_frames", 1)
            if frames > 1:
                raise Unreadable(f"of {frames} frames", "save the one to explain as PNG")
            if image.format == "PPM" and image.mode == "I":
                raise Unreadable("a PGM of more than 8 bits", "save it as PNG, which may have 16")
            tags = dict(getattr(image, "tag_v2", None) or {})  # what the decoded image does not know any more
            exact = _clear_is_exact(image, tags)
            return _plain_pixels(ImageOps.exif_transpose(image), mode, tags=tags, exact=exact)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise ManyPixels from None
    except (CompanionError, Unreadable):
        raise
    except (
        Exception
    ):  # Pillow raises errors of many types for broken files: OSError, SyntaxError, struct.error
        raise Unreadable from None


def _clear_is_exact(image: Any, tags: dict) -> bool:
    """Whether an image that is not decoded yet tells exactly which pixels are opaque."""
    held = [str(tile[3]) for tile in image.tile]
    return np.max(tags.get(BITS, 8)) <= 8 and not any(name in one for name in NOT_8_BITS for one in held)


def _plain_pixels(image: Any, mode: str, *, tags: dict, exact: bool) -> np.ndarray:
    """The pixels of an opened image, 0 to 255, in mode "L" or "RGB"."""
    if image.mode.startswith("I;16"):
        return _of_16_bits(image, mode, tags)
    if image.mode in ("I", "F"):
        numbers = "floats" if image.mode == "F" else "whole numbers of 32 bits"
        raise Unreadable(f"whose pixels are {numbers} (mode {image.mode})", "save it with 8 or 16 bits")
    if image.has_transparency_data and not exact:
        raise Unreadable("with transparency, and not of 8 bits", "save it without transparency")
    if image.has_transparency_data:
        image = image.convert("LA" if image.mode == "La" else "RGBA")
        if image.getchannel("A").getextrema()[0] < 255:
            raise Unreadable(*TRANSPARENT)
    if image.mode == "LAB":  # Pillow has no way from here to grey
        image = image.convert("RGB")
    return np.asarray(image.convert(mode))


def _of_16_bits(image: Any, mode: str, tags: dict) -> np.ndarray:
    """The pixels of a grey image of 16 bits: 65,535 is white, so each is divided by 257."""
    white_is_zero, bits = tags.get(PHOTOMETRIC) == 0, tags.get(BITS, (16,))
    if white_is_zero or tuple(np.atleast_1d(bits)) != (16,):
        raise Unreadable("a TIFF of fewer than 16 bits, or whose white is 0", "save it again as PNG")
    pixels = np.asarray(image).astype(np.uint16)
    hidden = image.info.get("transparency")
    if hidden is not None and (pixels == hidden).any():
        raise Unreadable(*TRANSPARENT)
    grey = np.rint(pixels / 257).astype(np.uint8)
    return grey if mode == "L" else np.repeat(grey[..., None], 3, axis=2)
