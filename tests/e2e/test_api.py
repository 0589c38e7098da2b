"""The API of `unis serve` on real runs: what a client does with it, and what dies meanwhile."""

import json
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.machine import Json, Machine, macswap
from tests.e2e.test_live import assert_delivers, kill
from tests.serving import ApiClient, over_unix, serving
from unis.runtime.directory import base_directory

Api = ApiClient


@pytest.fixture
def api(machine: Machine, tmp_path: Path) -> Iterator[Api]:  # noqa: ARG001
    with serving(tmp_path) as (_, path):
        yield Api(path)


def spec(machine: Machine, *names: str, **more: object) -> Json:
    """One chain through these functions."""
    file = machine.chain_file(
        {name: macswap() for name in names}, traffic={"rate": "20kpps"}, **more
    )
    found: Json = json.loads(file.read_text())
    file.unlink()  # the server has its own
    return found


def ended(api: Api, operation: Json) -> Json:
    """An operation that was answered by 202, once it has ended."""
    while operation["status"]["phase"] == "Running":
        name = operation["metadata"]["name"]
        operation = api.get(f"/v1/operations/{name}?waitSeconds=30")
    return operation


def condition(found: Json, kind: str) -> tuple[str, str]:
    (one,) = [one for one in found["status"]["conditions"] if one["type"] == kind]
    return one["status"], one["reason"]


def test_the_life_of_a_run(machine: Machine, api: Api) -> None:
    path = f"/v1/runs/{machine.name}"
    status, plan = api("PUT", f"{path}?dryRun=All", spec(machine, "a"))
    assert (status, plan["kind"]) == (200, "Plan")
    assert api("GET", path)[0] == 404
    status, run = api("PUT", f"{path}?delivering=true&waitSeconds=30", spec(machine, "a"))
    assert (status, run["kind"]) == (201, "Run"), run
    assert condition(run, "Ready") == ("True", "Running")
    assert (run["metadata"]["generation"], run["status"]["observedGeneration"]) == (1, 1)
    assert_delivers(machine, "chain")

    # Its spec comes back as it was; sent again it changes nothing.
    status, same = api(
        "PUT", path, {"kind": "Run", "metadata": run["metadata"], "spec": run["spec"]}
    )
    assert (status, same["spec"]) == (200, run["spec"])

    two = spec(machine, "a", "b")
    status, difference = api("PUT", f"{path}?dryRun=All", two)
    assert (status, difference["kind"]) == (200, "Difference")
    assert {(one["part"], one["name"], one["what"]) for one in difference["result"]["difference"][
        "changes"]} >= {("function", "b", "added")}  # fmt: skip
    generation = api.get(path)["metadata"]["generation"]
    status, changed = api("PUT", f"{path}?waitSeconds=30", two)
    assert status == 200, changed
    assert changed["metadata"]["uid"] == run["metadata"]["uid"]
    assert changed["status"]["observedGeneration"] == generation + 1
    functions = api.get(f"{path}/functions")["items"]
    assert [one["metadata"]["name"] for one in functions] == ["a", "b"]
    assert_delivers(machine, "chain")

    status, other = api("PUT", f"{path}/policy", {"policy": "rr"})
    assert (status, other["status"]["policy"]) == (200, "rr")
    status, counted = api("POST", f"{path}/account?waitSeconds=30")
    assert (status, counted["status"]["result"]["unaccounted"]) == (200, 0)
    trace = api.get(f"{path}/trace?seconds=0.01")
    assert trace["traceEvents"]
    assert api.get(f"{path}/logs")["logs"].keys() >= {"unis", "unisd", "a", "b"}

    status, again = api("POST", f"{path}/restart?waitSeconds=30")
    assert status == 200, again
    assert again["metadata"]["uid"] != run["metadata"]["uid"]
    assert again["status"]["policy"] == "rr"  # as with an option of `unis up`

    status, done = api("DELETE", f"{path}?waitSeconds=30")
    assert (status, done["status"]) == (200, "Success")
    assert api("GET", path)[0] == 404
    assert not (base_directory() / "desired" / f"{machine.name}.yaml").exists()
    machine.assert_clean()


def test_a_change_that_fails_leaves_the_run_and_says_why(machine: Machine, api: Api) -> None:
    path = f"/v1/runs/{machine.name}"
    assert api("PUT", f"{path}?waitSeconds=30", spec(machine, "a"))[0] == 201
    bad = spec(machine, "a", "b")
    bad["functions"]["b"]["args"] = ["--no-such-option"]
    status, refused = api("PUT", f"{path}?waitSeconds=30", bad)
    assert status in (409, 422), refused
    assert "no-such-option" in json.dumps(refused)
    run = api.get(path)
    assert condition(run, "Ready") == ("True", "Running")
    assert condition(run, "Applied") == ("False", "ApplyFailed")
    assert run["metadata"]["generation"] == run["status"]["observedGeneration"] + 1
    assert_delivers(machine, "chain")
    status, mended = api("PUT", f"{path}?waitSeconds=30", spec(machine, "a"))
    assert (status, condition(mended, "Applied")[0]) == (200, "True")


def test_what_cannot_start_leaves_nothing(machine: Machine, api: Api) -> None:
    bad = spec(machine, "a")
    bad["functions"]["a"]["args"] = ["--no-such-option"]
    status, refused = api("PUT", f"/v1/runs/{machine.name}?waitSeconds=30", bad)
    assert status in (409, 422), refused
    assert refused["kind"] == "Status"
    machine.assert_clean()
    assert api("DELETE", f"/v1/runs/{machine.name}?waitSeconds=30")[0] in (200, 404)


