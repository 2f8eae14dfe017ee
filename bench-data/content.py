#!/usr/bin/env python3
"""Compares what `canonical.content = "main"` keeps of pages with what trafilatura and jusText keep.

    cargo build --release --bin lookalike
    pip install trafilatura justext lxml_html_clean
    python3 bench-data/content.py FILE.jsonl.zst...

The truth is the text that a page was made from, where a site ships it: pages `X.html` are held against `X.txt` of the same sweep,
word by word as multisets. The sources have markup of their own, so that nothing reaches 1. Prints for each extractor the words
that it keeps as a share of all, precision, recall and F1 of its words, and MB of HTML for each second of CPU time. The time of
Lookalike is that of `sketch --time`: decoding, extracting, shingling and all.
"""
import argparse
import collections
import io
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target")) / "release"
WORD = re.compile(r"[^\W_]+")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--pages", type=int, default=400, help="compare this many pages at most, evenly spread")
    parser.add_argument("--binary", type=Path, default=TARGET / "lookalike")
    return parser.parse_args()


def pages_and_sources(files):
    """(HTML, words of its source) of each page that has a source."""
    html, sources = {}, {}
    for file in files:
        unpacked = subprocess.Popen(["zstd", "-dcq", "--long=27", file], stdout=subprocess.PIPE)
        for line in io.TextIOWrapper(unpacked.stdout, "utf-8"):
            page = json.loads(line)
            stem, _, kind = page["url"].rpartition(".")
            key = (stem, page["sweep"])
            if kind == "html":
                html[key] = page["body"]
            elif kind == "txt":
                sources[key] = words(page["body"])
    return [(html[key], sources[key]) for key in sorted(html.keys() & sources.keys())]


def words(text):
    return collections.Counter(WORD.findall((text or "").lower()))


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def by_function(pages, extract):
    begin = cpu_seconds()
    texts = [extract(html) for html in pages]
    return texts, sum(len(html.encode()) for html in pages) / 1e6 / (cpu_seconds() - begin)


def by_lookalike(pages, binary, content):
    environment = os.environ | {"LOOKALIKE__CANONICAL__CONTENT": content}
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for number, html in enumerate(pages):
            files.append(Path(folder) / f"{number:06}.html")
            files[-1].write_text(html, encoding="utf-8")
        explained = subprocess.run([binary, "sketch", "--page", "--explain", "--json", *files], env=environment, check=True,
                                   stdout=subprocess.PIPE, text=True).stdout
        seconds = []
        for _ in range(5):
            timed = subprocess.run([binary, "sketch", "--page", "--time", "--json", *files], env=environment, check=True,
                                   stdout=subprocess.PIPE, text=True).stdout
            timing = json.loads(timed)
            seconds.append(timing["sketching_seconds"])
    texts = []
    for line in explained.strip("\n").split("\n"):
        page = json.loads(line)
        is_whole = content == "all" or page["main_is_all"]
        texts.append(" ".join(block["text"] for block in page["blocks"] if is_whole or block["is_content"]))
    return texts, timing["n_bytes"] / 1e6 / statistics.median(seconds)


def main():
    settings = arguments()
    pairs = pages_and_sources(settings.files)
    if not pairs:
        sys.exit("no page of these files has its source beside it: X.html and X.txt in one sweep")
    pairs = pairs[:: max(1, -(-len(pairs) // settings.pages))]
    pages, sources = [html for html, _ in pairs], [source for _, source in pairs]
    extractors = {
        "all": lambda: by_lookalike(pages, settings.binary, "all"),
        "main": lambda: by_lookalike(pages, settings.binary, "main"),
    }
    try:
        import trafilatura
        extractors["trafilatura"] = lambda: by_function(pages, trafilatura.extract)
    except ImportError as error:
        print(f"without trafilatura: {error}", file=sys.stderr)
    try:
        import justext
        stop_words = justext.get_stoplist("English")
        extractors["jusText"] = lambda: by_function(pages, lambda html: "\n".join(
            paragraph.text for paragraph in justext.justext(html, stop_words) if not paragraph.is_boilerplate))
    except ImportError as error:
        print(f"without jusText: {error}", file=sys.stderr)
    print(f"{len(pages)} pages, {sum(map(len, pages)) / 1e6:.1f} MB")
    print("| extractor | words kept | precision | recall | F1 | MB/s |\n|---|---|---|---|---|---|")
    n_all = None
    for name, run in extractors.items():
        texts, speed = run()
        kept = [words(text) for text in texts]
        n_kept, n_source = (sum(sum(bag.values()) for bag in bags) for bags in (kept, sources))
        n_all = n_all or n_kept
        n_both = sum(sum((a & b).values()) for a, b in zip(kept, sources))
        precision, recall = n_both / max(1, n_kept), n_both / max(1, n_source)
        f1 = 2 * precision * recall / max(1e-9, precision + recall)
        print(f"| {name} | {n_kept / n_all:.1%} | {precision:.3f} | {recall:.3f} | {f1:.3f} | {speed:.1f} |", flush=True)


main()
