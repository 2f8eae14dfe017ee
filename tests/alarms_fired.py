"""Alarms that a real Prometheus raises over real processes, for tests/alarms.sh: alarms_fired.py PROGRAM RULES.

The rules are those of RULES, but for `for:`, which becomes a second: nobody waits ten minutes for a test. Prometheus looks each
second. Then come a damaged input, a cluster that grows, a full disk, a store that goes away under `serve`, and a process that
is killed; each alarm must be pending nowhere before, and fire for the process that it is about, and for no other one.
"""
import gzip
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

SECONDS_MAX = 120
# A disk, and what is left of it when it is full.
DISK_MIB, LEFT_MIB = 400, 1


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def page(number, n_words=400):
    """A JSON page; each differs from all others in one word."""
    words = [f"word{at}" for at in range(n_words)]
    words[number % n_words] = f"page{number}"
    return json.dumps({"url": f"https://alarm.example/{number}", "fetched_at": "2026-01-01T00:00:00Z", "content_type": "text/plain",
                       "body": " ".join(words)}).encode() + b"\n"


class Trial:
    def __init__(self, program, rules, folder):
        self.program, self.folder = program, folder
        self.processes, self.address = {}, {}
        self.names = re.findall(r"- alert: (\w+)", rules)
        (folder / "rules.yaml").write_text(re.sub(r"(?m)^( +)for: \w+$", r"\1for: 1s", rules))

    def start(self, name, *words, **settings):
        """A process of the program with its own port for metrics, and standard input that stays open."""
        self.address[name] = f"127.0.0.1:{free_port()}"
        listen = "LOOKALIKE__HTTP__LISTEN" if words[0] == "serve" else "LOOKALIKE__METRICS__LISTEN"
        environment = os.environ | {listen: self.address[name]} | settings
        log = open(self.folder / f"{name}.log", "wb")
        self.processes[name] = subprocess.Popen([self.program, *words], env=environment, stdin=subprocess.PIPE,
                                                stdout=subprocess.DEVNULL, stderr=log)
        return self.processes[name]

    def start_prometheus(self):
        targets = ", ".join(f"'{address}'" for address in self.address.values())
        (self.folder / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [rules.yaml]\n"
            f"scrape_configs: [{{job_name: lookalike, static_configs: [{{targets: [{targets}]}}]}}]\n")
        self.prometheus = f"127.0.0.1:{free_port()}"
        self.processes["prometheus"] = subprocess.Popen(
            ["prometheus", f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data",
             f"--web.listen-address={self.prometheus}", "--log.level=error"], stdin=subprocess.DEVNULL)

    def ask(self, what):
        with urllib.request.urlopen(f"http://{self.prometheus}/api/v1/{what}", timeout=5) as answer:
            return json.load(answer)["data"]

    def n_up(self):
        return sum(series["value"][1] == "1" for series in self.ask("query?query=up")["result"])

    def alerts(self):
        """Which alarms fire for which processes."""
        name_of = {address: name for name, address in self.address.items()}
        return {(alert["labels"]["alertname"], name_of[alert["labels"]["instance"]])
                for alert in self.ask("alerts")["alerts"] if alert["state"] == "firing"}

    def wait(self, what, condition):
        until = time.monotonic() + SECONDS_MAX
        while True:
            try:
                if condition():
                    return
            except OSError:
                pass
            if time.monotonic() > until:
                logs = "\n".join(f"{log.name}: {log.read_text()[-500:]}" for log in self.folder.glob("*.log"))
                sys.exit(f"FAILED: {what} did not come within {SECONDS_MAX} s\n{logs}")
            time.sleep(0.2)

    def await_alarm(self, alarm, process, begin):
        self.wait(f"{alarm} of {process}", lambda: (alarm, process) in self.alerts())
        print(f"  {alarm} fires {time.monotonic() - begin:.0f} s after its cause, in {process}", flush=True)

    def stop(self):
        for process in self.processes.values():
            process.send_signal(signal.SIGKILL)
            process.wait()


def feed(process, n_pages):
    try:
        process.stdin.write(b"".join(page(number) for number in range(n_pages)))
        process.stdin.flush()
    except OSError:
        # It was ended meanwhile.
        pass


def mounted(folder):
    """A small file system, where the system allows one."""
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", folder], capture_output=True, check=False)
    return done.returncode == 0


def provoke(trial, folder, has_disk):
    """Makes each cause in turn; returns the alarms that must fire in the end."""
    expected = set()

    def fires(alarm, process, begin):
        trial.await_alarm(alarm, process, begin)
        expected.add((alarm, process))

    stale_since = time.monotonic()
    (folder / "served").rename(folder / "away")

    begin = time.monotonic()
    # The damaged input comes after this one, which was open until now.
    with open(folder / "go", "wb") as go:
        go.write(page(0))
    fires("LookalikeInputUnreadable", "reader", begin)

    begin = time.monotonic()
    feed(trial.processes["grower"], 100)
    fires("LookalikeClusterGrew", "grower", begin)

    if has_disk:
        begin = time.monotonic()
        disk = os.statvfs(folder / "disk")
        (folder / "disk" / "filling").write_bytes(bytes(disk.f_bavail * disk.f_frsize - (LEFT_MIB << 20)))
        # The program stops reading when it waits for room.
        threading.Thread(target=feed, args=(trial.processes["filler"], 20_000), daemon=True).start()
        fires("LookalikeDiskFull", "filler", begin)

    begin = time.monotonic()
    trial.processes["grower"].kill()
    trial.processes["grower"].wait()
    fires("LookalikeDown", "grower", begin)
    fires("LookalikeServesOldAnswers", "server", stale_since)
    return expected


def main():
    program, rules = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        trial = Trial(program, Path(rules).read_text(), folder)
        has_disk = mounted(folder / "disk")
        try:
            served = folder / "served"
            subprocess.run([program, "run", "--quiet", "--store", served, "-"], input=page(1), check=True)
            os.mkfifo(folder / "go")
            damaged = gzip.compress(b"".join(page(number) for number in range(2000)))
            (folder / "damaged.jsonl.gz").write_bytes(damaged[:len(damaged) // 2])
            trial.start("server", "serve", "--store", served)
            trial.start("grower", "run", "-q", "--store", folder / "grown", "-", LOOKALIKE__PIPELINE__CLUSTER_SIZE_ALARM="10")
            trial.start("reader", "run", "-q", "--store", folder / "read", folder / "go", folder / "damaged.jsonl.gz", "-")
            if has_disk:
                trial.start("filler", "run", "-q", "--store", folder / "disk" / "store", "-",
                            LOOKALIKE__STORE__WRITE_BUFFER_MIB="1", LOOKALIKE__STORE__WAL_MIB="1",
                            LOOKALIKE__STORE__POSTING_BUFFER_MIB="1")
            trial.start_prometheus()
            trial.wait("metrics of all processes", lambda: trial.n_up() == len(trial.address))
            time.sleep(3)
            if fired := trial.alerts():
                sys.exit(f"FAILED: fires without a cause: {sorted(fired)}")
            expected = provoke(trial, folder, has_disk)
            if (fired := trial.alerts()) != expected:
                sys.exit(f"FAILED: these fire, and should not, or no longer: {sorted(fired ^ expected)}")
        finally:
            trial.stop()
            if has_disk:
                subprocess.run(["umount", "--lazy", folder / "disk"], check=True)
    only = sorted(set(trial.names) - {alarm for alarm, _ in expected})
    print(f"really fired: {len(expected)} of {len(trial.names)}; only by promtool: {', '.join(only)}")


main()