def test_a_start_can_be_cancelled(machine: Machine, api: Api) -> None:
    path = f"/v1/runs/{machine.name}"
    slow = spec(machine, "a")
    slow["functions"]["a"].pop("cost_ns")
    slow["scheduler"] = {"cost": "static"}  # so costs are measured first
    status, operation = api("PUT", f"{path}?waitSeconds=0", slow)
    assert (status, operation["kind"]) == (202, "Operation")
    name = operation["metadata"]["name"]
    machine.wait_for(lambda: bool(api.get(f"/v1/operations/{name}")["status"]["lines"]), "says")
    assert api("PUT", f"{path}?waitSeconds=0", slow)[0] == 409
    status, cancelled = api("DELETE", f"/v1/operations/{name}?waitSeconds=30")
    assert ended(api, cancelled)["status"]["phase"] == "Cancelled"
    machine.wait_for(lambda: api("GET", path)[0] == 404, "it goes down")
    machine.assert_clean()


def test_two_clients_at_once_and_one_is_killed(machine: Machine, api: Api) -> None:
    path = f"/v1/runs/{machine.name}"
    assert api("PUT", f"{path}?waitSeconds=30", spec(machine, "a"))[0] == 201
    # One that goes away in the middle of its change: the change goes on.
    body = json.dumps(spec(machine, "a", "b"))
    gone = over_unix(api.path)
    gone.request("PUT", f"{path}?waitSeconds=30", body, {"Content-Type": "application/json"})
    machine.wait_for(lambda: len(api.get("/v1/operations")["items"]) > 1, "it is under way")
    assert gone.sock
    gone.sock.shutdown(socket.SHUT_RDWR)
    gone.close()
    ended(api, api.get("/v1/operations")["items"][-1])
    assert len(api.get(f"{path}/functions")["items"]) == 2

    found: list[tuple[int, Json]] = []
    both = [spec(machine, "a"), spec(machine, "a", "c")]

    def put(wanted: Json) -> None:
        found.append(api("PUT", f"{path}?waitSeconds=30", wanted))

    threads = [threading.Thread(target=put, args=(one,)) for one in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    statuses = sorted(status for status, _ in found)
    assert statuses in ([200, 200], [200, 409]), found
    run = api.get(path)
    assert run["spec"] in both
    assert condition(run, "Applied")[0] == "True"
    there = {one["metadata"]["name"] for one in api.get(f"{path}/functions")["items"]}
    assert there == {*run["spec"]["functions"]}
    assert_delivers(machine, "chain")


def test_the_server_dies_and_the_run_goes_on(machine: Machine, tmp_path: Path) -> None:
    path = f"/v1/runs/{machine.name}"
    with serving(tmp_path) as (process, socket_path):
        status, _ = Api(socket_path)("PUT", f"{path}?waitSeconds=0", spec(machine, "a"))
        assert status == 202
        process.send_signal(signal.SIGKILL)
        process.wait()
    with serving(tmp_path) as (process, socket_path):
        api = Api(socket_path)
        machine.wait_for(
            lambda: api("GET", path)[1].get("status", {}).get("phase") == "running"
            if api("GET", path)[0] == 200 else False, "it starts without the server",
        )  # fmt: skip
        assert_delivers(machine, "chain")
        assert api("DELETE", f"{path}?waitSeconds=30")[0] == 200


def test_events_tell_of_deaths(machine: Machine, api: Api) -> None:
    path = f"/v1/runs/{machine.name}"
    chains = {name: {"match": [{"dst_port": port}], "path": [name]}
              for name, port in (("web", 80), ("dns", 53))}  # fmt: skip
    file = machine.chain_file({name: macswap() for name in chains}, chains=chains)
    assert api("PUT", f"{path}?waitSeconds=30", file.read_text())[0] == 201
    words = ["curl", "-sN", "--unix-socket", str(api.path), "http://localhost/v1/events?after=0"]
    stream = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    seen: list[Json] = []

    def read() -> None:
        lines = stream.stdout or ()
        seen.extend(json.loads(line[6:]) for line in lines if line.startswith("data: "))

    threading.Thread(target=read, daemon=True).start()
    machine.wait_for(lambda: any(one["reason"] == "OperationEnded" for one in seen), "the start")
    time.sleep(2.5)  # the server looks once a second, from when somebody listens
    kill(machine, "web")
    machine.wait_for(
        lambda: {"FunctionEnded", "ChainDown"} <= {one["reason"] for one in seen}, "the death"
    )
    (death,) = [one for one in seen if one["reason"] == "FunctionEnded"]
    assert (death["type"], death["metadata"]) == (
        "Warning", {"name": "web", "run": machine.name, "uid": ""},
    )  # fmt: skip
    found = api.get(path)
    assert condition(found, "Ready") == ("False", "ChainDown")
    assert condition(api.get(f"{path}/functions/web"), "Running")[0] == "False"
    stream.kill()
    stream.wait()


def test_curl_as_the_docs_have_it(machine: Machine, api: Api) -> None:
    machine.up(machine.chain_file({"a": macswap()}))
    words = ["curl", "-s", "--unix-socket", str(api.path), "http://localhost/v1/chains"]
    told: Any = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    (chain,) = [one for one in told["items"] if one["metadata"]["run"] == machine.name]
    assert chain["metadata"]["name"] == "chain"
