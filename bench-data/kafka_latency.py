#!/usr/bin/env python3
"""Measures the time from sending a page to reading its committed event, at half of the rate that the machine can do.

    cargo build --release --bin lookalike --example generate --example kafka_pace
    python3 bench-data/kafka_latency.py [--pages 100000] [--warm-up 60] [--seconds 30]

Twice: with one process, and with a sketcher and an owner. First, generated pages of 5 KB wait in a topic, and the rate is
taken from the first tenth that is sketched to nine tenths that are in the store. Then kafka_pace.rs sends generated pages at half of
that rate, each of them once, and reads their events. Pages sent during the warm-up do not count: a broker that was just started
compiles its own code for a minute and more. The broker, the producer and the consumer share the cores with what is measured, so
the table also says how busy the cores were. Takes up to ten gigabytes in the folder for temporary files (TMPDIR).
"""
import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time

from kafka_throughput import CONFIG, TARGET, Bench, free_port, n_pages_told


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=TARGET / "lookalike")
    parser.add_argument("--generator", default=TARGET / "examples" / "generate")
    parser.add_argument("--pace", default=TARGET / "examples" / "kafka_pace")
    parser.add_argument("--pages", dest="n_pages", type=int, default=100_000, help="to measure the rate with")
    parser.add_argument("--warm-up", type=int, default=60, help="seconds of sending before those that count")
    parser.add_argument("--seconds", type=int, default=30, help="of sending that count")
    parser.add_argument("--share", type=float, default=0.5, help="of the rate, at which pages are sent")
    parser.add_argument("--partitions", type=int, default=4)
    parser.set_defaults(pages=None)
    return parser.parse_args()


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


def latencies(bench, roles, topic, per_second):
    settings = bench.settings
    path = bench.generated("small", int(per_second * (settings.warm_up + settings.seconds + 1)))
    with Crawl(bench, roles, topic) as crawl:
        # So that the group is joined and all is warm.
        time.sleep(5)
        command = [settings.pace, "--brokers", bench.broker, "--pages-topic", topic, "--partitions", settings.partitions,
                   "--events-topic", crawl.environment["LOOKALIKE__KAFKA__EVENTS_TOPIC"], "--rate", per_second,
                   "--warm-up", settings.warm_up, "--seconds", settings.seconds, path]
        paced = subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True)
        crawl.check()
    path.unlink()
    return json.loads(paced.stdout)


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
                took = latencies(bench, roles, topic, settings.share * most)
                print(f"| {what} | {most:,.0f} | {settings.share * most:,.0f} | {took['p50']:.0f} | {took['p99']:.0f} | "
                      f"{took['longest']:.0f} | {100 * took['cores_busy']:.0f} % |", flush=True)
        finally:
            bench.script("clean")


if __name__ == "__main__":
    main()
