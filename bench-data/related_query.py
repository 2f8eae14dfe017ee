#!/usr/bin/env python3
"""How long `GET /v1/related` takes over a store of many URLs.

    cargo build --release --bin lookalike
    python3 bench-data/related_query.py [--urls 1000000] [--queries 5000] [--linked]

Makes pages that link to one another, one for each URL; with `--linked`, pages of links to URLs that nobody fetched, of which
a crawl knows most, two links to each. Streams them through `run` with `related.on`, builds, starts `serve` and asks for
random URLs one after another: first some to warm up, then those that are timed. The time of an answer is that of the whole
request on loopback. Each answer must name a URL of the same topic first, which shows that the store was
asked about what it holds.
"""
import argparse
import http.client
import json
import os
import random
import subprocess
import tempfile
import time
import urllib.parse
from pathlib import Path

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", Path(__file__).resolve().parent.parent / "target")) / "release"
TOPIC_URLS, TOPIC_WORDS, PAGE_TOPIC_WORDS, PAGE_WORDS, LINKS = 30, 30, 20, 60, 10
# Links of a page that links to URLs without pages, and words around each.
LISTED, LISTED_WORDS = 100, 24
VOCABULARY = 100_000
SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--urls", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--linked", action="store_true", help="the URLs have no pages, only links to them")
    parser.add_argument("--store", type=Path, help="keep the store in this folder, or ask the one that is there")
    parser.add_argument("--binary", type=Path, default=TARGET / "lookalike")
    return parser.parse_args()


def word(number):
    """A word of letters for a number; other numbers have other words."""
    letters = ""
    number += len(SYLLABLES)
    while number:
        number, last = divmod(number, len(SYLLABLES))
        letters += SYLLABLES[last]
    return letters


class Site:
    """Pages with topics. A topic's URLs lie anywhere; its words stand in the pages and around the links to them."""

    def __init__(self, n_urls, seed):
        self.n_topics = -(-n_urls // TOPIC_URLS)
        self.n_urls, self.seed = n_urls, seed
        self.words = [word(n) for n in range(VOCABULARY)]

    def topic(self, page):
        return page * 7919 % self.n_topics

    def url(self, page):
        return f"http://host{page % 997}.example/topic{self.topic(page)}/page{page}.html"

    def words_of(self, topic, draw):
        shared = random.Random(f"{self.seed} {topic}")
        return draw.sample([self.words[int(VOCABULARY ** shared.random()) - 1] for _ in range(TOPIC_WORDS)], PAGE_TOPIC_WORDS)

    def records(self):
        return map(self.record, range(self.n_urls))

    def record(self, page):
        draw = random.Random(self.seed << 40 | page)
        words = self.words_of(self.topic(page), draw)
        words += [self.words[int(VOCABULARY ** draw.random()) - 1] for _ in range(PAGE_WORDS - len(words))]
        draw.shuffle(words)
        steps = draw.sample(range(1, TOPIC_URLS), LINKS)
        for place, step in enumerate(steps):
            linked = (page + step * self.n_topics) % self.n_urls
            around = " ".join(self.words_of(self.topic(linked), draw)[:4])
            words.insert(place * 6, f'{around} <a href="{self.url(linked)}">{draw.choice(words[-20:])}</a>')
        html = f"<title>{' '.join(words[-4:])}</title><p>{' '.join(words)}"
        return json.dumps({"url": self.url(page), "fetched_at": "2026-01-01T00:00:00Z", "html": html}) + "\n"


class LinkedSite(Site):
    """Pages of links to URLs that lie anywhere. Two pages link to each URL, with other words of its topic around."""

    def __init__(self, n_urls, seed):
        super().__init__(n_urls, seed)
        draw = random.Random(seed)
        self.drawn = [self.words[int(VOCABULARY ** draw.random()) - 1] for _ in range(1 << 22)]

    def records(self):
        return (self.page_of_links(turn, begin) for turn in range(2) for begin in range(0, self.n_urls, LISTED))

    def page_of_links(self, turn, begin):
        # Steps that share no divisor with the number of URLs reach each of them once.
        step = (1, 15_485_863)[turn]
        links = []
        for place in range(begin, min(begin + LISTED, self.n_urls)):
            page = place * step % self.n_urls
            # The words of a topic lie in even steps; a link has some that follow one another around it.
            topic = self.topic(page)
            apart, skipped = topic % 61 + 1, (page + 3 * turn) % (TOPIC_WORDS - LISTED_WORDS + 1)
            first = topic * 40_503 % (len(self.drawn) - 61 * TOPIC_WORDS) + skipped * apart
            words = self.drawn[first : first + LISTED_WORDS * apart : apart]
            links.append(f'{" ".join(words[:11])} <a href="{self.url(page)}">{words[11]}</a> {" ".join(words[12:])}')
        url = f"http://list{begin // LISTED % 997}.example/{turn}/{begin}.html"
        return json.dumps({"url": url, "fetched_at": "2026-01-01T00:00:00Z", "html": "<p>".join(links)}) + "\n"


def make_store(command, site, folder):
    began = time.time()
    run = subprocess.Popen([*command, "run", "-", "--stdin-name", "pages", "--quiet"], stdin=subprocess.PIPE, text=True)
    run.stdin.writelines(site.records())
    run.stdin.close()
    assert run.wait() == 0
    read = time.time()
    subprocess.run([*command, "related", "build", "--quiet"], check=True)
    n_bytes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    print(f"{site.n_urls:,} URLs: pages made and read in {read - began:.0f} s, build {time.time() - read:.0f} s, "
          f"store {n_bytes / 2**20:,.0f} MiB", flush=True)


def ask(connection, url):
    """Returns the seconds that an answer took, and its URLs."""
    began = time.perf_counter()
    connection.request("GET", "/v1/related?url=" + urllib.parse.quote(url, safe=""))
    response = connection.getresponse()
    body = response.read()
    seconds = time.perf_counter() - began
    assert response.status == 200, (response.status, body)
    return seconds, [row["url"] for row in json.loads(body)["related"]]


def main():
    args = arguments()
    site = (LinkedSite if args.linked else Site)(args.urls, args.seed)
    with tempfile.TemporaryDirectory() as folder:
        store = args.store or Path(folder) / "store"
        config = Path(folder) / "config.toml"
        config.write_text("[related]\non = true\n")
        command = [str(args.binary), "--config", str(config), "--store", str(store)]
        if not store.exists():
            make_store(command, site, store)
        serve = subprocess.Popen([*command, "serve", "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True)
        try:
            address = next(line for line in serve.stderr if "http://" in line).split("http://")[1].split("/")[0].split()[0]
            connection = http.client.HTTPConnection(address)
            draw = random.Random(args.seed)
            n_warm, times, n_right = args.queries // 5, [], 0
            for number in range(n_warm + args.queries):
                page = draw.randrange(site.n_urls)
                seconds, urls = ask(connection, site.url(page))
                if number >= n_warm:
                    times.append(seconds * 1000)
                    n_right += bool(urls) and f"/topic{site.topic(page)}/" in urls[0]
            times.sort()
            at = lambda share: times[min(int(share * len(times)), len(times) - 1)]
            print(f"{args.queries:,} queries: p50 {at(0.5):.1f} ms, p99 {at(0.99):.1f} ms, at most {times[-1]:.1f} ms; "
                  f"{n_right / args.queries:.3f} with the same topic first; load {os.getloadavg()[0]:.1f}")
        finally:
            serve.terminate()
            serve.wait()


main()
