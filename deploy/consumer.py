#!/usr/bin/env python3
"""An example of a consumer that takes each event of Lookalike in exactly once.

    deploy/consumer.py --brokers 127.0.0.1:9092 --topic lookalike.events.v1 --state clusters.sqlite [--until-end]

The rule has three parts:
 1. read with isolation.level=read_committed;
 2. for each partition remember the offset to go on from and the highest lookalike-seq, in the same transaction as what
    was made of the events: here both are in one SQLite file;
 3. drop an event whose lookalike-seq is not above the highest one of its partition, and stop at one of another store or
    of another lookalike-version.
Types and fields that it does not know are ignored: later releases may add them (docs/reference/events.md).
It keeps the cluster of each URL; --show prints them as "cluster<TAB>url", with merged clusters under their present name.

Needs the package confluent-kafka (Debian: python3-confluent-kafka, or from PyPI).
"""

import argparse
import json
import signal
import sqlite3
import sys

# The version of the events that this consumer knows, as the header lookalike-version has it.
VERSION = "1"

SCHEMA = """
CREATE TABLE IF NOT EXISTS progress (partition INTEGER PRIMARY KEY, next_offset INTEGER, seq INTEGER, store TEXT);
CREATE TABLE IF NOT EXISTS pages (url TEXT PRIMARY KEY, document INTEGER, cluster INTEGER, fetched_at TEXT, seq INTEGER);
CREATE TABLE IF NOT EXISTS merges (loser INTEGER PRIMARY KEY, winner INTEGER);
"""

# A page that stands at a URL, or nothing at all: the last word of either kind counts.
STANDS = """
INSERT INTO pages VALUES (:url, :document, :cluster, :fetched_at, :seq)
ON CONFLICT (url) DO UPDATE SET document = :document, cluster = :cluster, fetched_at = :fetched_at, seq = :seq
WHERE seq < :seq
"""

PRESENT = """
WITH RECURSIVE names (url, cluster) AS (
    SELECT url, cluster FROM pages WHERE cluster IS NOT NULL
    UNION SELECT names.url, merges.winner FROM names JOIN merges ON merges.loser = names.cluster
)
SELECT min(cluster), url FROM names GROUP BY url ORDER BY 1, 2
"""


def take_in(state, event):
    """What one event changes."""
    kind = event["type"]
    if kind in ("assigned", "gone", "redirected", "lost") or (kind == "reassigned" and event["url"]):
        place = {name: event.get(name) for name in ("url", "document", "cluster", "fetched_at", "seq")}
        state.execute(STANDS, place)
    elif kind == "merged":
        state.execute("INSERT INTO merges VALUES (?, ?)", (event["loser"], event["winner"]))
    elif kind == "split":
        state.execute("DELETE FROM merges WHERE loser = ?", (event["cluster"],))
    # The others change nothing here, nor does a type that a later release may add.


def header(message, name):
    """The last header of a name, as text."""
    values = [value for key, value in message.headers() or [] if key == name and value is not None]
    return values[-1].decode() if values else None


def consume(state, message):
    """Takes a message in, unless it was taken in before; true if it was new."""
    partition, version = message.partition(), header(message, "lookalike-version")
    if version != VERSION:
        sys.exit(f"partition {partition}, offset {message.offset()} has version {version} of the events, and this consumer "
                 f"knows version {VERSION}: nothing was taken in from there on; use a newer consumer")
    seq, store = int(header(message, "lookalike-seq")), header(message, "lookalike-store")
    known = state.execute("SELECT seq, store FROM progress WHERE partition = ?", (partition,)).fetchone()
    if known and known[1] != store:
        sys.exit(f"partition {partition} goes on with events of another store: begin anew with a new --state")
    is_new = known is None or seq > known[0]
    if is_new:
        take_in(state, json.loads(message.value()))
    seq = seq if is_new else known[0]
    progress = (partition, message.offset() + 1, seq, store)
    state.execute("INSERT OR REPLACE INTO progress VALUES (?, ?, ?, ?)", progress)
    return is_new


def run(arguments, state):
    """Reads on from where the state stands; returns how many events were new and how many came again."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

    consumer = Consumer({
        "bootstrap.servers": arguments.brokers,
        "group.id": "lookalike-example",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
    })
    found = consumer.list_topics(arguments.topic, timeout=10).topics[arguments.topic]
    if found.error:
        sys.exit(f"{arguments.topic}: {found.error}")
    offsets = dict(state.execute("SELECT partition, next_offset FROM progress"))
    begin = [TopicPartition(arguments.topic, n, offsets.get(n, OFFSET_BEGINNING)) for n in found.partitions]
    consumer.assign(begin)
    unread, n_new, n_again, stop = set(found.partitions), 0, 0, []
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: stop.append(True))
    while not stop and not (arguments.until_end and not unread):
        messages = consumer.consume(1000, timeout=1)
        with state:  # one transaction: effects and progress together, or neither
            for message in messages:
                if message.error() is None:
                    is_new = consume(state, message)
                    n_new, n_again = n_new + is_new, n_again + (not is_new)
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    unread.discard(message.partition())
                else:
                    sys.exit(f"{arguments.topic}: {message.error()}")
    consumer.close()
    return n_new, n_again


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--brokers", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="lookalike.events.v1")
    parser.add_argument("--state", default="clusters.sqlite", help="the file that holds what was made of the events")
    parser.add_argument("--until-end", action="store_true", help="stop where the topic ends")
    parser.add_argument("--show", action="store_true", help="print the clusters; reads nothing")
    arguments = parser.parse_args()
    state = sqlite3.connect(arguments.state)
    state.executescript(SCHEMA)
    if arguments.show:
        for cluster, url in state.execute(PRESENT):
            print(f"{cluster}\t{url}")
        return
    n_new, n_again = run(arguments, state)
    print(f"{n_new} events taken in, {n_again} dropped that had been taken in before")


if __name__ == "__main__":
    main()
