"""To zero and back, the whole way: what is deployed decides what happens, and no link is left out.

The stacks' alarms go by what the exporter published, their function is run as Lambda runs it, and the router
is a process with the arguments of its pod. What Kubernetes does with a Deployment, the test does: it starts
and ends the engine, and says so in an EndpointSlice. The alarms' and the exporter's clock is the test's.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from fakes_emulator import let_in_by, moto_providers
from fakes_endpoint_slices import SlicesApi, endpoint, slice_of
from fakes_engine import FakeEngine, RawClient, post, run_loop
from fakes_exporter import recorded
from fakes_moto import ACCOUNT, REGION, aws_environment, moto_server
from fakes_nodes import NodesFake, node, nodes_api
from fakes_stacks import ROOT, synthesized

from hypertier.errors import ScrapeError
from hypertier.exporter.cloudwatch import CloudWatch
from hypertier.exporter.discovery import fixed
from hypertier.exporter.exporter import Exporter
from hypertier.exporter.routers import parse_router
from hypertier.exporter.scrape import fetch_metrics
from hypertier.spec.deployment import Deployment, load_deployment
from hypertier.spec.scaling import Scaling, ToZero
from hypertier_cdk.testing import Emulator

pytestmark = pytest.mark.cli

NAMESPACE, NAME = "inference", "llama-8b"
ENGINES = (NAMESPACE, f"{NAME}-engine")
IDLE_MINUTES = 5
# A process is no pod: where a service account's files lie is all that it is told beside its arguments.
ROUTER = """
import functools, pathlib, sys
from hypertier.router.discovery import api_server, discovery
discovery.in_cluster = functools.partial(api_server.in_cluster, folder=pathlib.Path(sys.argv.pop(1)))
from hypertier.cli.main import main
main()
"""


def deployment_to_zero() -> Deployment:
    small = load_deployment(ROOT / "examples" / "small" / "deployment.yaml")
    scaling = Scaling(min=0, max=2, to_zero=ToZero(idle=f"{IDLE_MINUTES}m"))
    return replace(small, region=REGION, scaling=scaling)


class Deployed:
    """The stacks in an account, and the pods' arguments as they reached Kubernetes."""

    def __init__(self, emulator: Emulator, kubernetes: NodesFake) -> None:
        self.emulator = emulator
        self.kubernetes = kubernetes
        ((_, eks),) = emulator.resources("AWS::EKS::Cluster")
        self._objects = emulator.manifests[eks.ref]
        self.alarms = [
            made.ref
            for resource, made in emulator.resources("AWS::CloudWatch::Alarm")
            if any(":lambda:" in action for action in resource.properties.get("AlarmActions", ()))
        ]
        asked = self._objects["Deployment", *ENGINES]["spec"]["replicas"]
        kubernetes.create_deployment(*ENGINES, replicas=asked)

    def arguments(self, component: str) -> list[str]:
        """Those of a component's container."""
        spec = self._objects["Deployment", NAMESPACE, f"{NAME}-{component}"]["spec"]["template"]["spec"]
        arguments: list[str] = spec["containers"][0]["args"]
        return arguments

    @property
    def replicas(self) -> int:
        """Of engines, as the Deployment asks for them."""
        replicas: int = self.kubernetes.deployments[ENGINES]["spec"]["replicas"]
        return replicas


@pytest.fixture
def deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployed]:
    with moto_server() as url, nodes_api(tmp_path) as (kubernetes, authority):
        environment = aws_environment(url)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        kubernetes.nodes = [node("one", "system"), node("two", "gpu")]
        emulator = Emulator(
            account=ACCOUNT,
            region=REGION,
            environment=environment,
            providers=moto_providers(kubernetes, authority),
        )
        let_in_by(emulator, kubernetes)
        emulator.deploy(synthesized(deployment_to_zero()))
        yield Deployed(emulator, kubernetes)


def after(arguments: Sequence[str], option: str) -> str:
    """The value of an option."""
    return arguments[arguments.index(option) + 1]


def on_this_machine(arguments: Sequence[str], changes: dict[str, str]) -> list[str]:
    """The arguments with other values; each of `changes` must be there."""
    changed = list(arguments)
    for option, value in changes.items():
        changed[changed.index(option) + 1] = value
    return changed


