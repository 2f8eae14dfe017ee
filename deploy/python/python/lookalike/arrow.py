"""What counts as Arrow data, by the Arrow PyCapsule interface."""

from collections.abc import Iterable
from typing import Protocol, TypeAlias

from ._lookalike import Table

__all__ = ["ArrowBatch", "ArrowPages", "ArrowStream", "Table"]


class ArrowStream(Protocol):
    """Rows as a stream: ``pyarrow.Table``, ``pyarrow.RecordBatchReader``, ``polars.DataFrame``, :class:`Table`."""

    def __arrow_c_stream__(self, requested_schema: "object | None" = None) -> object: ...


class ArrowBatch(Protocol):
    """One batch of rows: ``pyarrow.RecordBatch``."""

    def __arrow_c_array__(self, requested_schema: "object | None" = None) -> "tuple[object, object]": ...


ArrowPages: TypeAlias = "ArrowStream | ArrowBatch | Iterable[ArrowStream | ArrowBatch]"
