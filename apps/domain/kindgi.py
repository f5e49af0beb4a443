"""What may a tool definition say, and which of its words can we keep?

The shape covers the whole definition format, version 1.3.0, so that a mistyped field is told
apart from one that we understand and cannot honour. The latter are refused by name: a field that
were read and ignored would be a promise nobody keeps.
"""

from collections.abc import Callable
from typing import Any, Final

from apps.domain.egress import BadNetwork, network_of
from apps.domain.httptools import problems_of
from apps.domain.schemas import compile_schema

SCHEMA_VERSION: Final = "1.3.0"

_TEXT: Final[dict[str, Any]] = {"type": "string"}
_NAME: Final[dict[str, Any]] = {"type": "string", "minLength": 1, "maxLength": 200}
_FLAG: Final[dict[str, Any]] = {"type": "boolean"}
_COUNT: Final[dict[str, Any]] = {"type": "integer", "minimum": 1, "maximum": 2**31 - 1}
_STATUS: Final[dict[str, Any]] = {"type": "integer", "minimum": 100, "maximum": 599}
_ENDPOINT: Final[dict[str, Any]] = {
    "type": "string",
    "pattern": r"^mcp\+(stdio|http|sse)://.",
    "maxLength": 2000,
}


def _object(required: str = "", **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required.split(),
        "additionalProperties": False,
    }


def _list(items: dict[str, Any], most: int = 32) -> dict[str, Any]:
    return {"type": "array", "items": items, "maxItems": most}


def _map(values: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values, "maxProperties": 64}


def _by_kind(shape: dict[str, Any], **required: str) -> dict[str, Any]:
    """Require, for each kind, the properties that only it has."""
    return {
        **shape,
        "allOf": [
            {
                "if": {"properties": {"kind": {"const": kind.replace("_", "-")}}},
                "then": {"required": names.split()},
            }
            for kind, names in required.items()
        ],
    }


def _only_kind(shape: dict[str, Any], **owned: str) -> dict[str, Any]:
    """Leave properties to the one kind that has them."""
    reserved = [
        {
            "if": {"properties": {"kind": {"not": {"const": kind}}}},
            "then": {"properties": dict.fromkeys(names.split(), False)},
        }
        for kind, names in owned.items()
    ]
    return {**shape, "allOf": [*shape.get("allOf", []), *reserved]}


_SECRET_REF: Final = _object("envName name", envName=_NAME, name=_NAME)
_AUTHORIZATION: Final = _by_kind(
    _object(
        "kind",
        kind={"enum": ["bearer", "header", "connection"]},
        secretRef=_SECRET_REF,
        headerName=_NAME,
        connection=_NAME,
    ),
    bearer="secretRef",
    header="headerName secretRef",
    connection="connection",
)
_REQUEST_BODY: Final = _by_kind(
    _object("kind", kind={"enum": ["json-input", "input-passthrough", "text"]}, template=_TEXT),
    text="template",
)
_HTTP_SPEC: Final = _object(
    "kind method urlTemplate",
    kind={"const": "http"},
    method={"enum": ["GET", "POST", "PUT", "PATCH", "DELETE"]},
    urlTemplate=_TEXT,
    headers=_list(_object("name value", name=_NAME, value=_TEXT), 64),
    authorization=_AUTHORIZATION,
    requestBody=_REQUEST_BODY,
    timeoutMs=_COUNT,
    parseJson=_FLAG,
    successStatus=_object("min max", min=_STATUS, max=_STATUS),
)
_NETWORK: Final = _only_kind(
    _by_kind(
        _object(
            "kind",
            kind={"enum": ["none", "unrestricted", "allowlist"]},
            hosts={**_list(_NAME, 256), "minItems": 1},
        ),
        allowlist="hosts",
    ),
    allowlist="hosts",
)
_CODE_ARTIFACT: Final = _only_kind(
    _by_kind(
        _object(
            "kind modulePath",
            kind={"enum": ["oci", "filesystem"]},
            imageRef=_NAME,
            modulePath=_NAME,
            artifactVersion=_NAME,
        ),
        oci="imageRef artifactVersion",
    ),
    oci="imageRef artifactVersion",
)
_ABSOLUTE: Final = {
    "if": {"properties": {"kind": {"const": "filesystem"}}},
    "then": {"properties": {"modulePath": {"pattern": "^/"}}},
}
_CONNECTION_NEED: Final = _object(
    "app permissions as",
    app=_NAME,
    permissions=_list(_NAME),
    **{"as": {"enum": ["person", "company"]}},
)
_NEEDS_SPEC: Final = _object(
    env=_map({"type": "object"}),
    secrets=_map({"type": "object"}),
    config=_map({"type": "object"}),
    capabilities=_list(_NAME),
    bindings=_list(_NAME),
    connections=_map(_CONNECTION_NEED),
)
_EFFECT: Final = _object(
    "kind",
    kind={
        "enum": [
            "reads",
            "writes",
            "deletes",
            "network",
            "spawns-run",
            "emits-event",
            "external-side-effect",
            "sensitive-data-egress",
        ]
    },
    resource=_NAME,
    notes=_TEXT,
)

