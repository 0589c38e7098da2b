"""The JSON schema of the chain file, generated from the model."""

import json

from unis.chain.model import ChainFile


def schema_text() -> str:
    """What docs/chain-file.schema.json holds: `unis schema > docs/chain-file.schema.json`."""
    schema = ChainFile.model_json_schema(by_alias=True)
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    schema["title"] = "UNiS chain file"
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
