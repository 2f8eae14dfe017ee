#!/usr/bin/env python3
"""Times `lookalike dedup` beside other programs that write a clean corpus: the same pages, by turns, in one table.

    cargo build --release --bin lookalike --example generate
    python3 bench-data/dedup_peers.py [--pages 20000] [--rounds 2] [--only sample|generated] [--tools NAME,...]

Pages are two files of JSON lines on disk, not compressed; each has its text, so that no program reads HTML. The
sample's pages are those of exact/canon.jsonl.zst, whose words are cut already. Generated pages have 5 KB of text. Each
program runs as a process of its own, from these files to files with the pages that it keeps, is measured from its start
to its end, and may use both cores. Each peer has a virtual environment of its own in --venvs, which the script makes at its first run.

A cluster of exact truth is what pairs with a resemblance of 0.5 or more link, by their sets of shingles of ten words. The
script computes it plainly, and on the sample it must be what exact/clusters.csv.zst says. Peers get shingles of ten
words and a threshold of 0.5, too; datatrove also runs with its own default.

pairs F1    pairs of different pages in one cluster, against truth; equal pages are left out, because any method finds them
kept F1     pages that are kept, against one for each true cluster, whichever: 2 × clusters that have one / (pages + clusters)
"""
import argparse
import collections
import csv
import ctypes
import io
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target")) / "release"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
W, THRESHOLD, PROCESSES = 10, 0.5, 2
WORD = re.compile(r"[^\W_]+")
PACKAGES = {
    "datatrove": ["datatrove[processing]==0.10.1", "spacy==3.8.18", "orjson==3.13.0"],
    "text-dedup": ["text-dedup==0.4.0"],
    "datasketch": ["datasketch==2.0.0"],
    "rensa": ["rensa==0.5.0"],
}
# The name of each program in the table, its environment, and what it is told.
TOOLS = {
    "lookalike": (None, "`lookalike dedup --removed`"),
    "datatrove-default": ("datatrove", "datatrove 0.10.1, its default: 5-grams, 14 × 8, so 0.72"),
    "datatrove": ("datatrove", "datatrove 0.10.1, 10-grams, 32 × 5"),
    "text-dedup": ("text-dedup", "text-dedup 0.4.0, 10-grams, 0.5, xxh3"),
    "datasketch": ("datasketch", "datasketch 2.0.0, 10-grams, 0.5, one core"),
    "rensa": ("rensa", "rensa 0.5.0, 10-grams, 0.5"),
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=20_000, help="generated pages")
    parser.add_argument("--rounds", type=int, default=2, help="on the sample; on generated pages there is one")
    parser.add_argument("--only", choices=["sample", "generated"])
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--binary", type=Path, default=TARGET / "lookalike")
    parser.add_argument("--generator", type=Path, default=TARGET / "examples/generate")
    parser.add_argument("--venvs", type=Path, default=CACHE / "lookalike/dedup-peers")
    parser.add_argument("--worker", nargs=3, metavar=("TOOL", "PAGES", "OUT"), help=argparse.SUPPRESS)
    return parser.parse_args()


def install(folder, peer):
    """Returns the Python of a peer's environment, or why there is none."""
    python, mark = folder / peer / "bin/python", folder / peer / "installed"
    if not mark.exists():
        print(f"installing {' '.join(PACKAGES[peer])}", flush=True)
        venv.create(folder / peer, with_pip=True, clear=True)
        for packages in [["--upgrade", "pip"], PACKAGES[peer]]:
            answer = subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], stderr=subprocess.PIPE, text=True)
            if answer.returncode:
                return None, answer.stderr.strip().splitlines()[-1]
        mark.touch()
    return python, None


# ---- the pages ----


def unpacked(path):
    return subprocess.run(["zstd", "-dcq", "--long=27", path], check=True, stdout=subprocess.PIPE).stdout


def sample(_):
    for line in unpacked(HERE / "exact/canon.jsonl.zst").splitlines():
        page = json.loads(line)
        yield page | {"text": page["body"]}


def generated(settings):
    command = [settings.generator, "--profile", "small", "--form", "text", "--mu", "6.5", "--pages", settings.pages]
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE)
    yield from (page for page in map(json.loads, process.stdout) if page.get("text"))
    process.wait()


