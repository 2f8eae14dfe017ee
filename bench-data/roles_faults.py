#!/usr/bin/env python3
"""Harms sketchers, the owner of a store and their broker, a thousand times, and compares every event with a plain run's.

    cargo build --release --bin lookalike --example generate
    python3 bench-data/roles_faults.py [--faults 1000] [--records 200000] [--seed 1] [--minutes 60]

A real Apache Kafka with eight partitions, three sketchers, one owner. Generated pages go in all the time, some of them cut
in half so that they are rejected. About each second the seed draws a fault: SIGKILL, SIGSTOP and SIGCONT, a sketcher that
leaves, joins or returns while its former self sleeps, a broker that is killed, sketches that are deleted before they are
taken, a group that is moved ahead. Dead processes are started again as docs/reference/exit-codes.md says; for exit code 17
the script does what the message says, with the very command. A group that was moved ahead must lead to that exit code with
the exact offset.

In the end every record must have one terminal event, numbers must be dense, and each rejected record must be one dead
letter. Then one plain `run` takes the same pages in the order that the events tell: its events must be the same bytes, but
for the place of the record, and its clusters the same. The comparison itself is tried with events that were left out,
doubled, exchanged and changed. Needs the Python package confluent-kafka.
"""
import argparse
import collections
import heapq
import json
import mmap
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import confluent_kafka
from kafka_throughput import CONFIG, TARGET, Bench

N_PARTITIONS = 8
SKETCHERS = ("a", "b", "c")
# One record in so many is cut in half.
CUT = 997
SETTINGS = """[kafka.properties]
"session.timeout.ms" = "6000"
"heartbeat.interval.ms" = "500"
"""
# How often each fault is drawn, in a hundred.
FAULTS = {
    "kill_sketcher": 31, "kill_owner": 15, "stop_sketcher": 20, "stop_owner": 8, "leave": 10, "join": 8, "replace": 4,
    "kill_broker": 2, "delete_sketches": 1, "move_group_ahead": 1,
}
# Longer than the session timeout, so that some lose their partitions and wake up without them.
SLEEP_SECONDS = (0.1, 9)
# Without a new event, though records wait.
STANDSTILL_SECONDS = 300
# What a supervisor starts again, beside deaths by a signal: docs/reference/exit-codes.md.
RESTARTED = {0, 1, 14, 130}
HOLE = 17
PLACE = re.compile(rb'"source":"[^"]*","partition":(\d+),"offset":(\d+)')
TERMINAL = re.compile(rb'^{"type":"(assigned|gone|redirected|rejected)"')
REWIND = re.compile(r"rewind their group to offset (\d+) of that partition with\n\s*(\S.*--topic \S+:(\d+) .*--execute)")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=TARGET / "lookalike", type=Path)
    parser.add_argument("--generator", default=TARGET / "examples" / "generate", type=Path)
    parser.add_argument("--faults", type=int, default=1000)
    parser.add_argument("--records", type=int, default=200_000, help="pages of 5 KB")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn; when it strikes is up to the machine")
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between two faults, in the mean")
    parser.add_argument("--minutes", type=float, default=600, help="no fault is drawn after so many")
    parser.add_argument("--only", nargs="+", choices=FAULTS, default=list(FAULTS), metavar="FAULT", help=", ".join(FAULTS))
    parser.set_defaults(pages=None, partitions=N_PARTITIONS)
    return parser.parse_args()


class Violation(Exception):
    """A promise was not kept."""


