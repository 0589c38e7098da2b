"""Functions in containers: crun makes each, from a bundle in the run's folder, and leaves.

The container's first process is the function. It has no parent then, so it becomes the launcher's
child, in the run's cgroup and with its marks: it is looked after, and ended, as all others are.
Its namespaces, and what is mounted in them, go with it; what stays is files in the run's folder.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from unis import workload
from unis.container import bundle
from unis.container.bundle import Contained
from unis.container.image import open_image, unpack
from unis.container.libraries import files_needed
from unis.container.model import ContainerPlan, ImageError, Mount
from unis.container.root import assemble
from unis.links import namespaces
from unis.runtime import cgroup, child
from unis.runtime.child import Child, Command
from unis.runtime.errors import LaunchError, RunFailedError
from unis.runtime.files import locked, remove_tree, written
from unis.runtime.orphans import FUNCTION_MARK, Orphan, adopted
from unis.runtime.privileges import Rights, account_of
from unis.runtime.process import all_pids, end, marked
from unis.runtime.state import RUN_MARK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unis.plan.model import FunctionPlan
    from unis.runtime.cgroup import Leaf
    from unis.runtime.directory import RunDirectory

_CRUN_SECONDS = 20.0  # for what takes 30 ms
_GENERATIONS = 8  # of processes, each forked by the one before
_DAYS = 30  # that an unpacked image is kept unused
_PARTING_SECONDS = 5.0  # till what crun forked in between has ended too
_CGROUPS = Path("/sys/fs/cgroup")
# It refuses machines with both versions of cgroups where version 2 has a controller. So it sees
# version 2 alone, in a mount namespace that goes with it.
_UNIFIED = 'mount --bind "$0" /sys/fs/cgroup && exec "$@"'


def crun() -> str:
    """LaunchError if it is not installed."""
    found = shutil.which("crun")
    if found is None:
        raise LaunchError("functions in containers need crun; run `apt-get install crun`")
    return found


def start(
    function: FunctionPlan,
    container: ContainerPlan,
    argv: Sequence[str],
    directory: RunDirectory,
    marks: Mapping[str, str],
    leaf: Leaf | None,
) -> Child:
    """Starts a function; its process is that in the container. LaunchError, RunFailedError."""
    program = crun()
    for problem in remove(directory, function.name):  # of one that died
        raise LaunchError(problem, bad_input=False)
    place = directory.container(function.name)
    with written(place):
        place.mkdir(parents=True)
        process = _contained(function, container, argv, marks, place / "root")
        (place / "config.json").write_text(json.dumps(process, indent=1))
    pid_file = place / "pid"
    command = Command(
        [
            *_where_crun_can_run(),
            program,
            f"--root={directory.crun}",
            "--cgroup-manager=disabled",  # it stays in the run's
            *("run", "--detach", f"--bundle={place}", f"--pid-file={pid_file}", function.name),
        ],
        env={FUNCTION_MARK: marks[FUNCTION_MARK]},
        stdin=function.stdin,
        terminal=function.terminal,
    )
    log = directory.function_log(function.name)
    what = f"function {function.name}"
    made = child.start(what, command, log, marks[RUN_MARK], leaf=leaf)
    try:
        pid = _started(made, what, pid_file)
    except BaseException:
        # Else it would run beside the one that is started next.
        _end_all(made, marks[FUNCTION_MARK], [program, f"--root={directory.crun}"], function.name)
        raise
    return dataclasses.replace(
        made, process=Orphan(pid, made.process), offloads=workload.OFFLOADS in function.env
    )


def _started(made: Child, what: str, pid_file: Path) -> int:
    """Waits till crun has left, and the container's first process is our child."""
    try:
        code = made.process.wait(_CRUN_SECONDS)
    except subprocess.TimeoutExpired:
        raise RunFailedError(f"crun did not start {what} within {_CRUN_SECONDS:g} s") from None
    if code:
        raise RunFailedError(f"crun cannot start {what}{made.end_of_log()}", bad_input=True)
    try:
        pid = int(pid_file.read_text())
    except (OSError, ValueError) as error:
        raise RunFailedError(f"crun does not tell the process of {what}: {error}") from None
    if not adopted(pid, _PARTING_SECONDS):
        raise RunFailedError(f"process {pid} of {what} did not become a child of UNiS")
    return pid


