"""The operators of a batch that is spread over machines, each against what it must give, spelled out."""

import itertools
import random
from typing import Any

import pyarrow as pa
import pytest

import lookalike as la
from conftest import Page
from lookalike import phases

RULE = phases.match_rule({"cluster.common_limit": 3, "sketch.index_size": 2, "cluster.min_shared": 2})


def rows(table: Any) -> "list[dict[str, Any]]":
    found: list[dict[str, Any]] = pa.table(table).to_pylist()
    return found


def common(since: "dict[int, tuple[int, list[int]]]") -> pa.Table:
    columns = ("shingle", pa.int64()), ("since", pa.int64()), ("documents", pa.list_(pa.int64()))
    each = [{"shingle": key, "since": of, "documents": first} for key, (of, first) in since.items()]
    return pa.Table.from_pylist(each, schema=pa.schema(columns))


def test_common_shingles_index_what_came_before_them() -> None:
    matcher = phases.Matcher(RULE, common({10: (4, [1, 2, 3, 4]), 20: (6, [1, 2, 5, 6])}))
    assert matcher.list_max == 4
    documents = pa.table({"document": [4, 5, 7], "index": [[10, 20, 30], [10, 20, 30], [10, 20, 30, 40]]})
    found = rows(matcher.index(documents))
    assert [row["index"] for row in found] == [[10, 20], [20, 30], [30, 40]]
    assert [row["needed"] for row in found] == [1, 1, 1]
    # Two of its shingles are common for the last one, and both represent documents 1 and 2.
    assert found[2]["represented"][:2] == [1, 2]
    # Ids of more than 32 bits keep their order.
    far = 1 << 40
    matcher = phases.Matcher(RULE, common({10: (far + 3, [far + 3, far + 1, 7, far + 2])}))
    found = rows(matcher.index(pa.table({"document": [far + 9], "index": [[10, 30]]})))
    assert found[0]["represented"] == [7, far + 1, far + 2, far + 3]


def test_lists_go_on_from_batch_to_batch() -> None:
    postings = [(1, 5), (2, 3), (2, 4), (2, 9), (3, 1), (3, 9), (4, 2), (4, 3), (4, 4), (4, 8)]
    expected = {False: [], True: []}
    for is_super in (False, True):
        for shingle, group in itertools.groupby(postings, lambda row: row[0]):
            documents = [document for _, document in group][:3]
            for place, document in enumerate(documents if len(documents) > 1 else []):
                neighbour = None if place == 0 else documents[0] if is_super else documents[place - 1]
                expected[is_super].append((shingle, document, place, neighbour))
    for is_super, size in itertools.product((False, True), range(1, 11)):
        lists = phases.Lists(3, is_super)
        found = []
        for begin in range(0, len(postings), size):
            batch = postings[begin : begin + size]
            table = pa.table({"shingle": [row[0] for row in batch], "document": [row[1] for row in batch]})
            found += [tuple(row.values()) for row in rows(lists.neighbours(table))]
        assert found == expected[is_super]
    table = pa.table({"shingle": [row[0] for row in postings], "document": [row[1] for row in postings]})
    assert len(rows(phases.Lists(3).shorten(table))) == 9


def test_pairs_are_those_of_different_clusters() -> None:
    chance = random.Random(7)
    for _ in range(50):
        lists = [(shingle, sorted(chance.sample(range(1, 30), chance.randint(1, 12)))) for shingle in range(6)]
        postings = [(shingle, document, 1 + document % 3) for shingle, documents in lists for document in documents]
        expected = [
            (later, earlier, 1 + earlier % 3)
            for _, documents in lists
            for at, later in enumerate(documents)
            for earlier in documents[: min(at, 5)]
            if later % 3 != earlier % 3
        ]
        pairs, found = phases.Pairs(5), []
        for begin in range(0, len(postings), 4):
            columns = zip(*postings[begin : begin + 4])
            found += rows(pairs.form(pa.table(dict(zip(("shingle", "document", "cluster"), map(list, columns))))))
        assert sorted(tuple(row.values()) for row in found) == sorted(expected)


