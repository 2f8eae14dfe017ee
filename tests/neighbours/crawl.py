"""What the tests of the examples share: topics of their own on the broker, `lookalike run` on them, and the events."""

import json
import os
import signal
import subprocess
import time

from confluent_kafka import Consumer, KafkaError, TopicPartition

TERMINAL = {"assigned", "gone", "redirected", "rejected"}
SECONDS_MAX = 60


class Crawl:
    """One crawl: a store, and topics of a name."""

    def __init__(self, program, broker, folder, name, partitions=1):
        self.program, self.broker, self.folder = program, broker, folder
        self.pages_topic, self.events_topic = f"pages-{name}", f"events-{name}"
        self.config = folder / "kafka.toml"
        self.config.write_text(f"""
[store]
path = "{folder}/store"
[input]
from = "kafka"
[kafka]
brokers = "{broker}"
topic = "{self.pages_topic}"
events_topic = "{self.events_topic}"
assignments_topic = "assignments-{name}"
merges_topic = "merges-{name}"
group = "{name}"
""")
        self.lookalike("topics", "create", "--partitions", str(partitions), "--output-partitions", str(partitions))

    def lookalike(self, *arguments):
        """Runs a command on the crawl's store, and returns what it prints."""
        command = [self.program, *arguments, "--config", self.config]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=SECONDS_MAX).stdout

    def take_in(self, n_records):
        """Runs until so many records in all have their terminal event; then ends the program in good order."""
        deadline = time.monotonic() + SECONDS_MAX
        process = subprocess.Popen([self.program, "run", "--quiet", "--config", self.config])
        try:
            while sum(event["type"] in TERMINAL for event in self.events()) < n_records:
                assert process.poll() is None, f"run ended with {process.returncode}"
                assert time.monotonic() < deadline, f"not {n_records} terminal events within {SECONDS_MAX} s"
                time.sleep(0.2)
            process.send_signal(signal.SIGTERM)
            assert process.wait(SECONDS_MAX) == 0
        finally:
            process.kill()
            process.wait()

    def events(self):
        """All events, in their order."""
        consumer = Consumer({
            "bootstrap.servers": self.broker, "group.id": f"test-{os.getpid()}", "isolation.level": "read_committed",
            "enable.auto.commit": False, "auto.offset.reset": "earliest", "enable.partition.eof": True,
        })
        partitions = consumer.list_topics(self.events_topic, timeout=10).topics[self.events_topic].partitions
        consumer.assign([TopicPartition(self.events_topic, n, 0) for n in partitions])
        unread, found = set(partitions), []
        while unread:
            for message in consumer.consume(1000, timeout=1):
                if message.error() is None:
                    found.append(json.loads(message.value()))
                else:
                    assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                    unread.discard(message.partition())
        consumer.close()
        return sorted(found, key=lambda event: event["seq"])
