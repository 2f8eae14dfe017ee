"""What runs inside the interpreter."""

import os
from collections.abc import Mapping, Sequence
from typing import final

from .arrow import ArrowPages

__all__ = [
    "Lists",
    "Matcher",
    "Pairs",
    "Settings",
    "Store",
    "Table",
    "UnionFind",
    "compare",
    "link_metadata",
    "match_rule",
    "page_text",
    "read_clusters",
    "sketch",
    "sketch_files",
    "write_pages",
]

@final
class Lists:
    """The lists of shingles, from rows that are sorted by shingle and document."""

    def __new__(cls, n_documents_max: int | None = None, is_super: bool = False) -> Lists: ...
    def shorten(self, postings: ArrowPages) -> Table:
        """`shingle`, `document`, without the rows that are too many."""

    def neighbours(self, postings: ArrowPages) -> Table:
        """The same without lists of one document, with `place` in the list and `neighbour`, the document to compare first."""

@final
class Matcher:
    """A rule with the shingles that are common so far: indexes documents, and decides pairs."""

    REPRESENTATIVES_MAX: int
    def __new__(cls, rule: str, common: ArrowPages | None = None) -> Matcher: ...
    @property
    def list_max(self) -> int: ...
    def index(self, documents: ArrowPages) -> Table:
        """`document` and `index`, its smallest shingles, become `document`, `index`, `needed`, `represented`."""

    def link(self, pairs: ArrowPages, is_represented: bool = False) -> Table:
        """The pairs that make links: `later`, `earlier`, `resemblance`."""

@final
class Pairs:
    """Pairs of documents of different clusters, from rows that are sorted by shingle and document."""

    def __new__(cls, n_nominating: int) -> Pairs: ...
    def form(self, lists: ArrowPages) -> Table:
        """`shingle`, `document`, `cluster` become `later`, `earlier`, `cluster`: that of the earlier one."""

@final
class UnionFind:
    """Connected components of documents, each named by its smallest document: 8 bytes a document."""

    def __new__(cls, n_documents: int) -> UnionFind: ...
    @property
    def n_links(self) -> int: ...
    def join(self, links: ArrowPages) -> Table:
        """Joins the documents `later` and `earlier`. Returns the rows that joined two components."""

    def members(self, first: int, n_documents: int) -> Table:
        """`document` and `cluster` of some documents, of those that are not the smallest of their component."""

@final
class Settings:
    def __new__(cls, files: Sequence[str], variables: Mapping[str, str]) -> Settings: ...

@final
class Store:
    def __new__(cls, path: str | os.PathLike[str], settings: Settings) -> Store: ...
    def close(self) -> None: ...
    def query(self, url: str) -> str: ...
    def cluster(self, of: str) -> str: ...
    def lost(self, url: str, limit: int) -> str: ...
    def similar(self, text: str, html: bool, limit: int) -> str: ...
    def stats(self) -> str: ...

@final
class Table:
    """A table of Arrow data. `pyarrow.table(…)`, `polars.DataFrame(…)` and others read it without copying."""

    @property
    def column_names(self) -> list[str]: ...
    @property
    def num_rows(self) -> int: ...
    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

def compare(a: str, b: str, html: bool, settings: Settings) -> str: ...
def link_metadata(sketches: str, rule: str, n_documents: int, n_links: int) -> dict[str, str]: ...
def match_rule(settings: Settings) -> str: ...
def page_text(page: str | bytes, content: str, charset: str | None) -> str: ...
def read_clusters(path: str, ids: Table | None = None) -> Table: ...
def sketch(
    pages: ArrowPages,
    text: str,
    url: str | None,
    html: bool,
    store: str | os.PathLike[str] | None,
    threads: int,
    settings: Settings,
) -> Table: ...
def sketch_files(
    folder: str, files: Sequence[tuple[str, Mapping[str, str]]], rule: str
) -> tuple[str, list[tuple[str, str]]]: ...
def write_pages(
    pages: ArrowPages, path: str, text: str, html: bool, id: str | None, fetched_at: str | None
) -> Table: ...
