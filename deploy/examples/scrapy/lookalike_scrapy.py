"""Sends what a Scrapy spider crawls to the Kafka topic that Lookalike reads: an item, how to make it, and the pipeline.

A spider yields `page_of(response)` for each response. In settings.py:

    ITEM_PIPELINES = {"lookalike_scrapy.LookalikePipeline": 900}
    LOOKALIKE_BROKERS = "127.0.0.1:9092"
    LOOKALIKE_SWEEP = "2026-47"          # the name of this walk; without it, pages belong to no sweep

Further settings: LOOKALIKE_TOPIC ("pages"), and LOOKALIKE_KAFKA, a dict of librdkafka's settings such as those of TLS.
"""

import base64
import json
import logging
from dataclasses import asdict, dataclass
from datetime import datetime, timezone

from confluent_kafka import KafkaException, Producer
from scrapy.exceptions import DropItem
from scrapy.utils.defer import deferred_from_coro

logger = logging.getLogger(__name__)

# The bytes of a message: limits.body_bytes_max of Lookalike (8 MiB) in base64, and the other fields.
MESSAGE_BYTES_MAX = 16 << 20
# What a spider handles itself, as its handle_httpstatus_list: redirects, and pages that are gone. Otherwise Scrapy follows
# redirects on its own, and Lookalike never hears of the old URL.
STATUSES = [301, 302, 303, 307, 308, 404, 410]
# How long the brokers may take for what was sent, before it counts as lost.
DELIVERY_MS_MAX = 120_000


@dataclass
class Page:
    """A JSON page of Lookalike; fields that are None are left out. docs/reference/page-formats.md has all of them."""

    url: str
    fetched_at: str
    http_status: int
    content_type: str | None = None
    redirect_to: str | None = None
    body_base64: str | None = None


def page_of(response):
    """The item of a response. Only those come here that the spider is given: see STATUSES."""
    fetched_at = datetime.now(timezone.utc).isoformat(timespec="microseconds")
    if 300 <= response.status < 400:
        target = response.headers.get("Location", b"").decode("latin-1")
        return Page(response.url, fetched_at, response.status, redirect_to=response.urljoin(target))
    content_type = response.headers.get("Content-Type", b"").decode("latin-1") or None
    # The bytes as they came: Lookalike finds the charset, by the header, the page and the bytes themselves.
    return Page(response.url, fetched_at, response.status, content_type, body_base64=base64.b64encode(response.body).decode())


class LookalikePipeline:
    """Sends each Page to Kafka, and lets other items pass. A spider whose pages do not arrive is stopped."""

    @classmethod
    def from_crawler(cls, crawler):
        return cls(crawler)

    def __init__(self, crawler):
        self.crawler = crawler
        self.topic = crawler.settings.get("LOOKALIKE_TOPIC", "pages")
        self.sweep = crawler.settings.get("LOOKALIKE_SWEEP")
        self.producer = Producer({
            "bootstrap.servers": crawler.settings.get("LOOKALIKE_BROKERS", "127.0.0.1:9092"),
            # Each page once and in order, though a broker's answer is lost.
            "enable.idempotence": True,
            "compression.type": "zstd",
            "linger.ms": 50,
            "message.max.bytes": MESSAGE_BYTES_MAX,
            "delivery.timeout.ms": DELIVERY_MS_MAX,
            **crawler.settings.getdict("LOOKALIKE_KAFKA"),
        })

    def process_item(self, item):
        if isinstance(item, Page):
            page = {name: value for name, value in asdict(item).items() if value is not None}
            if self.sweep:
                page["sweep"] = self.sweep
            self.send(item.url, json.dumps(page))
        return item

    def send(self, url, message):
        """Hands a message to the producer; waits while its queue is full, which slows the crawl down."""
        while True:
            try:
                # By the URL as the key, all that happens at a URL stays in order.
                self.producer.produce(self.topic, key=url, value=message, on_delivery=self.delivered)
                break
            except BufferError:
                self.producer.poll(0.1)
            except KafkaException as error:
                raise DropItem(f"Kafka takes no page of {len(message)} bytes: {error.args[0].str()}") from error
        self.producer.poll(0)

    def delivered(self, error, message):
        if error is None:
            self.crawler.stats.inc_value("lookalike/sent")
            return
        self.crawler.stats.inc_value("lookalike/not_sent")
        logger.error("the page %s did not reach Kafka: %s", message.key().decode(), error.str())
        deferred_from_coro(self.crawler.engine.close_spider_async(reason="pages_not_sent"))

    def close_spider(self):
        # What cannot be delivered is reported by then.
        self.producer.flush(DELIVERY_MS_MAX / 1000 + 10)
