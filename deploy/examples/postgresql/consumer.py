#!/usr/bin/env python3
"""Keeps what Lookalike's events say in PostgreSQL: which page stands at each URL now, and its cluster.

    consumer.py --database postgresql:///crawl --brokers 127.0.0.1:9092 [--topic lookalike.events.v1] [--until-end]

The offsets are in the same transaction as what was made of the events, so a kill at any moment loses and doubles nothing.
docs/guide/kafka.md has the rule for consumers. Two of these at once do no harm; the second finds nothing new.
"""

import argparse
import hashlib
import json
import signal
import sys
from pathlib import Path

import psycopg
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

# The version of the events that this consumer knows, as the header lookalike-version has it.
VERSION = "1"
GONE, REDIRECT, PAGE = 1, 2, 3

# The newest sighting of a URL stays, whichever comes first. Of two of one moment it is, as in the store, a page rather than
# a redirect, and that rather than nothing; then the greater target, or document; then the greater sweep.
SEEN = """
INSERT INTO lookalike.sightings AS old
VALUES (%(key)s, %(url)s, %(fetched_at)s, %(seen)s, %(redirect_to)s, %(document)s, %(sweep)s)
ON CONFLICT (url_sha256) DO UPDATE SET fetched_at = excluded.fetched_at, seen = excluded.seen,
    redirect_to = excluded.redirect_to, document = excluded.document, sweep = excluded.sweep
WHERE (old.fetched_at, old.seen, old.redirect_to, old.document, old.sweep)
    < (excluded.fetched_at, excluded.seen, excluded.redirect_to, excluded.document, excluded.sweep)
"""

# A sweep that was closed without the URL says that it is lost, until a page of that sweep comes after all.
LOST = """
INSERT INTO lookalike.losses VALUES (%(key)s, %(sweep)s, %(fetched_at)s)
ON CONFLICT (url_sha256, sweep) DO UPDATE SET fetched_at = excluded.fetched_at
"""
NOT_LOST = "DELETE FROM lookalike.losses WHERE url_sha256 = %(key)s AND sweep = %(sweep)s"
FORGOTTEN = "DELETE FROM lookalike.sightings WHERE url_sha256 = %(key)s"
FORGOTTEN_LOSSES = "DELETE FROM lookalike.losses WHERE url_sha256 = %(key)s"

# The last word on a document's cluster, and on a cluster's name.
CLUSTER = """
INSERT INTO lookalike.documents AS old VALUES (%(document)s, %(cluster)s, %(seq)s)
ON CONFLICT (document) DO UPDATE SET cluster = excluded.cluster, seq = excluded.seq WHERE old.seq < excluded.seq
"""
NAME = """
INSERT INTO lookalike.merges AS old VALUES (%(loser)s, %(winner)s, %(seq)s)
ON CONFLICT (loser) DO UPDATE SET winner = excluded.winner, seq = excluded.seq WHERE old.seq < excluded.seq
"""


def text(value):
    """A text as PostgreSQL can hold it."""
    return (value or "").replace("\0", "\N{REPLACEMENT CHARACTER}")


def time(value):
    """A time of an event as PostgreSQL reads it: it knows no year 0."""
    return f"0001{value[4:]} BC" if value.startswith("0000-") else value


def effects(event):
    """The statements that one event stands for, with their values. Types that it does not know change nothing."""
    kind = event["type"]
    values = {name: event.get(name) for name in ("seq", "document", "cluster")}
    if event["url"] is not None:
        values |= {
            "key": hashlib.sha256(event["url"].encode()).digest(), "url": text(event["url"]), "sweep": text(event["sweep"]),
            "fetched_at": event["fetched_at"] and time(event["fetched_at"]), "redirect_to": text(event.get("redirect_to")),
        }
    if kind == "assigned":
        return [(CLUSTER, values), (SEEN, values | {"seen": PAGE}), (NOT_LOST, values)]
    if kind in ("gone", "redirected"):
        seen = GONE if kind == "gone" else REDIRECT
        return [(SEEN, values | {"seen": seen, "document": 0}), (NOT_LOST, values)]
    if kind == "lost":
        return [(LOST, values)]
    if kind == "reassigned":
        return [(CLUSTER, values)]
    if kind == "merged":
        return [(NAME, values | {"loser": event["loser"], "winner": event["winner"]})]
    if kind == "split":
        return [(NAME, values | {"loser": event["cluster"], "winner": None})]
    if kind == "forgotten":
        # Where a page is left, the event says which.
        left = [(CLUSTER, values), (SEEN, values | {"seen": PAGE})] if values["document"] is not None else []
        return [(FORGOTTEN, values), (FORGOTTEN_LOSSES, values), *left]
    return []


