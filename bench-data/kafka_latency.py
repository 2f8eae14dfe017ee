#!/usr/bin/env python3
"""Measures the time from sending a page to reading its committed event, at half of the rate that the machine can do.

    cargo build --release --bin lookalike --example generate --example kafka_pace
    python3 bench-data/kafka_latency.py [--pages 400000] [--warm-up 60] [--seconds 30]

First, short pages are sent for three minutes, in which a broker that was just started compiles its own code. What follows is done
twice: with one process, and with a sketcher and an owner. kafka_pace.rs sends generated pages of 5 KB as fast as events come back,
and then, to new topics and a new store, at half of the rate that it reached. With --rate it sends at that rate alone, and each
--binary in its turn. Pages sent during the warm-up do not count. The broker has the Java options of Kafka's own scripts: with a
small heap it stops for 40 to 90 ms every two or three seconds. It keeps the last 256 MiB of each partition, so that new pages come into
memory that old ones have left, as in a broker that has run for long. The broker and kafka_pace.rs, which both sends and reads, share
the cores with what is measured, so the table also says how many each of them kept busy. Takes up to ten gigabytes in the folder for
temporary files (TMPDIR).
"""
import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kafka_throughput import CONFIG, TARGET, Bench, cpu_seconds, free_port

# The defaults of kafka-server-start.sh and kafka-run-class.sh.
JAVA = {
    "KAFKA_HEAP_OPTS": "-Xmx1G -Xms1G",
    "KAFKA_JVM_PERFORMANCE_OPTS": "-XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 "
                                  "-XX:+ExplicitGCInvokesConcurrent",
}

# The broker keeps far more than is under way, and uses the memory of deleted segments again. Fresh memory may be dear: a virtual
# machine may have to ask its host for it.
BROKER = [
    "log.retention.bytes=268435456",
    "log.retention.check.interval.ms=1000",
    "log.segment.bytes=67108864",
    "log.segment.delete.delay.ms=1000",
]

# Short pages a second that are sent at first.
WARM_UP_RATE = 4_000


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", action="append", type=Path, help="a program to measure; may be given several times")
    parser.add_argument("--generator", default=TARGET / "examples" / "generate")
    parser.add_argument("--pace", default=TARGET / "examples" / "kafka_pace")
    parser.add_argument("--pages", dest="n_pages", type=int, default=400_000, help="to find the rate with")
    parser.add_argument("--warm-up", type=int, default=60, help="seconds of sending before those that count")
    parser.add_argument("--broker-warm-up", type=int, default=180, help="seconds of sending short pages at first")
    parser.add_argument("--seconds", type=int, default=30, help="of sending that count")
    parser.add_argument("--share", type=float, default=0.5, help="of the rate, at which pages are sent")
    parser.add_argument("--rate", type=float, help="pages a second, instead of a share of what the machine can do")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--broker-folder", type=Path, help="where the broker keeps its data, such as on another disk")
    parser.set_defaults(pages=None)
    return parser.parse_args()


