#!/usr/bin/env python3
"""Takes backups of a store each second while a killed and restarted `run` writes to it, restores each, and compares each.

    cargo build --release --bin lookalike --example generate
    python3 bench-data/backups.py [--backups 50] [--records 60000] [--followed 12] [--seed 1]

A real Apache Kafka with one partition of pages. Generated pages go in at an even pace over several sweeps, with copies and
near-copies, some of them cut in half so that they are rejected. Buffers are small, so that tables come and go all the time.
The writer is killed at random moments and started again, and so are some of the backups.

Then each backup is restored into a new place. It must be sound, and its exports must be those of a new store that took the
same beginning of the pages from a file under the same seed, byte for byte, names of clusters included. `run` must refuse it
with exit code 12, since events are published beyond it. For some, `follow --once` must bring it up to date: then its exports
are those of the store itself. In the end damage is planted, each of which must be noticed, also by the comparison here.
"""
import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from kafka_throughput import CONFIG, TARGET, Bench

# One record in so many is cut in half.
CUT = 997
EXPORTS = ("clusters", "present", "links")
# The smallest that the program takes.
BUFFERS = {"WRITE_BUFFER_MIB": "1", "POSTING_BUFFER_MIB": "1", "WAL_MIB": "1"}
# Seconds between two kills of the writer, and one backup in so many is killed, within so many seconds.
KILLS_APART, KILLED_BACKUPS, BACKUP_LIVES = (2, 9), 6, 0.15
# Exit codes of docs/reference/exit-codes.md.
USAGE, UNSOUND, BEHIND = 2, 5, 12
WAIT_SECONDS_MAX = 120


class Violation(Exception):
    """A promise was not kept."""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=TARGET / "lookalike", type=Path)
    parser.add_argument("--generator", default=TARGET / "examples" / "generate", type=Path)
    parser.add_argument("--records", type=int, default=60_000)
    parser.add_argument("--backups", type=int, default=50, help="that are kept at least")
    parser.add_argument("--followed", type=int, default=12, help="backups that are brought up to date")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn; when it strikes is up to the machine")
    parser.set_defaults(pages=None, partitions=1)
    return parser.parse_args()


def n_records(stats):
    counts = json.loads(stats)
    return counts["n_sightings"] + counts["n_gone"]


def check(condition, message):
    if not condition:
        raise Violation(message)