class Feeder(threading.Thread):
    """Sends the pages, each to a random partition, as many as it may by now."""

    def __init__(self, brokers, path, seed):
        super().__init__(daemon=True)
        self.dice, self.allowed, self.error = random.Random(seed), 0, None
        self.lines_of = [[] for _ in range(N_PARTITIONS)]
        with open(path, "rb") as file:
            self.text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.begins = [0]
        while (end := self.text.find(b"\n", self.begins[-1])) >= 0:
            self.begins.append(end + 1)
        self.n_records = len(self.begins) - 1
        self.producer = confluent_kafka.Producer({"bootstrap.servers": brokers, "enable.idempotence": True})

    def record(self, line):
        begin, end = self.begins[line], self.begins[line + 1] - 1
        return self.text[begin:(begin + end) // 2 if line % CUT == CUT - 1 else end]

    def run(self):
        n_sent = 0
        while n_sent < self.n_records:
            for _ in range((min(self.allowed, self.n_records) - n_sent + 9) // 10):
                partition = self.dice.randrange(N_PARTITIONS)
                self.producer.produce("pages", self.record(n_sent), partition=partition, on_delivery=self.delivered)
                self.lines_of[partition].append(n_sent)
                n_sent += 1
            self.producer.poll(0.02)
        self.producer.flush()

    def delivered(self, error, _):
        self.error = self.error or error

    def of_place(self, place):
        """The record at a place of the topic of pages."""
        return self.record(self.lines_of[place[0]][place[1]])


class Topic:
    """All that a topic of one partition has held so far, in order."""

    def __init__(self, brokers, name):
        self.consumer = confluent_kafka.Consumer({
            "bootstrap.servers": brokers, "group.id": "reader", "enable.auto.commit": False, "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
        })
        self.name, self.end = name, 0
        self.consumer.assign([confluent_kafka.TopicPartition(name, 0, 0)])
        self.messages, self.n_terminal, self.next = [], 0, [0] * N_PARTITIONS

    def read(self, wait=0.0):
        """Reads what has come."""
        while got := self.consumer.consume(1000, wait):
            for message in got:
                if message.error() is None:
                    self.take(message)
                elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
                    self.end = message.offset()

    def read_to_end(self):
        """Reads all that is there now."""
        _, high = self.consumer.get_watermark_offsets(confluent_kafka.TopicPartition(self.name, 0), timeout=30)
        until = time.monotonic() + 60
        while self.end < high:
            if time.monotonic() > until:
                raise Violation(f"topic {self.name} can be read to {self.end} of {high}, for 60 s")
            self.read(0.1)

    def take(self, message):
        value, headers = message.value(), dict(message.headers() or [])
        self.messages.append((value, headers))
        if TERMINAL.match(value):
            self.n_terminal += 1
            partition, offset = place_of(value)
            self.next[partition] = offset + 1

    def lines(self):
        """The events, after a look at their numbers."""
        for seq, (value, headers) in enumerate(self.messages):
            if int(headers["lookalike-seq"]) != seq or json.loads(value)["seq"] != seq:
                raise Violation(f"event {seq} of {self.name} has the number {headers['lookalike-seq']}: {value[:200]}")
        return [value for value, _ in self.messages]


def place_of(event):
    return tuple(map(int, PLACE.search(event).groups()))


class Process:
    def __init__(self, name, log, words, environment):
        self.name, self.log, self.asleep, self.is_leaving, self.is_zombie = name, log, False, False, False
        with log.open("ab") as file:
            self.popen = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=file)

    def signal(self, number):
        if self.popen.poll() is None:
            self.popen.send_signal(number)

    def sleep(self):
        self.asleep = True
        self.signal(signal.SIGSTOP)

    def wake(self):
        self.asleep = False
        self.signal(signal.SIGCONT)

    def leave(self):
        """Ends it in good order."""
        self.is_leaving = True
        self.wake()
        self.signal(signal.SIGTERM)

    def wait(self):
        try:
            return self.popen.wait(120)
        except subprocess.TimeoutExpired:
            raise Violation(f"{self.name} did not end within 120 s of SIGTERM; see {self.log}") from None

    def message(self):
        return self.log.read_text(errors="replace")


class Fleet:
    """The processes, and the one who operates them."""

    def __init__(self, settings, bench, feeder):
        self.settings, self.bench, self.feeder = settings, bench, feeder
        self.dice = random.Random(settings.seed)
        self.environment = bench.environment("pages") | {
            "LOOKALIKE__STORE__SEED": f"{7:064x}", "LOOKALIKE__METRICS__LISTEN": "",
            "PATH": f"{java_commands(bench.folder)}:{os.environ['PATH']}",
        }
        self.group = self.environment["LOOKALIKE__KAFKA__GROUP"]
        (bench.folder / "faults.toml").write_text(SETTINGS)
        bench.make_topics(self.environment, "--sketches")
        self.events = Topic(bench.broker, self.environment["LOOKALIKE__KAFKA__EVENTS_TOPIC"])
        self.sketchers, self.owner, self.is_owner_away, self.n_started = {}, None, False, 0
        self.due, self.n_due = [], 0
        self.faults, self.exits, self.rewound = collections.Counter(), collections.Counter(), {}
        self.n_rewinds = self.n_caught = 0
        self.moved = (0, time.monotonic())

    def words(self, *more):
        return [self.settings.binary, "run", "-q", "--config", CONFIG, "--config", self.bench.folder / "faults.toml", *more]

    def start(self, name, role):
        self.n_started += 1
        log = self.bench.folder / f"{role}-{name}-{self.n_started}.log"
        member = "" if name.startswith("nameless") else name
        more = {"LOOKALIKE__KAFKA__MEMBER": member} if role == "sketcher" else {}
        return Process(name, log, self.words("--role", role, "--store", self.bench.folder / "store"), self.environment | more)

    def start_sketcher(self, name):
        if name not in self.sketchers:
            self.sketchers[name] = self.start(name, "sketcher")

    def start_owner(self):
        if self.owner is None and not self.is_owner_away:
            self.owner = self.start("owner", "owner")

    def start_all(self):
        for name in SKETCHERS:
            self.start_sketcher(name)
        self.start_owner()

    def later(self, seconds, action, *of):
        self.n_due += 1
        heapq.heappush(self.due, (time.monotonic() + seconds, self.n_due, action, of))

    def awake(self):
        """A random sketcher that runs."""
        names = [name for name, process in self.sketchers.items() if not (process.asleep or process.is_leaving)]
        return self.sketchers[self.dice.choice(names)] if names else None

    # Faults. Each returns whether it was done.

    def kill_sketcher(self):
        if process := self.awake():
            process.signal(signal.SIGKILL)
        return process

    def kill_owner(self):
        if self.owner:
            self.owner.wake()
            self.owner.signal(signal.SIGKILL)
        return self.owner

    def stop(self, process):
        if process and not process.asleep:
            process.sleep()
            self.later(self.dice.uniform(*SLEEP_SECONDS), process.wake)
            return True
        return False

    def stop_sketcher(self):
        return self.stop(self.awake())

    def stop_owner(self):
        return self.stop(self.owner)

    def leave(self):
        if process := self.awake():
            process.leave()
        return process

    def join(self):
        if len(self.sketchers) > len(SKETCHERS) + 2:
            return False
        name = self.dice.choice(["d", "e", "nameless-1", "nameless-2"])
        if name in self.sketchers:
            return False
        self.start_sketcher(name)
        self.later(self.dice.uniform(1, 12), self.sketchers[name].leave)
        return True

    def replace(self):
        """Another process takes the name of one that sleeps, and finds out when it wakes up."""
        process = self.awake()
        if not process or process.name not in SKETCHERS:
            return False
        process.sleep()
        process.is_zombie = True
        zombie = f"former {process.name} {self.n_started}"
        self.sketchers[zombie] = self.sketchers.pop(process.name)
        self.start_sketcher(process.name)
        self.later(self.dice.uniform(*SLEEP_SECONDS), process.wake)
        self.later(SLEEP_SECONDS[1] + 1, process.signal, signal.SIGKILL)
        return True

    def kill_broker(self):
        self.bench.script("kill")
        self.run_for(self.dice.uniform(0, 3))
        self.bench.script("start")
        return True

    def delete_sketches(self):
        """While the owner is away, sketches that it did not take are deleted."""
        if not self.kill_owner():
            return False
        self.is_owner_away = True
        self.feeder.allowed += 40 * N_PARTITIONS
        self.run_for(self.dice.uniform(1, 3))
        partition, topic = self.dice.randrange(N_PARTITIONS), "lookalike.sketches.v1"
        low, high = self.events.consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, partition), timeout=30)
        below = high - self.dice.randrange(1 + min(20, high - low))
        records = self.bench.folder / "delete.json"
        records.write_text(json.dumps({"partitions": [{"topic": topic, "partition": partition, "offset": below}], "version": 1}))
        self.shell(f"kafka-delete-records.sh --bootstrap-server {self.bench.broker} --offset-json-file {records}")
        self.is_owner_away = False
        self.start_owner()
        return True

    def move_group_ahead(self):
        """Somebody commits offsets whose sketches are not there. The owner must find the hole, and the offset."""
        self.catch_up()
        self.leave_all()
        self.events.read_to_end()
        self.feeder.allowed += 40 * N_PARTITIONS
        self.run_for(1)
        taken = list(self.events.next)
        ahead = [at for at in range(N_PARTITIONS) if len(self.feeder.lines_of[at]) > taken[at] + 1]
        if not ahead:
            self.start_all()
            return False
        partition = self.dice.choice(ahead)
        to = self.dice.randrange(taken[partition] + 1, len(self.feeder.lines_of[partition]))
        self.rewind(f"kafka-consumer-groups.sh --bootstrap-server {self.bench.broker} --group {self.group} "
                    f"--topic pages:{partition} --reset-offsets --to-offset {to} --execute")
        self.start_all()
        code = self.owner.wait()
        found = REWIND.search(self.owner.message())
        told = found and (int(found[3]), int(found[1]))
        if code != HOLE or told != (partition, taken[partition]):
            raise Violation(f"the group was moved from {taken[partition]} to {to} of partition {partition}; the owner ended with "
                            f"{code} and told {told}; see {self.owner.log}")
        self.n_caught += 1
        return True

    # Operating.

    def shell(self, command):
        return subprocess.run(shlex.split(command), env=self.environment, stdout=subprocess.PIPE, text=True).stdout

    def rewind(self, command):
        """Kafka moves a group once its members are gone, and shows an empty table before."""
        until = time.monotonic() + 90
        while not re.search(r"^\S+ +pages +\d+ +\d+", told := self.shell(command), re.MULTILINE):
            if time.monotonic() > until:
                raise Violation(f"the group cannot be rewound: {told}")
            time.sleep(0.5)

    def leave_all(self):
        """Ends all processes in good order."""
        everyone = [*self.sketchers.values(), *filter(None, [self.owner])]
        for process in everyone:
            process.leave()
        for process in everyone:
            self.check_end(process, process.wait())
        self.sketchers, self.owner = {}, None

    def run_for(self, seconds):
        """Lets all go on, without faults."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.tick()

    def catch_up(self):
        """Waits until all records that were allowed have their events."""
        while self.events.n_terminal < min(self.feeder.allowed, self.feeder.n_records):
            self.tick()

    def tick(self):
        """What is due is done, who has ended is started again, and the events are read."""
        while self.due and self.due[0][0] <= time.monotonic():
            _, _, action, of = heapq.heappop(self.due)
            action(*of)
        for name, process in list(self.sketchers.items()):
            code = process.popen.poll()
            if code is not None:
                del self.sketchers[name]
                self.check_end(process, code)
                if name in SKETCHERS:
                    self.later(self.dice.choice([0, 0, 1, 7]) if process.is_leaving else 0.1, self.start_sketcher, name)
        if self.owner and (code := self.owner.popen.poll()) is not None:
            process, self.owner = self.owner, None
            if code == HOLE:
                self.mend(process)
            else:
                self.check_end(process, code)
            self.later(0.1 if code != HOLE else 1, self.start_owner)
        self.events.read()
        if self.feeder.error:
            raise Violation(f"a page was not sent: {self.feeder.error}")
        if self.moved[0] != self.events.n_terminal or self.events.n_terminal >= min(self.feeder.allowed, self.feeder.n_records):
            self.moved = (self.events.n_terminal, time.monotonic())
        elif time.monotonic() - self.moved[1] > STANDSTILL_SECONDS:
            raise Violation(f"no event for {STANDSTILL_SECONDS} s, {self.events.n_terminal} of {self.feeder.allowed} records")
        time.sleep(0.01)

    def check_end(self, process, code):
        role = "owner" if process.name == "owner" else "woken zombie" if process.is_zombie else "sketcher"
        self.exits[role, code] += 1
        if code in RESTARTED or code < 0 and code in (-signal.SIGKILL, -signal.SIGTERM) or process.is_zombie:
            return
        if code == HOLE and process.name == "owner":
            return
        raise Violation(f"{process.name} ended with {code}; see {process.log}")

    def mend(self, process):
        """What the message of exit code 17 tells an operator to do."""
        self.exits["owner", HOLE] += 1
        found = REWIND.search(process.message())
        if not found:
            raise Violation(f"the message does not tell how to go on; see {process.log}")
        hole = (found[3], found[1])
        # The rewound sketchers may be on their way.
        if time.monotonic() - self.rewound.get(hole, -1000) < 20:
            return
        # It may have been killed meanwhile.
        self.bench.script("start")
        self.leave_all()
        self.rewind(found[2])
        self.n_rewinds += 1
        self.rewound[hole] = time.monotonic()
        for name in SKETCHERS:
            self.start_sketcher(name)

    def harm(self):
        """Until the faults are done or the time is up."""
        begin, n_faults = time.monotonic(), self.settings.faults
        next_fault = begin + 5
        self.start_all()
        while (n := sum(self.faults.values())) < n_faults and time.monotonic() - begin < 60 * self.settings.minutes:
            share = max(n / n_faults, (time.monotonic() - begin) / (60 * self.settings.minutes))
            self.feeder.allowed = max(self.feeder.allowed, 1000 + round(self.feeder.n_records * share))
            self.tick()
            if time.monotonic() >= next_fault:
                fault = self.dice.choices(self.settings.only, [FAULTS[fault] for fault in self.settings.only])[0]
                self.faults[fault] += bool(getattr(self, fault)())
                next_fault = time.monotonic() + self.settings.interval * self.dice.uniform(0.2, 1.8)
                print(f"{n + 1}: {fault}, {self.events.n_terminal:,} records", file=sys.stderr)
        self.feeder.allowed = self.feeder.n_records

    def finish(self):
        self.catch_up()
        self.feeder.join()
        self.run_for(1)
        self.leave_all()
        self.events.read_to_end()

    def end(self):
        for process in [*self.sketchers.values(), *filter(None, [self.owner])]:
            process.signal(signal.SIGKILL)
            process.popen.wait()


def java_commands(folder):
    """A folder with the commands that Kafka's users know, which its jars hold."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "lookalike"
    jars = max(cache.glob("kafka-*/lib"))
    commands = folder / "commands"
    commands.mkdir()
    classes = {"kafka-consumer-groups.sh": "consumer.group.ConsumerGroupCommand", "kafka-delete-records.sh": "DeleteRecordsCommand"}
    for name, main in classes.items():
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        command = f'#!/bin/sh\nexec java {quiet} -cp "{jars}/*" org.apache.kafka.tools.{main} "$@" 2>&1\n'
        (commands / name).write_text(command)
        (commands / name).chmod(0o755)
    return commands


