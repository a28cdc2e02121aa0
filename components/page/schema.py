"""Writes the schema of a run's record for the page's scripts, from `specdec.trace`: `python -m
components.page.schema`.

assets/shared/record.js    the JSON schema with which `trace.js` checks opened files
assets/record.d.ts         the same schema as types of TypeScript
"""

from __future__ import annotations

import json
import re
from typing import Any

from components.page.assets import ASSETS, constants
from specdec.trace import MOST_WHOLE, json_schema

SCRIPT = ASSETS / "shared" / "record.js"
TYPES = ASSETS / "record.d.ts"
_SIMPLE = {"integer": "number", "number": "number", "string": "string", "boolean": "boolean", "null": "null"}


def script() -> str:
    """The text of a JavaScript module with the schema: the fields of each record, without docstrings."""
    records = {
        name: {field: _bare(value) for field, value in record["properties"].items()}
        for name, record in _records().items()
    }
    comment = "The records of `specdec.trace` as JSON schema. Written by `python -m components.page.schema`."
    return constants(comment, RECORD=records)


def types() -> str:
    """The text of a file with the schema as TypeScript types."""
    lines = ["// The records of `specdec.trace` as types. Written by `python -m components.page.schema`.", ""]
    for name, record in _records().items():
        sentence = re.split(r"\.\s|\n\n|: ", record["description"])[0].replace("\n", " ").rstrip(".")
        fields = [f"  {field}: {_type(value)};" for field, value in record["properties"].items()]
        lines += [f"/** {sentence}. */", f"export interface {name} {{", *fields, "}", ""]
    return "\n".join(lines)


def _records() -> dict[str, Any]:
    schema = json_schema()
    return schema["$defs"] | {"Generation": schema}


def _bare(value: dict[str, Any]) -> dict[str, Any]:
    """The schema of a field in the short form that `trace.js` reads.

    Titles are left out, and so are limits of 2**53 - 1 or more, which JavaScript can't count exactly. The
    result has three keys that JSON schema lacks. wanted: a valid value in words. nullable: null is valid too.
    record: the name of the record that the value must be.
    """
    if "anyOf" in value:
        option, null = value["anyOf"]
        assert null == {"type": "null"}, f"{value} is a union of more than one type and null"
        default = {key: value[key] for key in ("default",) if key in value}
        return _bare(option) | {"nullable": True} | default
    if "$ref" in value:
        return {"record": value["$ref"].rsplit("/", 1)[-1]}
    bare = {"type": value["type"]} if "enum" not in value else {"enum": value["enum"]}
    if "items" in value:
        bare["items"] = _bare(value["items"])
    if "description" in value:
        bare["wanted"] = value["description"]
    limits = {key: value[key] for key in ("minimum", "maximum") if value.get(key, MOST_WHOLE) < MOST_WHOLE}
    return bare | limits | {key: value[key] for key in ("default",) if key in value}


def _type(value: dict[str, Any]) -> str:
    if "$ref" in value:
        return value["$ref"].rsplit("/", 1)[-1]
    if "anyOf" in value:
        return " | ".join(_type(option) for option in value["anyOf"])
    if "enum" in value:
        return " | ".join(json.dumps(name) for name in value["enum"])
    if value["type"] == "array":
        return f"{_type(value['items'])}[]"
    return _SIMPLE[value["type"]]


if __name__ == "__main__":
    SCRIPT.write_text(script(), encoding="utf-8")
    TYPES.write_text(types(), encoding="utf-8")
