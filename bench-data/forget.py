#!/usr/bin/env python3
"""Forgets a random share of the URLs of a crawl, compares the store with one that never saw them, and kills `forget`.

    cargo build --release --bin lookalike
    python3 bench-data/forget.py [--share 0.01] [--kills 100] bench-data/sweep-*.jsonl.zst

One store takes in all pages and forgets; the other takes in the rest of them, in the same order under the same seed. Both
must have the same clusters, sweeps and answers of `query lost`; what differs is counted and shown. Then `forget` runs on
copies of the store before it, and SIGKILL ends it at a random moment: each time the store must be sound and hold what it
held before or after, and the same command must end it.
"""
import argparse
import collections
import csv
import json
import os
import random
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", Path(__file__).resolve().parent.parent / "target")) / "release"
LOST_MAX = 300


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inputs", nargs="+", type=Path)
    parser.add_argument("--share", type=float, default=0.01)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1, help="determines the URLs and the moments")
    parser.add_argument("--binary", type=Path, default=TARGET / "lookalike")
    return parser.parse_args()


class Stores:
    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder
        self.config = folder / "config.toml"
        self.config.write_text(f'[store]\nseed = "{7:064x}"\n')

    def command(self, store, *words):
        return [str(word) for word in [self.binary, *words, "--quiet", "--config", self.config, "--store", self.folder / store]]

    def ask(self, store, *words):
        return subprocess.run(self.command(store, *words), check=True, stdout=subprocess.PIPE).stdout

    def clusters(self, store):
        """The clusters as sets of sightings."""
        clusters = collections.defaultdict(set)
        for row in csv.DictReader(self.ask(store, "export", "clusters").decode().splitlines()):
            clusters[row["cluster"]].add((row["url"], row["fetched_at"], row["sweep"]))
        return {frozenset(cluster) for cluster in clusters.values()}

    def lost(self, store, urls):
        answers = {}
        for url in urls:
            told = json.loads(self.ask(store, "query", "lost", "--json", url))
            answers[url] = told["answers"]
        return answers


def pages(inputs):
    for path in inputs:
        with subprocess.Popen(["zstd", "-dc", "--long=27", path], stdout=subprocess.PIPE) as process:
            for line in process.stdout:
                yield json.loads(line)["url"], line


def main():
    settings = arguments()
    chance = random.Random(settings.seed)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        stores = Stores(settings.binary, folder)
        urls = sorted({url for url, _ in pages(settings.inputs)})
        gone = set(chance.sample(urls, max(1, round(len(urls) * settings.share))))
        (folder / "gone.txt").write_text("".join(f"{url}\n" for url in sorted(gone)))
        with (folder / "all.jsonl").open("wb") as everything, (folder / "rest.jsonl").open("wb") as rest:
            for url, line in pages(settings.inputs):
                everything.write(line)
                if url not in gone:
                    rest.write(line)
        for store in ("all", "rest"):
            subprocess.run(stores.command(store, "run", folder / f"{store}.jsonl"), check=True)
        shutil.copytree(folder / "all", folder / "before")
        before = stores.clusters("all")

        begin = time.monotonic()
        told = json.loads(stores.ask("all", "forget", "--urls", folder / "gone.txt", "--json"))
        seconds = time.monotonic() - begin
        after, never = stores.clusters("all"), stores.clusters("rest")
        stores.ask("all", "verify")
        differing = sum(len(cluster) for cluster in after - never)
        print(
            f"{told['n_urls']:,} of {len(urls):,} URLs, {told['n_sightings']:,} sightings and {told['n_documents']:,} documents "
            f"forgotten in {seconds:.1f} s, {told['n_events']:,} events; sound\n"
            f"{len(before):,} clusters before, {len(after):,} after, {len(never):,} in a store that never had them; "
            f"{differing:,} of {sum(map(len, never)):,} sightings are in a cluster that the other lacks"
        )
        for cluster in sorted(after - never, key=len)[:3]:
            print("  only after forgetting:", sorted(cluster)[:3])
        assert stores.ask("all", "sweep", "list", "--json") == stores.ask("rest", "sweep", "list", "--json"), "sweeps differ"
        left = chance.sample([url for url in urls if url not in gone], min(LOST_MAX, len(urls) - len(gone)))
        ours, theirs = stores.lost("all", left), stores.lost("rest", left)
        print(f"`query lost` answers alike for {sum(ours[url] == theirs[url] for url in left)} of {len(left)} URLs")

        done = 0
        for kill in range(settings.kills):
            shutil.rmtree(folder / "killed", ignore_errors=True)
            shutil.copytree(folder / "before", folder / "killed")
            process = subprocess.Popen(stores.command("killed", "forget", "--urls", folder / "gone.txt"))
            try:
                process.wait(chance.random() * seconds * 1.1)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            stores.ask("killed", "verify")
            found = stores.clusters("killed")
            assert found in (before, after), f"kill {kill}: neither the store before nor the one after"
            done += found == after
            if found == before:
                stores.ask("killed", "forget", "--urls", folder / "gone.txt")
                assert stores.clusters("killed") == after, f"kill {kill}: the same command does not end it"
        print(f"{settings.kills} kills: {done} after it was done, the others before; all sound, all ended alike")

        n_bytes = sum(file.stat().st_size for file in (folder / "all").rglob("*") if file.is_file())
        begin = time.monotonic()
        stores.ask("all", "compact")
        stores.ask("all", "verify")
        assert stores.clusters("all") == after
        rest = sum(file.stat().st_size for file in (folder / "all").rglob("*") if file.is_file())
        print(f"compacted and verified in {time.monotonic() - begin:.1f} s: {n_bytes / 1e6:,.1f} MB before, {rest / 1e6:,.1f} after")


if __name__ == "__main__":
    main()
