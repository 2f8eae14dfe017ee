#!/usr/bin/env python3
"""Measures lookalike over a real Apache Kafka on the same machine, and how soon it consumes again after kill -9.

    cargo build --release --bin lookalike --example generate
    python3 bench-data/kafka_throughput.py [--restarts 50]

deploy/kafka-local.sh starts the broker. Pages are sent beforehand; then the program takes them in, with every event in a
transaction, and the CPU time of both is taken from /proc. Rates are those between a tenth and nine tenths of the pages;
the same pages from a file, with every event in a file, are what they are held against. Once both share the machine's
cores; once ("a core each") the broker is held to the last core and the program to the first, from Kafka as from the file:
what it can do by itself. For restarts a store of a million short documents is made, and the program killed and started
again: the time from its start to the first pages that are durable. Takes about ten minutes and eight gigabytes in the
folder for temporary files (TMPDIR).
"""
import argparse
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCRIPT = HERE.parent / "deploy" / "kafka-local.sh"
CONFIG = HERE.parent / "config" / "kafka.toml"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target")) / "release"
TICKS = os.sysconf("SC_CLK_TCK")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=TARGET / "lookalike")
    parser.add_argument("--generator", default=TARGET / "examples" / "generate")
    parser.add_argument("--small", type=int, default=200_000, help="pages of 5 KB")
    parser.add_argument("--large", type=int, default=20_000, help="pages of 50 KB")
    parser.add_argument("--documents", type=int, default=1_000_000, help="in the store that is restarted")
    parser.add_argument("--restarts", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3, help="of each rate; the median counts")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--pages", type=Path, help="a folder to keep generated pages in")
    return parser.parse_args()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def all_cores():
    return os.sched_getaffinity(os.getpid())


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Bench:
    def __init__(self, settings, folder, broker_folder=None, broker_settings=()):
        self.settings, self.folder, self.n_runs, self.cores = settings, Path(folder), 0, all_cores()
        self.pages = settings.pages or self.folder
        self.broker_folder = broker_folder or self.folder / "broker"
        # Below those that outgoing connections are given; the broker takes the next one as well.
        port = random.randrange(20_000, 30_000, 2)
        self.broker = self.script("start", "--port", str(port), *broker_settings).strip()
        self.broker_pid = int((self.broker_folder / "pid").read_text())

    def script(self, *words, **more):
        command = [SCRIPT, *words, "--dir", self.broker_folder]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **more).stdout

    def generated(self, profile, n_pages, *more):
        path = self.pages / f"{'-'.join([profile, str(n_pages), *more])}.jsonl"
        if not path.exists():
            make = [self.settings.generator, "--profile", profile, "--pages", str(n_pages), *more, "--out", path]
            subprocess.run(make, check=True)
        return path

    def environment(self, topic):
        """A store, outputs and a group that nobody has used."""
        self.n_runs += 1
        names = {"events_topic": "events", "assignments_topic": "assignments", "merges_topic": "merges"}
        kafka = {"brokers": self.broker, "topic": topic, "group": f"group-{self.n_runs}"}
        kafka |= {field: f"{name}-{self.n_runs}" for field, name in names.items()}
        variables = {f"LOOKALIKE__KAFKA__{name.upper()}": value for name, value in kafka.items()}
        return {**os.environ, **variables, "LOOKALIKE__LOG__LEVEL": "warn",
                "LOOKALIKE__METRICS__LISTEN": f"127.0.0.1:{free_port()}"}

    def make_topics(self, environment, *more):
        command = [self.settings.binary, "topics", "create", "--config", CONFIG, "--replication", "1",
                   "--partitions", str(self.settings.partitions), "--output-partitions", "1", *more]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)

    def preloaded(self, topic, path):
        self.make_topics(self.environment(topic))
        with open(path, "rb") as file:
            self.script("produce", topic, stdin=file)

    def hold(self, own, brokers):
        """Holds the program, when it is started next, and the broker to some cores."""
        self.cores = own
        for thread in Path(f"/proc/{self.broker_pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), brokers)

    def command(self, store, environment, *more):
        return subprocess.Popen([self.settings.binary, "run", "-q", "--store", store, *more], env=environment,
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                preexec_fn=lambda: os.sched_setaffinity(0, self.cores))

    def watched(self, process, environment, n_pages, others=()):
        """Pages a second and CPU seconds a page of each process, between a tenth and nine tenths of the pages."""
        marks, cpu = [], []
        while len(marks) < 2:
            if process.poll() is None:
                n, cpu = n_pages_told(environment), [cpu_seconds(pid) for pid in (process.pid, *others)]
            elif process.returncode == 0 and marks:
                n = n_pages
            else:
                sys.exit(f"it ended with {process.returncode} before the pages did")
            if n >= n_pages * (0.1, 0.9)[len(marks)]:
                marks.append((time.monotonic(), n, cpu))
            time.sleep(0.02)
        (begin, n_begin, cpu_begin), (end, n_end, cpu_end) = marks
        cpu = [(after - before) for after, before in zip(cpu_end, cpu_begin)]
        return (n_end - n_begin) / (end - begin), [each / (n_end - n_begin) for each in cpu], cpu, end - begin

    def from_topic(self, topic, n_pages):
        environment, store = self.environment(topic), self.folder / "store"
        self.make_topics(environment)
        process = self.command(store, environment, "--config", CONFIG)
        told = self.watched(process, environment, n_pages, [self.broker_pid])
        process.terminate()
        begin = time.monotonic()
        process.wait()
        shutil.rmtree(store)
        return told, time.monotonic() - begin

    def from_file(self, path, n_pages):
        environment, store, events = self.environment("none"), self.folder / "store", self.folder / "events.jsonl"
        process = self.command(store, environment, "--events", events, path)
        told = self.watched(process, environment, n_pages)
        process.wait()
        shutil.rmtree(store)
        events.unlink()
        return told

    def rates(self, what, path, n_pages):
        topic = f"pages-{what.replace(' ', '-')}"
        self.preloaded(topic, path)
        self.rate(what, topic, path, n_pages)
        if len(self.cores) > 1:
            self.hold({min(self.cores)}, {max(self.cores)})
            self.rate(f"{what}, a core each", topic, path, n_pages)
            self.hold(all_cores(), all_cores())

    def rate(self, what, topic, path, n_pages):
        middle = lambda runs, of: statistics.median(of(run) for run in runs)
        kafka = [self.from_topic(topic, n_pages) for _ in range(self.settings.rounds)]
        file = [self.from_file(path, n_pages) for _ in range(self.settings.rounds)]
        rate, of_file = middle(kafka, lambda run: run[0][0]), middle(file, lambda run: run[0])
        own, broker = (middle(kafka, lambda run, at=at: run[0][1][at]) for at in (0, 1))
        shares = [middle(kafka, lambda run, at=at: run[0][2][at] / run[0][3]) for at in (0, 1)]
        print(f"| {what} | {rate:,.0f} | {100 * shares[0]:.0f} % + {100 * shares[1]:.0f} % | {1e6 * own:.0f} | "
              f"{1e6 * broker:.0f} | {of_file:,.0f} | {1e6 * middle(file, lambda run: run[1][0]):.0f} | "
              f"{100 * rate / of_file:.0f} % | {middle(kafka, lambda run: run[1]):.1f} |", flush=True)

    def restarts(self):
        n = self.settings.documents
        # Short pages; as many again are there to be consumed after the restarts.
        path = self.generated("tiny", 2 * n, "--sweeps", "1", "--copies", "0")
        self.preloaded("pages-tiny", path)
        environment, store = self.environment("pages-tiny"), self.folder / "store"
        self.make_topics(environment)
        process = self.command(store, environment, "--config", CONFIG)
        while n_pages_told(environment) < n:
            time.sleep(0.05)
        took, dice = [], random.Random(1)
        for _ in range(self.settings.restarts):
            process.kill()
            process.wait()
            begin = time.monotonic()
            process = self.command(store, environment, "--config", CONFIG)
            while n_pages_told(environment) == 0:
                time.sleep(0.005)
            took.append(time.monotonic() - begin)
            time.sleep(dice.random() / 5)
        process.kill()
        process.wait()
        stats = subprocess.run([self.settings.binary, "stats", "--json", "--store", store], stdout=subprocess.PIPE)
        longest = ", ".join(f"{each:.2f} (number {1 + took.index(each)})" for each in sorted(took)[-5:])
        took.sort()
        print(f"consuming again after kill -9, {len(took)} times, {json.loads(stats.stdout).get('n_documents', n):,} "
              f"documents: median {took[len(took) // 2]:.2f} s, p99 {took[len(took) * 99 // 100]:.2f} s; the longest in "
              f"seconds: {longest}", flush=True)


def n_pages_told(environment, name="lookalike_pages_total"):
    """Pages that are durable, as the metrics tell, or another count; 0 while nobody answers."""
    try:
        with urllib.request.urlopen(f"http://{environment['LOOKALIKE__METRICS__LISTEN']}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return 0
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.split("{")[0].split(" ")[0] == name)


def main():
    settings = arguments()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(settings, folder)
        try:
            print("| pages | pages/s | cores: program + broker | µs CPU a page | broker's | from a file, pages/s | µs CPU | "
                  "of the file's rate | s to end |\n|---|---|---|---|---|---|---|---|---|", flush=True)
            for what, n_pages, more in [("5 KB", settings.small, []), ("50 KB", settings.large, ["--bytes", "50000"])]:
                if n_pages:
                    bench.rates(what, bench.generated("small", n_pages, *more), n_pages)
            if settings.restarts:
                bench.restarts()
        finally:
            bench.script("clean")


if __name__ == "__main__":
    main()
