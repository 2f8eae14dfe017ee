#!/usr/bin/env python3
"""Measures a sketcher and the owner of a store over a real Apache Kafka, each alone with all cores, beside `run` in one.

    cargo build --release --bin lookalike --example generate
    python3 bench-data/roles_throughput.py [--pages 200000]

Generated pages of 5 KB wait in a topic. One sketcher sketches all of them; then the owner takes the sketches, with every
event in a transaction; then one process does both, into another store. Rates are those between a tenth and nine tenths of
the pages. The CPU time of a page is that of the process, and of its busiest thread that the machine cannot have two of: it
bounds what more machines can bring. Computed from both: the cores that 100,000 pages a second take, without the broker's, and
the most pages a second that this thread allows. The broker shares the cores. Takes about two minutes.
"""
import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from kafka_throughput import CONFIG, TARGET, TICKS, Bench, cpu_seconds, n_pages_told

# Stages of which a larger machine has several threads.
PARALLEL = {"sketcher", "look-up", "encoder", "lookalike"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=TARGET / "lookalike")
    parser.add_argument("--generator", default=TARGET / "examples" / "generate")
    parser.add_argument("--pages", type=int, default=200_000)
    parser.add_argument("--bytes", type=int, help="of a page; 5 KB by default")
    parser.add_argument("--partitions", type=int, default=4)
    return parser.parse_args()


def threads(pid):
    """The CPU seconds of each thread that runs, by its id: its name and they."""
    found = {}
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        name, fields = text[text.index("(") + 1:text.rindex(")")], text[text.rindex(")") + 2:].split()
        found[stat.parent.name] = (name, (int(fields[11]) + int(fields[12])) / TICKS)
    return found


def watched(bench, process, environment, metric, n_pages):
    """The rate, and µs of CPU a page: of the process, of its busiest single thread, and of the broker."""
    marks = []
    while len(marks) < 2:
        if process.poll() is not None:
            sys.exit(f"it ended with {process.returncode} before the pages did")
        n = n_pages_told(environment, metric)
        if n >= n_pages * (0.1, 0.9)[len(marks)]:
            cpu = [cpu_seconds(pid) for pid in (process.pid, bench.broker_pid)]
            marks.append((time.monotonic(), n, cpu, threads(process.pid)))
        time.sleep(0.02)
    (begin, n_begin, cpu_begin, threads_begin), (end, n_end, cpu_end, threads_end) = marks
    n = n_end - n_begin
    own, broker = (1e6 * (after - before) / n for after, before in zip(cpu_end, cpu_begin))
    single = {
        name: 1e6 * (used - threads_begin.get(thread, (name, 0))[1]) / n
        for thread, (name, used) in threads_end.items()
        if name not in PARALLEL
    }
    busiest = max(single, key=single.get)
    return n / (end - begin), own, busiest, single[busiest], broker


def main():
    settings = arguments()
    settings.pages, n_pages = None, settings.pages
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(settings, folder)
        try:
            more = ["--bytes", str(settings.bytes)] if settings.bytes else []
            pages = bench.generated("small", n_pages, *more)
            bench.preloaded("pages", pages)
            environment = bench.environment("pages") | {"LOOKALIKE__STORE__SEED": f"{7:064x}"}
            bench.make_topics(environment, "--sketches")
            print("| what | pages/s | µs CPU a page | of the busiest single thread | the broker's | cores for 100,000 pages/s | "
                  "pages/s at most | load |\n|---|---|---|---|---|---|---|---|", flush=True)
            for role, metric in (("sketcher", "lookalike_sketches_total"), ("owner", "lookalike_pages_total"),
                                 (None, "lookalike_pages_total")):
                if role is None:
                    environment = bench.environment("pages") | {"LOOKALIKE__STORE__SEED": f"{7:064x}"}
                    bench.make_topics(environment)
                store = bench.folder / "store"
                words = ["--config", CONFIG] + (["--role", role] if role else [])
                process = bench.command(store, environment, *words)
                rate, own, busiest, serial, broker = watched(bench, process, environment, metric, n_pages)
                while process.poll() is None and n_pages_told(environment, metric) < n_pages:
                    time.sleep(0.1)
                process.terminate()
                process.wait()
                shutil.rmtree(store, ignore_errors=True)
                print(f"| {role or 'run'} | {rate:,.0f} | {own:.0f} | {busiest} {serial:.1f} | {broker:.0f} | {own / 10:.1f} | "
                      f"{1e6 / serial:,.0f} | {os.getloadavg()[0]:.1f} |", flush=True)
        finally:
            bench.script("clean")


if __name__ == "__main__":
    main()