def _end_all(made: Child, mark: str, crun_words: Sequence[str], name: str) -> None:
    """Ends crun, a container that it may have made, and what crun has forked in between."""
    for _ in range(_GENERATIONS):
        if not (left := marked(FUNCTION_MARK, mark)):
            break
        end(left, made.what, gentle_seconds=0)
    with contextlib.suppress(subprocess.TimeoutExpired):
        made.process.wait(_PARTING_SECONDS)  # it has been killed
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            [*_where_crun_can_run(), *crun_words, "delete", "--force", name],
            capture_output=True,
            timeout=_PARTING_SECONDS,
            check=False,
        )


def _where_crun_can_run() -> list[str]:
    """Put before its command line."""
    place = cgroup.mount()
    if place in (None, _CGROUPS):
        return []
    return ["unshare", "--mount", "--propagation=private", "/bin/sh", "-c", _UNIFIED, str(place)]


def remove(directory: RunDirectory, name: str) -> list[str]:
    """What a container has left whose process has ended; sentences of what could not be removed."""
    return remove_tree(directory.container(name)) + remove_tree(directory.crun / name)


def images_directory() -> Path:
    """Where images are unpacked, each once."""
    from unis.runtime.costs import cache_directory

    return cache_directory() / "images"


def _contained(
    function: FunctionPlan,
    container: ContainerPlan,
    argv: Sequence[str],
    marks: Mapping[str, str],
    root: Path,
) -> dict[str, object]:
    rights = Rights(function.user, function.capabilities, function.folder)
    uid = gid = 0
    groups: list[int] = []
    if function.user:
        account = account_of(function.user)
        uid, gid = account.pw_uid, account.pw_gid
        groups = os.getgrouplist(function.user, gid)
    _refuse_links(function.name, container)
    mounts = bundle.ordered([*container.mounts, *_program(function, container)])
    image = _unpacked(container) if container.image else None
    pieces = assemble(image, root, [*bundle.FIXED, *(mount.inside for mount in mounts)])
    process = Contained(
        name=function.name,
        argv=[str(function.program), *argv],
        env={"PATH": bundle.PATH, **container.env, **rights.environment, **function.env, **marks},
        cwd=function.cwd,
        uid=uid,
        gid=gid,
        groups=groups,
        capabilities=function.capabilities,
        image=pieces,
        mounts=mounts,
        network=namespaces.file_of(function.namespace) if function.namespace else None,
    )
    return bundle.config(root, process)


def _refuse_links(name: str, container: ContainerPlan) -> None:
    """The plan has places without links; a function may since have put one there."""
    image = [container.image] if container.image else []
    for source in [*image, *(mount.source for mount in container.mounts)]:
        if (real := Path(os.path.realpath(source))) != source:
            raise LaunchError(
                f"{name}: a symbolic link leads from {source} to {real} since the chain was "
                "planned, so it is not mounted; run `unis apply` if that is as it should be"
            )


def _program(function: FunctionPlan, container: ContainerPlan) -> list[Mount]:
    """The program of this machine, with what it needs; of an image, nothing."""
    if container.image:
        return []
    loaded = sorted({Path(word) for word in function.argv if word.endswith(".so")})
    try:
        files = files_needed([function.program], [file for file in loaded if file.is_file()])
    except ImageError as error:
        raise LaunchError(f"{function.name}: {error}") from None
    return [Mount(file, file) for file in (function.program, *files)]


def _unpacked(container: ContainerPlan) -> Path:
    """The root file system of an image."""
    if container.image is None:
        raise ValueError("a container without an image")
    image = open_image(container.image)
    if not image.layers:
        return image.folder
    folder = images_directory()
    done = folder / image.digest.partition(":")[2]
    with written(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Else two runs that start at once would both unpack it.
        with locked(folder, os.O_RDONLY | os.O_DIRECTORY):
            if not done.exists():
                partly = folder / f".{done.name}"
                for problem in remove_tree(partly):  # of one that was killed
                    raise LaunchError(problem, bad_input=False)
                partly.mkdir(mode=0o755)
                unpack(image, partly)
                partly.rename(done)
                _remove_old(folder)
            os.utime(done)  # when it was used last
    return done


def _remove_old(images: Path) -> None:
    """Images that no function was started from for a while, and that none runs from."""
    oldest = time.time() - _DAYS * 86400
    old = [image for image in images.iterdir() if image.stat().st_mtime < oldest]
    if old:
        mounted = "".join(map(_mounts_of, all_pids()))
        for image in old:
            if f"/{image.name}/" not in mounted:
                remove_tree(image)


def _mounts_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/mountinfo").read_text(errors="replace")
    return ""
