"""Python code of the contract, proto/unis/v1 → unis/v1: for `make build` and for the wheel."""

from importlib import resources
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def generate(root: Path) -> None:
    """Writes unis/v1 below `root`."""
    from grpc_tools import protoc

    source = root / "proto"
    files = sorted(str(file.relative_to(source)) for file in source.glob("unis/v1/*.proto"))
    paths = [f"--proto_path={path}" for path in (source, resources.files("grpc_tools") / "_proto")]
    outputs = [f"--{kind}_out={root}" for kind in ("python", "pyi", "grpc_python")]
    if protoc.main(["protoc", *paths, *outputs, *files]):
        raise RuntimeError("protoc refused proto/unis/v1")


class StubsHook(BuildHookInterface):
    """Puts the generated code into the wheel; in a clone `make build` generates it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it collects files."""
        if version == "editable":
            return
        generate(Path(self.root))
        build_data["artifacts"].append("/unis/v1/")


if __name__ == "__main__":
    generate(Path(__file__).resolve().parent)
