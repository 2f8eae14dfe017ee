"""Clusters the sketches of a crawl on a Spark cluster: the phases that `lookalike backfill` runs on one machine.

    spark-submit deploy/spark/link_job.py --sketches s3://crawl/sketches --out s3://crawl/clusters

It leaves, in the folder of --out:

    clusters/       a row for each record: source, record, kind, url, fetched_at, sweep, document, cluster
    links.parquet   the links that make the clusters: later, earlier, resemblance

`lookalike backfill --from-sketches DIR --links links.parquet` loads them into a store. Documents, clusters and the common
shingles are those of a backfill on one machine. Spark sorts and joins; what decides is in the Python module `lookalike`.

    documents ─▶ lists of shingles, until the common ones are known ─▶ neighbours ─▶ links ─┐
                     └─▶ all pairs of different clusters ─▶ links ─▶ clusters ◀─ union-find ◀┘

Every stage leaves Parquet in the work folder, so that nothing is computed twice. A job that is submitted again goes on after
the last whole stage.
"""

import argparse
import hashlib
import resource
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.accumulators import AccumulatorParam
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from lookalike import phases

# Records of an input that are numbered together.
BLOCK_BITS = 20

# Documents of the union-find that are written at once.
MEMBERS_AT_ONCE = 1 << 20

# Rows of an Arrow batch: rows of numbers, rows with sketches, and rows of which each may become a pair with every document of
# a list.
SMALL_ROWS = 8192
SKETCH_ROWS = 256
LIST_ROWS = 256

Batches = Iterator[pa.RecordBatch]
Operator = Callable[[pa.RecordBatch], phases.Table]


class Largest(AccumulatorParam):
    """The largest of the values that tasks add."""

    def zero(self, value: int) -> int:
        return 0

    def addInPlace(self, a: int, b: int) -> int:  # noqa: N802, the name is Spark's
        return max(a, b)


class Job:
    """The stages of one job, each a folder of Parquet."""

    def __init__(self, spark: SparkSession, work: str, rule: str, n_partitions: int) -> None:
        self.spark, self.work, self.rule, self.n_partitions = spark, work, rule, n_partitions
        self.list_max = phases.Matcher(rule).list_max
        self.largest_kib = spark.sparkContext.accumulator(0, Largest())
        self.n_found = 0

    def stage(self, name: str, rows: "Callable[[], DataFrame]", rows_at_once: int = SMALL_ROWS) -> DataFrame:
        """The rows of a stage. They are computed unless an earlier job did."""
        uri = f"{self.work}/{name}"
        system, path = fs.FileSystem.from_uri(uri)
        if system.get_file_info(f"{path}/_SUCCESS").type != fs.FileType.File:
            self.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", rows_at_once)
            rows().write.mode("overwrite").parquet(uri)
        else:
            self.n_found += 1
        return self.spark.read.parquet(uri)

    def operate(self, rows: DataFrame, operator: "Callable[[], Operator]", schema: str) -> DataFrame:
        """Takes each partition through an operator of its own."""
        largest_kib = self.largest_kib

        def through(batches: Batches) -> Batches:
            apply = operator()
            for batch in batches:
                yield from pa.table(apply(batch)).to_batches()
            largest_kib.add(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)

        return rows.mapInArrow(through, schema)

    def sorted_by(self, rows: DataFrame, key: str, *order: "str | F.Column") -> DataFrame:
        """Brings the rows of each key together, in order."""
        return rows.repartition(self.n_partitions, key).sortWithinPartitions(key, *order)

    def small(self, rows: "list[tuple]", schema: str) -> DataFrame:
        """A table that the driver holds. As Arrow it needs no Python process on the executors, as plain rows it would."""
        names = [column.split()[0] for column in schema.split(",")]
        return self.spark.createDataFrame(pd.DataFrame(rows, columns=names), schema)

    def read(self, name: str) -> pa.dataset.Dataset:
        """The rows of a stage, for the driver and for operators."""
        return read(f"{self.work}/{name}")


def read(uri: str) -> pa.dataset.Dataset:
    system, path = fs.FileSystem.from_uri(uri)
    return pa.dataset.dataset(path, filesystem=system, format="parquet")


def sketch_files(folder: str, rule: str) -> "tuple[str, list[tuple[str, str]]]":
    """What names the sketches of a folder, and the file and the name of each input, in order. Fails where one is missing."""
    system, path = fs.FileSystem.from_uri(folder)
    files = [info for info in system.get_file_info(fs.FileSelector(path)) if info.extension == "parquet"]

    def metadata(info: fs.FileInfo) -> "tuple[str, dict[str, str]]":
        found = pq.read_metadata(info.path, filesystem=system).metadata or {}
        return info.base_name, {key.decode(): value.decode(errors="replace") for key, value in found.items()}

    with ThreadPoolExecutor(16) as threads:
        return phases.sketch_files(folder, list(threads.map(metadata, files)), rule)


