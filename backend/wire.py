"""Messages as bytes: a 4-byte little-endian length, then a MessagePack body."""

import struct
from typing import BinaryIO, Generic, TypeVar

import msgspec

from backend.protocol import Event, Request

LENGTH = struct.Struct("<I")

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
        head = self._stream.read(LENGTH.size)
        if len(head) < LENGTH.size:
            return None
        (length,) = LENGTH.unpack(head)
        body = self._stream.read(length)
        if len(body) < length:
            return None
        try:
            return self._decoder.decode(body)
        except msgspec.DecodeError as error:
            raise WireError(
                f"a message of {length} bytes is not of the protocol: {error}"
            ) from error


class MessageWriter:
    """Writes messages to a stream, each whole and at once."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._encoder = msgspec.msgpack.Encoder()

    def write(self, message: Event | Request) -> None:
        """Send one message.

        Raises:
            OSError: The other end is gone.
        """
        body = self._encoder.encode(message)
        self._stream.write(LENGTH.pack(len(body)) + body)
        self._stream.flush()


def event_reader(stream: BinaryIO) -> MessageReader[Event]:
    """A reader of what an engine sends."""
    return MessageReader(stream, msgspec.msgpack.Decoder(Event))


def request_reader(stream: BinaryIO) -> MessageReader[Request]:
    """A reader of what a client sends."""
    return MessageReader(stream, msgspec.msgpack.Decoder(Request))
