"""Messages as bytes: a 4-byte little-endian length, then a MessagePack body."""

import struct
from typing import BinaryIO, Generic, TypeVar

import msgspec

from backend.protocol import Event, Request

LENGTH = struct.Struct("<I")

LONGEST = 1 << 30
"""Bytes of the longest message; a length beyond it is no length but nonsense."""

M = TypeVar("M")


class WireError(Exception):
    """The other end sent something that is no message."""


class MessageReader(Generic[M]):
    """Reads messages of one union of types from a stream.

    Args:
        stream: A blocking binary stream.
        decoder: What the bodies are decoded with.
    """

    def __init__(self, stream: BinaryIO, decoder: msgspec.msgpack.Decoder[M]) -> None:
        self._stream = stream
        self._decoder = decoder

    def read(self) -> M | None:
        """The next message; None at the end of the stream.

        Raises:
            WireError: The body is not a message of the protocol.
        """
        head = self._exactly(LENGTH.size)
        if head is None:
            return None
        (length,) = LENGTH.unpack(head)
        if length > LONGEST:
            raise WireError(f"a message of {length} bytes is longer than any of the protocol")
        body = self._exactly(length)
        if body is None:
            return None
        try:
            return self._decoder.decode(body)
        except (msgspec.DecodeError, RecursionError) as error:
            raise WireError(
                f"a message of {length} bytes is not of the protocol: {error}"
            ) from error

    def _exactly(self, size: int) -> bytes | None:
        """So many bytes, in as many reads as that takes; None where the stream ends before."""
        data = self._stream.read(size)
        while len(data) < size:
            more = self._stream.read(size - len(data))
            if not more:
                return None
            data += more
        return data


class MessageWriter:
    """Writes messages to a stream, each whole and at once."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._encoder = msgspec.msgpack.Encoder()

    def write(self, message: Event | Request) -> None:
        """Send one message.

        Raises:
            OSError: The other end is gone.
            WireError: The message is too long, or something in it cannot be encoded.
        """
        self.write_encoded(self.encode(message))

    def write_encoded(self, data: bytes) -> None:
        """Send what `encode` made.

        Raises:
            OSError: The other end is gone.
        """
        self._stream.write(data)
        self._stream.flush()

    def encode(self, message: Event | Request) -> bytes:
        """A message as it is sent.

        Raises:
            WireError: The message is too long, or something in it cannot be encoded.
        """
        try:
            body = self._encoder.encode(message)
        except UnicodeEncodeError as error:
            raise WireError(
                f"a {type(message).__name__} holds text that is not Unicode, such as a file name "
                "in another encoding"
            ) from error
        except OverflowError as error:
            raise WireError(
                f"a {type(message).__name__} holds a number that is too large"
            ) from error
        if len(body) > LONGEST:
            raise WireError(f"a {type(message).__name__} of {len(body):,} bytes is too long")
        return LENGTH.pack(len(body)) + body


def event_reader(stream: BinaryIO) -> MessageReader[Event]:
    """A reader of what an engine sends."""
    return MessageReader(stream, msgspec.msgpack.Decoder(Event))


def request_reader(stream: BinaryIO) -> MessageReader[Request]:
    """A reader of what a client sends."""
    return MessageReader(stream, msgspec.msgpack.Decoder(Request))
