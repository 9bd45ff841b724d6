"""An Envoy as a process: started on given cores, asked for its ports, counters and CPU time, stopped by its pid."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from pathlib import Path

START_TIMEOUT = 60.0
STOP_TIMEOUT = 10.0
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def on_cores(cores: list[int], command: list[str]) -> list[str]:
    """The command, kept to these cores, and ended by the kernel should this process die without stopping it."""
    listed = ",".join(map(str, cores))
    return ["setpriv", "--pdeathsig", "TERM", "taskset", "--cpu-list", listed, *command]


def cpu_seconds_of(pid: int) -> float:
    """User and system time of all threads of a process so far."""
    # The name in parentheses may hold anything; what follows the last one is fields 3 and on.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


class Envoy:
    """One worker, unless told otherwise. A context manager: leaving it stops the process."""

    def __init__(
        self, binary: str, name: str, bootstrap: dict, cores: list[int], directory: Path, workers: int = 1
    ) -> None:
        self.name = name
        config = directory / f"{name}.json"
        config.write_text(json.dumps(bootstrap, indent=1))
        self._log = directory / f"{name}.log"
        self._admin_file = directory / f"{name}.admin"
        command = [binary, "--config-path", str(config), "--concurrency", str(workers), "--disable-hot-restart"]
        command += ["--log-level", "warning", "--log-path", str(self._log)]
        command += ["--admin-address-path", str(self._admin_file)]
        self._process = subprocess.Popen(
            on_cores(cores, command), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def __enter__(self) -> Envoy:
        try:
            self._wait_until_live()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def ports(self) -> dict[str, int]:
        """The port of each listener by its name."""
        found = json.loads(self._admin("/listeners?format=json"))["listener_statuses"]
        return {one["name"]: one["local_address"]["socket_address"]["port_value"] for one in found}

    def counters(self, prefix: str) -> dict[str, int]:
        """The counters whose names start with this."""
        found = json.loads(self._admin(f"/stats?format=json&filter=^{prefix}"))["stats"]
        return {one["name"]: one["value"] for one in found if "name" in one}

    def cpu_seconds(self) -> float:
        """User and system time of all its threads so far."""
        return cpu_seconds_of(self._process.pid)

    def resident(self) -> int:
        """The memory it holds, in bytes."""
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise SystemExit(f"error: the kernel does not tell how much memory Envoy ({self.name}) holds")

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _wait_until_live(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                log = self._log.read_text() if self._log.exists() else ""
                raise SystemExit(f"error: Envoy ({self.name}) did not start:\n{log}")
            try:
                if self._admin("/ready").strip() == b"LIVE":
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise SystemExit(f"error: Envoy ({self.name}) was not ready within {START_TIMEOUT:.0f} seconds")

    def _admin(self, path: str) -> bytes:
        address = self._admin_file.read_text().strip()
        with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
            return answer.read()