def write_pages(pages, folder):
    """Two files, the first half and the second. A page's id is its number."""
    pages = list(pages)
    for part in range(2):
        with open(folder / f"{part}.jsonl", "w") as file:
            for at in range(len(pages))[part * len(pages) // 2:(part + 1) * len(pages) // 2]:
                page = {"id": str(at)} | {field: pages[at][field] for field in ("url", "fetched_at", "sweep", "text")}
                file.write(json.dumps(page) + "\n")
    return [page["text"] for page in pages]


def read_pages(folder):
    for path in sorted(Path(folder).glob("*.jsonl")):
        with open(path) as file:
            yield from map(json.loads, file)


# ---- the truth ----


class Components:
    def __init__(self, n):
        self.parent = list(range(n))

    def find(self, at):
        while self.parent[at] != at:
            self.parent[at] = self.parent[self.parent[at]]
            at = self.parent[at]
        return at

    def link(self, a, b):
        a, b = self.find(a), self.find(b)
        self.parent[max(a, b)] = min(a, b)

    def labels(self):
        return [self.find(at) for at in range(len(self.parent))]


def exact(texts):
    """For each page the first one with the same shingles, and the first one of its cluster.

    Sets of resemblance r have a shingle in common among the rarest (1 - r) of the shingles of each, so others are not tried.
    """
    sets, first_of, rep = [], {}, []
    for text in texts:
        words = WORD.findall(text.lower())
        shingles = frozenset(hash(" ".join(words[at:at + W])) for at in range(max(1, len(words) - W + 1)))
        known = first_of.setdefault(shingles, len(rep))
        sets.append(shingles if known == len(rep) else None)
        rep.append(known)
    del first_of
    components = Components(len(texts))
    frequency = collections.Counter(shingle for shingles in sets if shingles for shingle in shingles)
    frequency = {shingle: n for shingle, n in frequency.items() if n > 1}
    index = collections.defaultdict(list)
    for at in sorted((at for at, shingles in enumerate(sets) if shingles), key=lambda at: len(sets[at])):
        shingles, tried = sets[at], set()
        rarest = sorted(shingles, key=lambda shingle: (frequency.get(shingle, 1), shingle))
        for shingle in rarest[:len(shingles) - int(-(-THRESHOLD * len(shingles) // 1)) + 1]:
            if shingle not in frequency:
                continue
            for other in index[shingle]:
                if other in tried or len(sets[other]) < THRESHOLD * len(shingles):
                    continue
                tried.add(other)
                if components.find(other) != components.find(at):
                    both = len(shingles & sets[other])
                    if both >= THRESHOLD * (len(shingles) + len(sets[other]) - both):
                        components.link(other, at)
            index[shingle].append(at)
    for at, known in enumerate(rep):
        components.link(at, known)
    return rep, components.labels()


def is_same(labels, others):
    return len(set(labels)) == len(set(others)) == len(set(zip(labels, others)))


def check_sample(clusters):
    rows = csv.DictReader(io.StringIO(unpacked(HERE / "exact/clusters.csv.zst").decode()))
    if not is_same(clusters, [row["cluster"] for row in rows]):
        raise SystemExit("the plain truth differs from exact/clusters.csv.zst")


def n_pairs(labels):
    return sum(n * (n - 1) // 2 for n in collections.Counter(labels).values())


def scores(truth, clusters, kept):
    rep, true = truth
    different = [at for at, known in enumerate(rep) if known == at]
    of_pairs = None
    if clusters:
        found, wanted = [clusters[at] for at in different], [true[at] for at in different]
        of_pairs = 2 * n_pairs(zip(found, wanted)) / max(1, n_pairs(found) + n_pairs(wanted))
    return of_pairs, 2 * len({true[at] for at in kept}) / (len(kept) + len(set(true)))


# ---- the peers, each in its own environment ----


def datatrove_worker(pages, out, **how):
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.dedup import MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupFilter
    from datatrove.pipeline.dedup import MinhashDedupSignature
    from datatrove.pipeline.dedup.minhash import MinhashConfig
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers import JsonlWriter

    config = MinhashConfig(**how)
    signatures, buckets, remove = (str(out / name) for name in ("signatures", "buckets", "remove"))
    removed, kept = (JsonlWriter(str(out / name), compression=None) for name in ("removed", "kept"))
    reader = JsonlReader(str(pages), compression=None)
    steps = [
        (PROCESSES, [reader, MinhashDedupSignature(signatures, config=config)]),
        (config.num_buckets, [MinhashDedupBuckets(signatures, buckets, config=config)]),
        (1, [MinhashDedupCluster(buckets, remove, config=config, save_cluster_id=True)]),
        (PROCESSES, [reader, MinhashDedupFilter(remove, exclusion_writer=removed, load_cluster_ids=True), kept]),
    ]
    for number, (tasks, pipeline) in enumerate(steps):
        logs = str(out / f"logs-{number}")
        LocalPipelineExecutor(pipeline=pipeline, tasks=tasks, workers=min(tasks, PROCESSES), logging_dir=logs).run()


def datatrove_result(_, out, n_pages):
    clusters, kept = [None] * n_pages, []
    for name in ("kept", "removed"):
        for page in read_pages(out / name):
            cluster = page["metadata"].get("minhash_cluster_id", -1)
            # datatrove gives no cluster to a page that resembles no other.
            clusters[int(page["id"])] = f"page {page['id']}" if cluster == -1 else f"cluster {cluster}"
            kept += [int(page["id"])] if name == "kept" else []
    return clusters, kept


def text_dedup_worker(pages, out):
    """Its command line. What it finds is in uf.pkl, which only its own classes can read."""
    command = ["--path", "json", "--data_files", f"{pages}/*.jsonl", "--split", "train", "--cache_dir", out / "cache"]
    command += ["--output", out / "kept", "--column", "text", "--ngram", W, "--threshold", THRESHOLD, "--min_length", 1]
    command += ["--hash_func", "xxh3", "--num_proc", PROCESSES, "--debug"]
    module = [sys.executable, "-m", "text_dedup.minhash"]
    os.environ |= {"HF_HOME": str(out / "home"), "HF_HUB_OFFLINE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
    os.execv(sys.executable, [str(word) for word in module + command])


def text_dedup_result(python, out, n_pages):
    read = (
        "import json, pickle, sys; from datasets import load_from_disk; out = sys.argv[1]; "
        "found = pickle.load(open(f'{out}/uf.pkl', 'rb')); kept = load_from_disk(out)['id']; "
        "print(json.dumps([[found.find(at) for at in range(int(sys.argv[2]))], list(map(int, kept))]))"
    )
    answer = subprocess.run([python, "-c", read, out / "kept", str(n_pages)], check=True, stdout=subprocess.PIPE)
    return json.loads(answer.stdout)


def shingles(text):
    words = text.lower().split()
    return [" ".join(words[at:at + W]) for at in range(max(1, len(words) - W + 1))]


def datasketch_worker(pages, out):
    from datasketch import MinHash, MinHashLSH

    index, components, lines = MinHashLSH(threshold=THRESHOLD, num_perm=128), Components(0), []
    for at, page in enumerate(read_pages(pages)):
        sketch = MinHash(num_perm=128)
        sketch.update_batch([shingle.encode() for shingle in shingles(page["text"])])
        components.parent.append(at)
        for other in index.query(sketch):
            components.link(other, at)
        index.insert(at, sketch)
        lines.append(page)
    labels = components.labels()
    with open(out / "kept.jsonl", "w") as file:
        for at, page in enumerate(lines):
            if labels[at] == at:
                file.write(json.dumps(page) + "\n")
    (out / "clusters.json").write_text(json.dumps(labels))


def datasketch_result(_, out, __):
    return json.loads((out / "clusters.json").read_text()), [int(page["id"]) for page in read_pages(out)]


def rensa_worker(pages, out):
    """Its deduplicator, which compares a page with those kept before it, and makes no clusters."""
    from rensa import RMinHashDeduplicator

    dedup = RMinHashDeduplicator(threshold=THRESHOLD, num_perm=128, use_lsh=True)
    lines = list(read_pages(pages))
    stays = dedup.add_pairs((page["id"], shingles(page["text"])) for page in lines)
    with open(out / "kept.jsonl", "w") as file:
        for page, stays in zip(lines, stays):
            if stays:
                file.write(json.dumps(page) + "\n")


def rensa_result(_, out, __):
    return None, [int(page["id"]) for page in read_pages(out)]


def lookalike_result(_, out, n_pages):
    files, clusters = [f"{part}.jsonl" for part in range(2)], list(range(n_pages))
    first = {"0.jsonl": 0, "1.jsonl": n_pages // 2}
    with open(out / "removed.jsonl") as file:
        for row in map(json.loads, file):
            at, kept = (first[Path(row[name]).name] + row[number] for name, number in
                        [("source", "record"), ("kept_source", "kept_record")])
            clusters[at] = kept
    return clusters, [int(page["id"]) for name in files for page in map(json.loads, open(out / "clean" / name))]


WORKERS = {
    "datatrove-default": datatrove_worker,
    "datatrove": lambda pages, out: datatrove_worker(pages, out, n_grams=W, num_buckets=32, hashes_per_bucket=5),
    "text-dedup": text_dedup_worker,
    "datasketch": datasketch_worker,
    "rensa": rensa_worker,
}
RESULTS = {
    None: lookalike_result,
    "datatrove": datatrove_result,
    "text-dedup": text_dedup_result,
    "datasketch": datasketch_result,
    "rensa": rensa_result,
}


# ---- the measurement ----


def tree(process):
    """The ids of a process and of all below it."""
    try:
        below = [int(word) for path in Path(f"/proc/{process}/task").glob("*/children") for word in path.read_text().split()]
    except OSError:
        below = []
    return [process] + [one for each in below for one in tree(each)]


def memory_of(processes):
    """Their memory in MiB; what several share counts once."""
    total = 0
    for process in processes:
        try:
            rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return total / 1024


def timed(command, log):
    """Runs a process. Returns wall seconds, CPU seconds and peak memory in MiB of the process and all below it."""
    done, peak = threading.Event(), [0.0]
    begin = time.time()
    process = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log)

    def watch():
        pause = 0.02
        while not done.wait(pause):
            looked = time.monotonic()
            # Orphans are children of this process.
            peak[0] = max(peak[0], memory_of([one for one in tree(os.getpid()) if one != os.getpid()]))
            pause = max(0.02, 10 * (time.monotonic() - looked))

    watcher = threading.Thread(target=watch)
    watcher.start()
    cpu, status, wall = 0.0, None, None
    while True:
        try:
            one, ended, usage = os.wait4(-1, 0)
        except ChildProcessError:
            break
        cpu += usage.ru_utime + usage.ru_stime
        if one == process.pid:
            status, wall, process.returncode = ended, time.time() - begin, ended
    done.set()
    watcher.join()
    return (wall, cpu, peak[0]) if status == 0 else None


def run(settings, tool, python, pages, out):
    out.mkdir()
    if tool == "lookalike":
        files = sorted(pages.glob("*.jsonl"))
        command = [settings.binary, "dedup", "--quiet", *files, "--out", out / "clean", "--removed", out / "removed.jsonl"]
    else:
        command = [python, HERE / "dedup_peers.py", "--worker", tool, pages, out]
    with open(out.with_suffix(".log"), "w") as log:
        usage = timed(command, log)
    return usage, out.with_suffix(".log").read_text().strip().splitlines()[-1:]


def measure(settings, what, texts_of, n_rounds, pythons, folder):
    (folder / "pages").mkdir(parents=True)
    texts = write_pages(texts_of(settings), folder / "pages")
    n_pages, n_bytes = len(texts), sum(len(text.encode()) for text in texts)
    truth = exact(texts)
    if what == "sample":
        check_sample(truth[1])
    print(f"{what}: {n_pages:,} pages, {n_bytes / 1e6:,.1f} MB of text, {len(set(truth[1])):,} true clusters", flush=True)
    del texts
    usages, told = collections.defaultdict(list), {}
    for number in range(n_rounds):
        for tool, python in pythons.items():
            out = folder / f"{tool}-{number}"
            usage, last = run(settings, tool, python, folder / "pages", out)
            if usage is None:
                print(f"{tool} failed: {last}", flush=True)
                continue
            usages[tool].append(usage)
            told[tool] = RESULTS[TOOLS[tool][0]](python, out, n_pages)
            print(f"{tool}: {usage[0]:.2f} s, CPU {usage[1]:.2f} s, {usage[2]:,.0f} MiB, {len(told[tool][1]):,} kept", flush=True)
            subprocess.run(["rm", "-r", out], check=True)
    rows = []
    for tool, rounds in usages.items():
        wall, cpu, memory = (statistics.median(column) for column in zip(*rounds))
        of_pairs, of_kept = scores(truth, *told[tool])
        of_pairs = "–" if of_pairs is None else f"{of_pairs:.3f}"
        rows.append(
            f"| {what}, {n_pages:,} | {TOOLS[tool][1]} | {wall:,.1f} s | {n_pages / wall:,.0f} | {1e6 * cpu / n_pages:,.0f} | "
            f"{memory:,.0f} MiB | {len(told[tool][1]):,} | {of_pairs} | {of_kept:.3f} |"
        )
    rows.append(f"| {what}, {n_pages:,} | exact truth | | | | | {len(set(truth[1])):,} | 1 | 1 |")
    return rows


def main():
    settings = arguments()
    if settings.worker:
        tool, pages, out = settings.worker
        WORKERS[tool](Path(pages), Path(out))
        return
    os.environ["LOOKALIKE__STORE__SEED"] = f"{7:064x}"
    # Processes whose parents are gone become children of this one, so that their time counts.
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    pythons = {}
    for tool in settings.tools.split(","):
        python, why = install(settings.venvs, TOOLS[tool][0]) if TOOLS[tool][0] else (None, None)
        if why:
            print(f"{tool} is left out, it does not install: {why}", flush=True)
        else:
            pythons[tool] = python
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for what, texts_of, n_rounds in [("sample", sample, settings.rounds), ("generated", generated, 1)]:
            if settings.only in (None, what):
                rows += measure(settings, what, texts_of, n_rounds, pythons, Path(name) / what)
    print(f"\n{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}\n")
    print("| pages | program | wall | pages/s | CPU µs a page | memory | kept | pairs F1 | kept F1 |")
    print("|---|---|---|---|---|---|---|---|---|", *rows, sep="\n")


if __name__ == "__main__":
    sys.exit(main())
