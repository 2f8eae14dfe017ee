#!/usr/bin/env python3
"""HTML to text by lexbor, a parser in C, for `cargo bench --bench page`. Needs `pip install selectolax`.

Reads pages from standard input, each after its length (four bytes, the lowest first), up to a length of 0, and writes
their texts back in the same way. Then, for each line, it makes the tree and the text of every page and writes a line.
"""
import struct, sys
from selectolax.lexbor import LexborHTMLParser


def read(stream):
    while (n := struct.unpack("<I", stream.read(4))[0]) != 0:
        yield stream.read(n)


def text(page):
    return LexborHTMLParser(page).text()


pages = list(read(sys.stdin.buffer))
for page in pages:
    found = text(page).encode("utf-8", "replace")
    sys.stdout.buffer.write(struct.pack("<I", len(found)) + found)
sys.stdout.buffer.flush()
for _ in sys.stdin.buffer:
    for page in pages:
        text(page)
    sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()