def test_components_are_named_by_their_smallest_document() -> None:
    chance = random.Random(7)
    for _ in range(50):
        links = [sorted(chance.sample(range(1, 41), 2), reverse=True) for _ in range(chance.randint(0, 40))]
        names = list(range(41))
        for later, earlier in links:
            ends = {names[later], names[earlier]}
            names = [min(ends) if name in ends else name for name in names]
        components = phases.UnionFind(40)
        columns = {"later": [link[0] for link in links], "earlier": [link[1] for link in links]}
        table = pa.table({name: pa.array(column, pa.int64()) for name, column in columns.items()})
        n_joined = len(rows(components.join(table)))
        assert n_joined == components.n_links == 40 - len(set(names[1:]))
        members = [row for first in range(1, 41, 7) for row in rows(components.members(first, 7))]
        assert {row["document"]: row["cluster"] for row in members} == {
            document: name for document, name in enumerate(names) if name != document
        }
    with pytest.raises(la.UsageError, match="^there is no document 41 among 40$"):
        phases.UnionFind(40).join(pa.table({"later": [41], "earlier": [1]}))


def test_links_are_those_of_the_estimates(sample: "list[Page]") -> None:
    long = [page for page in sample if len(page["body"]) > 3000]
    bodies = [page["body"] for page in sorted(long, key=lambda page: page["url"])[:60]]
    sketches = pa.table(la.sketch(pa.table({"text": bodies}), html=True))["sketch"].to_pylist()
    pairs = [(later, earlier) for later in range(60) for earlier in reversed(range(max(0, later - 4), later))]
    columns = {
        "later": [later for later, _ in pairs],
        "earlier": [earlier for _, earlier in pairs],
        "cluster": [earlier for _, earlier in pairs],
        "later_sketch": [sketches[later] for later, _ in pairs],
        "earlier_sketch": [sketches[earlier] for _, earlier in pairs],
    }
    rule = phases.match_rule({"cluster.threshold": 0.2, "sketch.confirmation": False, "cluster.comparisons_max": 0})
    found = {
        (row["later"], row["earlier"]): row["resemblance"] for row in rows(phases.Matcher(rule).link(pa.table(columns)))
    }
    expected = {}
    for later, earlier in pairs:
        estimated = la.compare(bodies[later], bodies[earlier], html=True).estimated
        if estimated is not None and estimated.resemblance >= 0.2 and sketches[later] != sketches[earlier]:
            expected[later, earlier] = estimated.resemblance
    assert len(expected) > 10
    # Answers are rounded, and hold back a part of the sketches.
    confirmed = [abs(found[pair] - expected[pair]) for pair in expected if pair in found]
    assert max(confirmed) < 0.03
    assert len(confirmed) >= 0.9 * len(expected)
    # The rule limits the comparisons of a document, and of a cluster one link counts.
    limited = phases.match_rule({"cluster.threshold": 0.2, "cluster.comparisons_max": 1})
    table = pa.table(columns)
    first = rows(phases.Matcher(limited).link(table))
    latest = {later: earlier for later, earlier in reversed(pairs)}
    assert all(row["earlier"] == latest[row["later"]] for row in first)
    one = table.set_column(2, "cluster", pa.array([1] * len(pairs)))
    of_one = [row["later"] for row in rows(phases.Matcher(rule).link(one))]
    assert len(of_one) == len(set(of_one)) > 5


def test_wrong_columns_are_named() -> None:
    with pytest.raises(la.UsageError, match='^there is no column "shingle"; there are document$'):
        phases.Lists().neighbours(pa.table({"document": [1]}))
    with pytest.raises(la.UsageError, match='^column "document" has nulls$'):
        phases.Lists().neighbours(pa.table({"shingle": [1], "document": pa.array([None], pa.int64())}))
    with pytest.raises(la.UsageError, match="^no rule: "):
        phases.Matcher("{}")
    with pytest.raises(la.UsageError, match="holds no sketch files"):
        phases.sketch_files("s3://nowhere", [], RULE)
