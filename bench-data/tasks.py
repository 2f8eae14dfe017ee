#!/usr/bin/env python3
"""Does four tasks in the explorer, by clicks and keys alone, and computes how long a person would take for them.

    cargo build --release --bin lookalike
    python3 bench-data/tasks.py FILE.jsonl.zst…                # a store is made of them, with their texts
    python3 bench-data/tasks.py --store STORE [--times 5]      # has texts, and a sweep is closed

Each task begins at `/` and is done for several hosts, URLs or texts, in Chromium over WebDriver:

    1. the ten largest clusters of a host
    2. where a dead URL went, and why
    3. what changed between two versions of a page
    4. which pages were copied from a text

Every answer on the screen is held against that of the command line. The seconds are the keystroke-level model of Card, Moran
and Newell (1980), with the time that the pages took to load. No person was watched: the model leaves out reading, learning and
mistakes, takes what is typed as known by heart, and URLs and texts as copied already. A wrong answer, or a task of
more than 15 s, ends the program with 1.
"""
import argparse
import collections
import csv
import http.client
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from kafka_throughput import TARGET

# Seconds: a key by an average typist, pointing, a click, a hand between keyboard and mouse, mental preparation.
KEY, POINT, CLICK, HAND, MIND = 0.28, 1.1, 0.2, 0.4, 1.35
# Control and V.
PASTE_KEYS = 2
BAR_S = 15
N_LARGEST, WORDS_OF_TEXT, PAGES_SHOWN = 10, 60, 50
ELEMENT, ENTER = "element-6066-11e4-a52e-4f735466cecf", "\ue007"
EVIDENCE = {"itself": "the page itself", "same": "the same text", "direct": "resembles it", "chain": "resembles it through",
            "cluster": "in the same cluster", "redirect": "by a redirect"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inputs", nargs="*", type=Path, help="pages of several sweeps, for a new store")
    parser.add_argument("--store", type=Path, help="a store that is there")
    parser.add_argument("--times", type=int, default=5, help="hosts, URLs or texts for each task")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--binary", type=Path, default=TARGET / "lookalike")
    settings = parser.parse_args()
    if bool(settings.inputs) == bool(settings.store):
        parser.error("name the files of pages, or a --store")
    return settings


class Wrong(Exception):
    """An answer on the screen is not that of the command line."""


def check(screen, truth, what):
    if screen != truth:
        if isinstance(screen, list) and isinstance(truth, list):
            at = next((at for at, pair in enumerate(zip(screen, truth)) if pair[0] != pair[1]), min(len(screen), len(truth)))
            screen, truth = screen[at:], truth[at:]
        raise Wrong(f"{what}: the screen has {str(screen)[:400]}, the command line {str(truth)[:400]}")


class Program:
    """The command line, and what it knows that may be asked."""

    def __init__(self, binary, store, dice):
        self.binary, self.store, self.dice = binary, store, dice

    def run(self, *words):
        command = [self.binary, *words, "--store", self.store]
        return subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True).stdout

    def ask(self, *words):
        return json.loads(self.run(*words, "--json"))

    def fill(self, inputs):
        environment = {**os.environ, "LOOKALIKE__STORE__KEEP_TEXT": "canonical"}
        command = [self.binary, "run", "--quiet", "--store", self.store, *inputs]
        subprocess.run(command, check=True, env=environment)
        newest = max(self.ask("sweep", "list"), key=lambda sweep: sweep["last"])
        self.run("sweep", "close", "--quiet", newest["name"])

    def read(self):
        """Hosts with the sizes of their clusters; pages that moved; pages with versions; texts."""
        self.hosts, self.cluster = collections.defaultdict(collections.Counter), {}
        for row in csv.DictReader(self.run("export", "present", "--quiet").splitlines()):
            if row["state"] == "page":
                self.hosts[urlsplit(row["url"]).netloc][int(row["cluster"])] += 1
                self.cluster[row["url"]] = int(row["cluster"])
        moves = map(json.loads, self.run("export", "moves", "--quiet", "--json").splitlines())
        self.moved = [row["url"] for row in moves if row.get("to")]
        documents = collections.defaultdict(dict)
        for row in csv.DictReader(self.run("export", "clusters", "--quiet").splitlines()):
            documents[row["url"]][row["document"]] = row["cluster"]
        self.changed = [url for url, versions in documents.items() if url in self.cluster
                        and len(versions) > len(set(versions.values()))]

    def some(self, of, n):
        return self.dice.sample(of, min(n, len(of)))

    def text(self, url):
        """Some words of a page."""
        words = self.run("query", "text", url).split()
        at = self.dice.randrange(max(1, len(words) - WORDS_OF_TEXT))
        return " ".join(words[at:at + WORDS_OF_TEXT])


