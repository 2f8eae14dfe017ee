"""Pages: sketched, compared, clustered, deduplicated."""

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeGuard, cast

from . import _lookalike, _program
from ._lookalike import Table
from ._settings import Path, Setting, Settings, paths
from .arrow import ArrowPages

Keep: TypeAlias = Literal["longest", "newest", "first"]


def sketch(
    pages: ArrowPages,
    text: str = "text",
    *,
    url: "str | None" = None,
    html: bool = False,
    seed: "str | None" = None,
    store: "Path | None" = None,
    threads: "int | None" = None,
    settings: "Mapping[str, Setting] | None" = None,
    config: "Path | Sequence[Path] | None" = None,
) -> Table:
    """Sketches the texts of a table, as ``lookalike sketch`` does, on all cores and without the interpreter's lock.

    The result has a row for each row of the pages, in their order:

    ==================  ======================================================================
    ``url``             the page's, where ``url`` names a column
    ``kind``            ``page``, or ``rejected`` where there is no sketch
    ``message``         why there is none
    ``identical``       16 bytes; equal for texts that are equal
    ``lexical``         16 bytes; equal for texts of equal words
    ``shingle``         16 bytes; equal for texts of equal kept shingles; null where there is none
    ``n_words``         words of the text
    ``n_bytes``         bytes of the text
    ``sketch``          the sketch, as a store keeps it
    ``index``           shingles that may index the text, the smallest first
    ``super_shingles``  its super shingles
    ``mod_shingles``    shingles that index it for containment, under ``sketch.index_modulus``
    ==================  ======================================================================

    These are columns of the files that ``lookalike sketch --parquet`` writes.

    Args:
        pages: Arrow data: a ``pyarrow.Table``, a ``polars.DataFrame``, a batch, a reader, or an iterable of these.
        text: The column of the texts, or of their bytes.
        url: A column to take over.
        html: Whether the texts are HTML.
        seed: The seed as 64 hexadecimal digits. Only sketches of one seed and one rule are comparable. Default:
            ``store.seed``, or else zeros.
        store: Takes the rule and the seed of this store.
        threads: Default: a thread for each core.
        settings: Settings by their keys, such as ``{"sketch.w": 8}``; they win over ``config``.
        config: Files of settings.

    >>> import lookalike as la
    >>> import pyarrow as pa
    >>> pages = pa.table({"text": ["a rose is a rose is a rose", "A Rose is a rose is a ROSE!", None]})
    >>> sketched = pa.table(la.sketch(pages, settings={"sketch.w": 4}))
    >>> sketched["n_words"].to_pylist()
    [8, 8, None]
    >>> sketched["lexical"][0] == sketched["lexical"][1]
    True
    >>> sketched["message"].to_pylist()
    [None, None, 'the text is null']
    """
    loaded = Settings.of(config, settings, store__seed=seed).load()
    n_threads = threads or len(os.sched_getaffinity(0))
    return _lookalike.sketch(pages, text, url, html, store, n_threads, loaded)


@dataclass(frozen=True)
class Comparison:
    """How two texts relate: shares from 0 to 1, each with one standard error, which is 0 where the share is exact."""

    resemblance: float
    error: float
    containment_of_a_in_b: "float | None"
    containment_of_b_in_a: "float | None"
    error_of_a_in_b: float
    error_of_b_in_a: float
    #: The same as a store estimates it, by the sketches alone.
    estimated: "Comparison | None" = None


def compare(
    a: str,
    b: str,
    *,
    html: bool = False,
    seed: "str | None" = None,
    settings: "Mapping[str, Setting] | None" = None,
    config: "Path | Sequence[Path] | None" = None,
) -> Comparison:
    """Compares two texts by all of their shingles, as ``lookalike query compare`` does with two files.

    >>> import lookalike as la
    >>> settings = {"sketch.w": 2}
    >>> found = la.compare("a rose is red", "a rose is red and sweet", settings=settings)
    >>> found.resemblance, found.containment_of_a_in_b, found.containment_of_b_in_a
    (0.6, 1.0, 0.6)
    """
    loaded = Settings.of(config, settings, store__seed=seed).load()
    answer = json.loads(_lookalike.compare(a, b, html, loaded))
    return Comparison(**answer["exact"], estimated=Comparison(**answer["estimated"]))


