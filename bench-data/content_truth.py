#!/usr/bin/env python3
"""Clusters of HTML against exact clusters of the texts that the pages were made from.

    pip install numpy scipy trafilatura justext readability-lxml lxml_html_clean
    python3 bench-data/content_truth.py sqlalchemy --sources FOLDER --out OUT FILE.jsonl.zst...

SITE says where the source of a page lies in FOLDER:

    sqlalchemy  unpacked source distributions (`pip download --no-binary :all: sqlalchemy==VERSION`): doc/build/X.rst without
                directives that take text from elsewhere, and examples/X.py; versions before 2 need setuptools before 58 and
                `--no-build-isolation`
    npm         unpacked packages (`npm pack npm@VERSION`), each in a folder npm-VERSION: its .md files
    kafka       source archives of kafka-clients, kafka-streams and connect-api (Maven's classifier `sources`), packed: of the class
                of a page, the signatures and comments of what is public or protected
    beside      no folder: X.txt stands beside X.html in the same sweep

OUT gets the pages that have a source, their sources, and what each extractor keeps of them. Exact clusters are components of pages
whose sources have a resemblance of 0.5 or more, over runs of ten words. Prints for each extractor the words that it keeps, F1 over
pairs of distinct sources, precision and recall, and F1 over pairs of pages. `lookalike cluster` makes all the clusters.
"""
import argparse
import collections
import csv
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy
import scipy.sparse
from scipy.sparse.csgraph import connected_components

HERE = Path(__file__).resolve().parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target")) / "release"
WORD = re.compile(r"[^\W_]+")
SHINGLE = 10
SQLALCHEMY = re.compile(r"VERSION:\s*'([^']+)'|Release:?\s*(?:<[^>]*>\s*)*([0-9][\w.]+)")
ELSEWHERE = re.compile(r"^\s*\.\. (auto\w+|include|literalinclude)::", re.M)
JAVA = re.compile(r'/\*\*(.*?)\*/|/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[{};]|[^/"\'{};]+|.', re.S)
JAVA_TYPE = re.compile(r"\b(class|interface|enum|record)\s+(\w+)")


def pages_of(files):
    for file in files:
        unpacked = subprocess.Popen(["zstd", "-dcq", "--long=27", file], stdout=subprocess.PIPE)
        yield from map(json.loads, io.TextIOWrapper(unpacked.stdout, "utf-8"))


def read(path):
    return path.read_text("utf-8", "replace") if path.is_file() else None


class Sqlalchemy:
    def __init__(self, folder):
        self.folders = {re.search(r"-([0-9].*)$", path.name)[1]: path for path in folder.iterdir() if path.is_dir()}
        self.version = {}

    def source(self, page):
        found = SQLALCHEMY.search(page["body"])
        # Some pages of a sweep do not say their version.
        if found:
            self.version.setdefault(page["sweep"], found[1] or found[2])
        folder = self.folders.get(self.version.get(page["sweep"]))
        path = page["url"].split("/", 3)[3].removesuffix(".html")
        if not folder:
            return None
        if path.startswith("_modules/examples/"):
            return read(folder / (path.removeprefix("_modules/") + ".py"))
        text = read(folder / "doc/build" / (path + ".rst"))
        return text if text and not ELSEWHERE.search(text) else None


class Npm:
    def __init__(self, folder):
        self.texts = {}
        for package in folder.glob("npm-*/package"):
            texts = self.texts[package.parent.name.removeprefix("npm-")] = collections.defaultdict(dict)
            for path in [*package.glob("doc/**/*.md"), *package.glob("docs/content/**/*.md")]:
                texts[path.stem][path.parent.name] = read(path)

    def source(self, page):
        """The sweeps follow one another as their versions do."""
        versions = sorted(self.texts, key=lambda version: [int(part) for part in version.split(".")])
        number = int(page["sweep"].split("-")[0])
        *_, folder, name = page["url"].removesuffix(".html").split("/")
        found = self.texts[versions[number - 1]].get(name, {})
        return found.get("cli" if folder == "doc" else folder)


