#!/usr/bin/env python3
"""Everything that related pages are held to, in one table: what was wanted, what was measured, and whether it is met.

    python3 bench-data/related_criteria.py                               # what the repository alone allows
    python3 bench-data/related_criteria.py --sets FOLDER… --pages FILE… --urls 20000000

`--sets` are folders with pages.jsonl.zst, classes.csv and queries.txt; those of the plain reference's baselines are known by
name. `--pages` are sweeps of one site, for what reading links costs. `--urls` is the size of the generated bags and of
the store that is asked, where `--query-urls` says nothing else; more than a million URLs have no pages, only links to them.
`--only` names parts.
Ends with 1 where something is not met. Runs alone on its machine, or times mean nothing.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from kept_text import cpu_seconds

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
SHIPPED = ROOT / "bench-data/related/postgresql"
TURNS = 5
# The reference compares all bags: P@10 and sibling-D of its first 500 answers.
BASELINES = {
    ("foldoc", "half"): (0.295, 0.305), ("foldoc", "content"): (0.301, 0.270),
    ("postgresql", "half"): (0.441, 0.640), ("postgresql", "content"): (0.402, 0.551),
    ("git", "half"): (0.332, 0.260), ("git", "content"): (0.264, 0.194),
}
# With the reference's own window and without any cap on links.
UNCAPPED = ["window=8", "per_page_max=0", "per_host_max=0", "per_target_max=0"]
UNCAPPED_BASELINES = {
    ("foldoc", "anchors"): (0.242, 0.210), ("postgresql", "anchors"): (0.423, 0.596), ("git", "anchors"): (0.333, 0.246),
}
# Expected from the binomial number of agreeing values among 80: similarity, share found, share left by the filter.
LSH = {"0.20": (0.567, 0.404), "0.25": (0.774, 0.726), "0.30": (0.905, 0.897), "0.40": (0.995, 0.995)}


class Table:
    def __init__(self):
        self.n_missed = 0
        print("| | what | wanted | measured | met |\n|---|---|---|---|---|")

    def row(self, number, what, wanted, measured, met):
        self.n_missed += not met
        print(f"| {number} | {what} | {wanted} | {measured} | {'yes' if met else '**no**'} |", flush=True)


def output_of(command):
    done = subprocess.run([str(word) for word in command], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def passes(*arguments):
    done = subprocess.run(["cargo", "test", "--release", "--locked", *arguments], cwd=ROOT, capture_output=True, text=True)
    n_passed = sum(int(n) for n in re.findall(r"(\d+) passed", done.stdout))
    return done.returncode == 0 and n_passed > 0, f"{n_passed} tests passed"


def signatures(table, _):
    """Eight seeds, 500 pairs for each."""
    printed = output_of(["cargo", "test", "--release", "--locked", "--no-default-features", "--lib", "related::", "--", "--nocapture"])
    errors = re.findall(r"s ([\d.]+): bias ([-+\d.]+), rmse [\d.]+ = ([\d.]+) x expected", printed)
    bias, rmse = max(abs(float(error[1])) for error in errors), max(float(error[2]) for error in errors)
    table.row(1, "signatures against bags: largest bias, rmse beside √(s(1−s)/80)", "≤ 0.005, ≤ 1.1", f"{bias:.4f}, {rmse:.3f}",
              bias <= 0.005 and rmse <= 1.1)
    for similarity, found, kept in re.findall(r"s (0\.\d\d): ([\d.]+) ([\d.]+)\n", printed):
        wanted = LSH[similarity]
        table.row(2, f"pairs of {similarity} found, and left by the filter", f"{wanted[0]}, {wanted[1]} ± 0.03", f"{found}, {kept}",
                  abs(float(found) - wanted[0]) <= 0.03 and abs(float(kept) - wanted[1]) <= 0.03)
    met, measured = passes("--no-default-features", "--lib", "related::centers")
    table.row(5, "CENTER against ten lines on random graphs", "equal", measured, met)


def rows_of(folder, *settings):
    """Rows by the name of the bags; each cell as mean and worst of eight seeds."""
    example = ["cargo", "run", "--release", "--locked", "--quiet", "--no-default-features", "--example", "related", "--"]
    lines = output_of([*example, *settings, folder]).splitlines()[2:]
    rows = {}
    for line in lines:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        rows[cells[1]] = [tuple(map(float, re.findall(r"[\d.]+", cell))) for cell in cells[2:]]
    return rows


def sets(table, settings):
    for folder in settings.sets:
        name, own = folder.name, rows_of(folder)
        few = rows_of(folder, "champions=24", "verified_max=512")["half"]
        (recall, worst), (pairs, worst_pairs) = few[5], few[6]
        table.row(3, f"{name}: recall@10, and pairs ≥ 0.2; 24 postings, 512 bags; mean (worst seed)", "≥ 0.97, ≥ 0.99",
                  f"{recall} ({worst}), {pairs} ({worst_pairs})", worst >= 0.97 and worst_pairs >= 0.99)
        bags = [(own, bags, baseline) for (of, bags), baseline in BASELINES.items() if of == name]
        bags += [(rows_of(folder, *UNCAPPED), bags, baseline) for (of, bags), baseline in UNCAPPED_BASELINES.items() if of == name]
        for rows, kind, baseline in bags:
            (p10, _), (sibling_d, _) = rows[kind][2], rows[kind][3]
            table.row(4, f"{name}, {kind}: P@10, sibling-D", f"≥ {baseline[0]}, {baseline[1]} − 0.02", f"{p10}, {sibling_d}",
                      p10 >= baseline[0] - 0.02 and sibling_d >= baseline[1] - 0.02)
        half, paper = own["half"], own["the paper's"]
        table.row(4, f"{name}: default beside the paper's: P@10, sibling-D", f"≥ {paper[2][0]}, {paper[3][0]}",
                  f"{half[2][0]}, {half[3][0]}", half[2][0] >= paper[2][0] and half[3][0] >= paper[3][0])
        largest = max(row[7][1] for row in own.values())
        table.row(5, f"{name}: largest cluster, any bags, any seed", "≤ 2.5 %", f"{largest} %", largest <= 2.5)


def scale(table, settings):
    with tempfile.TemporaryDirectory() as folder:
        output_of(["cargo", "build", "--release", "--locked", "--quiet", "--example", "related_scale"])
        printed = output_of([TARGET / "examples/related_scale", folder, settings.urls])
    phases = re.findall(r"^(\S.*?)\s+([\d.]+) s\s+[\d.]+ CPU s\s+([\d.]+) MiB written\s+([\d.]+) MiB peak$", printed, re.M)
    minutes, peak = sum(float(phase[1]) for phase in phases) / 60, max(float(phase[3]) for phase in phases) / 1024
    written = sum(float(phase[2]) for phase in phases) / 1024
    print(printed, file=sys.stderr)
    table.row(6, f"generated bags of {settings.urls:,} URLs through all phases", "≤ 45 min, 8 GiB, 60 GiB",
              f"{minutes:.1f} min, {peak:.1f} GiB, {written:.0f} GiB written in all", minutes <= 45 and peak <= 8 and written <= 60)


def cost(table, settings):
    met, measured = passes("--test", "it", "families")
    table.row(7, "off: the same rows in the store", "the same", measured, met)
    if not settings.pages:
        return
    seconds, bytes_on_disk, n_documents = {"false": [], "true": []}, {}, 0
    for number in range(TURNS):
        for on in sorted(seconds, reverse=number % 2 == 0):
            with tempfile.TemporaryDirectory() as folder:
                environment = {**os.environ, "LOOKALIKE__RELATED__ON": on, "LOOKALIKE__STORE__SEED": "7" * 64}
                of_store = ["--store", f"{folder}/store", "--quiet"]
                cpu, _ = cpu_seconds([settings.binary, "run", *of_store, *settings.pages], environment)
                seconds[on].append(cpu)
                if number + 1 == TURNS:
                    if on == "true":
                        subprocess.run([settings.binary, "related", "build", *of_store], check=True, env=environment)
                    subprocess.run([settings.binary, "compact", "--store", f"{folder}/store"], check=True, env=environment,
                                   stdout=subprocess.DEVNULL)
                    stats = subprocess.run([settings.binary, "stats", "--json", "--store", f"{folder}/store"], check=True,
                                           env=environment, capture_output=True, text=True).stdout
                    bytes_on_disk[on], n_documents = (int(re.search(f'"{key}": *(\\d+)', stats)[1])
                                                      for key in ("n_bytes_on_disk", "n_documents"))
    ratio = statistics.median(seconds["true"]) / statistics.median(seconds["false"])
    table.row(7, f"on: CPU of a run, median of {TURNS}", "≤ 1.5 times", f"{ratio:.2f} times", ratio <= 1.5)
    more = (bytes_on_disk["true"] - bytes_on_disk["false"]) / n_documents
    table.row(7, "on: bytes a document more in the store, after a build", "≤ 2,560", f"{more:,.0f}", more <= 2560)


def query(table, settings):
    n_urls = settings.query_urls or settings.urls
    command = ["python3", ROOT / "bench-data/related_query.py", "--urls", n_urls, "--binary", settings.binary]
    printed = output_of([*command, "--linked"] if n_urls > 1_000_000 else command)
    print(printed, file=sys.stderr)
    p99, bar = float(re.search(r"p99 ([\d.]+) ms", printed)[1]), 10 if n_urls <= 1_000_000 else 20
    table.row(8, f"the live query over {n_urls:,} URLs: p99", f"≤ {bar} ms", f"{p99} ms", p99 <= bar)


def store(table, _):
    for number, what, arguments in [
        (9, "the same for any order, batching and way in; bags are those of the fragments; damage is found", ("--test", "it", "related")),
        (9, "killed at every step of a build", ("--features", "failpoints", "--test", "failpoints", "related")),
        (10, "a million links of one host leave 16 rows", ("--test", "it", "related::no_host_floods_a_bag")),
    ]:
        met, measured = passes(*arguments)
        table.row(number, what, "all pass", measured, met)


def hostile(table, _):
    """Criterion's medians."""
    printed = output_of(["cargo", "bench", "--locked", "--no-default-features", "--bench", "page", "--", "read for related pages/(flat|links)$"])
    units = {"ns": 1e-6, "µs": 1e-3, "ms": 1, "s": 1e3}
    measured = re.findall(r"read for related pages/(.+?)\s+time:\s+\[\S+ \S+ ([\d.]+) (\S+) ", printed)
    milliseconds = {name: float(value) * units[unit] for name, value, unit in measured}
    links = milliseconds["links"] / milliseconds["flat"]
    table.row(10, "1 MiB of links beside a flat page", "≤ 3 times", f"{links:.2f} times", links <= 3)


PARTS = {part.__name__: part for part in (signatures, sets, scale, cost, query, store, hostile)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--sets", nargs="+", type=Path, default=[SHIPPED])
    parser.add_argument("--pages", nargs="+", default=[])
    parser.add_argument("--urls", type=int, default=1_000_000)
    parser.add_argument("--query-urls", type=int)
    parser.add_argument("--binary", type=Path, default=TARGET / "lookalike")
    settings = parser.parse_args()
    table = Table()
    for part in settings.only:
        PARTS[part](table, settings)
    sys.exit(1 if table.n_missed else 0)


main()
