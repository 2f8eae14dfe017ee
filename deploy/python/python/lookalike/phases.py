"""The phases after sketching, as operators over Arrow for what sorts and joins on many machines.

``deploy/spark/link_job.py`` is their user. Each decision is the function that the program uses, so that the clusters are
those of ``lookalike backfill``. Documents are numbered from 1, in 64 bits, in the order in which their contents came first.

An operator takes the rows of one partition batch by batch. :class:`Lists` and :class:`Pairs` need all rows of a shingle in
one partition, sorted by ``shingle`` and ``document``; :meth:`Matcher.link` needs all pairs of a later document.

>>> import pyarrow as pa
>>> from lookalike import phases
>>> postings = pa.table({"shingle": [7, 7, 7, 8], "document": [1, 2, 5, 5]})
>>> pa.table(phases.Lists().neighbours(postings)).select(["document", "neighbour"]).to_pylist()[1:]
[{'document': 2, 'neighbour': 1}, {'document': 5, 'neighbour': 2}]
>>> clustered = pa.table({"shingle": [7, 7, 7], "document": [1, 2, 5], "cluster": [1, 1, 5]})
>>> pa.table(phases.Pairs(1001).form(clustered)).to_pylist()
[{'later': 5, 'earlier': 1, 'cluster': 1}, {'later': 5, 'earlier': 2, 'cluster': 1}]
>>> components = phases.UnionFind(5)
>>> pa.table(components.join(pa.table({"later": [2, 5, 5], "earlier": [1, 1, 2]}))).num_rows
2
>>> pa.table(components.members(1, 5)).to_pylist()
[{'document': 2, 'cluster': 1}, {'document': 5, 'cluster': 1}]
"""

from collections.abc import Mapping, Sequence

from . import _lookalike
from ._lookalike import Lists, Matcher, Pairs, Table, UnionFind, link_metadata, sketch_files
from ._settings import Path, Setting, Settings
from .errors import UsageError

__all__ = [
    "Lists",
    "Matcher",
    "Pairs",
    "Table",
    "UnionFind",
    "UsageError",
    "link_metadata",
    "match_rule",
    "sketch_files",
]


def match_rule(
    settings: "Mapping[str, Setting] | None" = None,
    config: "Path | Sequence[Path] | None" = None,
) -> str:
    """The rule of a configuration as JSON, for :class:`Matcher` on any machine.

    >>> "min_shared" in match_rule({"cluster.common_limit": 100})
    True
    """
    return _lookalike.match_rule(Settings.of(config, settings).load())
