#!/usr/bin/env python3
"""Scores extractors on hand-made main content: the evaluation files of trafilatura, a folder with `evaldata.json`, `cache` and `eval`.

    pip install trafilatura justext readability-lxml lxml_html_clean
    python3 bench-data/content_snippets.py FOLDER

For each page, people wrote down pieces of text that must be in the result and pieces that must not. Spaces count as equal. Prints
precision, recall, accuracy and F1 over all pieces, as that evaluation does: a page on which an extractor fails has none.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target")) / "release"


def tidy(text):
    return re.sub(r"\s+", " ", text or "").strip()


def by_lookalike(binary, files):
    """({"all": texts, "main": texts}) of the program's own account of each page."""
    texts = {"all": [], "main": []}
    with tempfile.TemporaryDirectory() as folder:
        links = []
        for number, file in enumerate(files):
            # The names of some files do not end in `.html`.
            links.append(Path(folder) / f"{number:06}.html")
            links[-1].symlink_to(file.resolve())
        explained = subprocess.run([binary, "sketch", "--page", "--explain", "--json", *links], check=True, stdout=subprocess.PIPE)
    for line in explained.stdout.decode().strip("\n").split("\n"):
        page = json.loads(line)
        texts["all"].append(" ".join(block["text"] for block in page["blocks"]))
        is_whole = page["main_is_all"]
        texts["main"].append(" ".join(block["text"] for block in page["blocks"] if is_whole or block["is_content"]))
    return texts


def peers():
    """{name: function from the bytes of a page to text} of those that are installed."""
    found = {}
    try:
        import trafilatura
        from trafilatura.utils import decode_file
        settings = {"include_comments": False, "include_tables": True}
        found["trafilatura"] = lambda html: trafilatura.extract(html, **settings)
        found["trafilatura, fast"] = lambda html: trafilatura.extract(html, fast=True, **settings)
    except ImportError as error:
        sys.exit(f"{error}: pip install trafilatura, which also decodes the pages for the others")
    try:
        import justext
        stop_words = frozenset().union(*map(justext.get_stoplist, justext.get_stoplists()))
        found["jusText"] = lambda html: "\n".join(part.text for part in justext.justext(html, stop_words) if not part.is_boilerplate)
    except ImportError as error:
        print(f"without jusText: {error}", file=sys.stderr)
    try:
        from lxml.html import fromstring
        from readability import Document
        found["readability"] = lambda html: fromstring(Document(decode_file(html)).summary()).text_content()
    except ImportError as error:
        print(f"without readability: {error}", file=sys.stderr)
    return found


def extracted(extract, file):
    try:
        return extract(file.read_bytes())
    except Exception:  # As in trafilatura's evaluation: a page that fails has no text.
        return None


def show(name, pages, texts):
    n_with = n_without = n_found = n_wrong = 0
    for page, text in zip(pages, map(tidy, texts)):
        n_with += len(page["with"])
        n_without += len(page["without"])
        n_found += sum(tidy(piece) in text for piece in page["with"])
        n_wrong += sum(tidy(piece) in text for piece in page["without"])
    precision, recall = n_found / max(1, n_found + n_wrong), n_found / n_with
    accuracy = (n_found + n_without - n_wrong) / (n_with + n_without)
    f1 = 2 * n_found / (n_found + n_wrong + n_with)
    print(f"| {name} | {precision:.3f} | {recall:.3f} | {accuracy:.3f} | {f1:.3f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--binary", type=Path, default=TARGET / "lookalike")
    settings = parser.parse_args()
    data = json.loads((settings.folder / "evaldata.json").read_text("utf-8"))
    pages = [data[url] for url in sorted(data)]
    files = [next(path for part in ("cache", "eval") if (path := settings.folder / part / page["file"]).is_file()) for page in pages]
    print(f"{len(pages)} pages, {sum(file.stat().st_size for file in files) / 1e6:.0f} MB")
    print("| extractor | precision | recall | accuracy | F1 |\n|---|---|---|---|---|")
    for name, texts in by_lookalike(settings.binary, files).items():
        show(name, pages, texts)
    for name, extract in peers().items():
        show(name, pages, [extracted(extract, file) for file in files])


main()
