#!/usr/bin/env python3
"""How far clusters follow the names of pages, and what a second way to cluster keeps together of a first one.

    lookalike export clusters --store all.store > all.csv
    lookalike export clusters --store main.store > main.csv
    python3 bench-data/names.py all.csv main.csv

A page's name is the last part of its URL's path without its extension. `other name` is the share of pages in a cluster in which
another name is more frequent. Neighbours are the same URL in two sweeps that follow one another, and the same path in one sweep
under two version numbers that follow one another (`/36/javadoc/X.html`, `/37/javadoc/X.html`). `kept` is the share of neighbours
of one cluster in the first file that are in one cluster of the second file, too; `joined` counts neighbours that only the second
file has together.
"""
import argparse
import collections
import csv
import re
from urllib.parse import urlsplit

VERSIONED = re.compile(r"(https?://[^/]+)/(\d+)/(.*)")


def clusters(path):
    """{(URL, sweep, time): cluster}"""
    with open(path, newline="", encoding="utf-8") as file:
        return {(row["url"], row["sweep"], row["fetched_at"]): row["cluster"] for row in csv.DictReader(file)}


def name(url):
    return urlsplit(url).path.rsplit("/", 1)[-1].rsplit(".", 1)[0]


def other_name(found):
    names = collections.defaultdict(collections.Counter)
    for (url, _, _), cluster in found.items():
        names[cluster][name(url)] += 1
    return sum(sum(of.values()) - max(of.values()) for of in names.values()) / max(1, len(found))


def version(digits):
    """0102 is 0.10.2, 24 is 2.4: the first digit is the major version, but after a 0 the next two may be the minor one."""
    if digits.startswith("0"):
        return (0, int(digits[1:3]), int(digits[3:] or 0)) if len(digits) > 3 else (0, int(digits[1:2] or 0), int(digits[2:] or 0))
    return int(digits[0]), int(digits[1:] or 0)


def neighbours(pages):
    by_url, by_path = collections.defaultdict(list), collections.defaultdict(list)
    for page in pages:
        url, sweep, time = page
        by_url[url].append(((sweep, time), page))
        found = VERSIONED.match(url)
        if found:
            by_path[sweep, found[1], found[3]].append((version(found[2]), page))
    for group in list(by_url.values()) + list(by_path.values()):
        group.sort()
        yield from ((one, other) for (_, one), (_, other) in zip(group, group[1:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first")
    parser.add_argument("second")
    settings = parser.parse_args()
    first, second = clusters(settings.first), clusters(settings.second)
    pairs = [pair for pair in neighbours(first) if all(page in second for page in pair)]
    together = [(first[one] == first[other], second[one] == second[other]) for one, other in pairs]
    n_first = sum(before for before, _ in together)
    n_kept = sum(before and after for before, after in together)
    n_joined = sum(after and not before for before, after in together)
    print(f"pages {len(first)}: other name {other_name(first):.2%} and {other_name(second):.2%}")
    print(f"neighbours together {n_first}: kept {n_kept / max(1, n_first):.2%}, joined {n_joined}")


main()
