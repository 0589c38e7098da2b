"""An engine that says how things are, and is asked nothing else."""

from collections.abc import Callable
from dataclasses import dataclass

from unis.v1 import engine_pb2 as pb


@dataclass(frozen=True)
class Answers:
    """In the place of `EngineClient`: of whatever socket it is called."""

    now: Callable[[], pb.Stats]

    def __call__(self, *_: object) -> "Answers":
        return self

    def __enter__(self) -> "Answers":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def stats(self, **_: object) -> pb.Stats:
        """Whatever more is asked for."""
        return self.now()
