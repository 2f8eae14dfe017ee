"""`compare` answers what the program answers for two files of the same texts."""

import dataclasses
import json
from pathlib import Path

import pytest

import lookalike as la
from conftest import Page, lookalike


@pytest.mark.parametrize("html", [True, False])
def test_the_program_answers_the_same(sample: list[Page], tmp_path: Path, html: bool) -> None:
    by_url: dict[str, list[str]] = {}
    for page in sample:
        if len(page["body"]) > 5000:
            by_url.setdefault(page["url"], []).append(page["body"])
    pairs = [bodies[:2] for bodies in by_url.values() if len(bodies) > 1][:12]
    for a, b in pairs:
        if not html:
            # Plain text, which the program recognises as such.
            a, b = (text.replace("<", " ").replace(">", " ") for text in (a, b))
        files = [tmp_path / "a", tmp_path / "b"]
        for file, text in zip(files, (a, b)):
            file.write_text(text)
        printed = json.loads(lookalike("query", "compare", *files, "--json").stdout)
        found = dataclasses.asdict(la.compare(a, b, html=html))
        estimated = found.pop("estimated")
        assert found == printed
        assert found["error"] == 0.0
        assert abs(estimated["resemblance"] - found["resemblance"]) <= 5 * estimated["error"] + 0.01


def test_the_exact_answer_is_that_of_sets() -> None:
    a, b = "a b c d e f g", "c d e f g h i j"

    def shingles(text: str) -> set[tuple[str, ...]]:
        words = text.split()
        return {tuple(words[at : at + 3]) for at in range(len(words) - 2)}

    common, either = shingles(a) & shingles(b), shingles(a) | shingles(b)
    found = la.compare(a, b, settings={"sketch.w": 3})
    assert found.resemblance == len(common) / len(either)
    assert found.containment_of_a_in_b == len(common) / len(shingles(a))
    assert found.containment_of_b_in_a == len(common) / len(shingles(b))
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.resemblance = 1.0  # type: ignore[misc]


def test_a_text_of_few_words_is_refused() -> None:
    with pytest.raises(la.UsageError, match="^nothing to compare: b has 2 words, fewer than the 10 of a shingle$"):
        la.compare("a b c d e f g h i j k", "a b")
    with pytest.raises(la.UsageError, match="^nothing to compare: a has no words$"):
        la.compare("", "a b")