def in_order(lines, n_records_of):
    """The places of the records in the order of their events: each once, each partition from its begin to its end."""
    places, following = [], [0] * N_PARTITIONS
    for line in filter(TERMINAL.match, lines):
        partition, offset = place_of(line)
        if offset != following[partition]:
            raise Violation(f"after record {following[partition] - 1} of partition {partition} comes: {line[:200]}")
        following[partition] += 1
        places.append((partition, offset))
    if following != n_records_of:
        raise Violation(f"records with a terminal event: {following}, records: {n_records_of}")
    return places


def compare(told, plain, places):
    """Every event must be the plain run's, byte for byte, but for the place."""
    if len(told) != len(plain):
        raise Violation(f"{len(told)} events, a plain run has {len(plain)}")
    for ours, theirs in zip(told, plain):
        place = b'"source":"pages","partition":%d,"offset":%d' % places[place_of(theirs)[1]]
        if ours != PLACE.sub(place, theirs, count=1):
            raise Violation(f"an event is {ours!r}, in a plain run {theirs!r}")


def try_the_comparison(told, plain, n_records_of, dice):
    """It must see what is wrong."""
    at = dice.randrange(len(told) - 1)
    changed = told[at].replace(b'"', b"'", 1)
    wrong = {
        "left out": told[:at] + told[at + 1:], "doubled": told[:at] + told[at:at + 1] + told[at:],
        "exchanged": told[:at] + [told[at + 1], told[at]] + told[at + 2:], "changed": told[:at] + [changed] + told[at + 1:],
    }
    for what, lines in wrong.items():
        try:
            compare(lines, plain, in_order(lines, n_records_of))
        except Violation:
            continue
        raise Violation(f"the comparison does not see an event that is {what}")


