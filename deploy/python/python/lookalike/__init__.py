"""Finds copies and near-copies among web pages and texts.

    import lookalike as la

    la.cluster("data/*.parquet")         # id, document, cluster, keep, resemblance
    la.dedup("data/*.parquet", "clean")  # writes one page of each cluster
    la.sketch(table)                     # sketches, for a cluster of machines
    la.compare(a, b)                     # two texts
    la.page_text(html, "main")           # the content of a page, without its frame
    la.open("crawl.store")               # asks a store of the program `lookalike`

Data goes in and out through the Arrow PyCapsule interface, which pyarrow, Polars and others speak.
"""

from ._lookalike import Table
from ._pages import Comparison, cluster, compare, dedup, page_text, sketch
from ._store import Store, open
from .errors import LookalikeError, NotFoundError, UnreadableError, UnreadableWarning, UsageError

__all__ = [
    "Comparison",
    "LookalikeError",
    "NotFoundError",
    "Store",
    "Table",
    "UnreadableError",
    "UnreadableWarning",
    "UsageError",
    "cluster",
    "compare",
    "dedup",
    "open",
    "page_text",
    "sketch",
]
