#!/usr/bin/env python3
"""Measures the time from sending a page to reading its committed event, at half of the rate that the machine can do.

    cargo build --release --bin lookalike --example generate
    python3 bench-data/kafka_latency.py [--pages 100000] [--warm-up 60] [--seconds 30]

Twice: with one process, and with a sketcher and an owner. First, generated pages of 5 KB wait in a topic, and the rate is
taken from the first tenth that is sketched to nine tenths that are in the store. Then generated pages are sent at half of that
rate, each of them once. A page's time begins before it is given to the producer and ends when a consumer that reads committed
transactions has its event. Pages sent during the warm-up do not count: a broker that was just started compiles its own code for
a minute and more. The broker, the producer and the consumer, in Python, share the cores with what is measured, so the table
also says how busy the cores were. Takes up to ten gigabytes in the folder for temporary files (TMPDIR). Needs the Python package
confluent-kafka.
"""
import argparse
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import confluent_kafka
from kafka_throughput import CONFIG, TARGET, TICKS, Bench, free_port, n_pages_told

# Records between two looks at what was delivered.
RECORDS_PER_POLL = 256


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=TARGET / "lookalike")
    parser.add_argument("--generator", default=TARGET / "examples" / "generate")
    parser.add_argument("--pages", dest="n_pages", type=int, default=100_000, help="to measure the rate with")
    parser.add_argument("--warm-up", type=int, default=60, help="seconds of sending before those that count")
    parser.add_argument("--seconds", type=int, default=30, help="of sending that count")
    parser.add_argument("--share", type=float, default=0.5, help="of the rate, at which pages are sent")
    parser.add_argument("--partitions", type=int, default=4)
    parser.set_defaults(pages=None)
    return parser.parse_args()


def read_events(brokers, topic, n_seen, stop, answer):
    """Notes when the event of each record is there, until it is told to stop."""
    # A broker that waits for more to send does not notice that a transaction is committed: half a second by default.
    settings = {"enable.auto.commit": False, "fetch.wait.max.ms": 10}
    consumer = confluent_kafka.Consumer({"bootstrap.servers": brokers, "group.id": "latency", **settings})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    seen = {}
    while not stop.is_set():
        messages = consumer.consume(500, 0.02)
        now = time.monotonic()
        for message in messages:
            event = json.loads(message.value())
            # Events that follow from a record come after its own.
            seen.setdefault((event["partition"], event["offset"]), now)
        n_seen.value = len(seen)
    answer.send(seen)