def dead_letters(fleet, feeder, lines):
    """Each rejected record once, as it came."""
    topic = Topic(fleet.bench.broker, "pages.dlq")
    topic.read_to_end()
    expected = collections.Counter(feeder.of_place(place_of(line)) for line in lines if line.startswith(b'{"type":"rejected"'))
    found = collections.Counter(value for value, _ in topic.messages)
    if expected != found:
        raise Violation(f"{sum(expected.values())} records were rejected, {sum(found.values())} dead letters, "
                        f"{sum(((expected - found) + (found - expected)).values())} of them without the other")
    return sum(found.values())


def plain_run(fleet, feeder, places):
    """The events of one process without roles, which takes the records in the given order."""
    bench, environment = fleet.bench, fleet.bench.environment("replayed")
    environment |= {"LOOKALIKE__STORE__SEED": f"{7:064x}", "LOOKALIKE__METRICS__LISTEN": ""}
    bench.settings.partitions = 1
    bench.make_topics(environment)
    process = subprocess.Popen(fleet.words("--store", bench.folder / "plain"), env=environment)
    producer = confluent_kafka.Producer({"bootstrap.servers": bench.broker, "enable.idempotence": True})
    for place in places:
        while True:
            try:
                producer.produce("replayed", feeder.of_place(place), partition=0)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()
    events = Topic(bench.broker, environment["LOOKALIKE__KAFKA__EVENTS_TOPIC"])
    while events.n_terminal < len(places):
        events.read(0.2)
        if process.poll() is not None:
            raise Violation(f"the plain run ended with {process.returncode}")
    process.terminate()
    process.wait()
    events.read_to_end()
    return events.lines()


