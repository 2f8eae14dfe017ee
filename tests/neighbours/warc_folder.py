"""WARC files appear in a folder while `run` follows it, one of them in pieces, and it is killed again and again: the store
and the events must be those of one run over all the files.

    warc_folder.py PROGRAM FOLDER
"""

import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path

FILES, PAGES = 12, 40
SECONDS_MAX = 60


def warc(file):
    """A file's bytes, a gzip member for each page; every third page is the same in two files."""
    members = []
    for page in range(PAGES):
        own = f"f{file if page % 3 else file // 2 * 2}p{page}"
        body = f"<p>{' '.join(f'{own}w{word}' for word in range(80))}</p>"
        http = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n{body}"
        head = (f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: https://a.example/{file}/{page}\r\n"
                f"WARC-Date: 2026-11-{file + 1:02}T00:00:{page:02}Z\r\nWARC-Record-ID: <urn:x:{file}-{page}>\r\n"
                f"Content-Type: application/http; msgtype=response\r\nContent-Length: {len(http)}\r\n\r\n")
        members.append(gzip.compress(f"{head}{http}\r\n\r\n".encode()))
    return b"".join(members)


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def await_events(path, n, process):
    deadline = time.monotonic() + SECONDS_MAX
    while len(lines(path)) < n:
        assert process.poll() is None, f"it ended with {process.returncode}"
        assert time.monotonic() < deadline, f"{len(lines(path))} events, not {n}"
        time.sleep(0.01)


def main():
    program, folder = sys.argv[1], Path(sys.argv[2])
    crawl, events = folder / "crawl", folder / "events.jsonl"
    crawl.mkdir()
    options = ["--store", folder / "store", "--events", events]
    environment = os.environ | {"LOOKALIKE__INPUT__FOLLOW_MS": "100"}

    def follow():
        command = [program, "run", "--quiet", "--follow", f"{crawl}/*.warc.gz", *options]
        return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)

    process, n_kills = follow(), 0
    for file in range(FILES):
        data, name = warc(file), crawl / f"{file:02}.warc.gz"
        if file % 4 == 1:
            # A crawler without a name of its own for what is not whole.
            with name.open("wb") as growing:
                growing.write(data[: len(data) // 2])
                growing.flush()
                await_events(events, file * PAGES + 1, process)
                growing.write(data[len(data) // 2 :])
        else:
            unfinished = name.with_suffix(".gz.open")
            unfinished.write_bytes(data)
            unfinished.rename(name)
        if file % 3 == 1:
            time.sleep(0.03 * file)
            process.kill()
            process.wait()
            process, n_kills = follow(), n_kills + 1
        else:
            await_events(events, file * PAGES + 1, process)
    await_events(events, FILES * PAGES, process)
    process.terminate()
    assert process.wait(SECONDS_MAX) == 0, process.returncode

    found = [json.loads(line) for line in lines(events)]
    assert [event["seq"] for event in found] == list(range(FILES * PAGES))
    places = {(event["source"], event["offset"]) for event in found if event["type"] == "assigned"}
    assert len(places) == FILES * PAGES, len(places)

    subprocess.run([program, "run", "--quiet", "--store", folder / "whole", crawl], check=True)

    def clusters(store):
        columns = ["--columns", "url,fetched_at,cluster"]
        command = [program, "export", "clusters", "--store", folder / store, *columns]
        table = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        together = {}
        for row in table.splitlines()[1:]:
            page, cluster = row.rsplit(",", 1)
            together.setdefault(cluster, set()).add(page)
        return sorted(map(sorted, together.values()))

    expected = clusters("whole")
    assert clusters("store") == expected and 1 < len(expected) < FILES * PAGES, len(expected)
    print(f"WARC files: {FILES} files, 3 of them in pieces, {n_kills} kills: {len(found)} events, {len(expected)} clusters, as of one run")


if __name__ == "__main__":
    main()