def page_text(
    page: "str | bytes", content: 'Literal["all", "main"]' = "all", *, charset: "str | None" = None
) -> str:
    """The text of an HTML page: decoded, without markup, each run of blanks one blank or one line end.

    Args:
        page: The page, or its bytes as received, without gzip and the like.
        content: ``"all"``: every word that a reader sees, and the title. ``"main"``: the page's own content, without menus,
            headers, footers and the like; all of it where next to nothing would be left.
        charset: The charset of bytes that the HTTP header named.

    >>> import lookalike as la
    >>> story = "The cranes came back on Sunday, three weeks early, and nobody in the village knows why they did."
    >>> html = f"<title>Cranes</title><nav>Home</nav><main><p>{story}</p></main>"
    >>> la.page_text(html, "main") == story
    True
    >>> la.page_text(html.encode("utf-16"))
    'Cranes Home The cranes came back on Sunday, three weeks early, and nobody in the village knows why they did.'
    """
    return _lookalike.page_text(page, content, charset)


def cluster(
    pages: "Path | Sequence[Path] | ArrowPages",
    text: "str | None" = None,
    *,
    id: "str | None" = None,
    html: bool = False,
    fetched_at: "str | None" = None,
    keep: Keep = "longest",
    threshold: "float | None" = None,
    columns: "Mapping[str, str] | None" = None,
    progress: "bool | None" = None,
    memory_mib: "int | None" = None,
    seed: "str | None" = None,
    settings: "Mapping[str, Setting] | None" = None,
    config: "Path | Sequence[Path] | None" = None,
) -> Table:
    """Clusters pages by resemblance, as ``lookalike cluster`` does, which does the work.

    The result has a row for each record of the pages, in their order:

    ===============  ============================================================================
    ``id``           the page's name
    ``source``       of files: the file, by its absolute path
    ``record``       of files: the record's number in it, from 0
    ``document``     equal for pages of the same content; null where the record is no page
    ``cluster``      the smallest document of the page's cluster
    ``keep``         whether the page stays when its cluster is reduced to one page
    ``kind``         ``kept``; ``identical`` or ``near`` to the page that stays; ``gone``, ``redirected``, ``rejected``
    ``resemblance``  to the page of its cluster that stays
    ``message``      why a record was rejected
    ===============  ============================================================================

    Args:
        pages: Files, folders or patterns such as ``"data/*.parquet"``; or Arrow data, as for :func:`sketch`, which goes
            to the program as a file in the temporary folder.
        text: The column or field of the texts. Default: what the program recognises in files; ``text`` in Arrow data.
        id: The column or field that names a page. Default: the URL of a record in files, or else its file and number;
            in Arrow data ``id``, ``url``, or else the row's number.
        html: Whether the texts are HTML, where ``text`` names them.
        fetched_at: The column or field of the time, for ``keep="newest"``.
        keep: Which page of a cluster stays: the one of most words, the newest or the first.
        threshold: Pages of this resemblance or more are linked. Default: ``cluster.threshold``, which is 0.5.
        columns: Other places of a record's parts in files, as ``--map`` takes them: ``{"url": "/meta/url"}``.
        progress: Whether to show progress on ``sys.stderr``. Default: if that is a terminal.
        memory_mib: Memory for everything that grows with the input, in MiB. Default: a third of the machine's.
        seed: 64 hexadecimal digits. With a seed, the same pages give the same table. Default: ``store.seed``, or else a
            secret one, new each time.
        settings: Settings by their keys, such as ``{"sketch.w": 8}``; they win over ``config``.
        config: Files of settings.

    >>> import lookalike as la
    >>> import pyarrow as pa
    >>> verse = "a rose is a rose is a rose and a lily is a lily by any other name that men may call it"
    >>> texts = [verse, verse + " today", "nothing of the kind is said here, of flowers or of names or of any other thing"]
    >>> pages = pa.table({"id": ["x", "y", "z"], "text": texts})
    >>> clusters = pa.table(la.cluster(pages))
    >>> clusters.select(["id", "cluster", "keep"]).to_pylist()
    ... # doctest: +NORMALIZE_WHITESPACE
    [{'id': 'x', 'cluster': 1, 'keep': False},
     {'id': 'y', 'cluster': 1, 'keep': True},
     {'id': 'z', 'cluster': 3, 'keep': True}]
    """
    options = _options(keep=keep, threshold=threshold, memory=memory_mib)
    configured = Settings.of(config, settings, store__seed=seed)
    with tempfile.TemporaryDirectory(prefix="lookalike-") as folder:
        out = os.path.join(folder, "clusters.parquet")
        chosen = "document,cluster,keep,kind,resemblance,message"
        if _are_files(pages):
            parts = dict(columns or {})
            named = {"html" if html else "text": text, "url": id, "fetched_at": fetched_at}
            parts.update((part, place) for part, place in named.items() if place is not None)
            # Neither changes a record that has a time and a URL of its own.
            options += [*_map(parts), "--fetched-at=file-time", "--url-from=record"]
            inputs, ids, chosen = paths(pages), None, "source,record,url," + chosen
        else:
            inputs = [os.path.join(folder, "pages.parquet")]
            rows = cast(ArrowPages, pages)
            ids = _lookalike.write_pages(rows, inputs[0], text or "text", html, id, fetched_at)
            options += ["--fetched-at=1970-01-01T00:00:00Z", "--url-from=record"]
        _program.run(["cluster", f"--out={out}", f"--columns={chosen}", *options, "--", *inputs], configured, progress)
        return _lookalike.read_clusters(out, ids)


