#!/usr/bin/env python3
"""Measures whole runs of lookalike, and three libraries of its kind on the same pages: all figures in one table.

    cargo build --release --bin lookalike --example generate
    pip install gaoya rensa datasketch selectolax
    python3 bench-data/throughput.py [FILE.jsonl.zst]...

Real pages are those of the files named, bench-data's three sweeps where none is: as they are, in zstd, and unpacked to
lines of JSON, as the made-up ones are. Every run of lookalike starts with a new store on disk, syncs it, writes every event
to a file, and is timed from start to end of the process. The libraries get the pages not only unpacked but already taken out
of their JSON, keep all in memory and answer one question for each page. They do not read HTML, so each is fed in two ways:
tags and all, and with the text that lexbor takes out, in the time measured.
Takes a minute or two and two gigabytes in the folder for temporary files (TMPDIR).
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target")) / "release"
W = 10
# Every page has one of these events, and perhaps others.
TERMINAL = tuple(f'{{"type":"{kind}"'.encode() for kind in ("assigned", "gone", "redirected", "rejected"))
# Pages a second of the latency run are half of what was reached; they are sent in parcels this far apart.
PARCEL_SECONDS = 0.01


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, default=sorted(HERE.glob("sweep-*.jsonl.zst")))
    parser.add_argument("--binary", default=TARGET / "lookalike")
    parser.add_argument("--generator", default=TARGET / "examples" / "generate")
    parser.add_argument("--small", type=int, default=300_000, help="pages of 5 KB")
    parser.add_argument("--news", type=int, default=8_000, help="pages of 143 KB")
    parser.add_argument("--rounds", type=int, default=3, help="of each run of lookalike; the median counts")
    return parser.parse_args()


def warm(path):
    """Reads a file once, so that the disk it lies on is not what is measured."""
    with open(path, "rb") as file:
        while file.read(1 << 24):
            pass


class Bench:
    def __init__(self, settings, folder):
        self.settings, self.folder, self.rows = settings, Path(folder), []

    def row(self, what, cores, n_pages, n_bytes, seconds, cpu):
        self.rows.append((what, cores, n_pages / seconds, n_bytes / seconds / 1e6, 1e6 * cpu / n_pages))
        print(f"{what}, {cores} core(s): {n_pages:,} pages in {seconds:.2f} s, {n_pages / seconds:,.0f} pages/s, "
              f"{1e6 * cpu / n_pages:.0f} µs CPU a page", flush=True)

    def generate(self, profile, n_pages):
        path = self.folder / f"{profile}.jsonl"
        make = [self.settings.generator, "--profile", profile, "--pages", str(n_pages), "--out", path]
        subprocess.run(make, check=True)
        return path

    def clear(self):
        subprocess.run(["rm", "-rf", self.folder / "store", self.folder / "events.jsonl"], check=True)

    def lookalike(self, files, cores):
        """Seconds of wall and of CPU time of a whole run over a new store."""
        self.clear()
        for file in files:
            warm(file)
        os.sync()
        pin = [] if cores > 1 else ["taskset", "-c", "0"]
        command = [*pin, self.settings.binary, "run", "-q", "--json", "--store", self.folder / "store",
                   "--events", self.folder / "events.jsonl", *files]
        before, begin = os.times(), time.monotonic()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds, after = time.monotonic() - begin, os.times()
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        return seconds, cpu

    def whole_runs(self, what, files, cores, n_pages, n_bytes):
        runs = [self.lookalike(files, cores) for _ in range(self.settings.rounds)]
        seconds = statistics.median(run[0] for run in runs)
        cpu = statistics.median(run[1] for run in runs)
        self.row(what, cores, n_pages, n_bytes, seconds, cpu)
        return n_pages / seconds

    def latency(self, path, pages_per_second, n_pages):
        """From a page's last byte written to a pipe to its event read from another, at a steady pace."""
        self.clear()
        command = [self.settings.binary, "run", "-q", "--store", self.folder / "store", "--events", "-", "-"]
        run = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        parcel = max(1, round(pages_per_second * PARCEL_SECONDS))
        sent, took = [], []

        def write():
            with open(path, "rb") as file:
                begin = time.monotonic()
                while len(sent) < n_pages and (lines := [line for _, line in zip(range(parcel), file)]):
                    pause = begin + len(sent) / pages_per_second - time.monotonic()
                    if pause > 0:
                        time.sleep(pause)
                    run.stdin.write(b"".join(lines))
                    run.stdin.flush()
                    sent.extend([time.monotonic()] * len(lines))
            run.stdin.close()

        writer = threading.Thread(target=write)
        writer.start()
        for line in run.stdout:
            if line.startswith(TERMINAL):
                now, at = time.monotonic(), len(took)
                # The event may be read before the writer has noted that it sent the page's parcel.
                took.append(now - sent[at] if at < len(sent) else 0.0)
        writer.join()
        if run.wait() != 0 or len(took) != len(sent):
            sys.exit(f"{len(sent)} pages went in, {len(took)} came out")
        took.sort()
        p50, p99 = took[len(took) // 2] * 1e3, took[len(took) * 99 // 100] * 1e3
        print(f"latency at {pages_per_second:,.0f} pages/s: p50 {p50:.0f} ms, p99 {p99:.0f} ms", flush=True)
        return p50, p99


def unpacked(files, folder):
    """Each file as one of lines of JSON."""
    paths = []
    for file in files:
        paths.append(Path(folder) / Path(file).with_suffix("").name)
        subprocess.run(["zstd", "-dqf", "--long=27", file, "-o", paths[-1]], check=True)
    return paths


def bodies_of(files):
    bodies = []
    for file in files:
        bodies += [body for body in (json.loads(line).get("body") for line in file.open("rb")) if body]
    return bodies


def shingles(body):
    words = body.lower().split()
    return [" ".join(words[at:at + W]) for at in range(max(1, len(words) - W + 1))]


def text_of(body):
    """The text of a page without its tags, by lexbor."""
    from selectolax.lexbor import LexborHTMLParser
    parser = LexborHTMLParser(body)
    parser.strip_tags(["script", "style"])
    return parser.text(separator=" ")


def gaoya_run(bodies):
    from gaoya.minhash import MinHashStringIndex
    index = MinHashStringIndex(32, 0.5, 42, 3, None, "word", True, (W, W))
    for at, body in enumerate(bodies):
        index.query(body)
        index.insert_document(at, body)


def rensa_run(bodies):
    from rensa import RMinHash, RMinHashLSH
    index = RMinHashLSH(threshold=0.5, num_perm=126, num_bands=42)
    for at, body in enumerate(bodies):
        sketch = RMinHash(num_perm=126, seed=42)
        sketch.update(shingles(body))
        index.query(sketch)
        index.insert(at, sketch)


def datasketch_run(bodies):
    from datasketch import MinHash, MinHashLSH
    index = MinHashLSH(num_perm=126, params=(42, 3))
    for at, body in enumerate(bodies):
        sketch = MinHash(num_perm=126)
        sketch.update_batch([shingle.encode() for shingle in shingles(body)])
        index.query(sketch)
        index.insert(at, sketch)


def peers(bench, bodies, n_bytes):
    os.sched_setaffinity(0, {0})
    ways = [("tags and all", lambda: bodies), ("text by lexbor", lambda: map(text_of, bodies))]
    for name, run in [("gaoya", gaoya_run), ("rensa", rensa_run), ("datasketch", datasketch_run)]:
        for way, pages in ways:
            begin, begin_cpu = time.monotonic(), time.process_time()
            try:
                run(pages())
            except ImportError as error:
                print(f"{name}, {way}: {error.name} is not installed, left out")
                continue
            seconds, cpu = time.monotonic() - begin, time.process_time() - begin_cpu
            bench.row(f"{name}, real pages, {way}, in memory", 1, len(bodies), n_bytes, seconds, cpu)


def machine():
    names = [line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line]
    memory = int(Path("/proc/meminfo").read_text().split()[1]) >> 20
    return f"{len(names)} cores {names[0]}, {memory} GiB, Linux {platform.release()}"


def main():
    settings = arguments()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(settings, folder)
        small = bench.generate("small", settings.small)
        reached = bench.whole_runs("lookalike, pages of 5 KB", [small], 2, settings.small, small.stat().st_size)
        half = min(reached, 25_000) / 2
        p50, p99 = bench.latency(small, half, min(settings.small, int(half * 10)))
        small.unlink()
        news = bench.generate("news", settings.news)
        bench.whole_runs("lookalike, pages of 143 KB", [news], 2, settings.news, news.stat().st_size)
        news.unlink()
        lines = unpacked(settings.files, folder)
        bodies = bodies_of(lines)
        n_bytes = sum(len(body.encode()) for body in bodies)
        bench.whole_runs("lookalike, real pages, in zstd", settings.files, 1, len(bodies), n_bytes)
        bench.whole_runs("lookalike, real pages", lines, 1, len(bodies), n_bytes)
        peers(bench, bodies, n_bytes)
    print(f"\n{machine()}\n\n| what | cores | pages/s | MB/s | CPU µs a page |\n|---|---|---|---|---|")
    for what, cores, pages, megabytes, cpu in bench.rows:
        print(f"| {what} | {cores} | {pages:,.0f} | {megabytes:.0f} | {cpu:.0f} |")
    print(f"\nFrom page to event at {half:,.0f} pages of 5 KB a second: p50 {p50:.0f} ms, p99 {p99:.0f} ms.")


main()
