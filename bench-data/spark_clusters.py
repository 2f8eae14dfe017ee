#!/usr/bin/env python3
"""Measures the clusters of a crawl on Spark: time, memory of each task, and that they are those of one machine, byte for byte.

    cargo build --release --bin lookalike --example generate && deploy/wheel.sh dist
    python3 bench-data/spark_clusters.py dist/lookalike-*.whl [--pages 200000] [--shared 1000000] [--peer 20000]

A master and two workers of one core each run on loopback (deploy/spark/cluster.sh). An executor has one task at a time: what
the task takes is the resident memory of its JVM and of all Python processes below it, at one moment; what they share counts
once. The largest resident set of each kind of process stands beside it. Three collections:

pages    generated pages with 5 KB of text, sketched and linked by the two jobs of deploy/spark, with each of --partitions
shared   tiny pages of which two of a kind resemble each other, and all of which share one shingle
peer     generated pages of 5 KB through text-dedup's Spark script, as it is in its package, its program for one machine, our
         jobs and `backfill`: F1 of pairs against exact truth, and whether Spark and one machine agree

text-dedup gets 10-grams and a threshold of 0.5, and otherwise its defaults. Its script asks for GraphFrames, whose jar is not
on PyPI: --graphframes names one. Without it, a stand-in joins its edges on the driver, which is exact and costs less.
"""
import argparse
import collections
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import dedup_peers as peers

ROOT = peers.HERE.parent
N_INPUTS = 8
# What the processes of a cluster are, by a word of their command lines.
KINDS = {
    "CoarseGrainedExecutorBackend": "executor", "pyspark.daemon": "python", "pyspark/worker": "python",
    "org.apache.spark.deploy.SparkSubmit": "driver",
}
SUBMIT = """
set -euo pipefail
. deploy/spark/cluster.sh
spark_install
[ -z "$3" ] || export PYSPARK_PYTHON=$3 PYSPARK_DRIVER_PYTHON=$3
mkdir "$1"
export PYTHONPATH=$2
SPARK_PIDS=()
trap spark_stop EXIT
spark_start "$1"
shift 3
spark_submit "$@"
"""
# Components of a graph whose edges the driver can hold, in place of GraphFrames.
STAND_IN = '''
class GraphFrame:
    def __init__(self, vertices, edges):
        self.vertices, self.edges = vertices, edges

    def connectedComponents(self):
        parent = {row.id: row.id for row in self.vertices.toLocalIterator()}

        def find(at):
            while parent[at] != at:
                parent[at] = parent[parent[at]]
                at = parent[at]
            return at

        for row in self.edges.toLocalIterator():
            a, b = find(row.src), find(row.dst)
            parent[max(a, b)] = min(a, b)
        rows = [(at, find(at)) for at in parent]
        return self.vertices.sparkSession.createDataFrame(rows, "id long, component long")
'''
ROWS = """
import json, sys
import pyarrow.dataset
rows = pyarrow.dataset.dataset(sys.argv[1], format="parquet").to_table(sys.argv[2:]).to_pylist()
print(json.dumps([[row[name] for name in sys.argv[2:]] for row in rows]))
"""
AS_PARQUET = """
import json, sys
import pyarrow, pyarrow.parquet
rows = [json.loads(line) for path in sys.argv[2:] for line in open(path)]
table = pyarrow.table({"id": [int(row["id"]) for row in rows], "text": [row["text"] for row in rows]})
pyarrow.parquet.write_table(table, sys.argv[1])
"""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--binary", default=peers.TARGET / "lookalike", type=Path)
    parser.add_argument("--generator", default=peers.TARGET / "examples" / "generate", type=Path)
    parser.add_argument("--pages", type=int, default=200_000, help="0: none")
    parser.add_argument("--shared", type=int, default=1_000_000, help="0: none")
    parser.add_argument("--peer", type=int, default=20_000, help="pages for text-dedup; 0: none")
    parser.add_argument("--partitions", default="7,64,1", help="of the pages; --shared and --peer take the first")
    parser.add_argument("--venvs", type=Path, default=peers.CACHE / "lookalike/dedup-peers")
    parser.add_argument("--graphframes", type=Path, metavar="JAR")
    return parser.parse_args()


def kind_and_peak(process):
    """What a process is, and its largest resident set so far in KiB; nothing and 0 for one that is no part of a cluster."""
    try:
        words = Path(f"/proc/{process}/cmdline").read_text()
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return "", 0
    kind = next((kind for word, kind in KINDS.items() if word in words), "")
    return kind, next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")), 0)