def answer(fleet, store):
    """The clusters of a store, which must be sound."""
    for words in (["verify"], ["export", "clusters"]):
        words = [fleet.settings.binary, *words, "--store", fleet.bench.folder / store]
        clusters = subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout
    return clusters


def check(fleet, feeder):
    """The text that tells what agrees."""
    lines = fleet.events.lines()
    n_records_of = [len(lines) for lines in feeder.lines_of]
    places = in_order(lines, n_records_of)
    n_letters = dead_letters(fleet, feeder, lines)
    plain = plain_run(fleet, feeder, places)
    compare(lines, plain, places)
    try_the_comparison(lines, plain, n_records_of, fleet.dice)
    if answer(fleet, "store") != answer(fleet, "plain"):
        raise Violation("the stores have different clusters")
    n_bytes = sum(map(len, lines))
    return (f"{len(places):,} records, {len(lines):,} events, {n_bytes / 1e6:.1f} MB, the same bytes as of a plain run; "
            f"{n_letters} dead letters; both stores are sound and have the same clusters")


def main():
    settings = arguments()
    # So that nothing that was started stays.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = Path(tempfile.mkdtemp(prefix="roles-faults-"))
    begin, fleet = time.monotonic(), None
    bench = Bench(settings, folder)
    told = 1
    try:
        feeder = Feeder(bench.broker, bench.generated("small", settings.records), settings.seed)
        fleet = Fleet(settings, bench, feeder)
        feeder.start()
        fleet.harm()
        fleet.finish()
        minutes = (time.monotonic() - begin) / 60
        print(f"seed {settings.seed}, {sum(fleet.faults.values())} faults in {minutes:.0f} minutes, load {os.getloadavg()[1]:.1f}")
        for fault, n in fleet.faults.most_common():
            print(f"  {n:5} {fault}")
        print("ends: " + ", ".join(f"{role} {code}: {n}" for (role, code), n in sorted(fleet.exits.items())))
        print(f"{fleet.n_rewinds} rewinds by the command of the message; {fleet.n_caught} groups moved ahead, all found", flush=True)
        print(check(fleet, feeder) + "\n0 violations")
        told = 0
    except Violation as violation:
        n = sum(fleet.faults.values()) if fleet else 0
        print(f"VIOLATION after {n} faults of seed {settings.seed}: {violation}\nthe folder stays: {folder}")
    finally:
        if fleet:
            fleet.end()
        bench.script("stop" if told else "clean")
    if not told:
        subprocess.run(["rm", "-rf", folder], check=True)
    return told


if __name__ == "__main__":
    sys.exit(main())
