"""Lines of JSON between the inside of the machine and the outside, and what they say.

What the inside says: `ready`; `running`: a test begins; `test`: a test has ended; `exchange`: send
frames into a wire and compare what comes out; `seen`: what came out of a wire?; `end`. A line
answers `exchange` and `seen`.
"""

import json
import os
from pathlib import Path
from typing import Any

from tests.machine.parts import LINES

Message = dict[str, Any]


class Inside:
    """The inner end."""

    def __init__(self) -> None:
        named = Path("/sys/class/virtio-ports").glob("*/name")
        (port,) = [path.parent.name for path in named if path.read_text().strip() == LINES]
        self._port = os.open(f"/dev/{port}", os.O_RDWR)
        self._part = b""

    def say(self, message: Message) -> None:
        line = json.dumps(message).encode() + b"\n"
        while line:
            line = line[os.write(self._port, line) :]

    def ask(self, message: Message) -> Any:
        """The answer of the outside."""
        self.say(message)
        while b"\n" not in self._part:
            came = os.read(self._port, 1 << 16)
            assert came, "the outside has gone"
            self._part += came
        line, _, self._part = self._part.partition(b"\n")
        return json.loads(line)


def inside() -> bool:
    """Whether this is the emulated machine."""
    named = Path("/sys/class/virtio-ports").glob("*/name")
    return LINES in {path.read_text().strip() for path in named}
