"""Crawls one site and sends its pages to Lookalike: scrapy runspider site_spider.py -a start=https://a.example/"""

from urllib.parse import urlsplit

import scrapy
from scrapy.linkextractors import LinkExtractor

from lookalike_scrapy import STATUSES, page_of


class SiteSpider(scrapy.Spider):
    name = "site"
    handle_httpstatus_list = STATUSES
    custom_settings = {"ITEM_PIPELINES": {"lookalike_scrapy.LookalikePipeline": 900}}

    def __init__(self, start, **arguments):
        super().__init__(**arguments)
        self.start_urls = [start]
        self.links = LinkExtractor(allow_domains=urlsplit(start).netloc)

    def parse(self, response):
        page = page_of(response)
        yield page
        if page.redirect_to:
            yield response.follow(page.redirect_to)
        elif isinstance(response, scrapy.http.HtmlResponse):
            yield from response.follow_all(self.links.extract_links(response))
