"""Token ids, times and turns as the store keeps them."""

import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta


def pack_ids(ids: Sequence[int]) -> bytes:
    """Token ids as bytes, 4 each, little-endian."""
    return struct.pack(f"<{len(ids)}i", *ids)


def unpack_ids(data: bytes) -> tuple[int, ...]:
    """Token ids from bytes; bytes that are no whole id are left out."""
    count = len(data) // 4
    return struct.unpack_from(f"<{count}i", data)


def now() -> str:
    """This moment."""
    return _stored(datetime.now(UTC))


def before_now(age: timedelta) -> str:
    """The moment that is so long ago; such texts sort as their times do."""
    return _stored(datetime.now(UTC) - age)


def _stored(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")
