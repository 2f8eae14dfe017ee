"""The PostgreSQL example is killed again and again; then its view must be what `lookalike export present` says, row by row.

    postgresql_state.py PROGRAM BROKER FOLDER DATABASE SWEEP…
"""

import csv
import io
import itertools
import json
import subprocess
import sys
import time
from pathlib import Path

import psycopg
from confluent_kafka import Producer
from crawl import Crawl

CONSUMER = Path(__file__).resolve().parents[2] / "deploy/examples/postgresql/consumer.py"
KILLS = 12
# The partition that the key of a message gives.
PARTITION_UA = -1
SECONDS_MAX = 60
COLUMNS = ("url", "fetched_at", "sweep", "document", "cluster", "representative", "state")
PRESENT = """
SELECT url, to_char(fetched_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), sweep,
    document, cluster, representative, state FROM lookalike.present
"""
N_EVENTS = "SELECT coalesce(sum(n_events), 0) FROM lookalike.progress"


def records(sweeps):
    """The sample, and records of the kinds that it lacks."""
    for sweep in sweeps:
        text = subprocess.run(["zstd", "-dc", sweep], check=True, stdout=subprocess.PIPE).stdout
        for line in text.splitlines():
            yield json.loads(line)["url"], line, PARTITION_UA
    npm = "https://docs.npm.example/html/doc"
    words = " ".join(f"word{at}" for at in range(60))
    left, middle, right = (" ".join(f"{name}{at}" for at in range(60)) for name in ("left", "middle", "right"))
    others = [
        {"url": f"{npm}/pack.html", "sweep": "4", "gone": True},
        {"url": f"{npm}/link.html", "sweep": "4", "http_status": 301, "redirect_to": f"{npm}/cli/npm-link.html"},
        {"url": f"{npm}/here.html", "sweep": "4", "text": words},
        # Two clusters, and a page that joins them.
        {"url": "https://a.example/1", "text": f"{left} {middle}"},
        {"url": "https://a.example/2", "text": f"{middle} {right}"},
        {"url": "https://a.example/3", "text": f"{left} {middle} {right}"},
        # What PostgreSQL's indexes, times and texts cannot take as it is.
        {"url": f"https://a.example/{'long' * 1500}", "text": words},
        {"url": "https://a.example/before-christ", "fetched_at": "0000-02-29T12:00:00.25Z", "text": words},
        {"url": "https://a.example/\N{SNOWMAN}", "fetched_at": "9999-12-31T23:59:59Z", "gone": True},
        {"url": "https://a.example/none", "text": None},
    ]
    for other in others:
        # In one partition, so that the page that joins two clusters comes after them.
        yield other["url"], json.dumps({"fetched_at": "2018-01-01T00:00:00.123456Z"} | other).encode(), 0


def consume(crawl, database, *arguments):
    return subprocess.Popen(
        [sys.executable, CONSUMER, "--database", database, "--brokers", crawl.broker, "--topic", crawl.events_topic, *arguments],
        stdout=subprocess.DEVNULL)


def n_events(connection):
    try:
        return connection.execute(N_EVENTS).fetchone()[0]
    except psycopg.errors.UndefinedTable:
        return 0


def kill_in_the_middle(crawl, database, connection, n_all):
    """Kills the consumer each time that it has taken some more in, until it has nearly all; returns how often."""
    n_kills = 0
    for at in range(1, KILLS + 1):
        process = consume(crawl, database, "--batch", "5")
        deadline = time.monotonic() + SECONDS_MAX
        while n_events(connection) < n_all * at // (KILLS + 2):
            assert process.poll() is None, f"the consumer ended with {process.returncode}"
            assert time.monotonic() < deadline, "the consumer does not get on"
            time.sleep(0.002)
        process.kill()
        process.wait()
        n_kills += 1
        assert n_events(connection) < n_all, "the consumer was through before it was killed"
    return n_kills


def compare(crawl, connection):
    """Holds the view against the store; returns the number of rows."""
    found = {}
    for url, fetched_at, sweep, *rest in connection.execute(PRESENT):
        found[url] = [fetched_at.rstrip("0").rstrip("."), sweep, *rest]
    expected = {}
    columns = ",".join(COLUMNS)
    for row in csv.DictReader(io.StringIO(crawl.lookalike("export", "present", "--columns", columns))):
        number = {name: int(row[name]) if row[name] else None for name in ("document", "cluster")}
        is_representative = {"true": True, "false": False, "": None}[row["representative"]]
        # As to_char has the year before the first.
        fetched_at = row["fetched_at"].rstrip("Z").replace("0000-", "0001-")
        expected[row["url"]] = [fetched_at, row["sweep"], number["document"], number["cluster"], is_representative, row["state"]]
    for url in found.keys() | expected.keys():
        assert found.get(url) == expected.get(url), f"{url}: the table has {found.get(url)}, the store {expected.get(url)}"
    return expected


def main():
    program, broker, folder, database, *sweeps = sys.argv[1:]
    crawl = Crawl(program, broker, Path(folder), "postgresql", partitions=3)
    producer = Producer({"bootstrap.servers": broker, "enable.idempotence": True})
    n_records = 0
    for n_records, (url, line, partition) in enumerate(records(sweeps), 1):
        producer.produce(crawl.pages_topic, key=url, value=line, partition=partition)
        producer.poll(0)
    assert producer.flush(SECONDS_MAX) == 0
    crawl.take_in(n_records)
    crawl.lookalike("sweep", "close", "4")
    n_all = len(crawl.events())

    with psycopg.connect(database, autocommit=True) as connection:
        n_kills = kill_in_the_middle(crawl, database, connection, n_all)
        # Two at once take nothing in twice.
        for process in [consume(crawl, database, "--until-end") for _ in range(2)]:
            assert process.wait(SECONDS_MAX) == 0
        assert n_events(connection) == n_all, f"{n_events(connection)} events taken in, {n_all} in the topic"
        expected = compare(crawl, connection)
        states = {row[-1] for row in expected.values()}
        assert states == {"page", "gone", "redirect", "lost"}, states

        # What is forgotten goes, and clusters come apart.
        crawl.lookalike("forget", "https://a.example/3", "--host", "docs.npm.example")
        crawl.take_in(n_records)
        assert consume(crawl, database, "--until-end").wait(SECONDS_MAX) == 0
        n_rows = len(compare(crawl, connection))
        assert n_rows < len(expected)
        n_all = len(crawl.events())
        assert n_events(connection) == n_all
    kinds = {kind for kind, _ in itertools.groupby(sorted(event["type"] for event in crawl.events()))}
    missing = {"assigned", "gone", "redirected", "rejected", "merged", "lost", "forgotten", "split", "reassigned"} - kinds
    assert not missing, f"no event of the types {missing}"
    print(f"PostgreSQL: {n_all} events, {n_kills} kills: {len(expected)} rows, and {n_rows} after forgetting, as the store has them")


if __name__ == "__main__":
    main()
