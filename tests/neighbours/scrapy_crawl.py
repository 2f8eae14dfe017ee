"""Scrapy crawls a small site twice, through Kafka and `lookalike run`: the events must say what the site did.

    scrapy_crawl.py PROGRAM BROKER FOLDER
"""

import random
import re
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from crawl import Crawl

EXAMPLE = Path(__file__).resolve().parents[2] / "deploy/examples/scrapy"
SECONDS_MAX = 60


def article(name, n_changed=0):
    """A page of 400 words of its own, of which the last ones may be changed."""
    words = [f"{name}{number}" for number in random.Random(name).choices(range(300), k=400 - n_changed)]
    words += [f"changed{number}" for number in range(n_changed)]
    return f"<!doctype html><title>{name}</title><p>{' '.join(words)}</p>"


def index(*paths):
    return "<!doctype html><title>A site</title>" + "".join(f'<p><a href="{path}">{path}</a></p>' for path in paths)


# A path has a page, or leads to another path. What is not here is answered with 404.
SWEEPS = {
    "2026-46": {
        "/": index("/install", "/print/install", "/install-1", "/upgrade", "/old/guide", "/faq", "/start"),
        "/install": article("install"), "/print/install": article("install"), "/install-1": article("install", 15),
        "/upgrade": article("upgrade"), "/old/guide": article("guide"), "/faq": article("faq"),
        "/start": ("/install",),
    },
    # The guide has moved and a link to its old place is left; the questions have moved, and no link is left.
    "2026-47": {
        "/": index("/install", "/print/install", "/install-1", "/upgrade", "/old/guide", "/new/guide", "/help/questions"),
        "/install": article("install"), "/print/install": article("install"), "/install-1": article("install", 15),
        "/upgrade": article("upgrade"), "/new/guide": article("guide", 10), "/help/questions": article("faq"),
    },
}


class Site(BaseHTTPRequestHandler):
    pages = {}

    def do_GET(self):
        found = self.pages.get(self.path)
        if isinstance(found, tuple):
            self.send_response(301)
            self.send_header("Location", found[0])
            self.end_headers()
            return
        self.send_response(404 if found is None else 200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write((found or "<p>There is no such page.</p>").encode())

    def log_message(self, *_):
        pass


def scrape(start, topic, broker, *settings):
    """Crawls; returns how many pages Kafka has, how many it has not, and why the spider ended."""
    command = [sys.executable, "-m", "scrapy", "runspider", EXAMPLE / "site_spider.py", "-a", f"start={start}",
               "-s", f"LOOKALIKE_BROKERS={broker}", "-s", f"LOOKALIKE_TOPIC={topic}", "-s", "TELNETCONSOLE_ENABLED=False"]
    for setting in settings:
        command += ["-s", setting]
    log = subprocess.run(command, check=True, stderr=subprocess.PIPE, text=True, timeout=SECONDS_MAX).stderr
    counts = [int(n) for name in ("sent", "not_sent") for n in re.findall(rf"'lookalike/{name}': (\d+)", log) or [0]]
    reason = re.search(r"'finish_reason': '(\w+)'", log)
    assert reason, log
    return *counts, reason[1]


def main():
    program, broker, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    crawl = Crawl(program, broker, folder, "scrapy")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    site = f"http://127.0.0.1:{server.server_port}"

    n_records = 0
    for sweep, pages in SWEEPS.items():
        Site.pages = pages
        n_sent, n_not_sent, reason = scrape(f"{site}/", crawl.pages_topic, broker, f"LOOKALIKE_SWEEP={sweep}")
        # A dead link is a record, too.
        n_expected = len(pages) + (sweep == "2026-47")
        assert (n_sent, n_not_sent, reason) == (n_expected, 0, "finished"), (n_sent, n_not_sent, reason)
        n_records += n_sent
        crawl.take_in(n_records)
    crawl.lookalike("sweep", "close", "2026-47")
    events = crawl.events()

    def of(kind, sweep):
        return [event for event in events if event["type"] == kind and event["sweep"] == sweep]

    def path(url):
        return url.removeprefix(site)

    for sweep, pages in SWEEPS.items():
        cluster = {path(event["url"]): event["cluster"] for event in of("assigned", sweep)}
        assert cluster.keys() == {at for at, page in pages.items() if isinstance(page, str)}, cluster
        copies = {"/install", "/print/install", "/install-1"}
        assert len({cluster[at] for at in copies}) == 1, cluster
        assert len(set(cluster.values())) == len(cluster) - 2, cluster
    assert not [event for event in events if event["type"] == "rejected"]
    relation = {path(event["url"]): event["relation"] for event in of("assigned", "2026-46")}
    assert "near" in relation.values() and "identical" in relation.values(), relation
    assert {(path(event["url"]), path(event["redirect_to"])) for event in of("redirected", "2026-46")} == {("/start", "/install")}

    assert [path(event["url"]) for event in of("gone", "2026-47")] == ["/old/guide"]
    # A redirect is no page that a sweep could miss.
    assert [path(event["url"]) for event in of("lost", "2026-47")] == ["/faq"], of("lost", "2026-47")
    moves = {(path(event["from"]), path(event["to"])) for event in events if event["type"] == "moved"}
    assert moves == {("/old/guide", "/new/guide"), ("/faq", "/help/questions")}, moves
    answer = crawl.lookalike("query", "lost", f"{site}/faq", "--json")
    assert f"{site}/help/questions" in answer, answer

    # Where no broker listens, the spider does not go on as if all were well.
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nowhere = f"127.0.0.1:{closed.getsockname()[1]}"
        n_sent, n_not_sent, reason = scrape(
            f"{site}/", "pages", nowhere, 'LOOKALIKE_KAFKA={"delivery.timeout.ms": 2000}', "DOWNLOAD_DELAY=1", "LOG_LEVEL=INFO")
    assert n_sent == 0 and n_not_sent > 0 and reason == "pages_not_sent", (n_sent, n_not_sent, reason)
    print(f"Scrapy: {n_records} records in 2 sweeps, {len(events)} events: copies together, 2 pages moved, as the site has it")


if __name__ == "__main__":
    main()