class Crawl:
    """The processes of one measurement, and their topics."""

    def __init__(self, bench, roles, topic):
        self.bench = bench
        self.environment = bench.environment(topic) | {"LOOKALIKE__STORE__SEED": f"{7:064x}"}
        self.environment["LOOKALIKE__KAFKA__SKETCHES_TOPIC"] = f"sketches-{bench.n_runs}"
        bench.make_topics(self.environment, "--sketches")
        # A broker does not lead new partitions at once.
        time.sleep(2)
        self.sketchers = self.environment | {"LOOKALIKE__METRICS__LISTEN": f"127.0.0.1:{free_port()}"}
        self.store, self.has_roles = bench.folder / "store", bool(roles)
        self.processes = [self.start("--role", role) for role in roles] if roles else [self.start()]

    def start(self, *more):
        environment = self.sketchers if "sketcher" in more else self.environment
        return self.bench.command(self.store, environment, "--config", CONFIG, *more)

    def n_begun(self):
        """Pages that have left the first process."""
        return n_pages_told(self.sketchers, "lookalike_sketches_total") if self.has_roles else self.n_done()

    def n_done(self):
        return n_pages_told(self.environment)

    def check(self):
        for process in self.processes:
            if process.poll() is not None:
                sys.exit(f"a process ended with {process.returncode}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()
        shutil.rmtree(self.store)


def rate(bench, roles, n_pages):
    """From the first tenth sketched to nine tenths in the store: a sketcher may be ahead of its owner."""
    marks = []
    with Crawl(bench, roles, "pages") as crawl:
        for count, share in ((crawl.n_begun, 0.1), (crawl.n_done, 0.9)):
            while (n := count()) < share * n_pages:
                crawl.check()
                time.sleep(0.02)
            marks.append((time.monotonic(), n))
    (begin, n_begin), (end, n_end) = marks
    return (n_end - n_begin) / (end - begin)


def busy_seconds():
    """The time since the machine started in which its cores neither idled nor waited for a disk, all cores added up."""
    ticks = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / TICKS


def send(bench, topic, path, per_second, warm_up, seconds):
    """Sends at a steady rate. Returns when the pages begin to count, the share of the cores that is busy from then on, and when
    each record was given to the producer, by its place."""
    sent = {}
    producer = confluent_kafka.Producer({"bootstrap.servers": bench.broker, "linger.ms": 1})

    def deliver(began):
        def note(error, message):
            if error:
                sys.exit(f"a page was not sent: {error}")
            sent[message.partition(), message.offset()] = began
        return note

    begin, n, busy_before = time.monotonic(), 0, None
    with open(path, "rb") as lines:
        while (elapsed := time.monotonic() - begin) < warm_up + seconds:
            if elapsed >= warm_up and busy_before is None:
                busy_before = busy_seconds()
            while n < per_second * elapsed:
                page, partition = next(lines).rstrip(b"\n"), n % bench.settings.partitions
                producer.produce(topic, page, partition=partition, on_delivery=deliver(time.monotonic()))
                n += 1
                # Also where the pages are late: the producer holds only so many records whose delivery nobody asked for.
                if n % RECORDS_PER_POLL == 0:
                    producer.poll(0)
            producer.poll(0.001)
    busy = (busy_seconds() - busy_before) / seconds / os.cpu_count()
    producer.flush()
    return begin + warm_up, busy, sent


def latencies(bench, roles, topic, per_second):
    warm_up, seconds = bench.settings.warm_up, bench.settings.seconds
    path = bench.generated("small", int(per_second * (warm_up + seconds + 1)))
    n_seen, stop = multiprocessing.Value("l", 0), multiprocessing.Event()
    ours, theirs = multiprocessing.Pipe()
    with Crawl(bench, roles, topic) as crawl:
        # So that the group is joined and all is warm.
        time.sleep(5)
        events = crawl.environment["LOOKALIKE__KAFKA__EVENTS_TOPIC"]
        reader = multiprocessing.Process(target=read_events, args=(bench.broker, events, n_seen, stop, theirs), daemon=True)
        reader.start()
        begin, busy, sent = send(bench, topic, path, per_second, warm_up, seconds)
        until = time.monotonic() + 60
        while n_seen.value < len(sent) and time.monotonic() < until:
            crawl.check()
            time.sleep(0.05)
        stop.set()
        seen = ours.recv()
    if missing := sent.keys() - seen.keys():
        sys.exit(f"{len(missing)} of {len(sent)} pages have no event after a minute")
    path.unlink()
    return sorted(seen[place] - began for place, began in sent.items() if began > begin), busy


def main():
    settings = arguments()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(settings, folder)
        try:
            bench.preloaded("pages", bench.generated("small", settings.n_pages))
            print("| what | pages/s at most | sent, pages/s | p50, ms | p99, ms | longest, ms | cores busy |\n|---|---|---|---|---|---|---|")
            for what, roles in (("run", ()), ("sketcher and owner", ("owner", "sketcher"))):
                most = rate(bench, roles, settings.n_pages)
                topic = f"steady-{len(roles)}"
                took, busy = latencies(bench, roles, topic, settings.share * most)
                p50, p99, longest = (1000 * took[at] for at in (len(took) // 2, len(took) * 99 // 100, -1))
                print(f"| {what} | {most:,.0f} | {settings.share * most:,.0f} | {p50:.0f} | {p99:.0f} | {longest:.0f} | "
                      f"{100 * busy:.0f} % |", flush=True)
        finally:
            bench.script("clean")


if __name__ == "__main__":
    main()
