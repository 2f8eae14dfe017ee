#!/usr/bin/env python3
"""Kills the owner of a store a hundred times, each time with a standby beside it, and compares every event with a plain run's.

    cargo build --release --bin lookalike --example generate
    python3 bench-data/takeovers.py [--takeovers 100] [--seed 1]

A real Apache Kafka with eight partitions, `run`, and `lookalike follow` with `kafka.takeover_after_ms = 2000`. Generated pages
go in all the time. Once the standby is in step, the owner gets SIGKILL at a random moment. The time ends when a consumer of
committed events has the first event of the successor, whose number the successor's log tells. Then `follow` starts on the
dead owner's store. Where that store had decided what it could not publish, `follow` ends with 19, as it must, and starts anew
on an empty store.

In the end every record must have one terminal event, numbers must be dense, and each rejected record must be one dead
letter. Then one plain `run` takes the same pages in the order that the events tell: its events must be the same bytes, but
for the place of the record, and its clusters the same. Needs the Python package confluent-kafka. Takes some fifteen minutes.
"""
import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kafka_throughput import CONFIG, TARGET, Bench, free_port, n_pages_told
from roles_faults import N_PARTITIONS, Feeder, Process, Topic, Violation, check

SETTINGS = """[kafka]
takeover_after_ms = 2000
"""
DIVERGED = 19
TOOK_OVER = re.compile(r"took over at event (\d+)")
PATIENCE_SECONDS = 120


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=TARGET / "lookalike", type=Path)
    parser.add_argument("--generator", default=TARGET / "examples" / "generate", type=Path)
    parser.add_argument("--takeovers", type=int, default=100)
    parser.add_argument("--rate", type=int, default=100, help="pages of 5 KB a second")
    parser.add_argument("--seed", type=int, default=1, help="of the moments at which the owner dies")
    parser.set_defaults(pages=None, partitions=N_PARTITIONS)
    return parser.parse_args()


