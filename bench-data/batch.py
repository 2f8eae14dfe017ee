#!/usr/bin/env python3
"""Takes the same pages through `run` and `backfill`, and compares both with each other and with exact truth.

    cargo build --release --bin lookalike
    python3 bench-data/batch.py [--truth DIR] [FILE.jsonl.zst]...
    pip install 'datatrove[processing,multilingual]'
    python3 bench-data/batch.py --peer --truth bench-data/exact bench-data/exact/canon.jsonl.zst

Each command starts with a new store on disk. The script times the whole process, alternates between the commands and
reports medians. It fails unless both leave the same clusters under the same names. A truth is a folder with `sets.csv.zst`
(for each page its URL, its sweep and the first page with the same shingles) and `clusters.csv.zst` (for each page its
cluster). Without arguments the pages and the truth are those of bench-data.

How many pairs are compared depends on the seed of the store: over pages of 5 KB, 33,000 with one and 428,000 with another.
With --seeds each round has another one. Where `cluster.comparisons_max` cuts comparisons, as over Apache Kafka's site, the
clusters then differ with some seeds.

A virtual machine may give memory that is free back to its host, and whoever touches it first then waits for it. With --touch 700
the script touches that many MiB just before each command.

With --peer, datatrove's MinHash pipeline does the same job in two processes, from files of JSON lines on disk to a cluster
for each page. datatrove does not read HTML, so the pages must be text. Its shingles have ten words as well, and its buckets
and hashes put the middle of the S-curve at a resemblance of 0.5. It does not compare the pages that share a bucket.
"""
import argparse
import collections
import csv
import gzip
import io
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target")) / "release"
BUCKETS, HASHES = 32, 5  # (1/32)^(1/5) = 0.5
PROCESSES = 2
FIRST_SEED = 7


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--truth", type=Path)
    parser.add_argument("--binary", default=TARGET / "lookalike")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seeds", action="store_true", help="another seed of the store in each round")
    parser.add_argument("--events", action="store_true", help="both commands write their events, too")
    parser.add_argument("--touch", type=int, default=0, help="MiB of memory to touch before each command")
    parser.add_argument("--peer", action="store_true")
    settings = parser.parse_args()
    if not settings.files:
        settings.files, settings.truth = sorted(HERE.glob("sweep-*.jsonl.zst")), HERE / "exact"
    return settings


def unpacked(path):
    return subprocess.run(["zstd", "-dcq", "--long=27", path], check=True, stdout=subprocess.PIPE).stdout


def read_csv(path):
    return csv.DictReader(io.TextIOWrapper(io.BytesIO(unpacked(path)), "utf-8", newline=""))


