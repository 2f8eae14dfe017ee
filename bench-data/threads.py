#!/usr/bin/env python3
"""Measures the CPU time of each stage of `lookalike run`: the busiest single thread bounds what more cores can bring.

    cargo build --release --bin lookalike --example generate
    python3 bench-data/threads.py [--pages 400000] [--profile tiny] [--binary OTHER]...

Pages of bench-data's generator go through a new store with every event in a file. For each binary and number of cores the
script prints pages a second, the CPU time of a page in all and in each thread, and the pages a second that the busiest
thread would still allow. Several binaries run by turns, and must write the same events. Takes a minute or two.
"""
import argparse
import hashlib
import os
import subprocess
import tempfile
import time
from pathlib import Path

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", Path(__file__).resolve().parent.parent / "target")) / "release"
TICKS = os.sysconf("SC_CLK_TCK")
SAMPLE_SECONDS = 0.02


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", action="append", type=Path, help="a program to measure; may be given several times")
    parser.add_argument("--generator", default=TARGET / "examples" / "generate")
    parser.add_argument("--pages", type=int, default=400_000)
    parser.add_argument("--profile", default="tiny", help="of the generator: tiny (573 bytes, text), small, site, news")
    parser.add_argument("--sweeps", type=int, default=1, help="more of them make fewer documents new")
    parser.add_argument("--cores", type=int, nargs="*", default=[os.cpu_count()], help="numbers of cores to run on")
    return parser.parse_args()


def sampled(process):
    """The CPU seconds of each thread, by name, when the process has ended; a thread that ended counts."""
    seconds = {}
    while process.poll() is None:
        for stat in Path(f"/proc/{process.pid}/task").glob("*/stat"):
            try:
                text = stat.read_text()
            except OSError:
                continue
            name, fields = text[text.index("(") + 1:text.rindex(")")], text[text.rindex(")") + 2:].split()
            seconds[stat] = (name, (int(fields[11]) + int(fields[12])) / TICKS)
        time.sleep(SAMPLE_SECONDS)
    threads = {}
    for name, used in seconds.values():
        threads.setdefault(name, []).append(used)
    return threads


def measured(binary, pages, n_pages, cores, folder):
    store, events = folder / "store", folder / "events.jsonl"
    command = ["taskset", "-c", f"0-{cores - 1}", binary, "run", "--quiet", "--store", store, "--events", events, pages]
    begin = time.time()
    process = subprocess.Popen(command, env={**os.environ, "LOOKALIKE__STORE__SEED": f"{7:064x}"})
    threads = sampled(process)
    wall = time.time() - begin
    if process.returncode:
        raise SystemExit(f"{binary} ended with {process.returncode}")
    digest = hashlib.sha256(events.read_bytes()).hexdigest()[:12]
    subprocess.run(["rm", "-rf", store, events], check=True)
    of_page = lambda seconds: 1e6 * seconds / n_pages
    busiest = max((used, name) for name, all_used in threads.items() for used in all_used)
    total = sum(sum(used) for used in threads.values())
    print(f"{binary}, {cores} core(s): {n_pages / wall:,.0f} pages/s, {of_page(total):.1f} µs CPU a page, events {digest}")
    print(f"  the busiest thread, {busiest[1]}, takes {of_page(busiest[0]):.1f} µs: at most {n_pages / busiest[0]:,.0f} pages/s")
    for name, used in sorted(threads.items(), key=lambda thread: -sum(thread[1])):
        if of_page(sum(used)) >= 0.1:
            print(f"  {name:16} {' + '.join(f'{of_page(one):.1f}' for one in used)}")


def main():
    settings = arguments()
    with tempfile.TemporaryDirectory() as folder:
        pages = Path(folder) / "pages.jsonl"
        subprocess.run([settings.generator, "--profile", settings.profile, "--pages", str(settings.pages), "--sweeps",
                        str(settings.sweeps), "--out", pages], check=True)
        for cores in settings.cores:
            for binary in settings.binary or [TARGET / "lookalike"]:
                measured(binary, pages, settings.pages, cores, Path(folder))


main()