def header(message, name):
    """The last header of a name, as text."""
    values = [value for key, value in message.headers() or [] if key == name and value is not None]
    return values[-1].decode() if values else None


def take_in(database, messages):
    """Takes messages in, all or none of them, but for those that were taken in before; returns how many were new."""
    n_new = 0
    with database.transaction(), database.cursor() as cursor:
        # Locked until the end of the transaction: another consumer waits, and then finds the higher numbers.
        cursor.execute("SELECT partition, next_offset, seq, n_events, store FROM lookalike.progress ORDER BY partition FOR UPDATE")
        progress = {partition: rest for partition, *rest in cursor}
        with database.pipeline():
            for message in messages:
                partition, offset, version = message.partition(), message.offset(), header(message, "lookalike-version")
                if version != VERSION:
                    sys.exit(f"partition {partition}, offset {offset} has version {version} of the events, and this consumer "
                             f"knows version {VERSION}: use a newer one")
                seq, store = int(header(message, "lookalike-seq")), header(message, "lookalike-store")
                next_offset, highest, n_events, known_store = progress[partition]
                if known_store not in (None, store):
                    sys.exit(f"partition {partition} continues with events of another store: start again with an empty schema")
                if seq > highest:
                    for statement, values in effects(json.loads(message.value())):
                        cursor.execute(statement, values)
                    highest, n_events, n_new = seq, n_events + 1, n_new + 1
                progress[partition] = [max(next_offset or 0, offset + 1), highest, n_events, store]
            for partition in {message.partition() for message in messages}:
                cursor.execute(
                    "UPDATE lookalike.progress SET (next_offset, seq, n_events, store) = (%s, %s, %s, %s) WHERE partition = %s",
                    [*progress[partition], partition],
                )
    return n_new


def start(arguments, database):
    """A consumer that goes on where the database stands."""
    consumer = Consumer({
        "bootstrap.servers": arguments.brokers,
        "group.id": "lookalike-postgresql",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
    })
    found = consumer.list_topics(arguments.topic, timeout=10).topics[arguments.topic]
    if found.error:
        sys.exit(f"{arguments.topic}: {found.error}")
    with database.transaction(), database.cursor() as cursor:
        # Two that create it at once would trip over each other.
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('lookalike'))")
        cursor.execute(Path(__file__).with_name("schema.sql").read_text())
        cursor.executemany(
            "INSERT INTO lookalike.progress (partition) VALUES (%s) ON CONFLICT DO NOTHING", [(n,) for n in found.partitions]
        )
        cursor.execute("SELECT partition, next_offset FROM lookalike.progress")
        offsets = dict(cursor.fetchall())
    consumer.assign([
        TopicPartition(arguments.topic, n, OFFSET_BEGINNING if offsets[n] is None else offsets[n]) for n in found.partitions
    ])
    return consumer, set(found.partitions)


def run(arguments, database):
    """Takes events in until a signal or, if so asked, the end of the topic; returns how many were new."""
    consumer, unread = start(arguments, database)
    n_new, stop = 0, []
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: stop.append(True))
    while not stop and not (arguments.until_end and not unread):
        messages = []
        for message in consumer.consume(arguments.batch, timeout=1):
            if message.error() is None:
                messages.append(message)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                unread.discard(message.partition())
            else:
                sys.exit(f"{arguments.topic}: {message.error()}")
        if messages:
            n_new += take_in(database, messages)
    consumer.close()
    return n_new


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--database", default="", help="a connection string of libpq; default: the PG… variables")
    parser.add_argument("--brokers", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="lookalike.events.v1")
    parser.add_argument("--batch", type=int, default=1000, help="events in a transaction, at most")
    parser.add_argument("--until-end", action="store_true", help="stop where the topic ends")
    arguments = parser.parse_args()
    with psycopg.connect(arguments.database, autocommit=True) as database:
        print(f"{run(arguments, database)} events taken in")


if __name__ == "__main__":
    main()
