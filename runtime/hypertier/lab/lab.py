"""The lab itself: brings up what was planned, restarts parts of it, and leaves nothing behind."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from hypertier.errors import LabError
from hypertier.lab.interrupts import uninterrupted
from hypertier.lab.metrics import healthy_replicas
from hypertier.lab.plan import LabPlan
from hypertier.lab.process_spec import ProcessSpec
from hypertier.lab.processes import POLL_SECONDS, Processes, ProcessRecord, signal_group
from hypertier.lab.running import check_is_down, sweep
from hypertier.lab.state import L2_FILE_NAME, LabState, forget_state, save_l2, save_state
from hypertier.tier.address import URL_VARIABLE
from hypertier.tier.credentials import PASSWORD_VARIABLE

START_SECONDS = 600.0
ROUTER_SECONDS = 60.0
Say = Callable[[str], None]


class Lab:
    """The processes of one endpoint. Tells what it does through `say`.

    As a context manager it is up inside and down afterwards, whatever happens.
    """

    def __init__(
        self, plan: LabPlan, engine: str, valkey: ProcessSpec | None, directory: Path, say: Say
    ) -> None:
        self.plan = plan
        self._specs = {spec.name: spec for spec in (valkey, *plan.engines, plan.router) if spec is not None}
        self.directory = directory
        self._say = say
        self._processes = Processes(directory)
        self._state = LabState(engine, plan.model_name, plan.router_url, plan.replica_urls)

    @property
    def records(self) -> tuple[ProcessRecord, ...]:
        """What was started and not stopped again."""
        return self._state.processes

    def __enter__(self) -> Lab:
        self.up()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.down()

    def up(self) -> None:
        """Start everything, and return when the router answers. What does not come up whole is ended.

        Raises:
            LabError: this lab is up already, or a process did not start.
        """
        check_is_down(self.directory)
        for name in self._specs:
            (self.directory / f"{name}.log").unlink(missing_ok=True)
        try:
            self.start([name for name in self._specs if name == "valkey"])
            self.start(self.engine_names)
            self.start(["router"])
            if self.l2_file is not None:
                env = self._specs["engine-0"].env
                save_l2(self.directory, {name: env[name] for name in (URL_VARIABLE, PASSWORD_VARIABLE)})
        except BaseException:
            self.down()
            raise

    @property
    def engine_names(self) -> tuple[str, ...]:
        """`engine-0` and so on, whether they run or not."""
        return tuple(spec.name for spec in self.plan.engines)

    @property
    def l2_file(self) -> Path | None:
        """What a shell sources to look into L2; None without one."""
        return self.directory / L2_FILE_NAME if "valkey" in self._specs else None

    @property
    def missing(self) -> tuple[str, ...]:
        """The processes that do not run, in the order in which they start."""
        running = {record.name for record in self.records if self._processes.is_running(record)}
        return tuple(name for name in self._specs if name not in running)

    def start(self, names: Sequence[str]) -> None:
        """Start processes at once and wait until all are ready, engines in the router's eyes too.

        Raises:
            LabError: one of them did not start.
        """
        started = []
        for name in names:
            record = self._processes.start(self._specs[name])
            started.append(record)
            self._keep((*(each for each in self.records if each.name != name), record))
            self._say(f"{name} starts (process {record.pid}, log {record.log})")
        self._processes.wait_ready(
            started,
            START_SECONDS,
            lambda record, seconds: self._say(f"{record.name} is ready after {seconds:.0f} s"),
            lambda waiting, seconds: self._say(
                f"waiting for {', '.join(record.name for record in waiting)} ({seconds:.0f} s)"
            ),
        )
        if "router" not in self.missing:
            replicas = zip(self.engine_names, self.plan.replica_urls, strict=True)
            self._wait_until_router_knows({url for engine, url in replicas if engine in names})

    def stop(self, names: Sequence[str]) -> None:
        """End processes of this lab. With an engine goes its L1; L2 lives as long as `valkey`."""
        records = [record for record in self.records if record.name in names]
        self._processes.stop(records)
        self._keep(tuple(record for record in self.records if record not in records))
        sweep(self._state.engine)

    def kill(self, name: str) -> None:
        """End a process at once, as a crash would."""
        for record in self.records:
            if record.name == name:
                signal_group(record, signal.SIGKILL)

    def down(self) -> None:
        """End everything, the router first."""
        with uninterrupted():
            router = [record for record in self.records if record.name == "router"]
            self._processes.stop(router)
            self._processes.stop([record for record in self.records if record not in router])
            self._keep(())
            sweep(self._state.engine)
            forget_state(self.directory)

    def _wait_until_router_knows(self, replica_urls: set[str]) -> None:
        deadline = time.monotonic() + ROUTER_SECONDS
        while unknown := replica_urls - healthy_replicas(self.plan.router_metrics_url):
            if time.monotonic() > deadline:
                raise LabError(
                    f"the router does not find {', '.join(sorted(unknown))} healthy; "
                    f"its log, {self.directory / 'router.log'}, says why"
                )
            time.sleep(POLL_SECONDS)

    def _keep(self, records: tuple[ProcessRecord, ...]) -> None:
        self._state = replace(self._state, processes=records)
        save_state(self.directory, self._state)