class Crawl:
    """The processes of one measurement, and their topics."""

    def __init__(self, bench, roles, topic):
        self.bench, self.topic = bench, topic
        self.environment = bench.environment(topic) | {"LOOKALIKE__STORE__SEED": f"{7:064x}"}
        self.environment["LOOKALIKE__KAFKA__SKETCHES_TOPIC"] = f"sketches-{bench.n_runs}"
        bench.make_topics(self.environment, "--sketches")
        # A broker does not lead new partitions at once.
        time.sleep(2)
        self.store = bench.folder / "store"
        self.processes = [self.start("--role", role) for role in roles] if roles else [self.start()]
        # So that the group is joined and all is warm.
        time.sleep(5)

    def start(self, *more):
        environment = self.environment
        if "sketcher" in more:
            environment = environment | {"LOOKALIKE__METRICS__LISTEN": f"127.0.0.1:{free_port()}"}
        return self.bench.command(self.store, environment, "--config", CONFIG, *more)

    def paced(self, pace, *more):
        """Starts kafka_pace.rs."""
        command = [self.bench.settings.pace, pace, "--brokers", self.bench.broker, "--pages-topic", self.topic,
                   "--partitions", self.bench.settings.partitions,
                   "--events-topic", self.environment["LOOKALIKE__KAFKA__EVENTS_TOPIC"], *more]
        return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)

    def answer(self, pace):
        """What kafka_pace.rs tells at its end."""
        printed, _ = pace.communicate()
        self.check()
        if pace.returncode != 0:
            sys.exit(f"{self.bench.settings.pace} ended with {pace.returncode}")
        return json.loads(printed)

    def cpu(self, pace):
        """The time, and CPU seconds of the program, the broker and kafka_pace.rs."""
        own = sum(cpu_seconds(process.pid) for process in self.processes)
        return [time.monotonic(), own, cpu_seconds(self.bench.broker_pid), cpu_seconds(pace.pid)]

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


def most(bench, roles, topic):
    """Pages a second, where the next page is sent when an event comes back."""
    path = bench.generated("small", bench.settings.n_pages)
    with Crawl(bench, roles, topic) as crawl:
        return crawl.answer(crawl.paced("most", path))["per_second"]


def warm_up_broker(bench):
    """Sends short pages, so that the broker has compiled its own code before anything is measured."""
    seconds = bench.settings.broker_warm_up
    path = bench.generated("tiny", WARM_UP_RATE * (seconds + 1))
    with Crawl(bench, (), "warm-up") as crawl:
        crawl.answer(crawl.paced("steady", "--rate", WARM_UP_RATE, "--warm-up", 0, "--seconds", seconds, path))
    path.unlink()


def latencies(bench, roles, topic, per_second):
    """What kafka_pace.rs tells at a steady rate, and how many cores the program, the broker and itself kept busy."""
    settings = bench.settings
    path = bench.generated("small", int(per_second * (settings.warm_up + settings.seconds + 1)))
    # Else the disk would write the pages' file back while events wait for it.
    os.sync()
    with Crawl(bench, roles, topic) as crawl:
        pace = crawl.paced("steady", "--rate", per_second, "--warm-up", settings.warm_up, "--seconds", settings.seconds, path)
        time.sleep(settings.warm_up)
        begin = crawl.cpu(pace)
        time.sleep(settings.seconds)
        end = crawl.cpu(pace)
        answer = crawl.answer(pace)
    path.unlink()
    seconds, *busy = (after - before for before, after in zip(begin, end))
    return answer, [each / seconds for each in busy]


def main():
    settings = arguments()
    binaries = settings.binary or [TARGET / "lookalike"]
    os.environ.update(JAVA)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(settings, folder, settings.broker_folder, BROKER)
        try:
            if settings.broker_warm_up > 0:
                settings.binary = binaries[0]
                warm_up_broker(bench)
            print("| what | pages/s at most | sent, pages/s | p50, ms | p99, ms | longest, ms | cores: program + broker + client |")
            print("|---|---|---|---|---|---|---|", flush=True)
            for number, (roles, binary) in enumerate(itertools.product([(), ("owner", "sketcher")], binaries)):
                settings.binary = binary
                can = None if settings.rate else most(bench, roles, f"most-{number}")
                rate = settings.rate or settings.share * can
                took, busy = latencies(bench, roles, f"steady-{number}", rate)
                what = " and ".join(reversed(roles)) or "run"
                if len(binaries) > 1:
                    what += f", {binary}"
                cores = " + ".join(f"{100 * each:.0f} %" for each in busy)
                print(f"| {what} | {f'{can:,.0f}' if can else '–'} | {rate:,.0f} | {took['p50']:.0f} | {took['p99']:.0f} | "
                      f"{took['longest']:.0f} | {cores} |", flush=True)
        finally:
            bench.script("clean")


if __name__ == "__main__":
    main()