# The schemas of input and output are checked as schemas, elsewhere; here they are objects.
DEFINITION_SCHEMA: Final = _object(
    "id description version input output",
    id={
        "type": "string",
        "pattern": "^[A-Za-z0-9]+([._-][A-Za-z0-9]+)*$",
        "maxLength": 128,
    },
    description={"type": "string", "minLength": 1, "maxLength": 4000},
    version={
        "type": "string",
        "pattern": r"^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$",
        "maxLength": 64,
    },
    input={"type": "object"},
    output={"type": "object"},
    needs=_list(_object("name", name=_NAME, optional=_FLAG)),
    effects=_list(_EFFECT),
    transport={"enum": ["auto", "native", "mcp"]},
    mcpEndpoint=_ENDPOINT,
    metadata={"type": "object"},
    sandbox={"enum": ["none", "context-isolated", "strict"]},
    mutating=_FLAG,
    needsApprovalWhenUnattended=_FLAG,
    pauses=_FLAG,
    resultIsOutsideData=_FLAG,
    limits=_object("memMB cpuMs", memMB=_COUNT, cpuMs=_COUNT),
    network=_NETWORK,
    needsSpec=_NEEDS_SPEC,
    codeArtifactRef={**_CODE_ARTIFACT, **_ABSOLUTE},
    spec=_HTTP_SPEC,
)


def unsupported(definition: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the fields of a definition that we understand and cannot honour, and why."""
    found = [
        (field, sentence)
        for field, refused, sentence in _REFUSED
        if _asks(definition, field) and refused(_value(definition, field))
    ]
    if definition.get("spec") is None:
        found += [(field, sentence) for field, sentence in _OF_REQUESTS if _asks(definition, field)]
    needs = definition.get("needs")
    for index, need in enumerate(needs if isinstance(needs, list) else []):
        # What is optional may be missing, and here it always is.
        if isinstance(need, dict) and need.get("optional") is not True:
            found.append((f"needs[{index}]", "Context slots are not supported yet."))
    return found


def contradictions(definition: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the fields of a definition that say otherwise than another field of it."""
    found: list[tuple[str, str]] = []
    if definition.get("spec") is not None and definition.get("pauses") is True:
        found.append(("pauses", "Only a tool with a handler pauses, not one with a spec."))
    mcp = definition.get("transport") == "mcp"
    if mcp and definition.get("pauses") is True:
        found.append(("pauses", "A tool of an MCP server does not pause."))
    if mcp and not definition.get("mcpEndpoint"):
        found.append(("mcpEndpoint", 'The transport "mcp" needs an endpoint.'))
    found += _network_problems(definition.get("network"))
    if isinstance(definition.get("spec"), dict) and _is_read(definition):
        found += problems_of(definition)
    status = _value(definition, "spec.successStatus")
    if isinstance(status, dict) and not _in_order(status.get("min"), status.get("max")):
        found.append(("spec.successStatus", "Its min is above its max."))
    named = _value(definition, "spec.authorization.connection")
    declared = _value(definition, "needsSpec.connections")
    if isinstance(named, str) and named not in (declared if isinstance(declared, dict) else {}):
        found.append(
            ("spec.authorization.connection", "needsSpec.connections does not declare it.")
        )
    return found


def _network_problems(network: Any) -> list[tuple[str, str]]:
    try:
        network_of(network if isinstance(network, dict) else None)
    except BadNetwork as problem:
        return [("network.hosts", str(problem))]
    return []


def _is_read(definition: dict[str, Any]) -> bool:
    """Tell whether the parts of a declared request have their shapes; others are told elsewhere."""
    shape = {name: DEFINITION_SCHEMA["properties"][name] for name in _OF_A_REQUEST}
    relevant = {name: definition[name] for name in _OF_A_REQUEST if name in definition}
    errors = compile_schema(_object("spec input", **shape), bounded=False).errors(relevant, limit=1)
    return not errors


_OF_A_REQUEST: Final = ("spec", "input", "network", "needsSpec", "mutating")


def _in_order(least: Any, most: Any) -> bool:
    return not isinstance(least, int) or not isinstance(most, int) or least <= most


def _asks(definition: dict[str, Any], field: str) -> bool:
    # An empty list or object asks for nothing, so leaving it unheard breaks no promise.
    return _value(definition, field) not in (None, [], {}, False)


def _value(definition: dict[str, Any], field: str) -> Any:
    found: Any = definition
    for name in field.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _any(value: Any) -> bool:
    return True


# What only a request that we make ourselves may use.
_OF_REQUESTS: Final = (
    ("needsSpec.secrets", "Package code is never given a secret; a declared request may use one."),
    (
        "needsSpec.connections",
        "Package code is never given a connection; a declared request may use one.",
    ),
)
_REFUSED: Final[tuple[tuple[str, Callable[[Any], bool], str], ...]] = (
    ("needsSpec.env", _any, "Package code runs in an empty environment."),
    ("needsSpec.config", _any, "Configuration of tools is not supported yet."),
    ("needsSpec.capabilities", _any, "Capabilities of the runtime are not supported yet."),
    ("needsSpec.bindings", _any, "Bindings are not supported yet."),
    ("mcpEndpoint", _any, "Tools of MCP servers are not supported yet."),
    (
        "codeArtifactRef",
        _any,
        "Only the files of the package are reviewed, so code elsewhere is not supported.",
    ),
    ("transport", lambda given: given == "mcp", 'The transport "mcp" is not supported yet.'),
    (
        "transport",
        lambda given: given == "native",
        'The transport "native" is not supported: package code never runs in our own processes.',
    ),
    (
        "sandbox",
        lambda given: given == "none",
        'The sandbox "none" is not supported: package code always runs confined.',
    ),
)
