"""Plain completion, for base models: the text as it stands, and the model writes on."""

COMPLETION = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
"""All contents one after the other with nothing between them; the system prompt comes first.

The token that begins a text is put before it where the vocabulary wants one, as for any template.
"""
