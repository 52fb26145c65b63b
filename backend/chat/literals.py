"""One pattern for thousands of literal texts, cheap to search for."""

import re
from collections.abc import Iterable
from itertools import groupby, takewhile

DEEPEST = 12
"""Branchings on the way to a text; below, alternatives stand side by side."""


def longest_of(texts: Iterable[str]) -> re.Pattern[str] | None:
    """A pattern that matches the longest of `texts` that stands at a place; None for no text.

    A vocabulary can hold thousands of control tokens that all begin alike. The pattern branches
    where they part, as a trie does, so that a place costs a few comparisons however many there
    are.
    """
    known = sorted({text for text in texts if text})
    return re.compile(_branches(known, DEEPEST)) if known else None


def _branches(texts: list[str], depth: int) -> str:
    """Source of a pattern for sorted texts; the empty one, which comes first, is tried last."""
    if depth == 0:
        return "|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True))
    branches: list[str] = []
    for _, group in groupby(texts, key=lambda text: text[:1]):
        alike = list(group)
        lead = _common_lead(alike[0], alike[-1])
        branch = re.escape(lead)
        if len(alike) > 1:
            tails = [text[len(lead) :] for text in alike]
            branch += f"(?:{_branches(tails, depth - 1)})"
        branches.append(branch)
    if not texts[0]:
        branches.append(branches.pop(0))
    return "|".join(branches)


def _common_lead(first: str, last: str) -> str:
    """What all texts of a sorted list begin with, from its first and its last."""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    return "".join(left for left, _ in pairs)
