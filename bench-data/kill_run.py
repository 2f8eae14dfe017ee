#!/usr/bin/env python3
"""Kills `lookalike run` at random moments, continues it each time, and compares every event with an undisturbed run.

    cargo build --release --bin lookalike --example generate
    python3 bench-data/kill_run.py [--kills 200] [--pages 1000000] [--profile tiny]

The pages are generated, in one file; store.seed is set, so that the same pages give the same bytes. Each process takes other
numbers of threads for each stage, and another size of a batch, than the one before it, lives for a random time, and ends by
SIGKILL. In the end the events are those of the undisturbed run, byte for byte, and so are the clusters, the links and the
statistics of the store, which `verify` finds sound. A run that ends before all kills are done is compared, and begun anew.
Where bytes differ, the folder stays.
"""
import argparse
import filecmp
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target")) / "release"
ANSWERS = ["export clusters", "export links", "stats --json"]
# It depends on when a process wrote.
BY_CHANCE = re.compile(rb'"n_bytes_on_disk":[0-9]+')
# Every event of an undisturbed run is the same whatever these are.
CHOICES = {
    "SKETCHERS": range(1, 9),
    "LOOK_UPS": range(1, 9),
    "ENCODERS": range(1, 9),
    "BATCH_RECORDS_MAX": [13, 100, 1024, 4096],
    "BATCH_LATENCY_MS_MAX": [1, 100],
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--profile", default="tiny", help="of `generate`")
    parser.add_argument("--seconds-max", type=float, default=2, help="the longest life of a process")
    parser.add_argument("--seed", type=int, default=1, help="determines the moments and the settings")
    parser.add_argument("--binary", type=Path, default=TARGET / "lookalike")
    parser.add_argument("--generator", type=Path, default=TARGET / "examples" / "generate")
    return parser.parse_args()


def start(settings, pages, folder, choices):
    """A process that begins or continues the run of a folder."""
    environment = {**os.environ, "LOOKALIKE__STORE__SEED": f"{7:064x}"}
    environment.update({f"LOOKALIKE__PIPELINE__{name}": str(value) for name, value in choices.items()})
    command = [settings.binary, "run", "--quiet", "--store", folder / "store", "--events", folder / "events.jsonl", pages]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)


def answer(settings, folder):
    """Writes what the store answers beside it. How many documents are in the index already, which `verify` tells, depends on
    when a process wrote: it is asked only whether the store is sound."""
    subprocess.run([settings.binary, "verify", "--store", folder / "store"], check=True, stdout=subprocess.DEVNULL)
    for question in ANSWERS:
        command = [settings.binary, *question.split(), "--store", folder / "store"]
        told = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
        (folder / question).write_bytes(BY_CHANCE.sub(b"", told))


def compare(settings, whole, killed, n_kills):
    answer(settings, killed)
    _, wrong, missing = filecmp.cmpfiles(whole, killed, ["events.jsonl", *ANSWERS], shallow=False)
    if wrong or missing:
        sys.exit(f"after {n_kills} kills these differ: {', '.join(wrong + missing)}; see {whole} and {killed}")


def main():
    settings = arguments()
    moments = random.Random(settings.seed)
    root = Path(tempfile.mkdtemp(dir=os.environ.get("TMPDIR")))
    pages, whole, killed = root / "pages.jsonl", root / "whole", root / "killed"
    make = [settings.generator, "--profile", settings.profile, "--pages", str(settings.pages), "--out", pages]
    subprocess.run(make, check=True)

    whole.mkdir()
    begin = time.monotonic()
    if start(settings, pages, whole, {}).wait():
        sys.exit("the undisturbed run failed")
    took = time.monotonic() - begin
    answer(settings, whole)

    begin, n_kills, n_compared, in_row = time.monotonic(), 0, 0, 0
    while n_kills < settings.kills or in_row > 0:
        killed.mkdir(exist_ok=True)
        process = start(settings, pages, killed, {name: moments.choice(values) for name, values in CHOICES.items()})
        try:
            is_last = n_kills >= settings.kills
            code = process.wait(None if is_last else moments.random() * settings.seconds_max)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        if code == -9:
            n_kills, in_row = n_kills + 1, in_row + 1
            print(f"kill {n_kills}", file=sys.stderr)
            continue
        if code:
            sys.exit(f"after {n_kills} kills the run ended with exit code {code}; see {killed}")
        compare(settings, whole, killed, n_kills)
        shutil.rmtree(killed)
        n_compared, in_row = n_compared + 1, 0
    n_bytes = (whole / "events.jsonl").stat().st_size
    print(f"{settings.pages:,} pages: {n_kills} kills over {n_compared} runs, each with the same {n_bytes / 1e6:,.1f} MB of events "
          f"and the same store; {took:.1f} s undisturbed, {time.monotonic() - begin:,.0f} s in all")
    shutil.rmtree(root)


if __name__ == "__main__":
    main()
