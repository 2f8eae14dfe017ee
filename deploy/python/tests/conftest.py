"""The sample, and the program as a command."""

import io
import json
import os
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = sorted((ROOT / "bench-data").glob("sweep-*.jsonl.zst"))
SEED = "0123456789abcdef" * 4

Page = dict[str, Any]


def lines_of(path: Path) -> list[str]:
    with pa.CompressedInputStream(pa.OSFile(str(path)), "zstd") as stream:
        return io.BytesIO(stream.read()).read().decode().splitlines()


def lookalike(*arguments: "str | os.PathLike[str]", code: int = 0, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs the program that lies on the path once the wheel is installed."""
    program = Path(sysconfig.get_path("scripts")) / "lookalike"
    done = subprocess.run([program, *arguments], capture_output=True, text=True, **options)
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture(scope="session")
def sample() -> list[Page]:
    pages = [json.loads(line) for path in SAMPLE for line in lines_of(path)]
    assert len(pages) == 646
    return pages


@pytest.fixture(scope="session")
def table(sample: list[Page]) -> pa.Table:
    return pa.table({name: [page[name] for page in sample] for name in ("url", "fetched_at", "body")})


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "sample.store"
    lookalike("run", "--quiet", "--store", path, *SAMPLE, env={**os.environ, "LOOKALIKE__STORE__SEED": SEED})
    return path
