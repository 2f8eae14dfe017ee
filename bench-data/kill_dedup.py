#!/usr/bin/env python3
"""Kills `lookalike dedup` at random moments, resumes it each time, and compares every byte with an undisturbed corpus.

    cargo build --release --bin lookalike --example generate
    python3 bench-data/kill_dedup.py [--kills 50] [--pages 300000] [--only store|no-store]

It does so twice: without a store, in one batch, and with --store, in two batches into one store. The shards are
generated pages of 5 KB as JSON lines in zstd; store.seed is set, so that the same inputs give the same bytes. A process
lives for a random part of the time that an undisturbed one takes, then SIGKILL ends it, and the same command goes on.
Each time that a corpus is whole, the script compares the outputs, the lists of removed records and, with a store, what
the store answers. Then it starts over until the kills are done. Where bytes differ, the folder stays.
"""
import argparse
import collections
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dedup import TARGET, generate

ANSWERS = ["export clusters", "export links", "stats --json", "verify --json"]
# These depend on when a process wrote: bytes on disk, and the rows of batches that are not in the index yet.
BY_CHANCE = re.compile(rb'"(n_bytes_on_disk|pending)":[0-9]+')


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50, help="without a store, and again with one")
    parser.add_argument("--pages", type=int, default=300_000)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1, help="determines the moments")
    parser.add_argument("--only", choices=["store", "no-store"])
    parser.add_argument("--binary", type=Path, default=TARGET / "lookalike")
    parser.set_defaults(profile="small", plain=False)
    return parser.parse_args()


class World:
    """A folder with one corpus, batch after batch."""

    def __init__(self, settings, folder, batches, has_store):
        self.binary, self.folder, self.batches, self.has_store = settings.binary, folder, batches, has_store
        self.config = folder.parent / "config.toml"
        self.config.write_text(f'[store]\nseed = "{7:064x}"\n')

    def start(self, batch):
        self.folder.mkdir(exist_ok=True)
        command = [self.binary, "dedup", "--quiet", "--config", self.config, *self.batches[batch]]
        command += ["--out", self.folder / f"out-{batch}", "--removed", self.folder / f"removed-{batch}.jsonl"]
        command += ["--store", self.folder / "store"] if self.has_store else []
        return subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL)

    def phase(self, batch):
        """How far the batch is, as the corpus' manifest says."""
        try:
            manifest = json.loads((self.folder / f"out-{batch}/.dedup/manifest.json").read_text())
        except FileNotFoundError:
            return "before the manifest"
        if manifest.get("finished"):
            return "when it was finished"
        return "while writing" if manifest.get("decided") else "while clustering and choosing"

    def contents(self):
        """Every file that a batch leaves, and what the store answers."""
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        ours = [path for path in files if not {".dedup", "store"} & set(path.relative_to(self.folder).parts)]
        contents = {str(path.relative_to(self.folder)): path.read_bytes() for path in ours}
        for answer in ANSWERS if self.has_store else []:
            command = [self.binary, *answer.split(), "--store", self.folder / "store"]
            told = subprocess.run(command, check=True, stdout=subprocess.PIPE)
            contents[answer] = BY_CHANCE.sub(b"", told.stdout)
        return contents

    def clear(self):
        shutil.rmtree(self.folder)


def compare(expected, world, n_kills):
    contents = world.contents()
    wrong = [name for name in sorted(expected.keys() | contents.keys()) if expected.get(name) != contents.get(name)]
    if wrong:
        evidence = world.folder.parent / "expected"
        for name in set(wrong) & expected.keys():
            path = evidence / name.replace(" ", "-")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(expected[name])
        raise SystemExit(f"after {n_kills} kills these differ: {', '.join(wrong)}; see {world.folder} and {evidence}")


def kill(settings, world, moments):
    """Returns the text that tells what was done."""
    took = []
    for batch in range(len(world.batches)):
        begin = time.monotonic()
        if world.start(batch).wait():
            raise SystemExit("the undisturbed run failed")
        took.append(time.monotonic() - begin)
    expected = world.contents()
    world.clear()

    begin, phases, n_compared, batch, most, in_row = time.monotonic(), collections.Counter(), 0, 0, 0, 0
    while sum(phases.values()) < settings.kills or batch > 0 or in_row > 0:
        process = world.start(batch)
        is_last = sum(phases.values()) >= settings.kills
        try:
            code = process.wait(None if is_last else moments.random() * took[batch])
        except subprocess.TimeoutExpired:
            phase = world.phase(batch)
            process.kill()
            code = process.wait()
        if code == -9:
            phases[phase] += 1
            in_row += 1
            print(f"kill {sum(phases.values())}, {phase}", file=sys.stderr)
            most = max(most, in_row)
            continue
        if code:
            raise SystemExit(f"after {sum(phases.values())} kills the run ended with exit code {code}; see {world.folder}")
        batch += 1
        if batch == len(world.batches):
            compare(expected, world, sum(phases.values()))
            world.clear()
            n_compared, batch, in_row = n_compared + (in_row > 0), 0, 0
    phases = ", ".join(f"{n} {phase}" for phase, n in phases.most_common())
    n_bytes = sum(map(len, expected.values()))
    return (
        f"{settings.kills} kills ({phases}; up to {most} for one corpus), {n_compared} killed corpora of {len(expected)} files and "
        f"answers, {n_bytes / 1e6:,.1f} MB, the same bytes; {' + '.join(f'{seconds:.1f}' for seconds in took)} s undisturbed, "
        f"{time.monotonic() - begin:,.0f} s in all"
    )


def main():
    settings = arguments()
    folder = Path(tempfile.mkdtemp(dir=os.environ.get("TMPDIR")))
    (folder / "pages").mkdir()
    files = list(generate(settings, folder / "pages"))
    half = len(files) // 2
    for what, batches in [("no-store", [files]), ("store", [files[:half], files[half:]])]:
        if settings.only in (None, what):
            world = World(settings, folder / "world", batches, what == "store")
            told = kill(settings, world, random.Random(settings.seed))
            print(f"{settings.pages:,} pages, {what}: {told}", flush=True)
    shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
