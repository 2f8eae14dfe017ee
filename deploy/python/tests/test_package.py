"""The package: its examples run, its types are those that it states, the program lies on the path."""

import doctest
import importlib
import importlib.util
import os
import pkgutil
import subprocess
import sys
import sysconfig
from importlib.metadata import metadata
from pathlib import Path

import pytest

import lookalike as la
from conftest import ROOT, lookalike


def test_the_examples_run() -> None:
    n_run = 0
    for module in pkgutil.iter_modules(la.__path__):
        if module.name != "_lookalike":
            result = doctest.testmod(importlib.import_module(f"lookalike.{module.name}"))
            assert result.failed == 0, module.name
            n_run += result.attempted
    assert n_run > 15


def test_the_program_lies_on_the_path() -> None:
    assert lookalike("--version").stdout.startswith(f"lookalike {metadata('lookalike')['version']}")
    assert "Near-duplicate detection" in lookalike("--help").stdout
    lookalike("query", "url", "http://a/", "--store", "nowhere", code=1)


def test_the_types_are_those_stated(tmp_path: Path) -> None:
    """Lost if this fails: editors and checkers help with what does not work."""
    (tmp_path / "use.py").write_text(
        """
import lookalike as la
import pyarrow as pa
from typing import Any

pages = pa.table({"text": ["a"]})
sketched: la.Table = la.sketch(pages, url=None, settings={"sketch.w": 8})
clusters: la.Table = la.cluster("data/*.parquet", threshold=0.8)
again: la.Table = la.cluster([pages, pages], keep="first")
counts: dict[str, Any] = la.dedup(["a.jsonl"], "clean", keep="newest")
share: float = la.compare("a", "b").resemblance
with la.open("s") as store:
    similar: list[dict[str, Any]] = store.similar("text", limit=3)
la.cluster(pages, keep="largest")  # wrong
la.sketch(7)  # wrong
"""
    )
    lines = (tmp_path / "use.py").read_text().splitlines()
    wrong = {at for at, line in enumerate(lines, 1) if line.endswith("# wrong")}
    command = [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "use.py"]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    found = {int(line.split(":")[1]) for line in checked.stdout.splitlines() if line.startswith("use.py:")}
    assert found == wrong, checked.stdout + checked.stderr
    for command in (["mypy", "--strict", "-p", "lookalike"], ["mypy.stubtest", "lookalike._lookalike"]):
        checked = subprocess.run([sys.executable, "-m", *command], cwd=tmp_path, capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of the guide follow on each other in one folder, as a reader types them."""
    (tmp_path / "bench-data").symlink_to(ROOT / "bench-data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", sysconfig.get_path("scripts") + os.pathsep + os.environ["PATH"])
    monkeypatch.setenv("HF_HOME", str(tmp_path / "huggingface"))
    guide = (ROOT / "docs/guide/python.md").read_text()
    blocks = [rest.split("```")[0] for rest in guide.split("```python\n")[1:]]
    assert len(blocks) > 6
    names: dict[str, object] = {}
    for block in blocks:
        if "import datasets" in block and importlib.util.find_spec("datasets") is None:
            continue
        exec(compile(block, "python.md", "exec"), names)
