#!/usr/bin/env python3
"""What keeping texts costs: CPU of a run and bytes on disk, with and without store.keep_text, by turns.

    bench-data/kept_text.py --turns 6 target/release/lookalike sweep-*.jsonl.zst

Each turn reads the inputs into two new stores, one of each kind; the order changes from turn to turn. Bytes are those
after `compact`, so that no log and no space of deleted rows is in them.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time


def cpu_seconds(command, environment):
    """Runs a command; its user and system time, and its time by the clock."""
    begun = time.monotonic()
    process = subprocess.Popen(command, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command[0]} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, time.monotonic() - begun


def turn(program, inputs, keep_text):
    """One run into a new store: its times, and the counts of the store."""
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        environment = {**os.environ, "LOOKALIKE__STORE__KEEP_TEXT": keep_text, "LOOKALIKE__STORE__SEED": "7" * 64}
        cpu, seconds = cpu_seconds([program, "run", "--quiet", "--store", store, *inputs], environment)
        subprocess.run([program, "compact", "--store", store], check=True, stdout=subprocess.DEVNULL, env=environment)
        stats = subprocess.run([program, "stats", "--json", "--store", store], check=True, capture_output=True)
    return cpu, seconds, json.loads(stats.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("inputs", nargs="+")
    parser.add_argument("--turns", type=int, default=6)
    arguments = parser.parse_args()
    results = {"none": [], "canonical": []}
    for number in range(arguments.turns):
        for keep_text in sorted(results, reverse=number % 2 == 0):
            results[keep_text].append(turn(arguments.program, arguments.inputs, keep_text))
    medians = {}
    for keep_text, turns in results.items():
        stats = turns[-1][2]
        n_documents, n_pages = stats["n_documents"], stats["n_sightings"]
        medians[keep_text] = cpu = statistics.median(cpu for cpu, _, _ in turns)
        seconds = statistics.median(seconds for _, seconds, _ in turns)
        print(
            f"{keep_text:10} {cpu:6.2f} s CPU ({min(t[0] for t in turns):.2f} to {max(t[0] for t in turns):.2f}), {seconds:.2f} s, "
            f"{1e6 * cpu / n_pages:.0f} µs CPU a page; {stats['n_bytes_on_disk'] / n_documents:.0f} bytes a document, "
            f"{stats['n_bytes_of_texts'] / n_documents:.0f} of them texts; {n_documents} documents of {n_pages} pages"
        )
    print(f"ratio of CPU: {medians['canonical'] / medians['none']:.3f}; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