class Pages:
    """The records, and the beginning of them with some number of accepted ones."""

    def __init__(self, path):
        lines = path.read_bytes().splitlines()
        self.records = [line[:len(line) // 2] if at % CUT == CUT - 1 else line for at, line in enumerate(lines)]
        # How many records there are up to each that is accepted. Those that are rejected change no export.
        self.ends = [0] + [at + 1 for at in range(len(lines)) if at % CUT != CUT - 1]

    def beginning(self, n_taken):
        return b"".join(record + b"\n" for record in self.records[:self.ends[n_taken]])


class Feeder(threading.Thread):
    """Sends the records, as many as it may by now."""

    def __init__(self, bench, pages):
        super().__init__(daemon=True)
        words = [bench.script_path, "produce", "--dir", bench.folder / "broker", "pages"]
        self.producer = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        self.pages, self.allowed = pages, 0

    def run(self):
        n_sent = 0
        while n_sent < len(self.pages.records):
            allowed = self.allowed
            self.send(n_sent, allowed)
            n_sent = allowed
            time.sleep(0.02)
        self.producer.stdin.close()
        self.producer.wait()

    def send(self, begin, end):
        self.producer.stdin.write(b"".join(record + b"\n" for record in self.pages.records[begin:end]))
        self.producer.stdin.flush()


class Trial:
    def __init__(self, settings, bench):
        self.settings, self.bench, self.folder = settings, bench, bench.folder
        bench.script_path = Path(__file__).resolve().parent.parent / "deploy" / "kafka-local.sh"
        self.dice = random.Random(settings.seed)
        buffers = {f"LOOKALIKE__STORE__{name}": value for name, value in BUFFERS.items()}
        self.environment = bench.environment("pages") | buffers | {
            "LOOKALIKE__STORE__SEED": f"{7:064x}", "LOOKALIKE__METRICS__LISTEN": "",
        }
        self.pages = Pages(bench.generated("tiny", settings.records, "--same", "0.4", "--copies", "0.2"))
        self.backups, self.n_kills, self.n_killed_backups, self.n_whole_although_killed, self.n_refused = [], 0, 0, 0, 0
        (self.folder / "backups").mkdir()

    def words(self, store, *words):
        return [str(word) for word in (self.settings.binary, *words, "--quiet", "--config", CONFIG, "--store", store)]

    def start(self, store, *words):
        return subprocess.Popen(self.words(store, *words), env=self.environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def ended(self, store, *words, data=None):
        """Exit code, standard output and message of a command; pages come from standard input where there is any."""
        more = {} if data is None else {"LOOKALIKE__INPUT__FROM": "files"}
        done = subprocess.run(self.words(store, *words), env=self.environment | more, input=data or b"", capture_output=True,
                              timeout=WAIT_SECONDS_MAX)
        return done.returncode, done.stdout, done.stderr.decode(errors="replace").strip()

    def ask(self, store, *words, data=None):
        code, output, message = self.ended(store, *words, data=data)
        check(code == 0, f"{' '.join(map(str, words))} on {store.name} ended with {code}: {message}")
        return output

    def exports(self, store):
        return {what: self.ask(store, "export", what) for what in EXPORTS}

    def n_taken(self, store):
        """Records that a store has taken in, but for those that were rejected."""
        return n_records(self.ask(store, "stats", "--json"))

    # Backups while pages stream in.

    def take(self):
        """Takes backups until there are enough, and leaves a store that has all pages."""
        store = self.folder / "store"
        self.bench.make_topics(self.environment)
        feeder = Feeder(self.bench, self.pages)
        feeder.start()
        writer, backup = self.start(store, "run"), None
        # `run` takes a store without any record for a new one, and refuses it with another exit code.
        feeder.allowed = 100
        self.await_records(store, 1)
        begin = time.monotonic()
        next_backup, next_kill, kill_backup = begin, begin + 3, float("inf")
        while len(self.backups) < self.settings.backups:
            now = time.monotonic()
            # Pages come evenly over the backups, however slow the machine is, and a tenth of them after the last one.
            share = (len(self.backups) + min(1, max(0, now - next_backup + 1))) / self.settings.backups
            feeder.allowed = max(feeder.allowed, int(0.9 * share * len(self.pages.records)))
            if writer.poll() is not None or now >= next_kill:
                next_kill = now + self.dice.uniform(*KILLS_APART)
                writer = self.killed(writer, store)
            if backup is None and now >= next_backup:
                next_backup, to = now + 1, self.folder / "backups" / f"{len(self.backups):03}"
                backup = self.start(store, "backup", to)
                is_killed = self.dice.randrange(KILLED_BACKUPS) == 0
                kill_backup = now + self.dice.uniform(0, BACKUP_LIVES) if is_killed else float("inf")
            if backup and now >= kill_backup:
                backup.kill()
            if backup and backup.poll() is not None:
                self.backed_up(backup, to)
                backup = None
            time.sleep(0.005)
        feeder.allowed = len(self.pages.records)
        feeder.join()
        check(feeder.producer.returncode == 0, "the pages could not be sent")
        self.await_records(store, len(self.pages.ends) - 1)
        writer.terminate()
        check(writer.wait(WAIT_SECONDS_MAX) == 0, f"the writer ended with {writer.returncode}: {writer.stderr.read()}")
        # What killed backups left goes with the next one.
        self.ask(store, "backup", self.folder / "backups" / "last")
        left = list(self.folder.glob("**/*.part"))
        check(not left, f"killed backups left {left}")
        return store

    def killed(self, writer, store):
        code = writer.poll()
        check(code is None, f"the writer ended with {code}" + (f": {writer.stderr.read().decode()}" if code is not None else ""))
        writer.kill()
        writer.wait()
        self.n_kills += 1
        return self.start(store, "run")

    def backed_up(self, backup, to):
        message = backup.stderr.read().decode()
        if backup.returncode == -signal.SIGKILL:
            self.n_killed_backups += 1
            # It died after its last step: a folder of that name must be whole.
            self.n_whole_although_killed += to.exists()
        elif backup.returncode == 1 and "try again" in message:
            # The writer has changed its tables for seconds without a pause.
            self.n_refused += 1
        else:
            check(backup.returncode == 0, f"backup {to.name} ended with {backup.returncode}: {message}")
        if to.exists():
            self.backups.append(to)

    def await_records(self, store, n):
        until = time.monotonic() + WAIT_SECONDS_MAX
        while True:
            code, output, message = self.ended(store, "stats", "--json")
            if code == 0 and n_records(output) >= n:
                return
            check(time.monotonic() < until, f"the store has not {n} records after {WAIT_SECONDS_MAX} s: {output} {message}")
            time.sleep(0.1)

    # Each of them afterwards.

    def compare(self, backup, expected, is_followed):
        """Restores a backup and compares it; prints its line of the table."""
        store, plain = self.folder / "restored", self.folder / "plain"
        self.ask(store, "restore", backup)
        self.ask(store, "verify")
        n = self.n_taken(store)
        self.equal(self.exports(store), self.plain(plain, n), f"backup {backup.name}, of {n} pages", "those pages from a file")
        code, _, message = self.ended(store, "run")
        check(code == BEHIND, f"run on backup {backup.name} ended with {code}, not {BEHIND}: {message}")
        if is_followed:
            self.ask(store, "follow", "--once")
            self.ask(store, "verify")
            self.equal(self.exports(store), expected, f"backup {backup.name} after follow --once", "the store itself")
        n_bytes = sum(file.stat().st_size for file in backup.iterdir())
        print(f"| {backup.name} | {n:,} | {n_bytes / 2**20:.1f} | same | {code} | {'same' if is_followed else '–'} |", flush=True)
        shutil.rmtree(store)
        return n

    def plain(self, store, n_taken):
        """The exports of a new store that takes the beginning of the pages from a file."""
        self.ask(store, "run", "--stdin-name", "pages", "-", data=self.pages.beginning(n_taken))
        exports = self.exports(store)
        shutil.rmtree(store)
        return exports

    @staticmethod
    def equal(got, expected, what, other):
        for export in EXPORTS:
            if got[export] != expected[export]:
                lines = set(got[export].splitlines()) ^ set(expected[export].splitlines())
                raise Violation(f"export {export} of {what} is not that of {other}: {len(lines)} lines, {sorted(lines)[:4]}")

    # Damage.

    def notice(self, store, expected):
        """Plants damage in copies of the last backup; returns what was noticed."""
        backup = self.backups[-1]
        tables = sorted(backup.glob("*.sst"))
        manifest = next(backup.glob("MANIFEST-*"))
        older = max((table for table in self.backups[0].glob("*.sst")), key=lambda table: table.stat().st_size)
        damages = {
            "the newest table is cut": lambda to: os.truncate(to / tables[-1].name, tables[-1].stat().st_size // 2),
            "the newest table is missing": lambda to: (to / tables[-1].name).unlink(),
            "the newest table is one of another backup": lambda to: shutil.copy(older, to / tables[-1].name),
            "a bit of the newest table is another": lambda to: self.flip(to / tables[-1].name),
            "the manifest is cut": lambda to: os.truncate(to / manifest.name, manifest.stat().st_size // 2),
        }
        for what, damage in damages.items():
            bad, to = self.folder / "bad", self.folder / "restored"
            shutil.copytree(backup, bad)
            damage(bad)
            code, _, message = self.ended(to, "restore", bad)
            check(code in (1, UNSOUND) and not to.exists(), f"{what}, and restore ended with {code}: {message}")
            shutil.rmtree(bad)
        code, _, message = self.ended(store, "restore", backup)
        check(code == USAGE, f"restore on top of a store ended with {code}: {message}")
        self.equal(self.exports(store), expected, "a store after a refused restore", "the store before")
        n = self.n_taken(backup)
        try:
            self.equal(self.exports(backup), self.plain(self.folder / "plain", n - 1), "a backup", "one page fewer")
        except Violation:
            return [*damages, "restore on top of a store", "one page fewer in the comparison"]
        raise Violation("the comparison does not see a page that is missing")

    @staticmethod
    def flip(path):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)


def main():
    settings, begin = arguments(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(settings, folder)
        try:
            trial = Trial(settings, bench)
            store = trial.take()
            expected = trial.exports(store)
            print("| backup | pages | MiB | beside a plain store | run | follow --once |\n|---|---|---|---|---|---|", flush=True)
            step = max(1, len(trial.backups) // max(1, settings.followed))
            sizes = [trial.compare(backup, expected, at % step == 0 and settings.followed > 0)
                     for at, backup in enumerate(trial.backups)]
            check(sizes == sorted(sizes) and sizes[0] < sizes[-1], f"later backups have fewer pages: {sizes}")
            noticed = trial.notice(store, expected)
        except Violation as violation:
            sys.exit(f"VIOLATION: {violation}")
        finally:
            bench.script("clean")
    print(f"\n{len(sizes)} backups of {sizes[0]:,} to {sizes[-1]:,} of {settings.records:,} records, the writer killed "
          f"{trial.n_kills} times, {trial.n_killed_backups} more backups killed, {trial.n_whole_although_killed} of them whole, "
          f"{trial.n_refused} told to try again: "
          f"no difference. Noticed: {'; '.join(noticed)}. {time.monotonic() - begin:.0f} s, "
          f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