class Kafka:
    def __init__(self, folder):
        self.archives = collections.defaultdict(list)
        for path in sorted(folder.glob("*-sources.jar")):
            self.archives[path.stem.removesuffix("-sources").rsplit("-", 1)[1]].append(zipfile.ZipFile(path))
        self.files = {(version, name): archive for version, archives in self.archives.items() for archive in archives
                      for name in archive.namelist()}
        self.classes = {}

    def source(self, page):
        found = re.match(r"https://[^/]+/\d+/javadoc/(?:.*/)?(org/apache/.*/)([A-Z][\w.]*)\.html$", page["url"])
        title = re.search(r"<title>[^<]*\(\w+ ([\d.]+)(?:-SNAPSHOT)? API\)", page["body"], re.I)
        if not found or not title:
            return None
        name = found[1] + found[2].split(".")[0] + ".java"
        key = title[1], name
        if key not in self.files:
            return None
        if key not in self.classes:
            self.classes[key] = java_classes(self.files[key].read(name).decode("utf-8", "replace"))
        return self.classes[key].get(found[2])


def java_classes(text):
    """{name: signatures and comments}, with Outer.Inner for classes in classes."""
    found = collections.defaultdict(list)
    # The open braces: (name, kind) of a class, None of anything else.
    braces, comments, declaration = [], [], ""

    def end():
        nonlocal comments, declaration
        inside = braces[-1] if braces else None
        if inside and (inside[1] != "class" or re.search(r"\b(public|protected)\b", declaration)) and "private " not in declaration:
            found[inside[0]] += [*comments, declaration]
        comments, declaration = [], ""

    for token in JAVA.finditer(text):
        if token[1] is not None:
            comments.append(java_comment(token[1]))
        elif token[0] == "{":
            kind = JAVA_TYPE.search(declaration) if not braces or braces[-1] else None
            if kind:
                name = f"{braces[-1][0]}.{kind[2]}" if braces else kind[2]
                found[name] += [*comments, declaration.rpartition(";")[2]]
                comments, declaration = [], ""
                braces.append((name, kind[1]))
            else:
                end()
                braces.append(None)
        elif token[0] == "}":
            end()
            if braces:
                braces.pop()
        elif token[0] == ";":
            end()
        elif not token[0].startswith(("/*", "//")):
            declaration += token[0]
    return {name: "\n".join(parts) for name, parts in found.items()}


def java_comment(text):
    text = re.sub(r"^\s*\*", "", text, flags=re.M)
    text = re.sub(r"\{@\w+\s+([^}]*)\}", r"\1", text)
    return re.sub(r"<[^>]*>|@\w+", " ", text)


def beside(files):
    return {(page["url"].removesuffix(".txt"), page["sweep"]): page["body"] for page in pages_of(files) if page["url"].endswith(".txt")}


def shingles(text):
    words = WORD.findall(text.lower())
    runs = {" ".join(words[at:at + SHINGLE]) for at in range(len(words) - SHINGLE + 1)}
    return numpy.array(sorted({int.from_bytes(hashlib.blake2b(run.encode(), digest_size=8).digest(), "little") for run in runs}),
                       dtype=numpy.uint64)


def exact_clusters(texts):
    """For each text the number of its set of shingles, and for each set its cluster."""
    numbers, sets, of_text = {}, [], []
    for text in texts:
        found = shingles(text)
        number = numbers.setdefault(found.tobytes(), len(sets))
        if number == len(sets):
            sets.append(found)
        of_text.append(number)
    sizes = numpy.array([len(found) for found in sets])
    _, columns = numpy.unique(numpy.concatenate(sets), return_inverse=True)
    rows = numpy.repeat(numpy.arange(len(sets)), sizes)
    matrix = scipy.sparse.csr_matrix((numpy.ones(len(rows), numpy.int32), (rows, columns)))
    links = []
    for begin in range(0, len(sets), 500):
        common = (matrix[begin:begin + 500] @ matrix.T).tocoo()
        row = common.row + begin
        is_linked = 2 * common.data >= sizes[row] + sizes[common.col] - common.data
        links.append(numpy.stack([row[is_linked], common.col[is_linked]]))
    row, column = numpy.concatenate(links, axis=1)
    graph = scipy.sparse.csr_matrix((numpy.ones(len(row)), (row, column)), shape=(len(sets), len(sets)))
    return of_text, connected_components(graph, directed=False)[1]


