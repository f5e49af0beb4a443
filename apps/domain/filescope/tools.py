"""Which file tools are there, what does each take from the model, and how is one called?"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from apps.domain.commandio.results import (
    BadResult,
    Block,
    CommandResult,
    JsonBlock,
    check_size,
)
from apps.domain.entries import FileEntry, FileTool
from apps.domain.filescope.paths import MAX_PATTERN, ScopeError
from apps.domain.filescope.reading import (
    graph_of,
    list_entries,
    read_lines,
    read_section,
    view_image,
)
from apps.domain.filescope.scope import Scope
from apps.domain.filescope.searching import glob_files, grep_files
from apps.domain.scoping import Artifact
from apps.domain.wire import JsonValue

_PATH: Final = {
    "type": "string",
    "minLength": 1,
    "maxLength": 4_096,
    "description": "A relative path below the artifact, with slashes.",
}
_PATTERN: Final = {"type": "string", "minLength": 1, "maxLength": MAX_PATTERN}
_START: Final = {"type": "integer", "minimum": 1, "description": "The first line; 1 if left out."}
_LIMIT: Final = {"type": "integer", "minimum": 1, "description": "How many lines at most."}
_AFTER: Final = {
    "type": "string",
    "maxLength": 4_096,
    "description": "The name after which to go on, from `next` of the page before.",
}


def _object(*required: str, **properties: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    return {**schema, "additionalProperties": False}


_NOTHING: Final = _object()
_INPUTS: Final[dict[FileTool, dict[str, Any]]] = {
    FileTool.READ: _object("path", path=_PATH, start=_START, limit=_LIMIT),
    FileTool.LIST: _object(path=_PATH, after=_AFTER),
    FileTool.GLOB: _object("pattern", pattern=_PATTERN, path=_PATH),
    FileTool.GREP: _object("pattern", pattern=_PATTERN, path=_PATH, glob=_PATTERN),
    FileTool.VIEW_IMAGE: _object("path", path=_PATH),
}
# With a fixed target only the page is left to choose.
_FIXED_INPUTS: Final[dict[FileTool, dict[str, Any]]] = {
    FileTool.READ: _object(start=_START, limit=_LIMIT),
    FileTool.LIST: _object(after=_AFTER),
}
OUTPUT_SCHEMA: Final[dict[str, Any]] = {"type": "object"}


def input_schema_of(entry: FileEntry) -> dict[str, Any]:
    """Return what a declared file tool takes from the model."""
    if entry.args is None:
        return _INPUTS[entry.tool]
    return _FIXED_INPUTS.get(entry.tool, _NOTHING)


def call_file_tool(
    entry: FileEntry,
    scope: Scope,
    arguments: Mapping[str, Any],
    *,
    root: Artifact,
    tools: dict[str, list[str]],
    gone: Callable[[], bool] = lambda: False,
) -> CommandResult:
    """Carry out a file tool, or raise `ScopeError`; arguments satisfy its input schema.

    `root` and `tools` are the whole package and what its artifacts publish. A search ends early
    where `gone` tells that nobody waits for it any more.
    """
    scope.check_targets()
    given = {**_fixed(entry), **arguments}
    blocks: tuple[Block, ...]
    match entry.tool:
        case FileTool.READ:
            found = read_lines(
                scope, given["path"], start=given.get("start", 1), limit=given.get("limit")
            )
            blocks = (JsonBlock(found),)
        case FileTool.LIST:
            blocks = (
                JsonBlock(list_entries(scope, given.get("path"), after=given.get("after", ""))),
            )
        case FileTool.GLOB:
            blocks = (JsonBlock(glob_files(scope, given["pattern"], given.get("path"))),)
        case FileTool.GREP:
            found = grep_files(scope, given["pattern"], given.get("path"), given.get("glob"), gone)
            blocks = (JsonBlock(found),)
        case FileTool.SECTION:
            blocks = (JsonBlock(read_section(scope, given["path"], given["heading"])),)
        case FileTool.GRAPH:
            graph: JsonValue = graph_of(root, tools)
            blocks = (JsonBlock({"artifactId": scope.artifact.id, "graph": graph}),)
        case FileTool.VIEW_IMAGE:
            blocks = (view_image(scope, given["path"]),)
        case FileTool.HELP:
            raise ScopeError("Help starts a program, which is done elsewhere.")
    try:
        check_size(blocks)
    except BadResult as refusal:
        raise ScopeError(str(refusal)) from None
    return CommandResult(blocks)


def _fixed(entry: FileEntry) -> dict[str, Any]:
    match entry.tool, entry.args:
        case (FileTool.READ | FileTool.LIST, (path,)):
            return {"path": path}
        case (FileTool.SECTION, (path, heading)):
            return {"path": path, "heading": heading}
    return {}
