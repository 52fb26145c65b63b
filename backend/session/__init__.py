"""A session: one chat at a time, one engine, one event stream that everything reads."""

from backend.session.choice import ModelChoice
from backend.session.flow import Script
from backend.session.keeper import Said
from backend.session.session import LAST_MODEL, REFUSED, Session, SessionError
from backend.session.stream import Update

__all__ = [
    "LAST_MODEL",
    "REFUSED",
    "ModelChoice",
    "Said",
    "Script",
    "Session",
    "SessionError",
    "Update",
]
