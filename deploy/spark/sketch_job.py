"""Sketches the inputs of a crawl on a Spark cluster, one task for each input.

    spark-submit deploy/spark/sketch_job.py --inputs inputs.txt --out s3://crawl/sketches

Each task pipes its input into `lookalike sketch --parquet` and stores the file that comes out. Pages never enter the JVM.
Equal inputs give equal bytes, so that a task may run again, and two may run at once. `lookalike backfill --from-sketches`
loads the result on one machine.

Inputs are named by path or by the URI of a file system that Arrow knows (file, s3, gs, hdfs). A line of --inputs is an
input; its position is its number, by which the store orders it. Do not change the order of inputs that are sketched.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from pyarrow import fs
from pyspark import SparkFiles, TaskContext
from pyspark.sql import SparkSession

# Formats that are read from their end and cannot be piped.
NOT_PIPED = (".parquet", ".wacz", ".zip")

COPY_BYTES = 4 << 20


def file_system(uri: str):
    """The file system of a URI or an absolute path, and the path there."""
    return fs.FileSystem.from_uri(uri)


def feed(source, process) -> None:
    """Copies an input into the program, which may end before it has read everything."""
    try:
        with process.stdin as pipe:
            shutil.copyfileobj(source, pipe, COPY_BYTES)
    except BrokenPipeError:
        pass


def run_program(command: list[str], source=None) -> None:
    """Runs the program. Input that it cannot read is in the file, and is no failure (exit code 3)."""
    # Messages go to a file: in a pipe they could fill up while the input is still being fed.
    with tempfile.TemporaryFile() as messages:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=messages)
        if source is not None:
            feed(source, process)
        else:
            process.stdin.close()
        exit_code = process.wait()
        messages.seek(0)
        text = messages.read().decode(errors="replace")
    if exit_code not in (0, 3):
        raise RuntimeError(f"{' '.join(command)} ended with exit code {exit_code}: {text}")
    sys.stderr.write(text)


def store_file(local: Path, uri: str) -> None:
    """Stores a file under its final name at once: no reader sees half of it."""
    system, path = file_system(uri)
    # An object appears when it is whole. Other file systems rename.
    renames = system.type_name in ("local", "hdfs")
    growing = f"{path}.{TaskContext.get().taskAttemptId()}.part" if renames else path
    with local.open("rb") as source, system.open_output_stream(growing) as target:
        shutil.copyfileobj(source, target, COPY_BYTES)
    if renames:
        system.move(growing, path)


def sketch(number: int, of: int, uri: str, out: str, program: str, arguments: list[str]) -> None:
    """Sketches an input, unless its file is there."""
    name = f"sketches-{number:07}.parquet"
    target = f"{out.rstrip('/')}/{name}"
    system, path = file_system(target)
    if system.get_file_info(path).type == fs.FileType.File:
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "sketch", "--quiet", "--parquet", folder, "--number", f"{number}/{of}", "--name", uri]
        system, path = file_system(uri)
        if uri.endswith(NOT_PIPED):
            local = Path(folder) / Path(path).name
            with system.open_input_stream(path, compression=None) as source, local.open("wb") as copy:
                shutil.copyfileobj(source, copy, COPY_BYTES)
            run_program([*command, *arguments, str(local)])
        else:
            with system.open_input_stream(path, compression=None) as source:
                run_program([*command, *arguments, "-"], source)
        store_file(Path(folder) / name, target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", required=True, type=Path, metavar="FILE", help="a file with one input a line")
    parser.add_argument("--out", required=True, metavar="URI", help="the folder of the sketch files")
    parser.add_argument("--config", type=Path, metavar="FILE", help="the configuration of all tasks, with store.seed")
    parser.add_argument("--program", default="lookalike", metavar="PATH", help="the program on the executors")
    parser.add_argument("arguments", nargs="*", help="more arguments of `lookalike sketch`, after --")
    args = parser.parse_args()

    inputs = [line.strip() for line in args.inputs.read_text().splitlines() if line.strip()]
    if not inputs:
        sys.exit(f"{args.inputs} names no inputs")
    most_named, n_times = Counter(inputs).most_common(1)[0]
    if n_times > 1:
        sys.exit(f"{args.inputs} names an input twice: {most_named}")
    system, path = file_system(args.out)
    system.create_dir(path, recursive=True)

    spark = SparkSession.builder.appName("lookalike sketch").getOrCreate()
    config = None
    if args.config:
        spark.sparkContext.addFile(str(args.config.resolve()))
        config = args.config.name
    out, program, more, of = args.out, args.program, args.arguments, len(inputs)

    def task(numbered: tuple[int, str]) -> None:
        arguments = [*more, *(["--config", SparkFiles.get(config)] if config else [])]
        sketch(numbered[0], of, numbered[1], out, program, arguments)

    # One input a task: it is what a failure costs, and what another executor repeats.
    spark.sparkContext.parallelize(list(enumerate(inputs, 1)), of).foreach(task)
    spark.stop()
    print(f"{of} inputs are sketched in {out}; load them: lookalike backfill --from-sketches DIR --store STORE")


if __name__ == "__main__":
    main()
