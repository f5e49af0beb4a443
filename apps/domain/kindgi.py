"""What may a tool definition say, and which of its words do we keep today?

The shape covers the whole definition format, version 1.3.0, so that a mistyped field is told
apart from one that we understand and do not support yet. The latter are refused by name: a
field that were read and ignored would be a promise nobody keeps.
"""

from typing import Any, Final

SCHEMA_VERSION: Final = "1.3.0"

_TEXT: Final[dict[str, Any]] = {"type": "string"}
_NAME: Final[dict[str, Any]] = {"type": "string", "minLength": 1, "maxLength": 200}
_FLAG: Final[dict[str, Any]] = {"type": "boolean"}
_COUNT: Final[dict[str, Any]] = {"type": "integer", "minimum": 1, "maximum": 2**31 - 1}


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
    successStatus=_object("min max", min={"type": "integer"}, max={"type": "integer"}),
)
_NETWORK: Final = _by_kind(
    _object("kind", kind={"enum": ["none", "unrestricted", "allowlist"]}, hosts=_list(_NAME, 256)),
    allowlist="hosts",
)
_CODE_ARTIFACT: Final = _by_kind(
    _object(
        "kind modulePath",
        kind={"enum": ["oci", "filesystem"]},
        imageRef=_NAME,
        modulePath=_NAME,
        artifactVersion=_NAME,
    ),
    oci="imageRef artifactVersion",
)
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
    mcpEndpoint=_NAME,
    metadata={"type": "object"},
    sandbox={"enum": ["none", "context-isolated", "strict"]},
    mutating=_FLAG,
    needsApprovalWhenUnattended=_FLAG,
    pauses=_FLAG,
    resultIsOutsideData=_FLAG,
    limits=_object("memMB cpuMs", memMB=_COUNT, cpuMs=_COUNT),
    network=_NETWORK,
    needsSpec=_NEEDS_SPEC,
    codeArtifactRef=_CODE_ARTIFACT,
    spec=_HTTP_SPEC,
)


def unsupported(definition: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the fields of a definition that we understand and do not honour yet, and why."""
    found: list[tuple[str, str]] = []
    for field, sentence in (
        ("needs", "Context slots are not supported yet."),
        ("needsSpec", "Typed needs are not supported yet."),
        ("mcpEndpoint", "MCP endpoints are not supported yet."),
        ("codeArtifactRef", "Code outside the package is not supported yet."),
        ("spec", "Declarative handlers are not supported yet."),
    ):
        # An empty list or object asks for nothing, so leaving it unheard breaks no promise.
        if definition.get(field) not in (None, [], {}):
            found.append((field, sentence))
    for field, sentence in (
        ("pauses", "Tools that pause are not supported yet."),
        ("needsApprovalWhenUnattended", "Unattended runs are not supported yet."),
    ):
        if definition.get(field) is True:
            found.append((field, sentence))
    if definition.get("transport") == "mcp":
        found.append(("transport", 'The transport "mcp" is not supported yet.'))
    if definition.get("sandbox") == "none":
        found.append(
            (
                "sandbox",
                'The sandbox "none" is not supported yet: package code always runs confined.',
            )
        )
    network = definition.get("network")
    if isinstance(network, dict) and network.get("kind") in ("unrestricted", "allowlist"):
        found.append(("network.kind", "A network other than none is not supported yet."))
    return found
