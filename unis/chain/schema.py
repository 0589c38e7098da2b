"""The JSON schema of the chain file, generated from the model."""

import json
from typing import Any

from unis.chain.model import ChainFile


def schema_text() -> str:
    """What docs/chain-file.schema.json holds: `unis schema > docs/chain-file.schema.json`."""
    schema = ChainFile.model_json_schema(by_alias=True)
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    schema["title"] = "UNiS chain file"
    _allow_extensions(schema)
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _allow_extensions(part: Any) -> None:
    """Keys x-… may stand in any mapping."""
    if isinstance(part, dict):
        if part.get("additionalProperties") is False:
            part["patternProperties"] = {"^x-": {}}
        for value in part.values():
            _allow_extensions(value)
    elif isinstance(part, list):
        for value in part:
            _allow_extensions(value)