class Usage:
    """What a command and all processes below it took."""

    def __init__(self, command, log, environment):
        self.wall = self.cpu = 0.0
        self.largest_kib = collections.Counter()
        with open(log, "ab") as file:
            process = subprocess.Popen([str(word) for word in command], cwd=ROOT, stdout=file, stderr=file, env=environment)
        done, begin, status = threading.Event(), time.monotonic(), None
        watcher = threading.Thread(target=self.watch, args=[done])
        watcher.start()
        while True:
            try:
                # Orphans are children of this process.
                one, ended, usage = os.wait4(-1, 0)
            except ChildProcessError:
                break
            self.cpu += usage.ru_utime + usage.ru_stime
            if one == process.pid:
                status, self.wall, process.returncode = ended, time.monotonic() - begin, ended
        done.set()
        watcher.join()
        if status:
            sys.exit(f"it failed: {' '.join(map(str, command))}; see {log}:\n{Path(log).read_text()[-2000:]}")

    def watch(self, done):
        while not done.wait(0.2):
            for process in peers.tree(os.getpid())[1:]:
                kind, peak_kib = kind_and_peak(process)
                if kind:
                    self.largest_kib[kind] = max(self.largest_kib[kind], peak_kib)
                if kind == "executor":
                    task_kib = 1024 * peers.memory_of(peers.tree(process))
                    self.largest_kib["task"] = max(self.largest_kib["task"], task_kib)

    def row(self, what, n_pages, more=""):
        sizes = [f"{self.largest_kib[kind] / 1024:,.0f}" if kind in self.largest_kib else "–" for kind in ("task", "executor", "python", "driver")]
        print(f"| {what} | {self.wall:,.1f} | {n_pages / self.wall:,.0f} | {1e6 * self.cpu / n_pages:,.0f} | "
              f"{' | '.join(sizes)} | {more} |", flush=True)


class Bench:
    def __init__(self, settings, folder):
        self.settings, self.folder, self.n_runs = settings, folder, 0
        self.module, self.log = folder / "module", folder / "log"
        install = '. deploy/spark/cluster.sh && spark_install && spark_module "$1" "$2" && echo "$SPARK_PYTHON"'
        told = subprocess.run(["bash", "-c", install, "bash", settings.wheel, self.module], cwd=ROOT, check=True, stdout=subprocess.PIPE)
        self.python = told.stdout.decode().split()[-1]

    def program(self, *words):
        return Usage([self.settings.binary, *words], self.log, os.environ)

    def submit(self, *words, module=None, python=""):
        self.n_runs += 1
        cluster = self.folder / f"cluster-{self.n_runs}"
        usage = Usage(["bash", "-c", SUBMIT, "bash", cluster, module or self.module, python, *words], self.log, os.environ)
        subprocess.run(["rm", "-r", cluster], check=True)
        return usage

    def read(self, folder, *columns):
        told = subprocess.run([self.python, "-c", ROWS, folder, *columns], check=True, stdout=subprocess.PIPE)
        return json.loads(told.stdout)

    def clusters(self, store):
        words = [self.settings.binary, "export", "clusters", "--store", store]
        return subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout

    def compare(self, name, inputs, n_pages, partitions):
        """Backfills the inputs, does the same on Spark, and compares. Returns the folder of the last clusters of Spark."""
        inputs = [path.resolve() for path in inputs]
        whole = self.folder / f"{name}-whole"
        self.program("backfill", "--quiet", "--store", whole, *inputs).row(f"{name}, {n_pages:,}: `backfill`", n_pages)
        expected = self.clusters(whole)
        listed, sketches = self.folder / f"{name}.txt", self.folder / f"{name}-sketches"
        listed.write_text("".join(f"{path}\n" for path in inputs))
        job = ["deploy/spark/sketch_job.py", "--inputs", listed, "--out", f"file://{sketches}", "--program", self.settings.binary.resolve()]
        self.submit(*job).row(f"{name}, {n_pages:,}: `sketch_job.py`", n_pages)
        for n_partitions in partitions:
            out, loaded = self.folder / f"{name}-{n_partitions}", self.folder / "loaded"
            job = ["deploy/spark/link_job.py", "--sketches", f"file://{sketches}", "--out", f"file://{out}"]
            usage = self.submit(*job, "--partitions", n_partitions)
            self.program("backfill", "--quiet", "--store", loaded, "--from-sketches", sketches, "--links", out / "links.parquet")
            is_same = self.clusters(loaded) == expected
            more = f"{len(set(row[0] for row in self.read(out / 'clusters', 'cluster'))):,} clusters, " if n_partitions == partitions[0] else ""
            usage.row(f"{name}, {n_pages:,}: `link_job.py`, {n_partitions} partitions", n_pages, more + ("the same" if is_same else "OTHERS"))
            subprocess.run(["rm", "-r", loaded], check=True)
            if not is_same:
                sys.exit("Spark and one machine disagree")
        return self.folder / f"{name}-{partitions[-1]}"


