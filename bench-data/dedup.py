#!/usr/bin/env python3
"""Times `lookalike dedup` as a whole process: from generated pages to a clean corpus.

    cargo build --release --bin lookalike --example generate
    python3 bench-data/dedup.py [--pages 200000] [--shards 8] [--profile small] [--form same|jsonl] [--removed]
    python3 bench-data/dedup.py FILE...

Without files, it generates pages as JSON lines in zstd, in shards. Each round writes a new corpus. The script reports medians
and checks that every round kept as many pages; with a configured store.seed it checks that they wrote the same bytes.
"""
import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target")) / "release"
SEED = {"LOOKALIKE__STORE__SEED": "0" * 63 + "7"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--pages", type=int, default=200_000)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--profile", default="small")
    parser.add_argument("--form", choices=["same", "jsonl"], default="same")
    parser.add_argument("--removed", action="store_true", help="write the list of removed records, too")
    parser.add_argument("--plain", action="store_true", help="generate shards that are not compressed")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--binary", type=Path, default=TARGET / "lookalike")
    return parser.parse_args()


def generate(settings, folder):
    each = settings.pages // settings.shards
    for shard in range(settings.shards):
        out = folder / f"pages-{shard:02}.jsonl{'' if settings.plain else '.zst'}"
        command = [TARGET / "examples/generate", "--profile", settings.profile, "--pages", (shard + 1) * each]
        command += ["--skip", shard * each, "--out", out] + ([] if settings.plain else ["--zstd", 3])
        subprocess.run([str(word) for word in command], check=True)
        yield out


def digest(folder):
    hashed = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and ".dedup" not in path.parts):
        hashed.update(path.name.encode() + path.read_bytes())
    return hashed.hexdigest()


def timed(command):
    """Runs a process. Returns its answer, its wall seconds, its CPU seconds and its peak memory in MiB."""
    begin = time.time()
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, env=os.environ | SEED)
    answer = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{command[1]} failed")
    return json.loads(answer), time.time() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main():
    settings = arguments()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as name:
        folder = Path(name)
        files = settings.files or list(generate(settings, folder))
        rounds, corpora = [], set()
        for number in range(settings.rounds):
            out = folder / f"out-{number}"
            command = [settings.binary, "dedup", "--json", *files, "--out", out, "--format", settings.form]
            command += ["--removed", folder / "removed.jsonl"] if settings.removed else []
            answer, *usage = timed(command)
            rounds.append(usage)
            corpora.add(digest(out))
            subprocess.run(["rm", "-r", out], check=True)
        if len(corpora) > 1:
            raise SystemExit("the rounds wrote different bytes")
        wall, cpu, memory = (statistics.median(column) for column in zip(*rounds))
        n_pages = answer["n_pages"]
        print(
            f"{n_pages:,} pages, {answer['n_bytes_before'] / 1e6:,.0f} MB of files, in {wall:.2f} s: "
            f"{n_pages / wall:,.0f} pages/s, CPU {cpu:.2f} s, {memory:,.0f} MiB; "
            f"{answer['n_kept']:,} kept, {answer['n_removed_identical']:,} identical and "
            f"{answer['n_removed_near']:,} near removed, {answer['n_bytes_after'] / 1e6:,.0f} MB of files"
        )


if __name__ == "__main__":
    sys.exit(main())
