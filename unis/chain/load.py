"""Reads a chain file, or says everything that is wrong with it at once."""

import difflib
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from unis.chain.document import Document, read_document
from unis.chain.machine import Machine, Surroundings
from unis.chain.model import API_VERSION, ChainFile
from unis.chain.order import Place, line_up
from unis.chain.problem import PROBLEMS_ERROR, ChainFileError, Location, Problem

_TYPES = {
    dict: "a mapping",
    list: "a list",
    str: "text",
    bool: "true or false",
    type(None): "empty",
}


@dataclass(frozen=True)
class LoadedChain:
    """A valid chain file and where it was."""

    path: Path
    file: ChainFile

    @property
    def directory(self) -> Path:
        """What paths in the file are relative to."""
        return self.path.resolve().parent


def load(path: Path, machine: Machine | None = None, name: str | None = None) -> LoadedChain:
    """Reads and checks `path`; with `machine` also that its CPUs and programs are here.

    A `name` takes the place of the file's. Raises ChainFileError, which has one line
    `file:line: key: sentence` for each problem.
    """
    document = read_document(path)
    if not isinstance(document.data, dict):
        raise ChainFileError(
            [
                document.located(
                    Problem((), f"is no chain file: begin with apiVersion: {API_VERSION}")
                )
            ]
        )
    if name is not None:
        document.data["name"] = name
    around = Surroundings(path.resolve().parent, machine)
    problems: list[Problem] = []
    chain_file = None
    try:
        chain_file = ChainFile.model_validate(document.data, context=around)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            problems.extend(_explain(details, document))
        # Pydantic looks at the order of functions only when nothing else is wrong with them.
        problems.extend(_order_problems(document.data))
    if chain_file is None or document.problems:
        located = document.problems + [document.located(problem) for problem in _once(problems)]
        raise ChainFileError(sorted(located, key=lambda it: it.line))
    return LoadedChain(path, chain_file)


def _once(problems: list[Problem]) -> list[Problem]:
    """Without repetitions: a CPU that is missing for three functions is one problem."""
    first: dict[object, Problem] = {}
    for problem in problems:
        here = problem.location[-1:] in (("cpu",), ("program",))
        first.setdefault(problem.sentence if here else problem, problem)
    return list(first.values())


def _explain(details: ErrorDetails, document: Document) -> Iterator[Problem]:
    context: dict[str, Any] = details.get("ctx", {})
    location = document.actual(details["loc"])
    kind = details["type"]
    if kind == PROBLEMS_ERROR:
        for problem in context["problems"]:
            yield Problem((*location, *problem.location), problem.sentence)
        return
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        yield Problem(
            (*location, "kind"), f"must be one of {context.get('expected_tags') or _KINDS}"
        )
        return
    yield Problem(location, _sentence(details, location, context))


_KINDS = "the kinds that docs/chain-file.md lists"


def _sentence(details: ErrorDetails, location: Location, context: dict[str, Any]) -> str:
    value = details["input"]
    shown = _TYPES.get(type(value), f"`{value}`") if not isinstance(value, str) else f"`{value}`"
    match details["type"]:
        case "missing":
            return "is missing; add it"
        case "extra_forbidden":
            return _unknown_key(details["loc"])
        case "literal_error" if location == ("apiVersion",):
            return f"is {shown}; this UNiS reads {API_VERSION}"
        case "literal_error":
            return f"is {shown}; must be {context['expected']}"
        case "greater_than" | "greater_than_equal" | "less_than" | "less_than_equal":
            bounds = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
            limit = " and ".join(f"{bounds[k]} {v}" for k, v in context.items() if k in bounds)
            return f"is {shown}; must be {limit}"
        case "int_type" | "int_from_float" | "int_parsing":
            return f"is {shown}; must be a whole number"
        case "float_type":
            return f"is {shown}; must be a number"
        case "finite_number":
            return f"is {shown}; must be a finite number"
        case "string_type":
            return f"is {shown}; must be text{', so put it in quotes' if _is_number(value) else ''}"
        case "string_too_short":
            return "is empty; fill it in"
        case "bool_type":
            return f"is {shown}; must be true or false"
        case "list_type":
            return f"is {shown}; must be a list"
        case "too_short":
            return "is an empty list; add at least one"
        case "model_type" | "model_attributes_type" | "dict_type":
            return f"is {shown}; must be a mapping of keys to values"
        case _:
            return details["msg"][0].lower() + details["msg"][1:]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _unknown_key(location: tuple[str | int, ...]) -> str:
    keys = _keys_at(location[:-1])
    close = difflib.get_close_matches(str(location[-1]), keys, n=1)
    advice = f"did you mean `{close[0]}`?" if close else f"known here: {', '.join(keys)}"
    return f"is an unknown key; {advice}"


def _keys_at(location: tuple[str | int, ...]) -> list[str]:
    """The keys of the model at `location`, found by following the annotations."""
    models: list[type[BaseModel]] = [ChainFile]
    for part in location:
        if isinstance(part, int):
            continue
        fields = [
            info
            for model in models
            for name, info in model.model_fields.items()
            if (info.alias or name) == part
        ]
        if fields:
            models = [found for info in fields for found in _models_in(info.annotation)]
        else:  # the tag of a variant
            models = [
                m for m in models if part in typing.get_args(m.model_fields["kind"].annotation)
            ]
    return [info.alias or name for m in models for name, info in m.model_fields.items()]


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for arg in typing.get_args(annotation) for found in _models_in(arg)]


def _order_problems(data: Any) -> Iterator[Problem]:
    chains = data.get("chains")
    for at, chain in enumerate(chains if isinstance(chains, list) else []):
        functions = chain.get("functions") if isinstance(chain, dict) else None
        if not isinstance(functions, list):
            continue
        places = [
            Place(f["name"], f.get("after"))
            for f in functions
            if isinstance(f, dict)
            and isinstance(f.get("name"), str)
            and isinstance(f.get("after"), str | None)
        ]
        if len(places) == len(functions):
            for problem in line_up(places)[1]:
                yield Problem(("chains", at, *problem.location), problem.sentence)