def inputs_of(folder, lines, n_lines):
    """Divides lines into inputs, in order."""
    folder.mkdir()
    paths = [folder / f"{number}.jsonl" for number in range(N_INPUTS)]
    files = [open(path, "w") for path in paths]
    for number, line in enumerate(lines):
        files[min(number * N_INPUTS // n_lines, N_INPUTS - 1)].write(line)
    for file in files:
        file.close()
    return paths


def generated(settings, n_pages):
    settings.pages, before = n_pages, settings.pages
    for number, page in enumerate(peers.generated(settings)):
        page = {"id": str(number)} | {field: page[field] for field in ("url", "fetched_at", "sweep", "text")}
        yield json.dumps(page) + "\n"
    settings.pages = before


def shared(n_pages):
    """Two of a kind share six of their seven shingles, and all share one."""
    for number in range(n_pages):
        words = " ".join(f"w{number // 2}x{at}" for at in range(6))
        text = f"this page is one of very many that begin alike {words} y{number % 2}"
        yield json.dumps({"url": f"http://shared/{number}", "fetched_at": "2026-01-01T00:00:00Z", "text": text}) + "\n"


def is_same(some, others):
    """Whether two labellings divide pages in the same way."""
    return "the same" if peers.is_same(some, others) else f"differ: {len(set(some)):,} and {len(set(others)):,} clusters"


def beside_peer(settings, bench):
    folder = bench.folder / "peer"
    (folder / "pages").mkdir(parents=True)
    pages = (json.loads(line) for line in generated(settings, settings.peer))
    texts = peers.write_pages(pages, folder / "pages")
    n_pages, paths = len(texts), sorted((folder / "pages").glob("*.jsonl"))
    truth = peers.exact(texts)
    python, why = peers.install(settings.venvs, "text-dedup")
    if why:
        sys.exit(f"text-dedup does not install: {why}")

    out = bench.compare("peer", paths, n_pages, [int(settings.partitions.split(",")[0])])
    ours = [cluster for _, _, cluster in sorted(bench.read(out / "clusters", "source", "record", "cluster"))]
    print(f"| ours: F1 of pairs {peers.scores(truth, ours, [0])[0]:.4f} | | | | | | | | |", flush=True)

    alone = folder / "alone"
    alone.mkdir()
    usage = Usage([python, peers.HERE / "dedup_peers.py", "--worker", "text-dedup", folder / "pages", alone], bench.log, os.environ)
    single, _ = peers.text_dedup_result(python, alone, n_pages)
    usage.row(f"peer, {n_pages:,}: text-dedup, one machine", n_pages, f"F1 of pairs {peers.scores(truth, single, [0])[0]:.4f}")

    subprocess.run([bench.python, "-c", AS_PARQUET, folder / "pages.parquet", *paths], check=True)
    module, jar = folder / "module", []
    if settings.graphframes:
        jar = ["--jars", settings.graphframes, "--py-files", settings.graphframes]
    else:
        (module / "graphframes").mkdir(parents=True)
        (module / "graphframes/__init__.py").write_text(STAND_IN)
    find = "import importlib.util; print(importlib.util.find_spec('text_dedup').submodule_search_locations[0])"
    script = Path(subprocess.run([python, "-c", find], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()) / "minhash_spark.py"
    words = ["--input", folder / "pages.parquet", "--output", folder / "kept", "--column", "text", "--index", "id", "--debug"]
    words += ["--ngram_size", peers.W, "--threshold", peers.THRESHOLD, "--min_length", 1, "--checkpoint_dir", folder / "checkpoints"]
    usage = bench.submit(*jar, script, *words, module=module, python=python)
    labels = list(range(n_pages))
    for page, component in bench.read(f"{folder / 'kept'}-assignment/assignment.parquet", "id", "component"):
        labels[page] = component
    usage.row(f"peer, {n_pages:,}: text-dedup on Spark", n_pages,
              f"F1 of pairs {peers.scores(truth, labels, [0])[0]:.4f}; beside its one machine: {is_same(labels, single)}")


def main():
    settings = arguments()
    settings.wheel = settings.wheel.resolve()
    os.environ["LOOKALIKE__STORE__SEED"] = f"{7:064x}"
    # Processes whose parents are gone become children of this one, so that their time counts.
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    partitions = [int(n) for n in settings.partitions.split(",")]
    with tempfile.TemporaryDirectory(prefix="spark-clusters-") as name:
        bench = Bench(settings, Path(name))
        print("| what | s | pages/s | CPU µs a page | a task, MiB | executor's JVM, MiB | Python process, MiB | driver's JVM, MiB | clusters |\n"
              "|---|---|---|---|---|---|---|---|---|", flush=True)
        if settings.shared:
            inputs = inputs_of(bench.folder / "shared", shared(settings.shared), settings.shared)
            bench.compare("shared", inputs, settings.shared, partitions[:1])
        if settings.pages:
            inputs = inputs_of(bench.folder / "pages", generated(settings, settings.pages), settings.pages)
            bench.compare("pages", inputs, settings.pages, partitions)
        if settings.peer:
            beside_peer(settings, bench)
        print(f"\nload {os.getloadavg()[2]:.1f}")


if __name__ == "__main__":
    main()
