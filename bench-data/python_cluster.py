"""How much of the program's pace `lookalike.cluster` keeps: both cluster the same files, in turn.

python3 bench-data/python_cluster.py [--runs N] FILE...

Needs the wheel (deploy/wheel.sh), whose own program is measured, and pyarrow. Bytes are those of the pages, unpacked.
"""

import argparse
import os
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable

import lookalike as la
import pyarrow as pa


def unpacked(path: str) -> int:
    """Bytes of a file without its compression."""
    if not path.endswith(".zst"):
        return os.path.getsize(path)
    with pa.CompressedInputStream(pa.OSFile(path), "zstd") as stream:
        return sum(map(len, iter(lambda: stream.read(1 << 20), b"")))


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock, and of CPU, of this process and its children."""

    def cpu() -> float:
        usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return sum(usage.ru_utime + usage.ru_stime for usage in usages)

    clock, before = time.monotonic(), cpu()
    work()
    return time.monotonic() - clock, cpu() - before


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--runs", type=int, default=5)
    arguments.add_argument("files", nargs="+")
    options = arguments.parse_args()
    program = os.path.join(os.path.dirname(la.__file__), "bin", "lookalike")
    n_bytes = sum(map(unpacked, options.files))
    # pyarrow imports half of itself at the first table.
    pa.table(la.sketch(pa.table({"text": ["a"]})))
    seen: dict[str, list[tuple[float, float]]] = {"the program": [], "lookalike.cluster": []}
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory() as folder:
            command = [program, "cluster", "--quiet", f"--out={folder}/clusters.parquet", *options.files]
            seen["the program"].append(timed(lambda: subprocess.run(command, check=True)))
        seen["lookalike.cluster"].append(timed(lambda: pa.table(la.cluster(options.files, progress=False))))
    medians = {}
    for name, times in seen.items():
        clock, cpu = (statistics.median(column) for column in zip(*times))
        medians[name] = cpu
        print(f"{name:18} {n_bytes / clock / 1e6:6.1f} MB/s  {clock:6.2f} s  CPU {cpu:6.2f} s")
    print(f"pace kept, by CPU: {medians['the program'] / medians['lookalike.cluster']:.3f}")


if __name__ == "__main__":
    main()
