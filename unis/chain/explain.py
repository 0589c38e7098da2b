"""What pydantic says is wrong with a file, as sentences that its author can act on."""

import difflib
import types
import typing
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from unis.chain.consistency import unknown_function
from unis.chain.document import Document
from unis.chain.model import API_VERSION, ChainFile
from unis.chain.problem import WRONG, Location, Problem

_TYPES = {
    dict: "a mapping",
    list: "a list",
    str: "text",
    bool: "true or false",
    type(None): "empty",
}
_KEY = "[key]"  # what pydantic puts behind the key of a mapping that is wrong itself


def explained(
    error: ValidationError, document: Document, root: type[BaseModel]
) -> Iterator[Problem]:
    """What is wrong with a document that is to be a `root`; of another kind of file only that."""
    every = error.errors(include_url=False)
    wrong = (("apiVersion",), "literal_error")
    other = [details for details in every if (details["loc"], details["type"]) == wrong]
    for details in other or every:
        yield from _explain(details, document, root)


def explained_chain(error: ValidationError, document: Document) -> list[Problem]:
    """What is wrong with a document that is to be a chain file."""
    data: dict[Any, Any] = document.data
    if old := _old_form(data):
        return [old]
    found = list(explained(error, document, ChainFile))
    # What holds between parts can be asked only when each is right by itself.
    return [*found, *(problem for problem in _unknown_functions(data) if problem not in found)]


def _explain(details: ErrorDetails, document: Document, root: type[BaseModel]) -> Iterator[Problem]:
    context: dict[str, Any] = details.get("ctx", {})
    stated = details["loc"][:-1] if details["loc"][-1:] == (_KEY,) else details["loc"]
    location = document.actual(stated)
    kind = details["type"]
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        yield Problem(
            (*location, "kind"), f"must be one of {context.get('expected_tags') or _KINDS}"
        )
        return
    yield Problem(location, _sentence(details, location, context, root))


_KINDS = "the kinds that docs/chain-file.md lists"


def _sentence(
    details: ErrorDetails, location: Location, context: dict[str, Any], root: type[BaseModel]
) -> str:
    value = details["input"]
    shown = _TYPES.get(type(value), f"`{value}`") if not isinstance(value, str) else f"`{value}`"
    match details["type"]:
        case kind if kind == WRONG:
            return str(context["text"])
        case "missing":
            if location == ("apiVersion",):
                return f"is missing; add `apiVersion: {API_VERSION}`"
            return "is missing; add it"
        case "extra_forbidden":
            return _unknown_key(location, root)
        case "literal_error" if location == ("apiVersion",):
            return _other_kind(value, str(context["expected"]).strip("'"))
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
            quotes = ", so put it in quotes" if isinstance(value, int | float) else ""
            return f"is {shown}; must be text{quotes}"
        case "string_too_short":
            return "is empty; fill it in"
        case "bool_type":
            return f"is {shown}; must be true or false"
        case "list_type":
            return f"is {shown}; must be a list"
        case "too_short":
            least = context["min_length"]
            return (
                f"has {len(value)} parts; must have at least {least}"
                if value
                else f"is empty; add at least {least if least > 1 else 'one'}"
            )
        case "too_long":
            return f"has {len(value)} parts; {context['max_length']} at most"
        case "model_type" | "model_attributes_type" | "dict_type":
            return f"is {shown}; must be a mapping of keys to values"
        case _:
            return details["msg"][0].lower() + details["msg"][1:]


_FILES = {
    "unis/v1": "a chain file",
    "unis/slo/v1": "a workload or cluster file",
    "unis/machine/v1": "a machine file",
}


def _other_kind(value: object, expected: str) -> str:
    told = f"is `{value}`; this UNiS reads {expected}"
    if str(value) in _FILES and expected in _FILES:
        told += f": this is {_FILES[str(value)]}, and {_FILES[expected]} is expected here"
    return told


def _unknown_key(location: Location, root: type[BaseModel]) -> str:
    keys = _keys_at(location[:-1], root)
    close = difflib.get_close_matches(str(location[-1]), keys, n=1)
    advice = f"did you mean `{close[0]}`?" if close else f"known here: {', '.join(keys)}"
    return f"is an unknown key; {advice}"


def _keys_at(location: Location, root: type[BaseModel]) -> list[str]:
    """The keys of the model at `location`, found by following the annotations."""
    types_there: list[Any] = [root]
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
        "is in the old format, a list; functions are named under functions: now, and a chain "
        f"refers to them: write chains: {{{first.get('name', 'NAME')}: {{path: [{path}]}}}} and "
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
                yield unknown_function(("chains", name, "path", at), function, functions)