def read_records(job: Job, sketches: str, inputs: "list[tuple[str, str]]") -> DataFrame:
    """The records of all inputs, each with the number of its input. Records of one class are one document."""
    numbers = [(number, file, name) for number, (file, name) in enumerate(inputs, 1)]
    numbers = job.small(numbers, "input bigint, file string, source string")
    rows = job.spark.read.option("pathGlobFilter", "*.parquet").parquet(sketches)
    rows = rows.withColumn("file", F.col("_metadata.file_name")).where("kind <> 'unreadable'")
    return rows.join(F.broadcast(numbers), "file").withColumn("class", F.coalesce("shingle", "lexical"))


def number_documents(job: Job, records: DataFrame) -> "tuple[DataFrame, int]":
    """The document of each class, numbered by its first record, and how many there are."""
    block = F.shiftright("first.record", BLOCK_BITS)
    first = job.stage(
        "first",
        lambda: records.where("kind = 'page'")
        .groupBy("class")
        .agg(F.min(F.struct("input", "record")).alias("first"))
        .select("class", "first.input", "first.record", block.alias("block")),
    )
    counts = sorted(first.groupBy("input", "block").count().collect())
    before, n_documents = [], 0
    for input_number, block_number, count in counts:
        before.append((input_number, block_number, n_documents))
        n_documents += count
    before = F.broadcast(job.small(before, "input bigint, block bigint, before bigint"))
    place = F.row_number().over(Window.partitionBy("input", "block").orderBy("record"))
    numbered = first.withColumn("place", place).join(before, ["input", "block"])
    columns = ["class", "input", "record", (F.col("before") + F.col("place")).alias("document")]
    return job.stage("numbers", lambda: numbered.select(*columns)), n_documents


def find_lists(job: Job, documents: DataFrame) -> "tuple[DataFrame, DataFrame, str]":
    """What indexes the documents, the lists of these shingles, and the stage that holds the common ones.

    A shingle is common for the documents after the one that made its list longer than the limit. They are indexed by larger
    ones instead, which may become common in turn. A round can only make shingles common, or earlier, so the rounds end, and
    equal sums tell that nothing changed.
    """
    common, n_rounds, total = "", 0, (0, 0)
    while True:
        index = job.stage(f"index-{n_rounds}", lambda: indexed(job, documents, common))
        lists = job.stage(f"lists-{n_rounds}", lambda: lists_of(job, index))
        is_representative = F.col("place") < phases.Matcher.REPRESENTATIVES_MAX
        made_common = lists.where(F.col("place") == job.list_max - 1).select("shingle", F.col("document").alias("since"))
        first = F.sort_array(F.collect_list("document")).alias("documents")
        found = lists.where(is_representative).join(made_common, "shingle").groupBy("shingle", "since").agg(first)
        n_rounds += 1
        common = f"common-{n_rounds}"
        sums = F.count("since"), F.coalesce(F.sum("since"), F.lit(0))
        before, total = total, tuple(job.stage(common, lambda: found).agg(*sums).first())
        if total == before:
            return index, lists, common


def lists_of(job: Job, index: DataFrame) -> DataFrame:
    """The lists of two documents or more.

    A shingle may be in very many documents. Each task keeps the first ones before anything is sent.
    """
    n_max = job.list_max
    postings = index.select("document", F.explode("index").alias("shingle"))
    postings = postings.sortWithinPartitions("shingle", "document")
    shorter = job.operate(postings, lambda: phases.Lists(n_max).shorten, "shingle long, document long")
    together = job.sorted_by(shorter, "shingle", "document")
    return job.operate(together, lambda: phases.Lists(n_max).neighbours, LIST_COLUMNS)


LIST_COLUMNS = "shingle long, document long, place long, neighbour long"


def indexed(job: Job, documents: DataFrame, common: str) -> DataFrame:
    """What indexes each document, how much of it candidates share, and the representatives it is compared with."""
    rule, common_uri = job.rule, common and f"{job.work}/{common}"

    def operator() -> Operator:
        return phases.Matcher(rule, read(common_uri).to_table() if common_uri else None).index

    columns = "document long, index array<long>, needed long, represented array<long>"
    return job.operate(documents.select("document", "index"), operator, columns)


