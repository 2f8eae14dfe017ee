"""`cluster` and `dedup` give what the program gives, for files and tables, and pass its errors on."""

import csv
import io
import json
import os
import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lookalike as la
from conftest import SAMPLE, SEED, Page, lines_of, lookalike
from lookalike import _program
from lookalike._program import _Shown
from lookalike._settings import Settings

WITH_SEED = {**os.environ, "LOOKALIKE__STORE__SEED": SEED}


def partition(names: list[object], clusters: list[object]) -> set[frozenset[object]]:
    sets: dict[object, set[object]] = defaultdict(set)
    for name, cluster in zip(names, clusters):
        sets[cluster].add(name)
    return {frozenset(members) for members in sets.values()}


def test_files_are_clustered_as_a_store_is(tmp_path: Path) -> None:
    """Lost if this fails: Python and the service disagree about what a copy is."""
    found = pa.table(la.cluster(SAMPLE, seed=SEED, progress=False)).to_pylist()
    lookalike("backfill", "-q", "--store", tmp_path / "s", *SAMPLE, env=WITH_SEED)
    exported = lookalike("export", "clusters", "--store", tmp_path / "s").stdout
    rows = list(csv.DictReader(io.StringIO(exported)))
    assert len(found) == len(rows) == 646
    # A URL is sighted in several sweeps: count what stands in each cluster.
    def members(rows: list[tuple[str, int]]) -> set[tuple[tuple[str, int], ...]]:
        clusters: dict[int, list[str]] = defaultdict(list)
        for url, cluster in rows:
            clusters[cluster].append(url)
        return {tuple(sorted((url, urls.count(url)) for url in set(urls))) for urls in clusters.values()}

    assert members([(row["id"], row["cluster"]) for row in found]) == members(
        [(row["url"], int(row["cluster"])) for row in rows]
    )


@pytest.mark.parametrize("options", [{}, {"keep": "newest", "threshold": 0.8}, {"keep": "first"}])
def test_what_stays_is_what_dedup_keeps(tmp_path: Path, options: dict) -> None:
    """Lost if this fails: a corpus made by `keep` is not the one that `dedup` writes."""
    found = pa.table(la.cluster(SAMPLE, seed=SEED, **options)).to_pylist()
    removed = tmp_path / "removed.jsonl"
    counts = la.dedup(SAMPLE, tmp_path / "clean", seed=SEED, removed=removed, **options)
    assert counts["n_kept"] == sum(row["keep"] for row in found) == len({row["cluster"] for row in found})
    listed = {(row["source"], row["record"]): row for row in map(json.loads, removed.read_text().splitlines())}
    places = {(row["source"], row["record"]): row for row in found}
    for place, row in places.items():
        if row["keep"]:
            assert place not in listed and (row["kind"], row["resemblance"]) == ("kept", 1.0)
        else:
            assert (row["kind"], row["resemblance"]) == (listed[place]["kind"], listed[place]["resemblance"])
            kept = places[listed[place]["kept_source"], listed[place]["kept_record"]]
            assert kept["cluster"] == row["cluster"] and kept["keep"]
    for path in SAMPLE:
        kept = [line for at, line in enumerate(lines_of(path)) if places[str(path), at]["keep"]]
        assert lines_of(tmp_path / "clean" / path.name) == kept


def test_a_table_is_clustered_as_its_file(sample: list[Page], table: pa.Table, tmp_path: Path) -> None:
    expected = pa.table(la.cluster(SAMPLE, seed=SEED)).select(["cluster", "keep", "kind", "resemblance"])
    numbered = table.add_column(0, "number", [pa.array(range(646))])
    for pages in [numbered, pl.from_arrow(numbered), numbered.to_batches(max_chunksize=100)]:
        found = pa.table(la.cluster(pages, "body", id="number", html=True, seed=SEED))
        assert found.column_names == ["id", "document", "cluster", "keep", "kind", "resemblance", "message"]
        assert found["id"].to_pylist() == list(range(646))
        assert found.select(expected.column_names).equals(expected)
    assert pa.table(la.cluster(table, "body", html=True, seed=SEED))["id"].to_pylist() == table["url"].to_pylist()
    newest = pa.table(la.cluster(table, "body", html=True, fetched_at="fetched_at", keep="newest", seed=SEED))
    assert newest["keep"].equals(pa.table(la.cluster(SAMPLE, keep="newest", seed=SEED))["keep"])
    pq.write_table(table.rename_columns(["name", "when", "page"]), tmp_path / "pages.parquet")
    of_file = pa.table(la.cluster(tmp_path / "*.parquet", "page", id="name", html=True, fetched_at="when", seed=SEED))
    assert of_file["id"].to_pylist() == table["url"].to_pylist()
    assert of_file.select(expected.column_names).equals(expected)


def test_rows_that_are_no_pages() -> None:
    found = pa.table(la.cluster(pa.table({"text": ["a b c", None, "", "a b c"]}))).to_pylist()
    assert [row["id"] for row in found] == [0, 1, 2, 3]
    assert [row["kind"] for row in found] == ["kept", "rejected", "kept", "identical"]
    assert found[1]["cluster"] is None and found[1]["message"]
    assert len(la.cluster(pa.table({"text": pa.array([], pa.string())}))) == 0
    assert len(la.cluster(iter(()))) == 0
    with pytest.raises(la.UnreadableError, match="^no record was accepted: all 1 were rejected"):
        la.cluster(pa.table({"text": pa.array([None], pa.string())}))


