#!/usr/bin/env python3
"""Shows how the cost of a page grows with the store: streams short generated pages into a new store through a pipe.

    cargo build --release --bin lookalike --example generate
    python3 bench-data/growth.py --documents 30000000 --store /tmp/growth.store

writes growth.csv (a line every ten seconds) and growth.svg beside itself, and prints a table: wall and CPU time of a page
at each size, memory, and what a document takes on disk with and without its URL. CPU time is that of the whole process,
threads that compact included; it is what is compared, since wall time tells as much of what else the machine did. Thirty
million documents take about twenty gigabytes of disk, and ten more while RocksDB compacts; the store is left for you to
look at. It ends sooner where the disk gets full, and with --resume goes on with the same store and file of figures. With
--plot only the picture is made anew.

A machine that is quick at first and slow at the end makes a store look as if it grew worse. With --beside 20000000 the program
stands still at that many documents and after every further million, while another one takes half a million pages into a copy of
a store of 750,000 documents: the cost around a million documents, in the same minutes.
"""
import argparse
import csv
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
METRICS = "127.0.0.1:19464"
COLUMNS = ["seconds", "documents", "pages", "cpu_seconds", "resident_mib", "store_mib"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target")) / "release"
    parser.add_argument("--binary", default=target / "lookalike")
    parser.add_argument("--generator", default=target / "examples" / "generate")
    parser.add_argument("--documents", type=int, default=30_000_000)
    parser.add_argument("--seconds-max", type=float, default=3600)
    parser.add_argument("--free-gib-min", type=float, default=6, help="ends when less of the disk is free")
    parser.add_argument("--store", default="growth.store")
    parser.add_argument("--csv", default=HERE / "growth.csv")
    parser.add_argument("--svg", default=HERE / "growth.svg")
    parser.add_argument("--resume", action="store_true", help="go on with a store and its CSV")
    parser.add_argument("--beside", type=int, help="documents from which on a small store is measured beside")
    parser.add_argument("--plot", action="store_true", help="only plot what the CSV has")
    return parser.parse_args()


def metrics():
    """The counters and gauges of the running program, labels summed up."""
    sums = {}
    with urllib.request.urlopen(f"http://{METRICS}/metrics", timeout=30) as answer:
        for line in answer.read().decode().splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                name = name.split("{")[0]
                sums[name] = sums.get(name, 0.0) + float(value)
    return sums


def sample(pid, begin, before):
    """A row: what the process tells, on top of the row before it was started."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    resident = int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    told = metrics()
    return {
        "seconds": round(before["seconds"] + time.monotonic() - begin, 1),
        "documents": int(told.get("lookalike_documents", 0)),
        "pages": int(before["pages"] + told.get("lookalike_pages_total", 0)),
        "cpu_seconds": round(before["cpu_seconds"] + cpu, 1),
        "resident_mib": round(resident),
        "store_mib": round(told.get("lookalike_store_bytes", 0) / 2**20),
    }


def read_rows(path):
    with open(path, newline="") as file:
        return [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]


def start(settings, n_before):
    """The program, with pages coming in that it has not seen yet."""
    # Few pages equal another one: nearly every page is a new document.
    make = [settings.generator, "--profile", "tiny", "--sweeps", "1", "--pages", str(settings.documents * 2),
            "--skip", str(n_before)]
    pages = subprocess.Popen(make, stdout=subprocess.PIPE)
    run = [settings.binary, "run", "--store", settings.store, "--stdin-name", f"from {n_before}", "-"]
    environment = {**os.environ, "LOOKALIKE__METRICS__LISTEN": METRICS}
    program = subprocess.Popen(run, stdin=pages.stdout, stderr=subprocess.DEVNULL, env=environment)
    pages.stdout.close()
    return pages, program


class SmallStore:
    """A store of 750,000 documents, and what half a million more pages cost in copies of it."""

    def __init__(self, settings):
        self.binary, self.store = settings.binary, Path(f"{settings.store}.small")
        first, self.pages = [Path(f"{settings.store}.small-{number}.jsonl") for number in [1, 2]]
        self.costs = []
        self.remove()
        make = [settings.generator, "--profile", "tiny", "--sweeps", "1", "--seed", "2"]
        subprocess.run([*make, "--pages", "750000", "--out", first], check=True)
        self.run(self.store, first)
        first.unlink()
        subprocess.run([*make, "--pages", "1250000", "--skip", "750000", "--out", self.pages], check=True)

    def remove(self):
        shutil.rmtree(self.store, ignore_errors=True)
        self.pages.unlink(missing_ok=True)

    def run(self, store, pages):
        command = [self.binary, "run", "--store", store, pages]
        program = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(program.pid, 0)
        if status:
            sys.exit(f"the program ended with {os.waitstatus_to_exitcode(status)} in the small store")
        return usage.ru_utime + usage.ru_stime

    def measure(self):
        copy = f"{self.store}.copy"
        shutil.copytree(self.store, copy)
        self.costs.append(1e6 * self.run(copy, self.pages) / 500_000)
        shutil.rmtree(copy)

    def report(self, rows, begin):
        part = [row for row in rows if row["documents"] >= begin]
        cost = 1e6 * (part[-1]["cpu_seconds"] - part[0]["cpu_seconds"]) / (part[-1]["pages"] - part[0]["pages"])
        small = statistics.mean(self.costs)
        print(f"{cost:.1f} µs from {begin / 1e6:.0f} M documents on. Around a million, {len(self.costs)} times meanwhile: "
              f"{small:.1f} µs, {min(self.costs):.1f} to {max(self.costs):.1f}. {cost / small:.2f} times as much")


def grow(settings):
    small = SmallStore(settings) if settings.beside else None
    next_beside = settings.beside
    before = dict.fromkeys(COLUMNS, 0)
    if settings.resume:
        before = read_rows(settings.csv)[-1]
    elif Path(settings.store).exists():
        sys.exit(f"{settings.store} is there already: name another one, or give --resume")
    # What was read behind the last row is read again and equals what is there: a few seconds' worth.
    pages, program = start(settings, int(before["pages"]))
    begin, row = time.monotonic(), before
    with open(settings.csv, "a" if settings.resume else "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if not settings.resume:
            writer.writeheader()
        while program.poll() is None:
            time.sleep(10)
            try:
                row = sample(program.pid, begin, before)
            except OSError:
                continue
            writer.writerow(row)
            file.flush()
            if small and row["documents"] >= next_beside:
                next_beside = row["documents"] + 1_000_000
                stopped = time.monotonic()
                for process in [program, pages]:
                    process.send_signal(signal.SIGSTOP)
                try:
                    small.measure()
                finally:
                    for process in [program, pages]:
                        process.send_signal(signal.SIGCONT)
                begin += time.monotonic() - stopped
            is_full = shutil.disk_usage(settings.store).free < settings.free_gib_min * 2**30
            if row["documents"] >= settings.documents or time.monotonic() - begin > settings.seconds_max or is_full:
                if is_full:
                    print(f"ended: less than {settings.free_gib_min} GiB are free")
                program.send_signal(signal.SIGTERM)
                program.wait()
    pages.terminate()
    pages.wait()
    # 130: asked to stop, it took in and wrote what it had read.
    if program.returncode not in (0, 130):
        sys.exit(f"the program ended with {program.returncode}")
    weigh(settings.store, row["documents"])
    if small:
        small.report(read_rows(settings.csv), settings.beside)
        small.remove()


def weigh(store, n_documents):
    """What the store's files take, and how much of it are URLs: each file of rows names its family."""
    files = [path for path in Path(store).rglob("*") if path.is_file()]
    rows, urls = 0, 0
    for path in files:
        if path.suffix != ".sst":
            continue
        n_bytes = path.stat().st_size
        rows += n_bytes
        with open(path, "rb") as file:
            file.seek(max(0, n_bytes - 65536))
            # The key is cut by what it shares with the one before it, rocksdb.column.family.id: 22 bytes of it.
            named = re.search(rb"\x16\x04(.)name", file.read(), re.DOTALL)
            name = named.string[named.end():named.end() + named[1][0]] if named else b""
        if name == b"urls":
            urls += n_bytes
    total = sum(path.stat().st_size for path in files)
    print(f"{n_documents:,} documents: {total / n_documents:.0f} bytes each on disk, logs included; rows alone "
          f"{rows / n_documents:.0f}, without URLs {(rows - urls) / n_documents:.0f}")


def windows(rows, n_documents):
    """The rows joined to steps of so many documents, with what a page cost in each."""
    steps, first = [], rows[0]
    for row in rows[1:]:
        if row["documents"] - first["documents"] >= n_documents:
            n_pages = row["pages"] - first["pages"]
            steps.append({
                "documents": (row["documents"] + first["documents"]) / 2,
                "cpu_us": 1e6 * (row["cpu_seconds"] - first["cpu_seconds"]) / n_pages,
                "pages_per_second": n_pages / (row["seconds"] - first["seconds"]),
                "resident_mib": row["resident_mib"],
                "bytes": row["store_mib"] * 2**20 / row["documents"],
            })
            first = row
    return steps


def table(steps):
    print("| million documents | pages/s | CPU µs a page | MiB of memory | bytes on disk a document |\n|---|---|---|---|---|")
    for step in steps:
        print(f"| {step['documents'] / 1e6:.1f} | {step['pages_per_second']:,.0f} | {step['cpu_us']:.1f} "
              f"| {step['resident_mib']:,.0f} | {step['bytes']:.0f} |")


def compare(rows):
    """What a page cost between half a million and one and a half million documents, and in the end: in the last third of
    the run, and while the store became four times as large. A row is rewritten once in that time, so that this is what a
    page costs on the whole; the last third may hold the one merge of the largest runs, or not."""
    def cpu_us(begin, end):
        part = [row for row in rows if begin <= row["documents"] <= end]
        if len(part) < 2:
            return None
        return 1e6 * (part[-1]["cpu_seconds"] - part[0]["cpu_seconds"]) / (part[-1]["pages"] - part[0]["pages"])

    most = rows[-1]["documents"]
    first = cpu_us(0.5e6, 1.5e6)
    if first:
        print(f"\nCPU time of a page: {first:.1f} µs around 1 M documents")
    for share in [1 / 4, 2 / 3]:
        last = cpu_us(most * share, most)
        if first and last and most * share > 2e6:
            print(f"{last:.1f} µs from {most * share / 1e6:.1f} M to {most / 1e6:.1f} M: {last / first:.2f} times as much")


def plot(steps, path):
    """Two panels over the same axis: pages a second of wall time, and CPU time of a page."""
    width, height, left, gap = 760, 210, 70, 60
    most = max(step["documents"] for step in steps)
    panels = [("pages_per_second", "pages a second (wall)", "#1f6fb4"), ("cpu_us", "CPU time of a page, µs, all threads", "#b4501f")]
    total = len(panels) * (height + gap) + 30
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + left + 30} {total}" font-family="sans-serif" font-size="13">',
           '<rect width="100%" height="100%" fill="white"/>']
    for at, (key, title, colour) in enumerate(panels):
        top = 35 + at * (height + gap)
        ceiling = 1.15 * max(step[key] for step in steps)
        x = lambda step: left + width * step["documents"] / most
        y = lambda value: top + height * (1 - value / ceiling)
        svg.append(f'<text x="{left}" y="{top - 12}" font-weight="bold">{title}</text>')
        for part in range(5):
            value = ceiling * part / 4
            svg.append(f'<line x1="{left}" x2="{left + width}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#ddd"/>'
                       f'<text x="{left - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value:,.0f}</text>')
            svg.append(f'<text x="{left + width * part / 4:.1f}" y="{top + height + 18}" text-anchor="middle">{most * part / 4e6:.1f} M</text>')
        points = " ".join(f"{x(step):.1f},{y(step[key]):.1f}" for step in steps)
        svg.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
    svg.append(f'<text x="{left + width / 2}" y="{total - 8}" text-anchor="middle">documents in the store</text></svg>')
    Path(path).write_text("\n".join(svg) + "\n")


def main():
    settings = arguments()
    if not settings.plot:
        grow(settings)
    rows = read_rows(settings.csv)
    steps = windows(rows, max(rows[-1]["documents"] / 40, 1))
    if not steps:
        sys.exit("too few samples: let more documents come")
    table(steps)
    compare(rows)
    plot(steps, settings.svg)


main()
