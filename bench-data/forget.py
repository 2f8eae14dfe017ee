#!/usr/bin/env python3
"""Forgets a random share of the URLs of a crawl, compares the store with one that never saw them, and kills `forget`.

    cargo build --release --bin lookalike
    python3 bench-data/forget.py [--share 0.01] [--kills 100] bench-data/sweep-*.jsonl.zst

One store takes in all pages and forgets; the other takes in the rest of them, in the same order under the same seed. Both
must have the same clusters, sweeps and answers of `query lost`; what differs is counted and shown. Then `forget` runs on
copies of the store before it, and SIGKILL ends it at a random moment: each time the store must be sound and hold what it
held before or after, and the same command must end it.

Between the two a `run` publishes the events, `compact` rewrites the files, and every file of the store is searched for the
forgotten URLs: its bytes, and what they mean to RocksDB, with blocks decompressed and keys put together. The same search must
find each of them in a compacted copy of the store before. It needs liblz4 and libzstd.
"""
import argparse
import collections
import csv
import ctypes
import ctypes.util
import json
import os
import random
import shutil
import struct
import subprocess
import tempfile
import time
from pathlib import Path

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", Path(__file__).resolve().parent.parent / "target")) / "release"
LOST_MAX = 300

# RocksDB's format of tables: the footer of 53 bytes, the magic number at its end, and a block's trailer of 5 bytes.
FOOTER, MAGIC, TRAILER = 53, 0x88E241B785F4CFF7, 5
NO_COMPRESSION, LZ4, ZSTD = 0, 4, 7
# Its format of logs: blocks of 32 KiB, in which each fragment has a header of 7 bytes, or 11 in a recycled file.
LOG_BLOCK, FULL, LAST, RECYCLED = 32_768, (1, 5), (4, 8), 5


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
        for row in csv.DictReader(self.rows(store).decode().splitlines()):
            clusters[row["cluster"]].add((row["url"], row["fetched_at"], row["sweep"]))
        return {frozenset(cluster) for cluster in clusters.values()}

    def rows(self, store):
        """A row for each sighting, with the name of its cluster."""
        return self.ask(store, "export", "clusters")

    def take_in(self, store, pages):
        events = self.folder / f"{store}.events.jsonl"
        subprocess.run(self.command(store, "run", "--events", events, pages), check=True)
        return events

    def lost(self, store, urls):
        (self.folder / "asked.txt").write_text("".join(f"{url}\n" for url in urls))
        told = self.ask(store, "query", "lost", "--json", "--urls-from", self.folder / "asked.txt").decode().splitlines()
        return {answer["url"]: answer["answers"] for answer in map(json.loads, told)}


def pages(inputs):
    for path in inputs:
        with subprocess.Popen(["zstd", "-dc", "--long=27", path], stdout=subprocess.PIPE) as process:
            for line in process.stdout:
                yield json.loads(line)["url"], line


class Decompressor:
    def __init__(self):
        names = {name: ctypes.util.find_library(name) for name in ("lz4", "zstd")}
        if missing := [name for name, found in names.items() if not found]:
            raise SystemExit(f"no lib{missing[0]}: apt-get install liblz4-1 libzstd1")
        self.lz4, self.zstd = (ctypes.CDLL(found) for found in names.values())
        self.zstd.ZSTD_decompress.restype = ctypes.c_size_t
        self.zstd.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]

    def block(self, data, at, size):
        """The bytes of a table's block, decompressed."""
        kind, block = data[at + size], data[at : at + size]
        if kind == NO_COMPRESSION:
            return block
        n_bytes, begin = varint(block, 0)
        block, whole = block[begin:], ctypes.create_string_buffer(n_bytes)
        if kind == LZ4:
            n_read = self.lz4.LZ4_decompress_safe(block, whole, len(block), n_bytes)
        elif kind == ZSTD:
            n_read = self.zstd.ZSTD_decompress(whole, n_bytes, block, len(block))
        else:
            raise SystemExit(f"a block has compression {kind}, which this program cannot read")
        assert n_read == n_bytes, "a block cannot be decompressed"
        return whole.raw


def varint(data, at):
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return number, at


def end_of_entries(block):
    """Where a block's restart points begin: the offset of each is known, so their number says it."""
    (n_restarts,) = struct.unpack_from("<I", block, len(block) - 4)
    return len(block) - 4 - 4 * (n_restarts & 0x7FFF_FFFF)


def blocks(data, decompressor):
    """The data blocks of a table, in the order of its index."""
    footer = data[-FOOTER:]
    version, magic = struct.unpack("<IQ", footer[-12:])
    assert magic == MAGIC and version == 5, f"a table of format {version}"
    at = 1
    for _ in range(2):
        _, at = varint(footer, at)
    begin, at = varint(footer, at)
    size, _ = varint(footer, at)
    index = decompressor.block(data, begin, size)
    at, end = 0, end_of_entries(index)
    block_at = block_size = 0
    while at < end:
        shared, at = varint(index, at)
        n_own, at = varint(index, at)
        at += n_own
        if shared == 0:
            block_at, at = varint(index, at)
            block_size, at = varint(index, at)
        else:
            # A block that follows the one before: only the difference of their sizes is there, in zigzag form.
            step, at = varint(index, at)
            block_at += block_size + TRAILER
            block_size += (step >> 1) ^ -(step & 1)
        yield decompressor.block(data, block_at, block_size)


