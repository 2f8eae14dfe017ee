"""A store, opened to be asked."""

import json
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from . import _lookalike
from ._settings import Path, Setting, Settings


class Store:
    """A view of a store at the moment when it was opened; a running service may go on writing to it.

    Answers are what ``lookalike query … --format json`` prints. Threads may ask at once. A process that was forked must
    open its own.
    """

    def __init__(self, store: "_lookalike.Store") -> None:
        self._store = store

    def query(self, url: str) -> dict[str, Any]:
        """The history of a URL: what stood there, and when."""
        return _object(self._store.query(url))

    def cluster(self, of: "str | int") -> dict[str, Any]:
        """The pages of a cluster: by a URL, or by the number of the cluster or of any document in it."""
        return _object(self._store.cluster(str(of)))

    def lost(self, url: str, *, limit: int = 10) -> dict[str, Any]:
        """Where the content of a URL stands now, the likeliest place first."""
        return _object(self._store.lost(url, limit))

    def similar(self, text: str, *, html: bool = False, limit: int = 10) -> list[dict[str, Any]]:
        """The documents most like a text, the likest first."""
        answer: list[dict[str, Any]] = json.loads(self._store.similar(text, html, limit))
        return answer

    def stats(self) -> dict[str, Any]:
        """What the store holds."""
        return _object(self._store.stats())

    def close(self) -> None:
        """Closes the store."""
        self._store.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self, kind: "type[BaseException] | None", error: "BaseException | None", trace: "TracebackType | None"
    ) -> None:
        self.close()


def open(
    path: Path,
    *,
    settings: "Mapping[str, Setting] | None" = None,
    config: "Path | Sequence[Path] | None" = None,
) -> Store:
    """Opens a store to ask it. Nothing is written.

    >>> import lookalike as la
    >>> try:
    ...     la.open("nowhere.store")
    ... except la.LookalikeError as error:
    ...     print(error)
    there is no store in nowhere.store; `lookalike run --store nowhere.store INPUT…` creates one
    """
    return Store(_lookalike.Store(path, Settings.of(config, settings).load()))


def _object(answer: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(answer)
    return parsed
