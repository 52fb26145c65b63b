"""Chats, turn records and drafts in SQLite, written as they happen."""

from backend.history.database import HistoryError
from backend.history.reading import ChatRow, Draft, HistoryReader, SearchHit
from backend.history.schema import SCHEMA_VERSION
from backend.history.search import Query
from backend.history.values import pack_ids, unpack_ids
from backend.history.writing import ChatHead, History

__all__ = [
    "SCHEMA_VERSION",
    "ChatHead",
    "ChatRow",
    "Draft",
    "History",
    "HistoryError",
    "HistoryReader",
    "Query",
    "SearchHit",
    "pack_ids",
    "unpack_ids",
]