def keys(block):
    """The keys of a block that share bytes with the one before, whole."""
    at, end, key = 0, end_of_entries(block), b""
    while at < end:
        shared, at = varint(block, at)
        n_own, at = varint(block, at)
        n_value, at = varint(block, at)
        key = key[:shared] + block[at : at + n_own]
        at += n_own + n_value
        if shared:
            yield key


def records(data):
    """The records of a log or manifest whose fragments lie in several blocks, put together."""
    whole, at = b"", 0
    while at + 7 <= len(data):
        if (left := LOG_BLOCK - at % LOG_BLOCK) < 7:
            at += left
            continue
        size, kind = struct.unpack_from("<HB", data, at + 4)
        if kind == 0:
            at += left
            continue
        at += 7 if kind < RECYCLED else 11
        whole += data[at : at + size]
        at += size
        if kind in FULL:
            whole = b""
        elif kind in LAST:
            yield whole
            whole = b""


def readings(path, decompressor):
    """What stands in a file of a store: its bytes, and all that they mean where they are compressed or in pieces."""
    data = path.read_bytes()
    yield data
    if path.suffix == ".sst":
        for block in blocks(data, decompressor):
            yield block
            yield b"\0".join(keys(block))
    elif path.suffix == ".log" or path.name.startswith("MANIFEST"):
        yield from records(data)


def search(store, wanted, decompressor):
    """Which of these URLs stand in the files of a store, each with a file; and how many bytes were searched."""
    prefix = os.path.commonprefix(sorted(wanted))
    assert prefix, "the URLs begin alike"
    lengths, found, n_bytes = sorted({len(url) for url in wanted}), {}, 0
    for path in sorted(path for path in store.rglob("*") if path.is_file()):
        for data in readings(path, decompressor):
            n_bytes += len(data)
            at = data.find(prefix)
            while at >= 0:
                for length in lengths:
                    if (url := data[at : at + length]) in wanted:
                        found.setdefault(url, path.name)
                at = data.find(prefix, at + 1)
    return found, n_bytes


def only_theirs(gone, left):
    """The forgotten URLs that are no part of one that stands: their bytes may be nowhere."""
    standing = "\n".join(left)
    return {url.encode() for url in gone if url not in standing}


def check_bytes(stores, gone, left, all_pages):
    """Publishes the events, compacts, and searches every file."""
    decompressor, wanted = Decompressor(), only_theirs(gone, left)
    shutil.copytree(stores.folder / "before", stores.folder / "control")
    stores.ask("control", "compact")
    found, _ = search(stores.folder / "control", wanted, decompressor)
    assert len(found) == len(wanted), f"the search finds only {len(found)} of {len(wanted)} URLs before they are forgotten"
    events = stores.take_in("all", all_pages)
    told = {event["url"] for event in map(json.loads, events.open()) if event["type"] == "forgotten"}
    assert told >= gone, f"{len(gone - told)} URLs have no event"
    stores.ask("all", "compact")
    found, n_bytes = search(stores.folder / "all", wanted, decompressor)
    assert not found, f"{len(found)} forgotten URLs are in the files: {sorted(found.items())[:3]}"
    print(
        f"none of {len(wanted):,} URLs, of {len(gone):,} forgotten, is in {n_bytes / 1e6:,.1f} MB of files and decompressed blocks; "
        "all are in a compacted copy from before"
    )


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
            stores.take_in(store, folder / f"{store}.jsonl")
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

        rows_before, rows_after = stores.rows("before"), stores.rows("all")
        n_bytes = sum(file.stat().st_size for file in (folder / "all").rglob("*") if file.is_file())
        begin = time.monotonic()
        check_bytes(stores, gone, set(urls) - gone, folder / "all.jsonl")
        stores.ask("all", "verify")
        assert stores.clusters("all") == after
        rest = sum(file.stat().st_size for file in (folder / "all").rglob("*") if file.is_file())
        print(
            f"published, compacted, searched and verified in {time.monotonic() - begin:.1f} s: {n_bytes / 1e6:,.1f} MB before, "
            f"{rest / 1e6:,.1f} after"
        )

        kills = done = whole = 0
        while kills < settings.kills:
            shutil.rmtree(folder / "killed", ignore_errors=True)
            shutil.copytree(folder / "before", folder / "killed")
            process = subprocess.Popen(stores.command("killed", "forget", "--urls", folder / "gone.txt"))
            try:
                process.wait(chance.random() * seconds * 1.1)
                whole += 1
                continue
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            kills += 1
            stores.ask("killed", "verify")
            found = stores.rows("killed")
            assert found in (rows_before, rows_after), f"kill {kills}: neither the store before nor the one after"
            done += found == rows_after
            if found == rows_before:
                stores.ask("killed", "forget", "--urls", folder / "gone.txt")
                assert stores.rows("killed") == rows_after, f"kill {kills}: the same command does not end it"
        print(f"{kills} kills: {done} after it was done, the others before; all sound, all ended alike; {whole} ended before the kill")


if __name__ == "__main__":
    main()