class Server:
    def __init__(self, binary, store):
        command = [binary, "serve", "--store", store, "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        line = next((line for line in self.process.stderr if "http://" in line), None) or sys.exit("serve ended")
        self.address = line.split("http://")[1].split("/")[0].split()[0]
        connection = http.client.HTTPConnection(self.address)
        for _ in range(600):
            connection.request("GET", "/clusters?format=json")
            answer = connection.getresponse()
            answer.read()
            if answer.status == 200:
                return
            time.sleep(0.1)
        sys.exit("the clusters are not counted after a minute")

    def close(self):
        self.process.terminate()
        self.process.wait()


class Browser:
    """A session of Chromium without a window."""

    def __init__(self, profile):
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = next(line for line in self.driver.stdout if "successfully on port " in line)
        self.connection = http.client.HTTPConnection("127.0.0.1", int(line.rsplit(" ", 1)[1].strip(".\n")))
        options = {"args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                            "--window-size=1280,900", f"--user-data-dir={profile}"]}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options}
        self.path = "/session"
        self.path += "/" + self.send("", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]

    def send(self, command, body=None, method="POST"):
        path = self.path + (f"/{command}" if command else "")
        self.connection.request(method, path, None if body is None else json.dumps(body), {"content-type": "application/json"})
        answer = self.connection.getresponse()
        value = json.loads(answer.read())["value"]
        if answer.status != 200:
            raise RuntimeError(f"{command}: {value['error']}: {value['message'].splitlines()[0]}")
        return value

    def script(self, script):
        return self.send("execute/sync", {"script": script, "args": []})

    def open(self, url):
        self.send("url", {"url": url})

    def close(self):
        # Chromium outlives its driver.
        self.send("", method="DELETE")
        self.driver.terminate()
        self.driver.wait()


class Person:
    """Uses a browser with one hand on the mouse at first, and adds up what it takes."""

    def __init__(self, browser, home):
        self.browser = browser
        self.clicks = self.characters = self.keys = 0
        self.seconds = self.waited = 0.0
        self.has_mouse = True
        browser.open(home)

    def take_hand(self, to_mouse):
        self.seconds += HAND if self.has_mouse != to_mouse else 0
        self.has_mouse = to_mouse

    def click(self, selector, loads=True):
        """Decides on something, points there and clicks."""
        self.take_hand(to_mouse=True)
        self.seconds += MIND + POINT + CLICK
        self.clicks += 1
        element = self.browser.send("element", {"using": "css selector", "value": selector})[ELEMENT]
        self.act(loads, lambda: self.browser.send(f"element/{element}/click", {}))

    def press(self, keys):
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.browser.send("actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def type(self, text):
        self.take_hand(to_mouse=False)
        self.seconds += MIND + KEY * len(text)
        self.characters += len(text)
        self.keys += len(text)
        self.press(text)

    def paste(self, text):
        self.take_hand(to_mouse=False)
        self.seconds += MIND + KEY * PASTE_KEYS
        self.keys += PASTE_KEYS
        self.browser.send("goog/cdp/execute", {"cmd": "Input.insertText", "params": {"text": text}})

    def enter(self):
        self.take_hand(to_mouse=False)
        self.seconds += KEY
        self.keys += 1
        self.act(True, lambda: self.press(ENTER))

    def act(self, loads, action):
        """Does something, and waits for the page that it leads to."""
        if not loads:
            return action()
        self.browser.script("window.isOld = true")
        action()
        loaded = "return window.isOld ? 0 : performance.getEntriesByType('navigation')[0].loadEventEnd"
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                milliseconds = self.browser.script(loaded)
            except RuntimeError:
                milliseconds = 0
            if milliseconds:
                self.waited += milliseconds / 1000
                return None
            time.sleep(0.01)
        raise Wrong("no page after 30 s")

    def look(self):
        """Takes an answer in. Reading it is not counted."""
        self.seconds += MIND

    def texts(self, selector):
        return self.browser.script(f"return [...document.querySelectorAll({json.dumps(selector)})].map(e => e.innerText.trim())")

    def links(self, selector):
        return self.browser.script(f"return [...document.querySelectorAll({json.dumps(selector)})].map(e => e.href)")

    def urls(self, selector):
        """The URLs whose pages links lead to."""
        return [parse_qs(urlsplit(link).query)["url"][0] for link in self.links(selector)]


def number(text):
    return int(re.sub(r"\D", "", text))


def words(text):
    return re.findall(r"[^\W_]+", text.lower())


def largest_clusters(person, program, host):
    """On a store of several hosts the first page links to those of each; else the host is typed."""
    link = f"a[href='/clusters?host={host}']"
    if person.links(link):
        person.click(link)
    else:
        person.click("nav a[href='/clusters']")
        person.click("#host", loads=False)
        person.type(host)
        person.enter()
    person.look()
    urls = person.urls("table.clusters tbody th a")[:N_LARGEST]
    sizes = [number(text) for text in person.texts("table.clusters tbody td:nth-child(2)")[:N_LARGEST]]
    several = ((n, cluster) for cluster, n in program.hosts[host].items() if n > 1)
    ranked = sorted(several, key=lambda row: (-row[0], row[1]))
    clusters = program.cluster
    check([(n, clusters[url]) for n, url in zip(sizes, urls)], ranked[:N_LARGEST], f"the largest clusters of {host}")


def where_it_went(person, program, url):
    person.click("#url", loads=False)
    person.paste(url)
    person.enter()
    person.look()
    truth = program.ask("query", "lost", url)
    places = [place for place in truth["details"] if place["url"] != url]
    check(person.urls("ol.found li a:not(.more)"), [place["url"] for place in places], f"where {url} went")
    why = person.texts("ol.found li:first-child .note")[0]
    kind = places[0]["evidence"]["kind"]
    if EVIDENCE[kind] not in why:
        raise Wrong(f"why {url} went there: the screen has {why}, the command line {kind}")
    # The same text needs no further reason.
    if person.texts("ol.found li:first-child a.more"):
        person.click("ol.found li:first-child a.more")
        person.look()
        chain = program.ask("explain", url, places[0]["url"])
        check(len(person.texts("ol.chain li.link")), len(chain["links"]), f"the links from {url} to {places[0]['url']}")


def what_changed(person, program, url):
    person.click("#url", loads=False)
    person.paste(url)
    person.enter()
    person.look()
    letter = person.links("table.timeline tr.own a.since")[0]
    documents = [parse_qs(urlsplit(letter).query)[name][0] for name in ("a", "b")]
    person.click("table.timeline tr.own a.since")
    person.look()
    # The text that was seen first, wherever, is the old one.
    shown = re.findall(r"document (\d+) \(first seen", person.texts("[aria-labelledby=changes] p.note")[0])
    check(sorted(shown), sorted(documents), f"the versions of {url} that are compared")
    # The screen, without what came, is the old text; without what went, the new one. Changes begin and end with a word.
    script = ("const text = document.querySelector('.texts .text').cloneNode(true);"
              "text.querySelectorAll('del, ins').forEach(e => { e.before(' '); e.after(' '); });"
              "text.querySelectorAll('summary, %s').forEach(e => e.remove()); return text.textContent")
    for document, without in zip(shown, ("ins", "del")):
        check(words(person.browser.script(script % without)), words(program.run("query", "text", document)),
              f"document {document} of {url}, without <{without}>")
    if not person.texts(".change del, .change ins"):
        raise Wrong(f"two versions of {url} show no change")


def copies_of_a_text(person, program, text):
    person.click("#url", loads=False)
    person.paste(text)
    person.enter()
    person.look()
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(text)
        file.flush()
        hosts = program.ask("query", "reuse", file.name)
    pages = [page["url"] for host in hosts[:PAGES_SHOWN] for page in host["pages"][:PAGES_SHOWN]]
    check(person.urls("table.list tbody tr:not(.site) th a"), pages, "the pages with a text")


def tasks(program, times):
    """A name, what to do, and for what."""
    hosts = [host for host, sizes in program.hosts.items() if max(sizes.values()) > 1]
    texts = [program.text(url) for url in program.some(sorted(program.cluster), 4 * times)]
    # A menu alone is no text that somebody would look for.
    texts = [text for text in texts if len(text.split()) == WORDS_OF_TEXT][:times]
    return [
        ("the ten largest clusters of a host", largest_clusters, program.some(sorted(hosts), times)),
        ("where a dead URL went, and why", where_it_went, program.some(sorted(program.moved), times)),
        ("what changed between two versions", what_changed, program.some(sorted(program.changed), times)),
        (f"which pages were copied from a text of {WORDS_OF_TEXT} words", copies_of_a_text, texts),
    ]


def measure(browser, program, server, times):
    rows = []
    for name, do, subjects in tasks(program, times):
        if not subjects:
            sys.exit(f"the store has nothing for: {name}")
        for subject in subjects:
            person = Person(browser, f"http://{server.address}/")
            try:
                do(person, program, subject)
            except Wrong as wrong:
                sys.exit(f"FAILED: {wrong}")
            rows.append({"task": name, "subject": subject, "clicks": person.clicks, "characters": person.characters,
                         "keys": person.keys, "waited_s": person.waited, "person_s": person.seconds + person.waited})
    return rows


def main():
    settings = arguments()
    dice, load = random.Random(settings.seed), os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        program = Program(settings.binary, settings.store or Path(folder) / "store", dice)
        if settings.inputs:
            program.fill(settings.inputs)
        program.read()
        server = Server(settings.binary, program.store)
        try:
            browser = Browser(Path(folder) / "profile")
            try:
                rows = measure(browser, program, server, settings.times)
            finally:
                browser.close()
        finally:
            server.close()
    load = [load, os.getloadavg()[0]]
    if settings.json:
        print(json.dumps({"load": load, "n_urls": len(program.cluster), "rows": rows}))
    else:
        print("| task | times | clicks | characters typed | keys in all | waiting, at most | a person, at most |\n|---|---|---|---|---|---|---|")
        for name in dict.fromkeys(row["task"] for row in rows):
            of = [row for row in rows if row["task"] == name]
            most = {key: max(row[key] for row in of) for key in ("clicks", "characters", "keys", "waited_s", "person_s")}
            print(f"| {name} | {len(of)} | {most['clicks']} | {most['characters']} | {most['keys']} | {most['waited_s']:.2f} s | "
                  f"{most['person_s']:.1f} s |")
        print(f"\nAll answers are those of the command line; {len(program.cluster):,} pages stand; "
              f"load {load[0]:.1f} before, {load[1]:.1f} after")
    if slow := [row for row in rows if row["person_s"] > BAR_S]:
        sys.exit(f"FAILED: {slow[0]['task']} takes {slow[0]['person_s']:.1f} s for {slow[0]['subject'][:200]}")


main()
