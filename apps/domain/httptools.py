"""What request does a declared tool make of its input, and what may its declaration say?

Where a request goes is fixed by the declaration: scheme, host and port are read from its own text,
and a value of the input can fill one segment of the path or one value of the query, and no more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote, quote_plus, unquote

from apps.domain.canonical import canonical_json
from apps.domain.egress import BadNetwork, Denied, HostRule, canonical_host, network_of

DEFAULT_TIMEOUT_MS: Final = 30_000
MAX_TIMEOUT_MS: Final = 240_000
MAX_TEMPLATE: Final = 4_096
MAX_URL: Final = 8_192
MAX_HEADER: Final = 4_096
MAX_BODY: Final = 1024 * 1024

_PARAMETER: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]{0,63})\}")
_URL: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>[^/?#:@\[\]{}\\]+)(?::(?P<port>[1-9][0-9]{0,4}))?"
    r"(?P<path>/[^?#]*)?(?:\?(?P<query>[^#]*))?\Z"
)
# What stands in an address as it is; anything else has to be written as %xx.
_PLAIN_PATH: Final = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*\Z")
_PLAIN_QUERY: Final = re.compile(r"(?:[A-Za-z0-9._~!$'()*+,;:@/?-]|%[0-9A-Fa-f]{2})*\Z")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}\Z")
_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?\Z")
# How a message is framed, where it goes and who carries it is ours to say.
_OURS: Final = frozenset(
    {
        "host", "content-length", "transfer-encoding", "connection", "keep-alive", "upgrade",
        "te", "trailer", "expect", "accept-encoding", "proxy-authorization", "proxy-connection",
        "proxy-authenticate",
    }
)  # fmt: skip
_CREDENTIALS: Final = frozenset({"authorization", "cookie"})
_JSON: Final = "application/json"
_FORM: Final = "application/x-www-form-urlencoded"
_READS: Final = frozenset({"GET"})


class BadRequest(ValueError):
    """Input that no request can be made of; the sentence may be shown and quotes no value."""


@dataclass(frozen=True, slots=True)
class Authorization:
    """What proves who asks: a secret in a header, or the access token of a connection."""

    header: str
    prefix: str
    secret: str = ""
    connection: str = ""


@dataclass(frozen=True, slots=True)
class HttpTool:
    """A declared request, read and checked."""

    method: str
    scheme: str
    host: str
    port: int
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    authorization: Authorization | None
    body_kind: str
    body_template: str
    timeout_ms: int
    parse_json: bool
    success: range

    @property
    def origin(self) -> str:
        """Where the request goes, as it is shown."""
        usual = {"https": 443, "http": 80}[self.scheme]
        port = "" if self.port == usual else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}"

    @property
    def parameters(self) -> set[str]:
        """The members of the input that the declaration names."""
        return set(_PARAMETER.findall(f"{self.path} {self.query} {self.body_template}"))

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of the secrets that the request carries."""
        found = self.authorization.secret if self.authorization is not None else ""
        return (found,) if found else ()


@dataclass(frozen=True, slots=True)
class Request:
    """One request, complete but for what proves who asks."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


def http_tool(definition: Mapping[str, Any]) -> HttpTool:
    """Return the request that a checked definition declares."""
    found = problems_of(definition)
    if found:
        raise BadRequest(f"{found[0][0]}: {found[0][1]}")
    return _read(canonical_json(definition["spec"]))


@lru_cache(maxsize=512)
def _read(text: bytes) -> HttpTool:
    spec: dict[str, Any] = json.loads(text)
    url = _URL.match(spec["urlTemplate"])
    if url is None:
        raise BadRequest("The address is none.")
    body = spec.get("requestBody") or {}
    success = spec.get("successStatus") or {"min": 200, "max": 299}
    return HttpTool(
        method=spec["method"],
        scheme=url["scheme"],
        host=canonical_host(url["host"]),
        port=int(url["port"] or {"https": 443, "http": 80}[url["scheme"]]),
        path=url["path"] or "/",
        query=url["query"] or "",
        headers=tuple((one["name"], one["value"]) for one in spec.get("headers", [])),
        authorization=_authorization(spec.get("authorization")),
        body_kind=body.get("kind", ""),
        body_template=body.get("template", ""),
        timeout_ms=spec.get("timeoutMs", DEFAULT_TIMEOUT_MS),
        parse_json=spec.get("parseJson", True),
        success=range(success["min"], success["max"] + 1),
    )


def _authorization(given: Mapping[str, Any] | None) -> Authorization | None:
    if given is None:
        return None
    kind = given["kind"]
    if kind == "connection":
        return Authorization("Authorization", "Bearer ", connection=given["connection"])
    name = given["secretRef"]["name"]
    if kind == "bearer":
        return Authorization("Authorization", "Bearer ", secret=name)
    return Authorization(given["headerName"], "", secret=name)


# --- what is wrong with a declaration


def problems_of(definition: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what keeps a declared request from being made: the field, and why."""
    spec = definition["spec"]
    found = [*_address_problems(definition), *_header_problems(spec)]
    found += [*_body_problems(definition), *_secret_problems(definition)]
    if definition.get("mutating") is False and spec["method"] in ("PUT", "PATCH", "DELETE"):
        found.append(("mutating", f"A {spec['method']} changes something."))
    if spec.get("timeoutMs", 1) > MAX_TIMEOUT_MS:
        found.append(("spec.timeoutMs", f"It is above {MAX_TIMEOUT_MS:,}."))
    return found


