#!/usr/bin/env python3
"""How long every page and route that a person meets takes over a store of a million documents.

    cargo build --release --bin lookalike --example generate
    python3 bench-data/explorer.py FOLDER [--documents 1000000] [--requests 200] [--json]

FOLDER keeps the store and some pages that it was made of; both are made where they are missing: generated pages over four
sweeps, and three families of copies and near-copies, of which the largest has 20,000 pages. `serve` runs over it, and each
kind of request is sent with other URLs, clusters, hosts or texts each time, one after another over one connection, by turns
with all other kinds, so that a load on the machine falls on all of them. Times are whole requests on loopback. The CPU time
is the server's, from /proc, in steps of 10 ms over a whole turn: what it would be without any load. Answers of another
status than expected end it.
"""
import argparse
import csv
import http.client
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from urllib.parse import quote, urlsplit

from kafka_throughput import TARGET, cpu_seconds

N_TURNS, N_SAMPLE, LARGEST = 5, 20_000, 100
# Copies and near-copies of one text: pages, and the words of which each near-copy changes one.
FAMILIES = [(20_000, 0), (5_000, 200), (1_000, 60)]
# Records for each document.
RECORDS = 2.9
MANY = 100
BAR_MS = 50


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--documents", type=int, default=1_000_000, help="roughly")
    parser.add_argument("--requests", type=int, default=200, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--binary", type=Path, default=TARGET / "lookalike")
    parser.add_argument("--generator", type=Path, default=TARGET / "examples" / "generate")
    return parser.parse_args()


def family(number, n_pages, n_words, dice):
    """JSON pages of one text on many hosts; where there is a number of words, each page has one of its own."""
    words = [f"family{number}word{at}" for at in range(max(n_words, 80))]
    for page in range(n_pages):
        text = list(words)
        if n_words:
            text[dice.randrange(n_words)] = f"page{page}"
        host = f"family{page % 50}.example"
        yield {"url": f"http://{host}/family{number}/page{page}.html", "fetched_at": f"2002-01-01T00:00:{page % 60:02}Z",
               "sweep": "2", "content_type": "text/plain", "body": " ".join(text)}


def make(args):
    """Makes the store and the sample of pages."""
    settings = ["--profile", "tiny", "--sweeps", "4", "--same", "0.5", "--pages", str(int(RECORDS * args.documents))]
    args.folder.mkdir(parents=True, exist_ok=True)
    dice, sample = random.Random(args.seed), args.folder / "pages.jsonl"
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        pages, families = Path(folder) / "pages.jsonl", Path(folder) / "families.jsonl"
        subprocess.run([args.generator, *settings, "--out", pages], check=True)
        with open(families, "w") as file:
            for number, (n_pages, n_words) in enumerate(FAMILIES):
                file.writelines(json.dumps(page) + "\n" for page in family(number, n_pages, n_words, dice))
        subprocess.run([args.binary, "backfill", "--quiet", "--store", args.folder / "store", pages, families], check=True)
        step = max(1, int(RECORDS * args.documents) // N_SAMPLE)
        with open(pages) as file:
            sample.write_text("".join(line for at, line in enumerate(file) if at % step == 0))


class Store:
    """What there is to ask for."""

    def __init__(self, args):
        self.dice = random.Random(args.seed)
        command = [args.binary, "export", "present", "--quiet", "--store", args.folder / "store"]
        sizes, members, self.lost, urls = Counter(), defaultdict(list), [], []
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as export:
            for row in csv.DictReader(export.stdout):
                if row["state"] == "page":
                    sizes[row["cluster"]] += 1
                    members[row["cluster"]].append(row["url"])
                    urls.append(row["url"])
                else:
                    self.lost.append(row["url"])
        assert export.returncode == 0
        self.n_urls = len(urls) + len(self.lost)
        self.alone = [members[cluster][0] for cluster in self.some([of for of, size in sizes.items() if size == 1])]
        self.small = [members[of] for of in self.some([of for of, size in sizes.items() if 2 <= size <= 10])]
        self.large = [members[of] for of, _ in sizes.most_common(LARGEST)]
        self.largest = sizes.most_common(1)[0][1]
        self.urls = self.some(urls)
        self.lost = self.some(self.lost)
        self.hosts = sorted({urlsplit(url).hostname for url in self.urls})
        pages = (json.loads(line) for line in open(args.folder / "pages.jsonl"))
        self.texts = [text for page in pages if (text := page.get("body") or page.get("text"))]

    def some(self, of):
        return self.dice.sample(of, min(len(of), N_SAMPLE))

    def pick(self, of):
        return self.dice.choice(of)

    def of_small(self):
        return self.pick(self.pick(self.small))

    def of_large(self, rank=None):
        return self.pick(self.large[rank] if rank is not None else self.pick(self.large))

    def pair(self, clusters):
        return "a={}&b={}".format(*(quote(url, safe="") for url in self.dice.sample(self.pick(clusters), 2)))

    def fragment(self):
        """A part of a path that few URLs hold."""
        path = urlsplit(self.pick(self.urls)).path.strip("/")
        return path[-max(4, len(path) // 2):]

    def words(self):
        text = self.pick(self.texts).split()
        at = self.dice.randrange(max(1, len(text) - 14))
        return " ".join(text[at:at + 14])


def form(**fields):
    """The body and the headers of a form."""
    parts = "".join(f'--part\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields.items())
    return (parts + "--part--\r\n").encode(), {"content-type": "multipart/form-data; boundary=part"}


def kinds(store):
    """What is measured: a name → the path, and the body and headers of a POST, of a new request."""
    url = lambda of: quote(of, safe="")
    text = lambda: (store.pick(store.texts).encode(), {"content-type": "text/plain"})
    many = lambda: (json.dumps({"urls": store.dice.sample(store.urls, MANY)}).encode(), {"content-type": "application/json"})
    return {
        "`/`": lambda: ("/",),
        "`/?url=`, alone in its cluster": lambda: (f"/?url={url(store.pick(store.alone))}",),
        "`/?url=`, in a cluster of 2 to 10": lambda: (f"/?url={url(store.of_small())}",),
        f"`/?url=`, in the {LARGEST} largest": lambda: (f"/?url={url(store.of_large())}",),
        "`/?url=`, in the largest": lambda: (f"/?url={url(store.of_large(0))}",),
        "`/?url=`, lost or gone": lambda: (f"/?url={url(store.pick(store.lost))}",),
        "`/?url=`, a part of a URL": lambda: (f"/?url={url(store.fragment())}",),
        "`/?url=`, a host": lambda: (f"/?url={url(store.pick(store.hosts))}",),
        "`/?url=`, words of a text": lambda: (f"/?url={url(store.words())}",),
        "`/clusters`, by size": lambda: (f"/clusters?size={store.dice.randrange(2, 40)}",),
        "`/clusters`, by host": lambda: (f"/clusters?host={store.pick(store.hosts)}&size=2",),
        "`/clusters`, by kind and size": lambda: (f"/clusters?kind={store.pick(['near', 'identical'])}&size={store.dice.randrange(2, 40)}",),
        "`POST /reuse`, a text": lambda: ("/reuse", *form(text=store.pick(store.texts), file="")),
        "`/reuse?url=`": lambda: (f"/reuse?url={url(store.of_small())}",),
        "`/compare`, two URLs": lambda: (f"/compare?{store.pair(store.small)}",),
        "`POST /compare`, two texts": lambda: ("/compare", *form(a_text=store.pick(store.texts), b_text=store.pick(store.texts), a_file="", b_file="")),
        "`/explain`, in a cluster of 2 to 10": lambda: (f"/explain?{store.pair(store.small)}",),
        f"`/explain`, in the {LARGEST} largest": lambda: (f"/explain?{store.pair(store.large)}",),
        "`/explain`, in the largest": lambda: (f"/explain?{store.pair(store.large[:1])}",),
        "`/v1/url`": lambda: (f"/v1/url?url={url(store.pick(store.urls))}",),
        "`/v1/cluster`, 2 to 10": lambda: (f"/v1/cluster?of={url(store.of_small())}",),
        f"`/v1/cluster`, the {LARGEST} largest": lambda: (f"/v1/cluster?of={url(store.of_large())}",),
        "`/v1/lost`": lambda: (f"/v1/lost?url={url(store.pick(store.lost))}",),
        f"`POST /v1/lost`, {MANY} URLs": lambda: ("/v1/lost", *many()),
        f"`POST /v1/group`, {MANY} URLs": lambda: ("/v1/group", *many()),
        "`POST /v1/similar`": lambda: ("/v1/similar", *text()),
        "`POST /v1/reuse`": lambda: ("/v1/reuse", *text()),
        "`/v1/reuse?url=`": lambda: (f"/v1/reuse?url={url(store.of_small())}",),
        "`/v1/compare`": lambda: (f"/v1/compare?{store.pair(store.small)}",),
        "`/v1/explain`": lambda: (f"/v1/explain?{store.pair(store.small)}",),
        "`/v1/clusters`, 100 rows": lambda: ("/v1/clusters?limit=100",),
        "`/v1/sweeps`": lambda: ("/v1/sweeps",),
        "`/v1/stats`": lambda: ("/v1/stats",),
    }


class Server:
    def __init__(self, args):
        command = [args.binary, "serve", "--store", args.folder / "store", "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        address = next(line for line in self.process.stderr if "http://" in line)
        self.connection = http.client.HTTPConnection(address.split("http://")[1].split("/")[0].split()[0])

    def ask(self, path, body=None, headers=None):
        """Milliseconds and bytes of an answer."""
        begin = time.perf_counter()
        self.connection.request("POST" if body is not None else "GET", path, body, headers or {})
        answer = self.connection.getresponse()
        data = answer.read()
        ms = 1000 * (time.perf_counter() - begin)
        # A search may find nothing, which its page says.
        if answer.status != 200 and not (answer.status == 404 and path.startswith("/?url=")):
            sys.exit(f"{path} got {answer.status}: {data[:300]}")
        return ms, len(data)

    def await_counts(self):
        """`/` shows counts that are made beside the requests."""
        begin = time.monotonic()
        while self.ask("/clusters?size=2")[1] < 8000:
            if time.monotonic() - begin > 300:
                sys.exit("/clusters has no rows after 300 s")
            time.sleep(1)
        return time.monotonic() - begin


def measure(args, store, server):
    answers, cpu = defaultdict(list), Counter()
    requests = kinds(store)
    for turn in range(N_TURNS):
        for kind, request in requests.items():
            before = cpu_seconds(server.process.pid)
            answers[kind] += [server.ask(*request()) for _ in range(args.requests // N_TURNS)]
            cpu[kind] += cpu_seconds(server.process.pid) - before
    rows = []
    for kind, times in answers.items():
        of, sizes = sorted(ms for ms, _ in times), [n for _, n in times]
        at = lambda share: of[min(len(of) - 1, int(share * len(of)))]
        rows.append({"request": kind, "n": len(of), "p50_ms": at(0.5), "p99_ms": at(0.99), "max_ms": of[-1],
                     "cpu_ms": 1000 * cpu[kind] / len(of), "bytes_mean": sum(sizes) // len(sizes), "bytes_max": max(sizes)})
    return rows


def main():
    args = arguments()
    if not (args.folder / "pages.jsonl").exists():
        make(args)
    store, load = Store(args), os.getloadavg()[0]
    server = Server(args)
    try:
        counted = server.await_counts()
        rows = measure(args, store, server)
    finally:
        server.process.terminate()
        server.process.wait()
    load = [load, os.getloadavg()[0]]
    if args.json:
        print(json.dumps({"n_urls": store.n_urls, "largest": store.largest, "counted_s": counted, "load": load, "rows": rows}))
        return
    print("| request | p50 | p99 | at most | CPU | bytes, mean | at most |\n|---|---|---|---|---|---|---|")
    for row in rows:
        mark = " **" if row["p99_ms"] > BAR_MS else ""
        print(f"| {row['request']} | {row['p50_ms']:.1f} | {mark.strip()}{row['p99_ms']:.1f}{mark.strip()} | {row['max_ms']:.1f} | "
              f"{row['cpu_ms']:.1f} | {row['bytes_mean']:,} | {row['bytes_max']:,} |")
    print(f"\nMilliseconds; {args.requests} requests of each; {store.n_urls:,} URLs, the largest cluster of {store.largest:,} URLs; "
          f"counts after {counted:.0f} s; load {load[0]:.1f} before, {load[1]:.1f} after")


main()
