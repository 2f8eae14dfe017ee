"""Settings as Python gives them, for the module and for the program."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from . import _lookalike
from .errors import UsageError

Path: TypeAlias = "str | os.PathLike[str]"
Setting: TypeAlias = "str | int | float | bool"


@dataclass(frozen=True)
class Settings:
    """Files of settings, and single ones, which win."""

    files: tuple[str, ...]
    variables: Mapping[str, str]

    @classmethod
    def of(
        cls,
        config: "Path | Sequence[Path] | None",
        settings: "Mapping[str, Setting] | None",
        **more: "Setting | None",
    ) -> "Settings":
        """Settings by their keys with dots, such as ``sketch.w``; in ``more``, two underscores stand for the dot."""
        files = paths([] if config is None else config)
        named = dict(settings or {})
        named.update((key.replace("__", "."), value) for key, value in more.items() if value is not None)
        return cls(tuple(files), {_variable(key): _text(value) for key, value in named.items()})

    def environment(self) -> dict[str, str]:
        """The environment of a program with these settings."""
        return {**os.environ, **self.variables}

    def load(self) -> "_lookalike.Settings":
        """The checked configuration."""
        ours = {name: value for name, value in self.environment().items() if name.startswith("LOOKALIKE")}
        return _lookalike.Settings(list(self.files), ours)


def paths(of: "Path | Sequence[Path]") -> list[str]:
    """One path or several, as text."""
    each = [of] if isinstance(of, (str, os.PathLike)) else of
    return [os.fspath(path) for path in each]


def _variable(key: str) -> str:
    if "." not in key:
        raise UsageError(f"{key!r} is no key of the configuration: write SECTION.KEY, such as sketch.w")
    return "LOOKALIKE__" + key.upper().replace(".", "__")


def _text(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