def _address_problems(definition: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    field = "spec.urlTemplate"
    template = definition["spec"]["urlTemplate"]
    url = _URL.match(template) if len(template) <= MAX_TEMPLATE else None
    if url is None:
        yield field, "It does not have the form https://host/path?query, without a fragment."
        return
    try:
        host = canonical_host(url["host"])
    except BadNetwork as problem:
        yield field, str(problem)
        return
    port = int(url["port"] or {"https": 443, "http": 80}[url["scheme"]])
    if port > 65535:
        yield field, "A port lies between 1 and 65535."
        return
    path, query = url["path"] or "/", url["query"] or ""
    # A sign stands for each parameter, so that none completes a %xx of the text around it.
    if not all(_PLAIN_PATH.match(_PARAMETER.sub("~", part)) for part in path.split("/")) or any(
        _climbs(part) for part in path.split("/")
    ):
        yield field, "Its path holds a character that has to be written as %xx, or dots alone."
    if not _is_query(query):
        yield field, "Its query is not made of name=value, with parameters as whole values."
    properties, required = _input(definition)
    for name in sorted(set(_PARAMETER.findall(f"{path} {query}"))):
        if name not in properties:
            yield field, f"The input declares no {name}."
    for name in sorted(set(_PARAMETER.findall(path)) & properties.keys() - required):
        yield field, f"{name} stands in the path, so the input has to require it."
    yield from _network_problems(definition, host, port)


def _is_query(query: str) -> bool:
    for pair in query.split("&") if query else []:
        name, _, value = pair.partition("=")
        if not name or not _PLAIN_QUERY.match(name):
            return False
        if not _PARAMETER.fullmatch(value) and not _PLAIN_QUERY.match(value.replace("=", "~")):
            return False
    return True


def _network_problems(
    definition: Mapping[str, Any], host: str, port: int
) -> Iterator[tuple[str, str]]:
    declared = definition.get("network")
    if declared is None:
        return
    try:
        network_of(declared).check(host, port)
    except BadNetwork:
        return  # told of the network itself
    except Denied:
        yield "network", f"It does not let the request reach {HostRule(host, (port,))}."


def _header_problems(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for index, header in enumerate(spec.get("headers", [])):
        field, name = f"spec.headers[{index}]", header["name"].lower()
        if not _TOKEN.match(header["name"]) or name in _OURS:
            yield f"{field}.name", "A declared request does not set this header."
        elif name in _CREDENTIALS:
            yield f"{field}.name", "What proves who asks is a secret, in spec.authorization."
        elif name in seen:
            yield f"{field}.name", "This header is set twice."
        if len(header["value"]) > MAX_HEADER or not _VALUE.match(header["value"]):
            yield f"{field}.value", "It is not one line of printable ASCII."
        seen.add(name)
    named = (spec.get("authorization") or {}).get("headerName")
    if named is not None and (
        not _TOKEN.match(named) or named.lower() in _OURS | seen | {"content-type"}
    ):
        yield "spec.authorization.headerName", "It is no header that a secret can stand in."


def _body_problems(definition: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    spec = definition["spec"]
    body = spec.get("requestBody")
    if body is None:
        return
    if spec["method"] in _READS:
        yield "spec.requestBody", f"A {spec['method']} has no body."
    if body["kind"] == "json-input" and _content_type(spec) not in ("", _JSON):
        yield "spec.headers", "A body of JSON has the content type application/json."
    properties, required = _input(definition)
    for name in sorted(set(_PARAMETER.findall(body.get("template", "")))):
        if name not in properties or name not in required:
            yield "spec.requestBody.template", f"The input does not require {name}."


def _secret_problems(definition: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    reference = (definition["spec"].get("authorization") or {}).get("secretRef")
    if reference is None:
        return
    declared = (definition.get("needsSpec") or {}).get("secrets") or {}
    if reference["name"] not in declared and reference["envName"] not in declared:
        yield "spec.authorization.secretRef", "needsSpec.secrets does not declare it."


def _input(definition: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
    schema = definition["input"]
    properties = schema.get("properties")
    required = schema.get("required")
    return (
        properties if isinstance(properties, dict) else {},
        set(required) if isinstance(required, list) else set(),
    )


def _content_type(spec: Mapping[str, Any]) -> str:
    for header in spec.get("headers", []):
        if header["name"].lower() == "content-type":
            return str(header["value"]).partition(";")[0].strip().lower()
    return ""


# --- one request


def prepare(tool: HttpTool, arguments: Mapping[str, Any]) -> Request:
    """Return the request that is made of an input, or refuse the input with BadRequest."""
    target = "/".join(_segment(part, arguments) for part in tool.path.split("/"))
    if query := "&".join(_pairs(tool.query, arguments)):
        target += f"?{query}"
    _bounded("address", len(target), MAX_URL)
    headers = dict(tool.headers)
    body = _body(tool, arguments, headers)
    _bounded("body", len(body), MAX_BODY)
    return Request(tool.method, target, tuple(headers.items()), body)


def _segment(part: str, arguments: Mapping[str, Any]) -> str:
    filled = _PARAMETER.sub(lambda found: _in_path(found[1], arguments), part)
    _bounded("address", len(filled), MAX_URL)
    if filled != part and (_climbs(filled) or not filled):
        raise BadRequest(f"{part} would lead to another place than it stands for.")
    return filled


def _in_path(name: str, arguments: Mapping[str, Any]) -> str:
    value = _scalar(name, arguments.get(name))
    # Before its layers are taken off, which takes time that grows with the square of its length.
    _bounded("address", len(value), MAX_URL)
    bare = _bare(value)
    # Some servers decode twice; what would then be a separator is refused, not only encoded.
    if not value or any(sign in bare for sign in "/\\\x00"):
        raise BadRequest(f"{name} is empty, or holds a sign that separates parts of an address.")
    return quote(value, safe="")


def _bounded(what: str, size: int, most: int) -> None:
    if size > most:
        raise BadRequest(f"The {what} becomes longer than {most:,} bytes.")


def _climbs(segment: str) -> bool:
    """Tell whether a segment names the folder it stands in or the one above, in any notation."""
    return _bare(segment).partition(";")[0] in (".", "..")


def _bare(text: str) -> str:
    """Return a text with every layer of %xx taken off."""
    while (inner := unquote(text)) != text:
        text = inner
    return text


def _pairs(query: str, arguments: Mapping[str, Any]) -> Iterator[str]:
    for pair in query.split("&") if query else []:
        name, _, value = pair.partition("=")
        found = _PARAMETER.fullmatch(value)
        if found is None:
            yield pair
        elif (given := arguments.get(found[1])) is not None:
            # What is optional and absent leaves its pair out.
            text = _scalar(found[1], given)
            _bounded("address", len(text), MAX_URL)
            yield f"{name}={quote(text, safe='')}"


def _body(tool: HttpTool, arguments: Mapping[str, Any], headers: dict[str, str]) -> bytes:
    declared = {name.lower(): value for name, value in headers.items()}.get("content-type", "")
    match tool.body_kind:
        case "json-input" | "input-passthrough":
            if not declared:
                headers["Content-Type"] = _JSON
            return json.dumps(dict(arguments), allow_nan=False).encode("ascii")
        case "text":
            if not declared:
                headers["Content-Type"] = "text/plain; charset=utf-8"
            kind = declared.partition(";")[0].strip().lower()
            return _filled(tool.body_template, arguments, kind)
    return b""


def _filled(template: str, arguments: Mapping[str, Any], kind: str) -> bytes:
    """Fill a body, and give it up before it is larger than one may be: a value may stand often."""
    body, end = bytearray(), 0
    for found in _PARAMETER.finditer(template):
        body += template[end : found.start()].encode()
        body += _in_text(found[1], arguments, kind).encode()
        end = found.end()
        _bounded("body", len(body), MAX_BODY)
    return bytes(body) + template[end:].encode()


def _in_text(name: str, arguments: Mapping[str, Any], kind: str) -> str:
    """Return a value as it stands in a template: in JSON and in a form it stays one value."""
    value = _scalar(name, arguments.get(name))
    if kind == _JSON or kind.endswith("+json"):
        return json.dumps(value, ensure_ascii=False)[1:-1]
    return quote_plus(value, safe="") if kind == _FORM else value


def _scalar(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return json.dumps(value)
    if not isinstance(value, str):
        raise BadRequest(f"{name} is neither text nor a number nor a truth value.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadRequest(f"{name} holds half of a surrogate pair.") from None
    return value
