"""The structure of the packages: imports run down only, no circle, no long file, no name twice."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE, RESEARCH = ROOT / "unis", ROOT / "evaluation"
# What stands behind may import what stands before.
LAYERS = [
    "v1", "errors", "signals", "rpc", "built", "engine", "counters",
    "nics", "links", "chain", "etsi", "slo", "isolate",
    "workload", "container", "plan", "runtime", "simulate", "measure", "capacity", "counted",
    "parts",
    "advice", "profile", "agent", "report", "serve", "bench", "calibrate", "cli",
]  # fmt: skip
FILES = [
    path
    for package in (PACKAGE, RESEARCH)
    for path in sorted(package.rglob("*.py"))
    if "v1" not in path.parts
]


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


def imports(path: Path, *, when_loaded: bool) -> Iterator[str]:
    """Modules of ours that a file names; `when_loaded`, only those that it loads at once."""
    nodes = (
        ast.parse(path.read_text()).body if when_loaded else ast.walk(ast.parse(path.read_text()))
    )
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module and _is_ours(node.module):
            for alias in node.names:
                below = f"{node.module}.{alias.name}"
                yield below if below in MODULES else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if _is_ours(alias.name))


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in (PACKAGE.name, RESEARCH.name)


def layer(module: str) -> int:
    parts = module.split(".")
    if parts[0] == RESEARCH.name:  # stands behind all: the product imports nothing of it
        return len(LAYERS)
    return LAYERS.index(parts[1]) if len(parts) > 1 else -1


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_no_import_runs_back_up(path: Path) -> None:
    here = module_of(path)
    if here == "unis":
        return
    up = [name for name in imports(path, when_loaded=False) if layer(name) > layer(here)]
    assert up == []


def test_the_table_of_the_architecture_has_this_order() -> None:
    text = (PACKAGE.parent / "docs" / "architecture.md").read_text()
    table = text.partition("## The Python half")[2].partition("\nBringing")[0]
    told = re.findall(r"^\| `(\w+)/` \|", table, re.MULTILINE)
    assert told == [
        name for name in LAYERS if (PACKAGE / name / "__init__.py").is_file() and name != "v1"
    ]


def test_no_circle() -> None:
    graph = {
        name: {it for it in imports(path, when_loaded=True) if it != name}
        for name, path in MODULES.items()
    }
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_no_two_classes_have_one_name() -> None:
    """A leading underscore makes no other name."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(name)
    assert len(places) > 400
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


@pytest.mark.parametrize(
    "part",
    ["chain", "isolate", "links", "workload", "plan", "measure", "bench", "calibrate", "runtime"],
)
def test_no_circle_is_hidden_from_the_interpreter(part: str) -> None:
    graph = {
        name: {it for it in imports(path, when_loaded=False) if it != name}
        for name, path in MODULES.items()
        if name.split(".")[1:2] == [part]
    }
    TopologicalSorter(graph).prepare()


def test_no_file_is_long() -> None:
    folders = ["unis", "evaluation", "tests", "tools", "engine", "functions", "models", "ports"]
    code = [
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".c", ".cc", ".h"} and "v1" not in path.parts
    ]
    assert len(code) > 600
    assert [path for path in code if len(path.read_text().splitlines()) > 600] == []


def test_the_engine_includes_no_model() -> None:
    engine = PACKAGE.parent / "engine"
    sources = [path for kind in ("*.h", "*.cc") for path in engine.rglob(kind)]
    assert len(sources) > 100
    including = [path for path in sources if '#include "models/' in path.read_text()]
    assert including == []