def link(job: Job, pairs: DataFrame, documents: DataFrame, common: str, is_represented: bool = False) -> DataFrame:
    """The pairs that make links. Of a document's candidates the likeliest come first, then the newest."""
    rule, common_uri = job.rule, f"{job.work}/{common}"

    def operator() -> Operator:
        matcher = phases.Matcher(rule, read(common_uri).to_table())
        return lambda batch: matcher.link(batch, is_represented)

    def sketches(which: str) -> DataFrame:
        return documents.select(F.col("document").alias(which), F.col("sketch").alias(f"{which}_sketch"))

    pairs = pairs.join(sketches("earlier"), "earlier").repartition(job.n_partitions, "later")
    pairs = pairs.join(sketches("later"), "later").sortWithinPartitions("later", F.desc("n_shared"), F.desc("earlier"))
    pairs = pairs.select("later", "earlier", "cluster", "later_sketch", "earlier_sketch")
    return job.operate(pairs, operator, "later long, earlier long, resemblance double")


def counted(near: DataFrame, super_near: DataFrame, needed: DataFrame) -> DataFrame:
    """Pairs with the index shingles that they share, if these are enough or a super shingle nominates the pair."""
    each = near.withColumn("n_shared", F.lit(1)).unionByName(super_near.withColumn("n_shared", F.lit(0)))
    sums = F.sum("n_shared").alias("n_shared"), F.min("n_shared").alias("least")
    pairs = each.groupBy("later", "earlier", "cluster").agg(*sums).join(needed, "later")
    return pairs.where("least = 0 or n_shared >= needed").select("later", "earlier", "cluster", "n_shared")


class Components:
    """The clusters that the links of some stages make."""

    def __init__(self, job: Job, n_documents: int) -> None:
        self.job, self.n_documents, self.stages = job, n_documents, []

    def joined(self, union_find: phases.UnionFind) -> "Iterator[pa.Table]":
        """Joins the links of all stages, in their order; those that joined two clusters come back."""
        for stage in self.stages:
            for batch in self.job.read(stage).to_batches():
                yield pa.table(union_find.join(batch))

    def add(self, stage: str) -> DataFrame:
        """Adds the links of a stage. Returns the documents that are not the first of their cluster, with it."""
        self.stages.append(stage)
        uri = f"{self.job.work}/clusters-{len(self.stages)}"
        system, path = fs.FileSystem.from_uri(uri)
        union_find = phases.UnionFind(self.n_documents)
        for _ in self.joined(union_find):
            pass
        system.create_dir(path, recursive=True)
        schema = pa.schema([("document", pa.int64()), ("cluster", pa.int64())])
        with pq.ParquetWriter(f"{path}/part-0.parquet", schema, filesystem=system) as writer:
            for first in range(1, self.n_documents + 1, MEMBERS_AT_ONCE):
                writer.write_table(pa.table(union_find.members(first, MEMBERS_AT_ONCE)).cast(schema))
        return self.job.spark.read.parquet(uri)

    def write(self, uri: str, sketches: str) -> int:
        """Writes the links that joined two clusters, for `backfill --links`. Returns how many there are."""
        system, path = fs.FileSystem.from_uri(uri)
        union_find = phases.UnionFind(self.n_documents)
        schema = pa.schema([("later", pa.int64()), ("earlier", pa.int64()), ("resemblance", pa.float64())])
        with pq.ParquetWriter(path, schema, filesystem=system) as writer:
            for links in self.joined(union_find):
                writer.write_table(links.cast(schema))
            writer.add_key_value_metadata(
                phases.link_metadata(sketches, self.job.rule, self.n_documents, union_find.n_links)
            )
        return union_find.n_links


def clustered(rows: DataFrame, members: DataFrame, document: str = "document", cluster: str = "cluster") -> DataFrame:
    """The rows with the cluster of a document; a document that is no member of another's cluster is its own."""
    members = members.select(F.col("document").alias(document), F.col("cluster").alias(cluster))
    return rows.join(members, document, "left").withColumn(cluster, F.coalesce(cluster, document))


def represented_pairs(index: DataFrame, members: DataFrame) -> DataFrame:
    """Pairs of a document and a representative of another cluster."""
    pairs = index.select(F.col("document").alias("later"), F.explode("represented").alias("earlier"))
    pairs = clustered(clustered(pairs, members, "later", "own"), members, "earlier")
    return pairs.where("own <> cluster").withColumn("n_shared", F.lit(0))


def remaining_pairs(job: Job, lists: DataFrame, members: DataFrame) -> DataFrame:
    """Pairs of different clusters, each as often as lists hold both. Only the first documents of a list nominate."""
    together = job.sorted_by(clustered(lists.select("shingle", "document"), members), "shingle", "document")
    n_nominating = job.list_max
    return job.operate(together, lambda: phases.Pairs(n_nominating).form, "later long, earlier long, cluster long")


