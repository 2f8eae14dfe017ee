#!/usr/bin/env python3
"""Times how long lookalike takes to go on after kill -9, over a store as large as you like.

    cargo build --release --bin lookalike --example generate
    python3 bench-data/restart.py --store /tmp/growth.store

lets the store grow for half a minute (a new one is made where there is none), kills the process in the middle of it, and
times a run that has nothing to read: it opens the store, reads its log, brings the clusters and the newest postings into
memory, and ends. That is done several times, because what the log holds when the process is killed is chance; the log is
as long as store.wal_mib at most. The files are in memory as after a crash of the program; after one of the machine the
disk comes on top.
"""
import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target")) / "release"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=TARGET / "lookalike")
    parser.add_argument("--generator", default=TARGET / "examples" / "generate")
    parser.add_argument("--store", type=Path, default="restart.store")
    parser.add_argument("--seconds", type=float, default=30, help="how long the store grows before each kill")
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


def documents(settings):
    told = subprocess.run([settings.binary, "stats", "--json", "--store", settings.store], capture_output=True,
                          check=True).stdout
    return json.loads(told)["n_documents"]


def grow_and_kill(settings, seed):
    # Another seed makes other pages: every one of them is new to the store.
    make = [settings.generator, "--profile", "tiny", "--sweeps", "1", "--pages", "100000000", "--seed", str(seed)]
    pages = subprocess.Popen(make, stdout=subprocess.PIPE)
    # Each round is a source of its own: the pages of the last one are not these.
    run = [settings.binary, "run", "-q", "--store", settings.store, "--stdin-name", f"restart {seed}", "-"]
    program = subprocess.Popen(run, stdin=pages.stdout)
    pages.stdout.close()
    time.sleep(settings.seconds)
    program.kill()
    program.wait()
    pages.terminate()
    pages.wait()


def main():
    settings = arguments()
    for _ in range(settings.rounds):
        grow_and_kill(settings, time.time_ns())
        wal_mib = sum(path.stat().st_size for path in settings.store.glob("*.log")) / 2**20
        with tempfile.NamedTemporaryFile(suffix=".jsonl") as nothing:
            run = [settings.binary, "run", "-q", "--store", settings.store, nothing.name]
            before, begin = os.times(), time.monotonic()
            subprocess.run(run, check=True)
            seconds, after = time.monotonic() - begin, os.times()
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        print(f"{documents(settings):,} documents, {wal_mib:.0f} MiB of log: goes on after {seconds:.2f} s "
              f"({cpu:.2f} s of CPU time)", flush=True)


main()
