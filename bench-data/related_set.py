#!/usr/bin/env python3
"""Makes a set for `related.rs` of documentation in a Debian package, whose authors put its pages into classes.

    python3 bench-data/related_set.py OUT cppreference-doc-en-html html/en
    python3 bench-data/related_set.py OUT linux-doc-6.1 html
    python3 bench-data/related_set.py OUT octave-doc octave.html index.html
    python3 bench-data/related_set.py OUT python3.11-doc html library/index.html
    python3 bench-data/related_set.py OUT --packages

Downloads the package with apt-get, and writes pages.jsonl.zst, classes.csv and queries.txt into OUT. A page's class is the
folder in which it lies, or, where a page of contents is named, the chapter under which that lists it. Pages of contents,
chapters and `index.html` are left out, and so is what a page says for navigation, because both give the classes away
(`--keep-navigation`). `--packages` makes a page of each package's description in place of a manual, with links to the packages
that it depends on; its classes are Debian's sections.
"""
import argparse
import csv
import html
import json
import random
import re
import subprocess
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, urldefrag, urljoin

NAVIGATION = {"related", "sphinxsidebar", "header", "nav-panel", "t-navbar", "contentSub", "wy-nav-side", "wy-breadcrumbs",
              "rst-footer-buttons", "printfooter", "catlinks"}
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"}


class WithoutNavigation(HTMLParser):
    """Copies a page without its elements for navigation."""

    def __init__(self):
        super().__init__(convert_charrefs=False)
        self.out, self.tag, self.depth = [], None, 0

    def handle_starttag(self, tag, attrs):
        names = set(" ".join(value or "" for key, value in attrs if key in ("class", "id")).split())
        if self.tag:
            self.depth += tag == self.tag
        elif names & NAVIGATION and tag not in VOID:
            self.tag, self.depth = tag, 1
        else:
            self.out.append(self.get_starttag_text())

    def handle_startendtag(self, tag, attrs):
        self.keep(self.get_starttag_text())

    def handle_endtag(self, tag):
        self.keep(f"</{tag}>")
        if tag == self.tag:
            self.depth -= 1
            self.tag = self.tag if self.depth else None

    def keep(self, text):
        if not self.tag:
            self.out.append(text)

    handle_data = keep

    def handle_entityref(self, name):
        self.keep(f"&{name};")

    def handle_charref(self, name):
        self.keep(f"&#{name};")


class Contents(HTMLParser):
    """Nested lists of links: each URL with the texts of the links of the items around its own."""

    def __init__(self, url):
        super().__init__()
        self.url, self.items, self.classes, self.parents, self.link = url, [], {}, set(), None

    def handle_starttag(self, tag, attrs):
        if tag == "li":
            self.items.append(None)
        elif tag == "a" and self.items and self.items[-1] is None:
            target, fragment = urldefrag(urljoin(self.url, dict(attrs).get("href") or ""))
            above = [item[1] for item in self.items[:-1] if item]
            if target not in self.classes:
                self.classes[target] = above
                self.parents.update(item[0] for item in self.items[:-1] if item and item[0] != target)
            self.items[-1] = self.link = [target, ""]

    def handle_endtag(self, tag):
        if tag == "li" and self.items:
            self.items.pop()
        elif tag == "a":
            self.link = None

    def handle_data(self, text):
        if self.link:
            self.link[1] += text.strip().replace("/", " ")


def manual(package, folder, contents, keep_navigation):
    """Returns the pages of a manual as URL -> HTML, and their classes."""
    base = f"https://{package.replace('.', '-')}.example/"
    with tempfile.TemporaryDirectory() as work:
        subprocess.run(["apt-get", "download", "-qq", package], cwd=work, check=True)
        subprocess.run(["dpkg", "-x", next(Path(work).glob("*.deb")), work], check=True)
        root = min((path for path in Path(work).rglob("*") if path.is_dir() and str(path).endswith("/" + folder)),
                   key=lambda path: len(path.parts))
        read = {base + quote(str(file.relative_to(root))): file.read_text(errors="replace")
                for file in sorted(root.rglob("*.html")) if not file.is_symlink()}
    if contents:
        reader = Contents(base + contents)
        reader.feed(read[base + contents])
        left_out = reader.parents | {base + contents}
        classes = {url: "/".join(above) for url, above in reader.classes.items() if above}
    else:
        left_out = {url for url in read if url.endswith("/index.html") or url.removesuffix(".html") + "/" in
                    {other.rsplit("/", 1)[0] + "/" for other in read}}
        classes = {url: url.removeprefix(base).rpartition("/")[0] for url in read}
    pages = {}
    for url, text in read.items():
        if url not in left_out:
            page = WithoutNavigation()
            page.feed(text)
            pages[url] = text if keep_navigation else "".join(page.out)
    return pages, {url: name for url, name in classes.items() if url in pages and name}


def packages():
    """Returns a page for each package that apt knows, and their sections."""
    shown = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout
    pages, classes = {}, {}
    url_of = lambda name: f"https://packages.example/{quote(name)}"
    for record in shown.split("\n\n"):
        # What is continued on the next line is a description's text or a list.
        fields = dict(line.split(": ", 1) for line in record.replace("\n ", " ").splitlines() if ": " in line)
        if "Package" not in fields:
            continue
        name = fields["Package"]
        text = fields.get("Description-en", fields.get("Description", ""))
        needs = re.findall(r"(?:^|[,|] *)([a-z0-9][a-z0-9+.-]+)", fields.get("Depends", ""))
        links = "".join(f'<li><a href="{url_of(other)}">{other}</a>' for other in dict.fromkeys(needs))
        pages[url_of(name)] = f"<title>{name}</title><p>{html.escape(text)}</p><ul>{links}</ul>"
        classes[url_of(name)] = fields.get("Section", "none").split("/")[-1]
    return pages, classes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("package", nargs="?")
    parser.add_argument("folder", nargs="?", help="the end of the path of the folder with the pages")
    parser.add_argument("contents", nargs="?", help="the page of contents, inside the folder")
    parser.add_argument("--keep-navigation", action="store_true")
    parser.add_argument("--packages", action="store_true")
    args = parser.parse_args()
    pages, classes = packages() if args.packages else manual(args.package, args.folder, args.contents, args.keep_navigation)
    args.out.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps({"url": url, "body": text}) + "\n" for url, text in pages.items())
    subprocess.run(["zstd", "-qf", "-o", args.out / "pages.jsonl.zst"], input=lines.encode(), check=True)
    with open(args.out / "classes.csv", "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("url", "class"), *classes.items()])
    asked = random.Random(1).sample(sorted(classes), min(1000, len(classes)))
    (args.out / "queries.txt").write_text("".join(url + "\n" for url in asked))
    print(f"{args.out}: {len(pages):,} pages, {len(classes):,} of them in {len(set(classes.values())):,} classes")


main()
