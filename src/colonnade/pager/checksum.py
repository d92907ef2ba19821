"""CRC-32, by libdeflate where the extra `fast` is installed: five times as fast as zlib's, with the same result."""

from __future__ import annotations

try:
    from deflate import crc32
except ImportError:
    from zlib import crc32  # type: ignore[assignment]

__all__ = ["crc32"]