class Pair:
    """An owner and its standby, each with a store."""

    def __init__(self, settings, bench, feeder):
        self.settings, self.bench, self.feeder, self.dice = settings, bench, feeder, random.Random(settings.seed)
        self.environment = bench.environment("pages") | {"LOOKALIKE__STORE__SEED": f"{7:064x}"}
        (bench.folder / "takeovers.toml").write_text(SETTINGS)
        bench.make_topics(self.environment)
        self.events = Topic(bench.broker, self.environment["LOOKALIKE__KAFKA__EVENTS_TOPIC"])
        self.n_started = self.n_spoilt = 0
        self.fed = time.monotonic()
        self.owner = self.start("run", "store-0")
        self.standby = None

    def words(self, *more, subcommand="run"):
        config = [self.bench.folder / "takeovers.toml"]
        return [self.settings.binary, subcommand, "-q", "--config", CONFIG, "--config", *config, *more]

    def start(self, subcommand, store):
        self.n_started += 1
        log = self.bench.folder / f"{subcommand}-{self.n_started}.log"
        environment = self.environment | {"LOOKALIKE__METRICS__LISTEN": f"127.0.0.1:{free_port()}"}
        process = Process(store, log, self.words("--store", self.bench.folder / store, subcommand=subcommand), environment)
        process.environment = environment
        return process

    def tick(self):
        """Feeds, reads, and begins anew with a standby whose store is spoilt. True if it was."""
        now = time.monotonic()
        self.feeder.allowed += max(0, int((now - self.fed) * self.settings.rate))
        self.fed = max(self.fed, self.fed + int((now - self.fed) * self.settings.rate) / self.settings.rate)
        self.events.read()
        if self.feeder.error:
            raise Violation(f"a page was not sent: {self.feeder.error}")
        time.sleep(0.005)
        if self.standby is None or (code := self.standby.popen.poll()) is None:
            return False
        if code != DIVERGED:
            raise Violation(f"the standby ended with {code}; see {self.standby.log}")
        self.n_spoilt += 1
        shutil.rmtree(self.bench.folder / self.standby.name)
        self.standby = self.start("follow", self.standby.name)
        return True

    def wait(self, what, is_there):
        """Whether the standby's store turned out to be spoilt while something was waited for."""
        until, is_spoilt = time.monotonic() + PATIENCE_SECONDS, False
        while not is_there():
            is_spoilt |= self.tick()
            if time.monotonic() > until:
                raise Violation(f"{what} did not come within {PATIENCE_SECONDS} s; see {(self.standby or self.owner).log}")
        return is_spoilt

    def is_in_step(self):
        """Whether the standby has compared nearly all that is published."""
        n_compared = n_pages_told(self.standby.environment)
        return n_compared > 0 and n_pages_told(self.standby.environment, "lookalike_standby_lag_events") < self.settings.rate

    def take_over(self, store):
        """Seconds from the owner's death to the first event of its successor; none if the successor had to begin anew."""
        self.standby = self.start("follow", store)
        self.wait("a standby in step", self.is_in_step)
        until = time.monotonic() + self.dice.uniform(0.2, 1.2)
        while time.monotonic() < until:
            self.tick()
        if self.owner.popen.poll() is not None:
            raise Violation(f"the owner ended with {self.owner.popen.returncode}; see {self.owner.log}")
        self.owner.signal(signal.SIGKILL)
        died = time.monotonic()
        self.owner.popen.wait()
        is_spoilt = self.wait("a successor", lambda: TOOK_OVER.search(self.standby.message()))
        first = int(TOOK_OVER.search(self.standby.message())[1])
        is_spoilt |= self.wait("its first event", lambda: len(self.events.messages) > first)
        took = time.monotonic() - died
        self.owner, self.standby = self.standby, None
        return None if is_spoilt else took

    def finish(self):
        """Lets the owner take what was sent, and ends it."""
        self.feeder.n_records = min(self.feeder.allowed, self.feeder.n_records)
        self.feeder.join()
        n_sent = sum(map(len, self.feeder.lines_of))
        self.feeder.allowed = n_sent
        self.wait("the last event", lambda: self.events.n_terminal >= n_sent)
        self.owner.leave()
        self.owner.wait()
        self.events.read_to_end()
        (self.bench.folder / self.owner.name).rename(self.bench.folder / "store")

    def end(self):
        for process in filter(None, [self.owner, self.standby]):
            process.signal(signal.SIGKILL)
            process.popen.wait()


def main():
    settings = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = Path(tempfile.mkdtemp(prefix="takeovers-"))
    bench, pair, told, took = Bench(settings, folder), None, 1, []
    try:
        # More than are sent: a round takes some seven seconds.
        pages = bench.generated("small", 60 * settings.rate * max(settings.takeovers, 4))
        feeder = Feeder(bench.broker, pages, settings.seed)
        pair = Pair(settings, bench, feeder)
        feeder.start()
        pair.feeder.allowed = 500
        pair.wait("the first event", lambda: pair.events.n_terminal)
        for number in range(1, settings.takeovers + 1):
            seconds = pair.take_over(f"store-{number % 2}")
            took += [] if seconds is None else [seconds]
            print(f"{number}: {'began anew' if seconds is None else f'{seconds:.2f} s'}, {pair.events.n_terminal:,} records",
                  file=sys.stderr, flush=True)
        pair.finish()
        took.sort()
        print(f"{settings.takeovers} takeovers, load {os.getloadavg()[1]:.1f}: median {took[len(took) // 2]:.2f} s, longest "
              f"{took[-1]:.2f} s, {sum(seconds > 5 for seconds in took)} above 5 s; {pair.n_spoilt} stores of dead owners had "
              f"decided what was never published, {settings.takeovers - len(took)} of them noticed during a takeover", flush=True)
        print(check(pair, feeder) + "\nnone lost, none double")
        told = 0
    except Violation as violation:
        print(f"VIOLATION after {len(took)} takeovers of seed {settings.seed}: {violation}\nthe folder stays: {folder}")
    finally:
        if pair:
            pair.end()
        bench.script("stop" if told else "clean")
    if not told:
        subprocess.run(["rm", "-rf", folder], check=True)
    return told


if __name__ == "__main__":
    sys.exit(main())
