"""What can go wrong, each with the program's message."""

__all__ = ["LookalikeError", "NotFoundError", "UnreadableError", "UnreadableWarning", "UsageError"]


class LookalikeError(Exception):
    """Something failed; the message says why and what to do."""


class UsageError(LookalikeError, ValueError):
    """An argument, an input path or a setting is wrong; nothing was changed."""


class NotFoundError(LookalikeError, LookupError):
    """The store does not hold what was asked for."""


class UnreadableError(LookalikeError):
    """No record of the input was accepted."""


class UnreadableWarning(UserWarning):
    """Some input could not be read; the answer holds the rest."""
