"""Reads a chain file, or says everything that is wrong with it at once."""

import difflib
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from unis.chain import consistency
from unis.chain.document import Document, read_document
from unis.chain.model import API_VERSION, ChainFile
from unis.chain.problem import WRONG, ChainFileError, Location, Problem

_TYPES = {
    dict: "a mapping",
    list: "a list",
    str: "text",
    bool: "true or false",
    type(None): "empty",
}
_KEY = "[key]"  # what pydantic puts behind the key of a mapping that is wrong itself


@dataclass(frozen=True)
class LoadedChain:
    """A valid chain file and where it was."""

    path: Path
    file: ChainFile
    document: Document | None = None  # None: made by a program, without lines

    @property
    def directory(self) -> Path:
        """What paths in the file are relative to."""
        return self.path.resolve().parent

    def error(self, problems: Sequence[Problem]) -> ChainFileError:
        """What is wrong with the file on this machine, each with its line."""
        document = self.document or Document(self.path)
        return ChainFileError(
            sorted(map(document.located, problems), key=lambda located: located.line)
        )


def load(
    path: Path, name: str | None = None, variables: Mapping[str, str] | None = None
) -> LoadedChain:
    """Reads and checks `path` by itself; whether a machine can run it, the plan says.

    A `name` takes the place of the file's; `variables` that of the environment. Raises
    ChainFileError, which has one line `file:line: key: sentence` for each problem.
    """
    document = read_document(path, variables)
    if not isinstance(document.data, dict):
        begin = f"is no chain file: begin with apiVersion: {API_VERSION}"
        raise ChainFileError([document.located(Problem((), begin))])
    if old := _old_form(document.data):
        raise ChainFileError([document.located(old)])
    if name is not None:
        document.data["name"] = name
    problems: list[Problem] = []
    chain_file = None
    try:
        chain_file = ChainFile.model_validate(document.data)
        problems.extend(consistency.problems(chain_file))
    except ValidationError as error:
        for details in error.errors(include_url=False):
            problems.extend(_explain(details, document))
        # What holds between parts can be asked only when each is right by itself.
        problems.extend(p for p in _unknown_functions(document.data) if p not in problems)
    if chain_file is None or problems or document.problems:
        refused = {located.problem.location for located in document.problems}
        located = document.problems + [
            document.located(problem) for problem in problems if problem.location not in refused
        ]
        raise ChainFileError(sorted(located, key=lambda it: it.line))
    return LoadedChain(path, chain_file, document)


def _old_form(data: dict[Any, Any]) -> Problem | None:
    """A file of before functions had a place of their own: how its parts are written now."""
    chains = data.get("chains")
    first = chains[0] if isinstance(chains, list) and chains else None
    if not isinstance(first, dict) or not isinstance(first.get("functions"), list):
        return None
    names = [part.get("name") for part in first["functions"] if isinstance(part, dict)]
    path = ", ".join(str(name) for name in names if name)
    return Problem(
        ("chains",),
        "is a list, as files were before; functions stand by name under functions: now, and a "
        f"chain names them: write chains: {{{first.get('name', 'NAME')}: {{path: [{path}]}}}} and "
        f"functions: {{{names[0] if names else 'NAME'}: {{program: …}}, …}} (docs/chain-file.md)",
    )


def _unknown_functions(data: dict[Any, Any]) -> Iterator[Problem]:
    functions, chains = data.get("functions"), data.get("chains")
    if not isinstance(functions, dict) or not functions or not isinstance(chains, dict):
        return
    for name, chain in chains.items():
        path = chain.get("path") if isinstance(chain, dict) else None
        for at, function in enumerate(path if isinstance(path, list) else []):
            if isinstance(function, str) and function not in functions:
                yield consistency.unknown_function(
                    ("chains", name, "path", at), function, functions
                )


def _explain(details: ErrorDetails, document: Document) -> Iterator[Problem]:
    context: dict[str, Any] = details.get("ctx", {})
    stated = details["loc"][:-1] if details["loc"][-1:] == (_KEY,) else details["loc"]
    location = document.actual(stated)
    kind = details["type"]
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
        case kind if kind == WRONG:
            return str(context["text"])
        case "missing":
            return "is missing; add it"
        case "extra_forbidden":
            return _unknown_key(location)
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
            return "is empty; add at least one"
        case "too_long":
            return f"has {len(value)} parts; {context['max_length']} at most"
        case "model_type" | "model_attributes_type" | "dict_type":
            return f"is {shown}; must be a mapping of keys to values"
        case _:
            return details["msg"][0].lower() + details["msg"][1:]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _unknown_key(location: Location) -> str:
    keys = _keys_at(location[:-1])
    close = difflib.get_close_matches(str(location[-1]), keys, n=1)
    advice = f"did you mean `{close[0]}`?" if close else f"known here: {', '.join(keys)}"
    return f"is an unknown key; {advice}"


def _keys_at(location: Location) -> list[str]:
    """The keys of the model at `location`, found by following the annotations."""
    types_there: list[Any] = [ChainFile]
    for part in location:
        types_there = [below for kind in types_there for below in _below(kind, part)]
    return [
        info.alias or name
        for kind in types_there
        if isinstance(kind, type) and issubclass(kind, BaseModel)
        for name, info in kind.model_fields.items()
    ]


def _below(kind: Any, part: str | int) -> list[Any]:
    """The types that `part` of a value of type `kind` may have."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        fields = kind.model_fields.items()
        found = [info.annotation for name, info in fields if (info.alias or name) == part]
        return [plain for annotation in found for plain in _variants(annotation)]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    return _variants(arguments[-1]) if origin in (dict, list) else []


def _variants(annotation: Any) -> list[Any]:
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _variants(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return [kind for variant in typing.get_args(annotation) for kind in _variants(variant)]
    return [annotation]
