#!/usr/bin/env python3
"""HTML to text by lexbor, a parser in C, on the pages that `cargo bench --bench page` measures: what to hold our stages
"decode" and "html" against. Needs `pip install selectolax` and zstd on the PATH.

usage: lexbor.py [FILE.jsonl.zst]...   (bench-data's last sweep where none is named)
"""
import json, pathlib, subprocess, sys, time
from selectolax.lexbor import LexborHTMLParser

BYTES_MAX = 32 << 20
ROUNDS = 5


def pages(files):
    n_bytes = 0
    for file in files:
        lines = subprocess.run(["zstd", "-dcq", "--long=27", file], capture_output=True, check=True).stdout
        for line in lines.splitlines():
            body = json.loads(line).get("body")
            if body:
                n_bytes += len(body.encode())
                if n_bytes > BYTES_MAX:
                    return
                yield body.encode()


files = sys.argv[1:] or [pathlib.Path(__file__).parent.parent / "sweep-3-2017-09-01.jsonl.zst"]
bodies = list(pages(files))
n_bytes = sum(map(len, bodies))
best = {"tree": float("inf"), "tree and text": float("inf")}
for _ in range(ROUNDS):
    for name in best:
        begin = time.perf_counter()
        for body in bodies:
            tree = LexborHTMLParser(body)
            if name == "tree and text":
                tree.text()
        best[name] = min(best[name], time.perf_counter() - begin)
for name, seconds in best.items():
    print(f"lexbor, {name}: {n_bytes / seconds / 1e6:.0f} MB/s of {n_bytes / 1e6:.1f} MB")
