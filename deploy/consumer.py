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
It keeps what stands at each URL, by the time of fetching and not by that of arrival, and the cluster of each document;
--show prints them as "cluster<TAB>url", with merged clusters under their present name. Whatever it keeps is the newest of
its kind, so that events may come in any order of partitions.

Needs Python 3.9 or newer and the package confluent-kafka:
    Debian, Ubuntu:  apt-get install python3-confluent-kafka
    elsewhere:       pip install confluent-kafka
"""

import argparse
import json
import signal
import sqlite3
import sys

# The version of the events that this consumer knows, as the header lookalike-version has it.
VERSION = "1"
SCHEMA_VERSION = 2

SCHEMA = """
CREATE TABLE IF NOT EXISTS progress (partition INTEGER PRIMARY KEY, next_offset INTEGER, seq INTEGER, store TEXT);
CREATE TABLE IF NOT EXISTS pages (
    url TEXT PRIMARY KEY, fetched_at TEXT, seen INTEGER, redirect_to TEXT, document INTEGER, sweep TEXT);
CREATE TABLE IF NOT EXISTS lost (url TEXT, sweep TEXT, fetched_at TEXT, PRIMARY KEY (url, sweep));
CREATE TABLE IF NOT EXISTS documents (document INTEGER PRIMARY KEY, cluster INTEGER, seq INTEGER);
CREATE TABLE IF NOT EXISTS merges (loser INTEGER PRIMARY KEY, winner INTEGER, seq INTEGER);
"""

# The newest sighting of a URL stays, whichever comes first. Of two of one moment it is, as in the store, a page rather than
# a redirect, and that rather than nothing; then the greater document, or target; then the greater sweep.
GONE, REDIRECTED, PAGE = 1, 2, 3
FIRST = "1970-01-01T00:00:00Z"
SEEN = """
INSERT INTO pages VALUES (:url, :fetched_at, :seen, :redirect_to, :document, :sweep)
ON CONFLICT (url) DO UPDATE SET fetched_at = :fetched_at, seen = :seen, redirect_to = :redirect_to,
    document = :document, sweep = :sweep
WHERE (fetched_at, seen, redirect_to, document, sweep) < (:fetched_at, :seen, :redirect_to, :document, :sweep)
"""

# A sweep that was closed without the URL says that it is lost, until a page of that sweep comes after all.
LOST = "INSERT OR REPLACE INTO lost VALUES (:url, :sweep, :fetched_at)"
NOT_LOST = "DELETE FROM lost WHERE url = :url AND sweep = :sweep"

# The last word on a document's cluster, and on a cluster's name; no winner: it names a cluster again.
CLUSTER = """
INSERT INTO documents VALUES (:document, :cluster, :seq)
ON CONFLICT (document) DO UPDATE SET cluster = :cluster, seq = :seq WHERE seq < :seq
"""
NAME = """
INSERT INTO merges VALUES (:loser, :winner, :seq)
ON CONFLICT (loser) DO UPDATE SET winner = :winner, seq = :seq WHERE seq < :seq
"""

PRESENT = f"""
WITH RECURSIVE names (url, cluster) AS (
    SELECT url, cluster FROM pages JOIN documents USING (document)
    WHERE seen = {PAGE} AND NOT EXISTS (
        SELECT 1 FROM lost WHERE lost.url = pages.url AND lost.fetched_at > pages.fetched_at)
    UNION SELECT names.url, merges.winner FROM names JOIN merges ON merges.loser = names.cluster
    WHERE merges.winner IS NOT NULL
)
SELECT min(cluster), url FROM names GROUP BY url ORDER BY 1, 2
"""


def sortable(time):
    """A time of an event (UTC, with as many digits behind the second as it needs) as text that sorts as times do."""
    date, _, clock = time.rstrip("Z").rpartition("T")
    year, month, day = date.rsplit("-", 2)
    second, _, fraction = clock.partition(".")
    return f"{int(year) + 10000:05}-{month}-{day}T{second}.{fraction:0<6}"


def take_in(state, event):
    """What one event changes."""
    kind, seq = event["type"], event["seq"]
    if kind in ("assigned", "reassigned"):
        state.execute(CLUSTER, {"document": event["document"], "cluster": event["cluster"], "seq": seq})
    if kind in ("assigned", "gone", "redirected", "lost"):
        seen = {"assigned": PAGE, "gone": GONE, "redirected": REDIRECTED}.get(kind)
        place = {
            "url": event["url"], "fetched_at": sortable(event["fetched_at"]), "seen": seen, "sweep": event["sweep"] or "",
            "redirect_to": event.get("redirect_to", ""), "document": event.get("document", 0),
        }
        if kind == "lost":
            state.execute(LOST, place)
        else:
            state.execute(SEEN, place)
            state.execute(NOT_LOST, place)
    elif kind == "merged":
        state.execute(NAME, {"loser": event["loser"], "winner": event["winner"], "seq": seq})
    elif kind == "forgotten":
        place = {
            "url": event["url"], "fetched_at": sortable(event["fetched_at"] or FIRST), "seen": PAGE, "redirect_to": "",
            "sweep": event["sweep"] or "", "document": event.get("document"), "cluster": event.get("cluster"), "seq": seq,
        }
        state.execute("DELETE FROM pages WHERE url = :url", place)
        state.execute("DELETE FROM lost WHERE url = :url", place)
        if place["document"] is not None:
            state.execute(SEEN, place)
            state.execute(CLUSTER, place)
    elif kind == "split":
        state.execute(NAME, {"loser": event["cluster"], "winner": None, "seq": seq})
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
        sys.exit(f"partition {partition} continues with events of another store: start again with a new --state")
    is_new = known is None or seq > known[0]
    if is_new:
        take_in(state, json.loads(message.value()))
    seq = seq if is_new else known[0]
    progress = (partition, message.offset() + 1, seq, store)
    state.execute("INSERT OR REPLACE INTO progress VALUES (?, ?, ?, ?)", progress)
    return is_new


def run(arguments, state):
    """Reads on from where the state stands; returns how many events were new and how many came again."""
    try:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
    except ModuleNotFoundError:
        sys.exit("the Python package confluent-kafka is missing: apt-get install python3-confluent-kafka on Debian, "
                 "pip install confluent-kafka elsewhere")

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
    (version,) = state.execute("PRAGMA user_version").fetchone()
    if version not in (0, SCHEMA_VERSION) or (version == 0 and state.execute("SELECT 1 FROM sqlite_master").fetchone()):
        sys.exit(f"{arguments.state} was made by another version of this program: begin anew with a new --state")
    state.executescript(f"{SCHEMA} PRAGMA user_version = {SCHEMA_VERSION};")
    if arguments.show:
        for cluster, url in state.execute(PRESENT):
            print(f"{cluster}\t{url}")
        return
    n_new, n_again = run(arguments, state)
    print(f"{n_new} events taken in, {n_again} dropped that had been taken in before")


if __name__ == "__main__":
    main()
