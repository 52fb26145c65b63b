"""Messages, templates, thinking blocks, and turning a conversation into tokens."""