def dedup(
    pages: "Path | Sequence[Path]",
    out: Path,
    *,
    keep: "Keep | str" = "longest",
    threshold: "float | None" = None,
    containment: "float | None" = None,
    removed: "Path | None" = None,
    format: 'Literal["same", "jsonl", "parquet"] | None' = None,
    text: 'Literal["all", "main"] | None' = None,
    store: "Path | None" = None,
    columns: "Mapping[str, str] | None" = None,
    fetched_at: "str | None" = None,
    url_from: 'Literal["id", "path", "record"] | None' = None,
    progress: "bool | None" = None,
    memory_mib: "int | None" = None,
    seed: "str | None" = None,
    settings: "Mapping[str, Setting] | None" = None,
    config: "Path | Sequence[Path] | None" = None,
) -> "dict[str, Any]":
    """Writes a corpus with one page of each cluster, as ``lookalike dedup`` does, which does the work.

    Interrupted, the same call goes on, and ends with the same bytes.

    Args:
        pages: Files, folders or patterns.
        out: The folder of the corpus, which is created or empty.
        keep: Which page of a cluster stays: the one of most words, the newest, the first, or the one with the highest value
            in this column (its name, or a JSON pointer).
        threshold: Pages of this resemblance or more are near-copies. Default: ``cluster.threshold``, or the store's.
        containment: So are pages of which one contains the other to this share or more.
        removed: A file for the list of what is not in the corpus: CSV where it ends in ``.csv``, JSON lines otherwise.
        format: What kept records are written as. Default: the same bytes where that is possible.
        text: Which text of an HTML page is written, where ``format`` has text written; see `page_text`. Default: ``"all"``.
        store: Holds the pages against all that this store has seen, and adds them to it.
        columns: Places of a record's parts, as ``--map`` takes them: ``{"text": "content"}``.
        fetched_at: The time of records that have none: RFC 3339, or ``file-time``.
        url_from: What makes the URL of records that have none.
        progress: Whether to show progress on ``sys.stderr``. Default: if that is a terminal.
        memory_mib: Memory for everything that grows with the input, in MiB. Default: a third of the machine's.
        seed: 64 hexadecimal digits, for a corpus that can be made again.
        settings: Settings by their keys; they win over ``config``.
        config: Files of settings.

    Returns:
        The counts, with the names that ``lookalike dedup --json`` gives them.

    >>> import json, pathlib, tempfile
    >>> import lookalike as la
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> verse = "a rose is a rose is a rose and a lily is a lily by any other name that men may call it"
    >>> with open(folder / "pages.jsonl", "w") as pages:
    ...     for page in [{"id": "x", "text": verse}, {"id": "y", "text": verse + " today"}]:
    ...         print(json.dumps(page), file=pages)
    >>> counts = la.dedup(folder / "pages.jsonl", folder / "clean", url_from="id", fetched_at="file-time")
    >>> counts["n_pages"], counts["n_kept"], counts["n_removed_near"]
    (2, 1, 1)
    >>> json.loads((folder / "clean" / "pages.jsonl").read_text())["id"]
    'y'
    """
    given = {"removed": removed, "format": format, "text": text, "store": store, "fetched-at": fetched_at, "url-from": url_from}
    options = _options(keep=keep, threshold=threshold, containment=containment, memory=memory_mib, **given)
    options += _map(columns or {})
    configured = Settings.of(config, settings, store__seed=seed)
    return _program.run(["dedup", f"--out={os.fspath(out)}", *options, "--", *paths(pages)], configured, progress)


def _are_files(pages: Any) -> "TypeGuard[Path | Sequence[Path]]":
    if isinstance(pages, (str, os.PathLike)):
        return True
    return isinstance(pages, (list, tuple)) and all(isinstance(path, (str, os.PathLike)) for path in pages)


def _options(**options: "object | None") -> list[str]:
    return [f"--{name}={value}" for name, value in options.items() if value is not None]


def _map(parts: Mapping[str, str]) -> list[str]:
    return [f"--map={part}={place}" for part, place in parts.items()]