def test_errors_have_the_message_of_the_program(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "missing.jsonl"
    said = lookalike("dedup", missing, "--out", tmp_path / "x", code=2).stderr
    for call in (lambda: la.dedup(missing, tmp_path / "x"), lambda: la.cluster(missing)):
        with pytest.raises(la.UsageError) as refused:
            call()
        assert said == f"lookalike: {refused.value}\n"
    pq.write_table(pa.table({"words": ["a"], "url": ["http://a/"]}), tmp_path / "p.parquet")
    with pytest.raises(la.UnreadableError, match="the file has words, url"):
        la.cluster(tmp_path / "p.parquet", "text")
    assert "ERROR" in capfd.readouterr().err, "the log of the program is passed on"
    with pytest.raises(la.UsageError, match='there is no column "words"; there are text'):
        la.cluster(pa.table({"text": ["a"]}), "words")
    with pytest.raises(la.UsageError, match="--threshold 7: it must be over 0 and at most 1"):
        la.cluster(SAMPLE, threshold=7)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    with pytest.raises(la.UsageError, match="out"):
        la.dedup(SAMPLE, tmp_path / "out")
    # Nothing is printed twice, nor anything that looks like a crash.
    assert capfd.readouterr().err == ""


def test_what_cannot_be_read_is_warned_of(tmp_path: Path) -> None:
    whole = (SAMPLE[0]).read_bytes()
    (tmp_path / "cut.jsonl.zst").write_bytes(whole[: len(whole) // 2])
    with pytest.warns(la.UnreadableWarning, match="cut.jsonl.zst"):
        found = la.cluster([tmp_path / "cut.jsonl.zst", SAMPLE[1]])
    assert 0 < len(found) < 646


class Crawl:
    """A pipe from which pages come, one by one, until the reader has seen enough: as slow as any test needs it."""

    def __init__(self, path: Path, *, seconds: float) -> None:
        os.mkfifo(path)
        self.enough = threading.Event()
        self._path, self._seconds = path, seconds
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        end = time.monotonic() + self._seconds
        with open(self._path, "w", buffering=1) as pipe:
            while not self.enough.is_set() and time.monotonic() < end:
                page = {"url": "http://site.example/", "fetched_at": "2026-01-01T00:00:00Z", "text": "a rose is a rose"}
                pipe.write(json.dumps(page) + "\n")
                self.enough.wait(0.05)


@pytest.mark.parametrize(("progress", "is_shown"), [(True, True), (None, False), (False, False)])
def test_progress_is_shown_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, progress: "bool | None", is_shown: bool
) -> None:
    """Where there is no terminal, the program prints a line every second."""
    crawl = Crawl(tmp_path / "pages.jsonl", seconds=60 if is_shown else 3)
    shown: list[str] = []

    def show(text: bytes) -> None:
        shown.append(text.decode())
        if " pages, " in "".join(shown):
            crawl.enough.set()

    monkeypatch.setattr(_program, "_show", show)
    settings = Settings.of(None, {"log.progress_seconds": 1})
    summary = _program.run(["run", f"--store={tmp_path / 's'}", os.fspath(tmp_path / "pages.jsonl")], settings, progress)
    assert summary["n_records"] > 0
    assert (" pages, " in "".join(shown)) == is_shown, shown


def test_a_terminal_has_the_bar_of_the_program(tmp_path: Path) -> None:
    """Lost if this fails: hours without a sign of life, or an error that is shown as JSON and as an exception."""
    crawl = Crawl(tmp_path / "pages.jsonl", seconds=60)
    script = f"""
import lookalike as la
from lookalike import _program
from lookalike._settings import Settings
_program.run(["run", "--store={tmp_path}/s", "{tmp_path}/pages.jsonl"], Settings.of(None, None), None)
try:
    la.cluster("nowhere.jsonl")
except la.UsageError as error:
    print(error)
"""
    reader, writer = os.openpty()
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=writer) as process:
        os.close(writer)
        shown = b""
        try:
            while chunk := os.read(reader, 1 << 16):
                shown += chunk
                if b" pages, " in shown:
                    crawl.enough.set()
        except OSError:
            # The other end is closed.
            pass
        assert process.stdout is not None
        answer = process.stdout.read()
    os.close(reader)
    assert b" pages, " in shown, shown
    assert b'{"error"' not in shown, shown
    assert b"nowhere.jsonl" in answer


def test_only_the_last_message_is_held_back(capsys: pytest.CaptureFixture[str]) -> None:
    for chunks, shown, message in [
        ([b"bar 1\r", b'bar {"err 2\n', b'{"error":"usage","message":"x"}\n'], 'bar 1\rbar {"err 2\n', b'{"error":"usage"'),
        ([b"a", b'{"er', b'ror":"failed"}\n'], "a", b'{"error":"failed"}'),
        ([b"warning\n", b'{"er'], 'warning\n{"er', b""),
    ]:
        reader, writer = os.pipe()
        relay = _Shown(reader)
        relay.start()
        for chunk in chunks:
            os.write(writer, chunk)
        os.close(writer)
        relay.join()
        assert capsys.readouterr().err == shown
        assert relay.message.startswith(message)


def test_several_threads_may_cluster_at_once() -> None:
    found: list[pa.Table] = []
    threads = [
        threading.Thread(target=lambda: found.append(pa.table(la.cluster(SAMPLE[:1], seed=SEED)))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2 and found[0].equals(found[1])
