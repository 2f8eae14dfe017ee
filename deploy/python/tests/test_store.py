"""`open` answers what `lookalike query` prints, beside the process that writes."""

import json
import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

import lookalike as la
from conftest import SAMPLE, Page, lookalike

MOVED = "https://docs.npm.example/html/doc/cache.html"


def printed(store: Path, *question: "str | Path") -> object:
    return json.loads(lookalike("query", *question, "--format", "json", "--store", store).stdout)


def test_answers_are_those_of_the_program(store: Path, sample: list[Page], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(sample[100]["body"])
    with la.open(store) as opened:
        assert opened.query(MOVED) == printed(store, "url", MOVED)
        assert opened.lost(MOVED) == printed(store, "lost", MOVED)
        assert opened.lost(MOVED, limit=1) == printed(store, "lost", MOVED, "--limit", "1")
        assert opened.cluster(MOVED) == opened.cluster(opened.query(MOVED)["sightings"][0]["cluster"])
        assert opened.cluster(MOVED) == printed(store, "cluster", MOVED)
        similar = opened.similar(page.read_text(), html=True)
        assert similar == printed(store, "similar", page)
        assert similar[0]["resemblance"] == 1.0
        assert opened.similar(page.read_text(), html=True, limit=2) == printed(store, "similar", page, "--limit", "2")
        assert opened.stats() == json.loads(lookalike("stats", "--json", "--store", store).stdout)


def test_what_is_not_there_has_the_message_of_the_program(store: Path, tmp_path: Path) -> None:
    opened = la.open(store)
    near = MOVED.replace("https", "http")
    for url in (near, "nothing"):
        said = lookalike("query", "url", url, "--store", store, code=4).stderr
        for ask in (opened.query, opened.lost):
            with pytest.raises(la.NotFoundError) as missing:
                ask(url)
            assert said == f"lookalike: {missing.value}\n"
            assert isinstance(missing.value, LookupError)
    with pytest.raises(la.NotFoundError, match="^there is no cluster of 99999$"):
        opened.cluster(99999)
    with pytest.raises(la.UsageError, match="^nothing to compare: the text has no words$"):
        opened.similar("")
    opened.close()
    with pytest.raises(la.UsageError, match="is closed; open it again"):
        opened.stats()
    with pytest.raises(la.LookalikeError, match="there is no store in"):
        la.open(tmp_path / "nowhere")


def test_a_service_may_hold_the_store(tmp_path: Path) -> None:
    """Lost if this fails: answers while the crawl streams in."""
    store = tmp_path / "s"
    lookalike("run", "--quiet", "--store", store, SAMPLE[0])
    program = Path(sysconfig.get_path("scripts")) / "lookalike"
    with subprocess.Popen([program, "run", "--quiet", "--store", store, "-"], stdin=subprocess.PIPE) as running:
        with la.open(store) as opened:
            expected = json.loads(lookalike("stats", "--json", "--store", store).stdout)
            found = opened.stats()
            # Files come and go while it is written.
            del found["n_bytes_on_disk"], expected["n_bytes_on_disk"]
            assert found == expected
        assert running.poll() is None
        assert running.stdin is not None
        running.stdin.close()
        assert running.wait(30) == 0


def test_a_wrong_setting_is_refused(store: Path) -> None:
    with pytest.raises(la.UsageError, match="store.nothing|nothing"):
        la.open(store, settings={"store.nothing": 1})
    assert la.open(os.fspath(store)).stats()