def n_pairs(labels):
    return sum(n * (n - 1) // 2 for n in collections.Counter(labels).values())


def scores(found, truth):
    both = n_pairs(zip(found, truth))
    precision, recall = both / max(1, n_pairs(found)), both / max(1, n_pairs(truth))
    return precision, recall, 2 * precision * recall / max(1e-9, precision + recall)


def clusters(settings, pages, content, name):
    out = settings.out / f"{name}.csv"
    file = settings.out / f"{name}.jsonl"
    with file.open("w", encoding="utf-8") as lines:
        lines.writelines(json.dumps(page) + "\n" for page in pages)
    environment = os.environ | {"LOOKALIKE__CANONICAL__CONTENT": content}
    out.unlink(missing_ok=True)
    subprocess.run([settings.binary, "cluster", "--out", out, "--columns", "record,cluster,words", file], env=environment, check=True,
                   stdout=subprocess.DEVNULL)
    with out.open(newline="", encoding="utf-8") as table:
        rows = sorted(csv.DictReader(table), key=lambda row: int(row["record"]))
    return [row["cluster"] or f"none {at}" for at, row in enumerate(rows)], sum(int(row["words"] or 0) for row in rows)


def peers():
    """{name: function from HTML to text} of those that are installed."""
    found = {}
    try:
        import trafilatura
        found["trafilatura"] = trafilatura.extract
    except ImportError as error:
        print(f"without trafilatura: {error}", file=sys.stderr)
    try:
        import justext
        stop_words = justext.get_stoplist("English")
        found["jusText"] = lambda html: "\n".join(part.text for part in justext.justext(html, stop_words) if not part.is_boilerplate)
    except ImportError as error:
        print(f"without jusText: {error}", file=sys.stderr)
    try:
        from lxml.html import fromstring
        from readability import Document
        found["readability"] = lambda html: fromstring(Document(html).summary()).text_content()
    except ImportError as error:
        print(f"without readability: {error}", file=sys.stderr)
    return found


def extracted(extract, page):
    try:
        return extract(page["body"]) or ""
    except Exception:  # What a page does to a peer is its loss.
        return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", choices=["sqlalchemy", "npm", "kafka", "beside"])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--sources", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--share", type=int, default=1, help="one page's path in this many, by its hash")
    parser.add_argument("--command", action="append", default=[], metavar="NAME=COMMAND",
                        help="another extractor: reads JSON pages, writes a JSON string or null for each")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--binary", type=Path, default=TARGET / "lookalike")
    settings = parser.parse_args()
    settings.out.mkdir(parents=True, exist_ok=True)
    if settings.site == "beside":
        texts = beside(settings.files)
        source = lambda page: texts.get((page["url"].removesuffix(".html"), page["sweep"]))
    else:
        source = {"sqlalchemy": Sqlalchemy, "npm": Npm, "kafka": Kafka}[settings.site](settings.sources).source
    is_taken = lambda page: int(hashlib.md5(page["url"].rsplit("/", 1)[-1].encode()).hexdigest(), 16) % settings.share == 0
    pairs = [(page, text) for page in pages_of(settings.files) if page["url"].endswith(".html") and is_taken(page)
             for text in [source(page)] if text]
    if not pairs:
        sys.exit("no page of these files has its source there")
    pages = [page for page, _ in pairs]
    of_page, cluster_of_set = exact_clusters([text for _, text in pairs])
    firsts = sorted({number: at for at, number in reversed(list(enumerate(of_page)))}.values())
    truth = [int(cluster_of_set[number]) for number in of_page]
    print(f"{len(pages)} pages, {len(firsts)} distinct sources in {len(set(truth))} clusters")
    print("| extractor | words kept | precision | recall | F1 | F1 of pages |\n|---|---|---|---|---|---|")
    n_all = None

    def show(name, found, n_words):
        nonlocal n_all
        n_all = n_all or n_words
        precision, recall, f1 = scores([found[at] for at in firsts], [truth[at] for at in firsts])
        print(f"| {name} | {n_words / n_all:.1%} | {precision:.3f} | {recall:.3f} | {f1:.3f} | {scores(found, truth)[2]:.3f} |", flush=True)

    as_text = lambda texts: [page | {"content_type": "text/plain", "body": text or ""} for page, text in zip(pages, texts)]
    for content in ("all", "main"):
        show(content, *clusters(settings, pages, content, content))
    for name, extract in ({} if settings.no_peers else peers()).items():
        show(name, *clusters(settings, as_text(extracted(extract, page) for page in pages), "all", name))
    for name, command in (command.split("=", 1) for command in settings.command):
        lines = subprocess.run(command, shell=True, input="".join(json.dumps(page) + "\n" for page in pages), text=True,
                               stdout=subprocess.PIPE, check=True).stdout
        show(name, *clusters(settings, as_text(map(json.loads, lines.strip("\n").split("\n"))), "all", name))


main()
