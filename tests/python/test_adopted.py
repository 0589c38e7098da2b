"""A process becomes our child once the one that forked it has ended."""

import os
import subprocess
import sys

from unis.runtime.orphans import adopted

_SCRIPT = """
import subprocess
from unis.runtime.orphans import adopt_orphans, adopted
adopt_orphans()
parent = subprocess.Popen(["sh", "-c", "sleep 60 & echo $!; read line"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
pid = int(parent.stdout.readline())
print(adopted(pid, 0.0))
parent.stdin.close()
print(adopted(pid, 30.0))
subprocess.run(["kill", str(pid)], check=True)
"""


def test_a_grandchild_is_ours_when_its_parent_has_ended() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", _SCRIPT], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "True"]


def test_a_stranger_never_is() -> None:
    assert not adopted(os.getppid(), 0.0)