@asynccontextmanager
async def router_process(
    arguments: Sequence[str], account: Path, environment: dict[str, str]
) -> AsyncIterator[int]:
    """The router with these arguments, and the port that it listens on."""
    with subprocess.Popen(
        [sys.executable, "-c", ROUTER, str(account), "router", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    ) as process:
        assert process.stdout is not None
        try:
            line = await asyncio.to_thread(process.stdout.readline)
            found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
            assert found is not None, line
            yield int(found[1])
        finally:
            process.kill()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


class World:
    """One endpoint. `minute` and `moment` pass time; `seen` is how many engines there were after each."""

    def __init__(self, deployed: Deployed, slices: SlicesApi, engine: FakeEngine, metrics_port: int) -> None:
        self.now = datetime(2026, 12, 2, 12, 0, tzinfo=UTC)
        self.seen: list[int] = []
        self._deployed = deployed
        self._slices = slices
        self._engine = engine
        self._runs = True
        self._metrics = f"http://127.0.0.1:{metrics_port}"
        told = deployed.arguments("exporter")
        assert "--router-discover" in told
        self._exporter = Exporter(
            self._resolve,
            CloudWatch(after(told, "--endpoint"), "Hypertier", after(told, "--region")),
            routers=fixed([self._metrics]),
            clock=lambda: self.now,
        )

    async def minute(self) -> None:
        """The exporter's cycle, and what the alarms make of it once the minute is over."""
        await asyncio.to_thread(self._exporter.step)
        await self._pass(60)

    async def moment(self) -> None:
        """What the exporter does between two cycles, and the ten seconds of an alarm."""
        await asyncio.to_thread(self._exporter.look_for_held)
        await self._pass(10)

    async def until_held(self) -> None:
        """Return once the router holds a request."""
        while not parse_router(await asyncio.to_thread(fetch_metrics, self._metrics, 30.0)).held:
            pass

    async def reconcile(self) -> None:
        """Be Kubernetes: as many engines as the Deployment asks for, and a slice that says so."""
        runs = self._deployed.replicas > 0
        if runs and not self._runs:
            await self._engine.start()
        elif self._runs and not runs:
            await self._engine.kill()
        self._runs = runs
        ready = [endpoint("127.0.0.1", ready=True)] if runs else []
        self._slices.put(slice_of("s1", *ready, service=ENGINES[1], namespace=NAMESPACE))
        self.seen.append(self._deployed.replicas)

    async def _pass(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)
        read = boto3.client("cloudwatch").get_metric_data
        await asyncio.to_thread(self._deployed.emulator.watch, read, self.now, self._deployed.alarms)
        await self.reconcile()

    def _resolve(self) -> list[str]:
        """As a headless Service's name: without a pod there is no address."""
        if not self._runs:
            raise ScrapeError("the name cannot be resolved")
        return [self._engine.url]


@asynccontextmanager
async def running(deployed: Deployed, folder: Path) -> AsyncIterator[tuple[World, RawClient]]:
    """The endpoint's router before its one engine, and a client."""
    folder.mkdir()
    slices = await SlicesApi(folder, namespace=NAMESPACE).start()
    engine = await FakeEngine(metrics=recorded("idle").encode()).start()
    address, metrics_port = slices.server.address, free_port()
    arguments = on_this_machine(
        deployed.arguments("router"),
        {
            "--listen": "127.0.0.1:0",
            "--metrics-port": str(metrics_port),
            "--peer-listen": f"127.0.0.1:{free_port()}",
            "--discover": f"k8s://{ENGINES[0]}/{ENGINES[1]}:{engine.port}",
        },
    )
    environment = {"KUBERNETES_SERVICE_HOST": address.host, "KUBERNETES_SERVICE_PORT": str(address.port)}
    world = World(deployed, slices, engine, metrics_port)
    await world.reconcile()
    async with router_process(arguments, folder, environment) as port:
        yield world, await RawClient.connect(port)
    await slices.stop()


async def a_day(world: World, client: RawClient) -> list[Any]:
    """Nobody asks until it sleeps; then, twice, a request that wakes it, and quiet until it sleeps again."""
    answers = []
    for _ in range(IDLE_MINUTES):
        await world.minute()
    for _ in range(2):
        client.send(post(b"/v1/completions", b'{"model": "m", "prompt": "p"}'))
        await world.until_held()
        await world.moment()
        answers.append(await client.answer())
        for _ in range(IDLE_MINUTES + 1):
            await world.minute()
    return answers


def test_an_endpoint_that_sleeps_is_woken_by_a_request_that_is_held_and_sleeps_again(
    deployed: Deployed, tmp_path: Path
) -> None:
    async def act() -> tuple[list[Any], list[int]]:
        async with running(deployed, tmp_path / "account") as (world, client):
            return await a_day(world, client), world.seen

    answers, seen = run_loop(act())

    assert [(answer.status, answer.body) for answer in answers] == [(200, b'{"served_by": "engine"}')] * 2
    asked, woken = [seen[0]], [1]
    assert seen == asked * IDLE_MINUTES + [0] + (woken * (IDLE_MINUTES + 1) + [0]) * 2
    assert asked > woken
