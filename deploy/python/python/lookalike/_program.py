"""The program that the wheel brings along, as a child process."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import threading
import tty
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from ._settings import Settings
from .errors import LookalikeError, NotFoundError, UnreadableError, UnreadableWarning, UsageError

_PROGRAM = Path(__file__).parent / "bin" / "lookalike"

# What the program's last message begins with.
_MESSAGE = b'{"error":'

# A stopped program has this long to end by itself, in seconds. Its work goes on wherever it ended.
_GRACE = 0.5

_ERRORS: dict[str, type[LookalikeError]] = {
    "usage": UsageError,
    "not-found": NotFoundError,
    "unreadable": UnreadableError,
}


def main() -> NoReturn:
    """Becomes the program."""
    os.execv(_PROGRAM, ["lookalike", *sys.argv[1:]])


def run(arguments: Sequence[str], settings: Settings, progress: "bool | None") -> dict[str, Any]:
    """Runs a command and returns its summary. What it shows meanwhile goes to ``sys.stderr``."""
    shows = _is_terminal() if progress is None else progress
    files = [f"--config={file}" for file in settings.files]
    command = [os.fspath(_PROGRAM), "--json", *(["--progress"] if shows else []), *files, *arguments]
    reader, writer = _terminal() if _is_terminal() else os.pipe()
    shown = _Shown(reader)
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=writer, env=settings.environment()
        )
    finally:
        os.close(writer)
        shown.start()
    with process:
        try:
            answer, _ = process.communicate()
        except BaseException:
            process.terminate()
            try:
                process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
        finally:
            shown.join()
    return _summary(process.returncode, answer, shown.message)


def _summary(code: int, answer: bytes, message: bytes) -> dict[str, Any]:
    if answer and code in (0, 3):
        summary: dict[str, Any] = json.loads(answer)
        if summary["unreadable"] and not summary["n_records"]:
            raise UnreadableError("\n".join(summary["unreadable"]))
        for what in summary["unreadable"]:
            warnings.warn(f"unreadable: {what}", UnreadableWarning, stacklevel=4)
        return summary
    if message:
        error = json.loads(message.splitlines()[0])
        raise _ERRORS.get(error["error"], LookalikeError)(error["message"])
    if code < 0:
        raise LookalikeError(f"the program lookalike was ended by {signal.Signals(-code).name}; the same call goes on")
    raise LookalikeError(f"the program lookalike ended with code {code}; what it printed says why")


class _Shown(threading.Thread):
    """Passes on what the program prints on standard error, all but its last message."""

    def __init__(self, reader: int) -> None:
        super().__init__(name="lookalike-stderr", daemon=True)
        self.message = b""
        self._reader = reader

    def run(self) -> None:
        held = b""
        with open(self._reader, "rb", buffering=0) as reader:
            while chunk := _read(reader):
                held += chunk
                n_shown = held.find(_MESSAGE)
                if n_shown < 0:
                    n_shown = len(held) - _n_begun(held)
                _show(held[:n_shown])
                held = held[n_shown:]
        if held.startswith(_MESSAGE):
            self.message = held
        else:
            _show(held)


def _read(reader: Any) -> bytes:
    try:
        return bytes(reader.read(1 << 16))
    except OSError:
        # A terminal whose other end is closed.
        return b""


def _n_begun(held: bytes) -> int:
    """How many bytes at the end may be the beginning of a message."""
    return max((n for n in range(1, len(_MESSAGE)) if held.endswith(_MESSAGE[:n])), default=0)


def _show(text: bytes) -> None:
    if text and sys.stderr is not None:
        sys.stderr.write(text.decode(errors="replace"))
        sys.stderr.flush()


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _terminal() -> tuple[int, int]:
    """A terminal as wide as that of ``sys.stderr``, so that the program draws its bar."""
    reader, writer = os.openpty()
    tty.setraw(writer)
    try:
        size = fcntl.ioctl(sys.stderr.fileno(), termios.TIOCGWINSZ, bytes(8))
        fcntl.ioctl(writer, termios.TIOCSWINSZ, size)
    except OSError:
        pass
    return reader, writer