def find_clusters(job: Job, documents: DataFrame, n_documents: int) -> "tuple[Components, DataFrame]":
    """All phases from the shingles to the clusters."""
    index, lists, common = find_lists(job, documents)
    supers = documents.select("document", F.explode("super_shingles").alias("shingle"))
    supers = job.sorted_by(supers, "shingle", "document")
    supers = job.stage(
        "super-lists", lambda: job.operate(supers, lambda: phases.Lists(is_super=True).neighbours, LIST_COLUMNS)
    )
    needed = index.select(F.col("document").alias("later"), "needed")

    def neighbours(rows: DataFrame) -> DataFrame:
        pairs = rows.where("neighbour is not null").select(F.col("document").alias("later"), F.col("neighbour"))
        return pairs.withColumnRenamed("neighbour", "earlier").withColumn("cluster", F.col("earlier"))

    components = Components(job, n_documents)
    near = counted(neighbours(lists), neighbours(supers), needed)
    job.stage("links-1", lambda: link(job, near, documents, common), SKETCH_ROWS)
    members = components.add("links-1")
    if index.where(F.size("represented") > 0).limit(1).count() > 0:
        pairs = represented_pairs(index, members)
        job.stage("links-2", lambda: link(job, pairs, documents, common, is_represented=True), SKETCH_ROWS)
        members = components.add("links-2")
    rest = job.stage("index-pairs", lambda: remaining_pairs(job, lists, members), LIST_ROWS)
    super_rest = job.stage("super-pairs", lambda: remaining_pairs(job, supers, members), LIST_ROWS)
    rest = counted(rest, super_rest, needed)
    job.stage("links-3", lambda: link(job, rest, documents, common), SKETCH_ROWS)
    return components, components.add("links-3")


def run(job: Job, sketches: str, digest: str, inputs: "list[tuple[str, str]]", out: str) -> "tuple[int, int]":
    """Runs all stages. Returns how many documents and clusters there are."""
    records = read_records(job, sketches, inputs)
    numbers, n_documents = number_documents(job, records)
    contents = records.select("input", "record", "index", "super_shingles", "sketch")
    documents = job.stage("documents", lambda: numbers.join(contents, ["input", "record"]).drop("class"), SKETCH_ROWS)
    components, members = find_clusters(job, documents, n_documents)
    columns = ["source", "record", "kind", "url", "fetched_at", "sweep", "document", "cluster"]
    found = clustered(records.join(numbers.select("class", "document"), "class", "left"), members)
    pages = job.stage("pages", lambda: found.select("input", *columns))
    pages = pages.repartitionByRange(job.n_partitions, "input", "record").sortWithinPartitions("input", "record")
    pages.select(*columns).write.mode("overwrite").parquet(f"{out}/clusters")
    return n_documents, n_documents - components.write(f"{out}/links.parquet", digest)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sketches", required=True, metavar="URI", help="the folder that sketch_job.py filled")
    parser.add_argument("--out", required=True, metavar="URI", help="the folder of the clusters and links")
    parser.add_argument("--work", metavar="URI", help="the folder of the stages [default: OUT/work]")
    parser.add_argument("--config", type=Path, metavar="FILE", help="the configuration of the sketches")
    parser.add_argument("--partitions", type=int, metavar="N", help="tasks of a stage [default: three for each core]")
    args = parser.parse_args()
    sketches, out = args.sketches.rstrip("/"), args.out.rstrip("/")

    try:
        rule = phases.match_rule(config=args.config)
        digest, inputs = sketch_files(sketches, rule)
    except phases.UsageError as error:
        sys.exit(str(error))
    # Stages of other sketches or another rule are never gone on with.
    key = hashlib.sha256(f"{digest} {rule}".encode()).hexdigest()[:16]
    work = f"{(args.work or f'{out}/work').rstrip('/')}/{key}"

    builder = SparkSession.builder.appName("lookalike link")
    # Adaptive plans divide partitions whose rows belong together.
    spark = builder.config("spark.sql.adaptive.enabled", "false").getOrCreate()
    n_partitions = args.partitions or 3 * spark.sparkContext.defaultParallelism
    spark.conf.set("spark.sql.shuffle.partitions", n_partitions)
    spark.conf.set("spark.sql.execution.arrow.pyspark.enabled", "true")
    job = Job(spark, work, rule, n_partitions)
    n_documents, n_clusters = run(job, sketches, digest, inputs, out)
    largest_mib = job.largest_kib.value / 1024
    spark.stop()
    system, path = fs.FileSystem.from_uri(work)
    system.delete_dir(path)
    if job.n_found:
        print(f"{job.n_found} stages were there from an earlier job")
    print(f"{n_documents} documents of {len(inputs)} inputs are in {n_clusters} clusters: {out}/clusters")
    print(f"the largest Python process of a task took {largest_mib:.0f} MiB")


if __name__ == "__main__":
    main()
