"""What can be wrong with a model file, in one sentence for the user."""


class ModelFileError(Exception):
    """A file that cannot be used as a chat model.

    `str()` of it is one sentence that names the file, the cause and what to do.
    """


def printable(text: str) -> str:
    """Text from a file's name or contents, safe to put into a sentence.

    Args:
        text: Untrusted text.

    Returns:
        The text with everything that is not printable (control characters, lone surrogates)
        replaced by `�`, and cut after 200 characters.
    """
    shown = "".join(c if c.isprintable() else "\ufffd" for c in text)
    return shown if len(shown) <= 200 else shown[:199] + "…"
