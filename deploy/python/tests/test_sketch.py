"""`sketch` gives what the program prints, whatever library the table comes from, on all cores, and can be stopped."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import lookalike as la
from conftest import SAMPLE, SEED, Page, lookalike

COLUMNS = ["kind", "message", "identical", "lexical", "shingle", "n_words", "n_bytes", "sketch"]
COLUMNS += ["index", "super_shingles", "mod_shingles"]


def sketched(pages: object, text: str = "text", **options: object) -> list[dict]:
    return pa.table(la.sketch(pages, text, **options)).to_pylist()


@pytest.mark.parametrize("settings", [{}, {"sketch.rule": "mod", "sketch.modulus": 8, "sketch.bits": 64}])
def test_the_sample_is_sketched_as_the_program_does(sample: list[Page], table: pa.Table, settings: dict) -> None:
    """Lost if this fails: sketches made in Python are compared with those of a store, and find nothing."""
    environment = {"LOOKALIKE__" + key.upper().replace(".", "__"): str(value) for key, value in settings.items()}
    environment["LOOKALIKE__STORE__SEED"] = SEED
    printed = lookalike("sketch", "--json", *SAMPLE, env={**os.environ, **environment}).stdout.splitlines()
    rows = sketched(table, "body", url="url", html=True, seed=SEED, settings=settings)
    assert len(rows) == len(printed) == 646
    for row, line, page in zip(rows, map(json.loads, printed), sample):
        same = {name: row[name].hex() if row[name] else None for name in ("identical", "lexical", "shingle")}
        assert same == line["equivalences"]
        assert row["url"] == line["url"] == page["url"]
        assert row["n_words"] == line["n_words"]
        assert row["n_bytes"] == len(page["body"].encode())
        assert row["sketch"].hex() == line["encoded"]
        for column in ("index", "super_shingles"):
            assert [shingle % (1 << 64) for shingle in row[column]] == [int(shingle, 16) for shingle in line[column]]
        assert (row["kind"], row["message"]) == ("page", None)


def test_the_columns_are_those_of_sketch_files(sample: list[Page], tmp_path: Path) -> None:
    """Lost if this fails: what Python sketches cannot stand beside what the program sketches."""
    pages = [page for page in sample if page["sweep"].startswith("1-")]
    lookalike("sketch", "-q", "--parquet", tmp_path, SAMPLE[0], env={**os.environ, "LOOKALIKE__STORE__SEED": SEED})
    (file,) = tmp_path.glob("*.parquet")
    written = pq.read_table(file).select(["url", *COLUMNS]).filter(pc.field("kind") == "page")
    table = pa.table({name: [page[name] for page in pages] for name in ("url", "body")})
    found = pa.table(la.sketch(table, "body", url="url", html=True, seed=SEED))
    assert found.column_names == written.column_names
    for name in COLUMNS:
        assert found.schema.field(name).type == written.schema.field(name).type
    assert found.to_pylist() == written.to_pylist()


def test_every_kind_of_table_gives_the_same(table: pa.Table) -> None:
    texts = table.slice(0, 50).select(["body"])
    expected = sketched(texts, "body")
    assert list(expected[0]) == COLUMNS

    def batches():
        yield from texts.to_batches(max_chunksize=7)

    body = texts["body"].combine_chunks()
    for pages in [
        texts.to_batches()[0],
        texts.to_reader(max_chunksize=11),
        batches(),
        [texts.slice(0, 20), texts.slice(20)],
        pl.from_arrow(texts),
        pa.table({"body": body.cast(pa.large_string())}),
        pa.table({"body": body.cast(pa.string_view())}),
        pa.table({"body": body.dictionary_encode()}),
    ]:
        assert sketched(pages, "body") == expected, type(pages)
    for threads in (1, 3):
        assert sketched(texts, "body", threads=threads) == expected
    # Bytes are read in the charset that they are in; the fingerprint of equal bytes counts how they were read.
    of_bytes = sketched(pa.table({"body": body.cast(pa.binary())}), "body")
    assert [row["sketch"] for row in of_bytes] == [row["sketch"] for row in expected]


def test_the_result_goes_to_other_libraries(table: pa.Table) -> None:
    result = la.sketch(table.slice(0, 5), "body")
    assert (len(result), result.num_rows, result.column_names) == (5, 5, COLUMNS)
    assert "5 rows: kind: Utf8, message: Utf8, identical: FixedSizeBinary(16)" in repr(result)
    assert pl.DataFrame(result)["n_words"].to_list() == pa.table(result)["n_words"].to_pylist()
    # It can be read again, whole.
    assert pa.table(result).equals(pa.table(result))
    assert pa.schema(result).names == COLUMNS


def test_empty_tables_and_rows_without_a_sketch() -> None:
    assert pa.table(la.sketch(pa.table({"text": pa.array([], pa.string())}))).to_pylist() == []
    assert len(la.sketch([])) == 0
    rows = sketched(pa.table({"text": [None, "", "a b c"]}), settings={"limits.words_max": 2})
    assert [row["n_words"] for row in rows] == [None, 0, None]
    assert rows[0]["message"] == "the text is null"
    assert rows[2]["message"].startswith("the page has 3 words or features, over limits.words_max = 2")
    assert "over limits.body_bytes_max = 4;" in sketched(
        pa.table({"text": ["a b c d"]}), settings={"limits.body_bytes_max": 4}
    )[0]["message"]


def test_wrong_input_is_refused_with_what_is_there(table: pa.Table) -> None:
    for pages, options, expected in [
        (table, {}, 'there is no column "text"; there are url, fetched_at, body'),
        (table, {"text": "body", "url": "uri"}, 'there is no column "uri"; there are'),
        (pa.table({"text": [1]}), {}, 'column "text" has the type Int64, not text'),
        ({"text": ["a"]}, {}, "pages of type str are no Arrow data"),
        ("pages.parquet", {}, "pages of type str are no Arrow data"),
        (7, {}, "pages of type int are no Arrow data"),
        (table, {"settings": {"sketch.ww": 8}}, "ww"),
        (table, {"settings": {"sketch.w": 0}}, "sketch.w"),
        (table, {"settings": {"w": 8}}, "write SECTION.KEY, such as sketch.w"),
        (table, {"seed": "12"}, "store.seed"),
        (table, {"config": "nowhere.toml"}, "nowhere.toml"),
    ]:
        with pytest.raises(la.UsageError) as refused:
            la.sketch(pages, **options)
        assert expected in str(refused.value)
        assert isinstance(refused.value, ValueError)


def test_an_error_of_the_table_itself_comes_through() -> None:
    def broken():
        yield pa.table({"text": ["a"]})
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        la.sketch(broken())


def test_a_store_gives_rule_and_seed(table: pa.Table, store: object) -> None:
    assert sketched(table, "body", store=store) == sketched(table, "body", seed=SEED)


def test_other_threads_run_meanwhile(table: pa.Table) -> None:
    """Lost if this fails: a service that sketches stands still for its users."""
    pages = pa.concat_tables([table] * 10)
    begun, n_steps, spans = threading.Barrier(3), 0, []

    def work() -> None:
        begun.wait()
        begin = time.monotonic()
        la.sketch(pages, "body", html=True, threads=1)
        spans.append((begin, time.monotonic()))

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    begun.wait()
    while any(worker.is_alive() for worker in workers):
        time.sleep(0.001)
        n_steps += 1
    for worker in workers:
        worker.join()
    (first_begin, first_end), (second_begin, second_end) = spans
    assert max(first_begin, second_begin) < min(first_end, second_end), "one after the other"
    # With the lock held, this thread would have stood still.
    assert n_steps > 20, (n_steps, spans)


@pytest.mark.parametrize(
    "call", ["la.sketch(pages, 'body', html=True, threads=1)", "la.cluster(pages, 'body', html=True)"]
)
def test_a_signal_stops_it_within_a_second(call: str) -> None:
    """Lost if this fails: a notebook cannot be interrupted."""
    script = f"""
import sys
import pyarrow as pa
sys.path.insert(0, {os.path.dirname(__file__)!r})
from conftest import SAMPLE, lines_of
import json, time, lookalike as la
pages = [json.loads(line) for path in SAMPLE for line in lines_of(path)]
bodies = [page["body"] + str(n) for n in range(12) for page in pages]
pages = pa.table({{"body": pa.array(bodies, pa.large_string())}})
print("begun", flush=True)
try:
    {call}
except KeyboardInterrupt:
    print(time.monotonic())
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        time.sleep(0.3)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        interrupted_at, error = process.communicate(timeout=60)
    assert interrupted_at, error
    assert float(interrupted_at) - begin < 1.0
