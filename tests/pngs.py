"""PNG files as no library writes them: of a size that they only claim, of few bits, with a clear colour."""

from __future__ import annotations

import struct
import zlib


def png(
    width: int, height: int = 1, *, bits: int = 8, colour: int = 0, rows: bytes = b"", clear: bytes = b""
) -> bytes:
    """`rows` are the pixels' bytes, each row behind a 0; `clear` is a transparent colour."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    parts = [chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0))]
    parts += [chunk(b"tRNS", clear)] * bool(clear)
    parts += [chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)