def pairs(labels):
    return sum(n * (n - 1) // 2 for n in collections.Counter(labels).values())


def f1(truth, cluster_of):
    """Pairwise F1 over distinct pages. Equal pages are left out, because any method finds them."""
    if truth is None:
        return ""
    found, true = [], []
    for at, (page, row) in enumerate(zip(read_csv(truth / "sets.csv.zst"), read_csv(truth / "clusters.csv.zst"))):
        if int(page["rep"]) == at and page["n_words"] != "0":
            found.append(cluster_of[page["url"], page["sweep"]])
            true.append(row["cluster"])
    both = pairs(zip(found, true))
    precision, recall = both / max(1, pairs(found)), both / max(1, pairs(true))
    return f", F1 {2 * precision * recall / max(1e-12, precision + recall):.4f}"


def touch(n_mib):
    """Touches memory in huge pages, which are free again afterwards. A process of its own does it: its memory would count as that
    of the commands."""
    code = (f"import mmap; memory = mmap.mmap(-1, {n_mib} << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); "
            "memory.madvise(mmap.MADV_HUGEPAGE); memory[::4096] = bytes(len(memory) // 4096)")
    subprocess.run([sys.executable, "-c", code], check=True)


def timed(command):
    """Runs a process. Returns its wall seconds, its CPU seconds and its peak memory in MiB."""
    begin = time.time()
    process = subprocess.Popen([str(word) for word in command])
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{command[1]} failed")
    return time.time() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def ours(settings, folder):
    """Times both commands and checks that their clusters are the same."""
    usage, exports = {"run": [], "backfill": []}, {}
    for number in range(settings.rounds):
        # Sketches depend on the store's seed, so both stores need the same one.
        seed = os.environ["LOOKALIKE__STORE__SEED"] = f"{FIRST_SEED + (number if settings.seeds else 0):064x}"
        for command, times in usage.items():
            store = folder / f"{command}-{number}"
            # What the command before left to be written would slow this one down.
            os.sync()
            if settings.touch:
                touch(settings.touch)
            events = ["--events", store.with_suffix(".events")] if settings.events else []
            times.append(timed([settings.binary, command, "-q", "--store", store, *events, *settings.files]))
            export = subprocess.run([settings.binary, "export", "clusters", "--store", store], check=True, stdout=subprocess.PIPE)
            if exports.setdefault(seed, export.stdout) != export.stdout:
                raise SystemExit("run and backfill leave different clusters")
            subprocess.run(["rm", "-r", store, *events[1:]], check=True)
    rows = list(csv.DictReader(io.StringIO(next(iter(exports.values())).decode())))
    n_pages, score = len(rows), f1(settings.truth, {(row["url"], row["sweep"]): row["cluster"] for row in rows})
    for command, times in usage.items():
        wall, cpu, memory = (statistics.median(column) for column in zip(*times))
        rate = f"{n_pages / wall:,.0f} pages/s, CPU {cpu:.2f} s, {memory:,.0f} MiB"
        print(f"{command}: {n_pages:,} pages in {wall:.2f} s, {rate}{score}", flush=True)
        usage[command] = wall, cpu
    wall, cpu = (usage["run"][at] / usage["backfill"][at] for at in range(2))
    print(f"the same clusters; backfill is {wall:.2f} times as fast, with {1 / cpu:.2f} of the CPU time", flush=True)


def peer(settings, folder):
    """Times datatrove's four steps, as in its own example."""
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.dedup import MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupFilter
    from datatrove.pipeline.dedup import MinhashDedupSignature
    from datatrove.pipeline.dedup.minhash import MinhashConfig
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers import JsonlWriter

    (folder / "pages").mkdir()
    parts = [open(folder / "pages" / f"{part}.jsonl", "w") for part in range(PROCESSES)]
    n_pages = 0
    for line in (line for path in settings.files for line in unpacked(path).splitlines()):
        page = json.loads(line)
        page = {"id": str(n_pages), "text": page["body"], "url": page["url"], "sweep": page.get("sweep") or ""}
        parts[n_pages % PROCESSES].write(json.dumps(page) + "\n")
        n_pages += 1
    for part in parts:
        part.close()
    config = MinhashConfig(n_grams=10, num_buckets=BUCKETS, hashes_per_bucket=HASHES)
    signatures, buckets, remove, removed, kept = (
        str(folder / name) for name in ("signatures", "buckets", "remove", "removed", "kept"))
    reader = JsonlReader(str(folder / "pages"))
    steps = [
        (PROCESSES, [reader, MinhashDedupSignature(signatures, config=config)]),
        (BUCKETS, [MinhashDedupBuckets(signatures, buckets, config=config)]),
        (1, [MinhashDedupCluster(buckets, remove, config=config, save_cluster_id=True)]),
        (PROCESSES, [
            reader,
            MinhashDedupFilter(remove, exclusion_writer=JsonlWriter(removed), load_cluster_ids=True),
            JsonlWriter(kept),
        ]),
    ]
    begin = time.time()
    for number, (tasks, pipeline) in enumerate(steps):
        logs = str(folder / f"logs-{number}")
        LocalPipelineExecutor(pipeline=pipeline, tasks=tasks, workers=min(tasks, PROCESSES), logging_dir=logs).run()
    wall = time.time() - begin
    cluster_of = {}
    for path in [*Path(kept).glob("*.gz"), *Path(removed).glob("*.gz")]:
        for line in gzip.open(path, "rt"):
            page = json.loads(line)
            of, cluster = page["metadata"], page["metadata"].get("minhash_cluster_id", -1)
            # datatrove gives no cluster to a page that resembles no other.
            cluster_of[of["url"], of["sweep"]] = page["id"] if cluster == -1 else f"cluster {cluster}"
    print(f"datatrove: {n_pages:,} pages in {wall:.2f} s, {n_pages / wall:,.0f} pages/s{f1(settings.truth, cluster_of)}")


def main():
    settings = arguments()
    print(f"{platform.machine()}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        ours(settings, Path(folder))
        if settings.peer:
            peer(settings, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
