"""Write jobs and their results as messages, and read them back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from apps.domain.egress import (
    BadNetwork,
    Crossing,
    network_fields,
    read_network,
)
from apps.domain.wire import BadFrame, JsonValue, Message
from apps.sandboxd.jobs import (
    MAX_DEADLINE_MS,
    BadJob,
    Output,
    Reason,
    SandboxResult,
    SandboxSpec,
    Stats,
    check_spec,
)
from apps.sandboxd.limits import BadLimit, Clamp, read_limits
from apps.sandboxd.workfiles import (
    bodies_of,
    change_bodies,
    change_fields,
    read_changes,
    read_files,
    rows_of,
)


def encode_job(spec: SandboxSpec, *, deadline_ms: int) -> Message:
    """Write a job as a message; `deadline_ms` bounds the wait for a free sandbox and the run."""
    check_spec(spec)
    blobs = [spec.stdin, *(c for _, c in spec.files), *(c for _, c in spec.harness)]
    blobs += [*bodies_of(spec.workspace), *(c for _, c in spec.shared)]
    return Message(
        kind="job",
        fields={
            "argv": list(spec.argv),
            "env": [[name, value] for name, value in spec.env],
            "stdin": len(spec.stdin),
            "files": [[name, len(content)] for name, content in spec.files],
            "harness": [[name, len(content)] for name, content in spec.harness],
            "limits": dict(asdict(spec.limits)),
            "outputs": list(spec.outputs),
            "correlation_id": spec.correlation_id,
            "runtimes": list(spec.runtimes),
            "dependencies": spec.dependencies,
            "network": network_fields(spec.network),
            "deadline_ms": deadline_ms,
            "workspace": rows_of(spec.workspace),
            "keep_workspace": spec.keep_workspace,
            "shared": [[name, len(content)] for name, content in spec.shared],
            "waits": spec.waits,
        },
        body=b"".join(blobs),
    )


class MessageFields:
    """Read the fields of one message: all known, each of its type, none left over."""

    def __init__(self, message: Message) -> None:
        self._fields = dict(message.fields)
        self._body = memoryview(message.body)

    def text(self, name: str) -> str:
        return _text(self._fields.pop(name, None), name)

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(_text(one, name) for one in self.rows(name))

    def yes(self, name: str) -> bool:
        value = self._fields.pop(name, None)
        if not isinstance(value, bool):
            raise BadFrame(f"The field {name} is not true or false.")
        return value

    def anything(self, name: str) -> JsonValue:
        return self._fields.pop(name, None)

    def whole(self, name: str) -> int:
        return _whole(self._fields.pop(name, None), name)

    def optional_whole(self, name: str) -> int | None:
        value = self._fields.pop(name, None)
        return None if value is None else _whole(value, name)

    def mapping(self, name: str) -> dict[str, JsonValue]:
        value = self._fields.pop(name, None)
        if not isinstance(value, dict):
            raise BadFrame(f"The field {name} is not an object.")
        return value

    def rows(self, name: str) -> list[JsonValue]:
        value = self._fields.pop(name, None)
        if not isinstance(value, list):
            raise BadFrame(f"The field {name} is not a list.")
        return value

    def pairs(self, name: str) -> list[tuple[str, JsonValue]]:
        found: list[tuple[str, JsonValue]] = []
        for row in self.rows(name):
            if not isinstance(row, list) or len(row) != 2:
                raise BadFrame(f"The field {name} does not hold pairs.")
            found.append((_text(row[0], name), row[1]))
        return found

    def take(self, size: int) -> bytes:
        if size > len(self._body):
            raise BadFrame("The body is shorter than the header says.")
        taken, self._body = bytes(self._body[:size]), self._body[size:]
        return taken

    def done(self) -> None:
        if self._fields:
            raise BadFrame(f"Unknown field {min(self._fields)[:40]!r}.")
        if len(self._body):
            raise BadFrame("The body is longer than the header says.")


def _text(value: JsonValue, name: str) -> str:
    if not isinstance(value, str):
        raise BadFrame(f"The field {name} does not hold text.")
    return value


def _whole(value: JsonValue, name: str) -> int:
    if type(value) is not int or value < 0:
        raise BadFrame(f"The field {name} is not a whole number.")
    return value


def decode_job(message: Message) -> tuple[SandboxSpec, int]:
    """Read a job and its deadline in milliseconds, or refuse it with BadFrame or BadJob."""
    read = MessageFields(message)
    stdin_size = read.whole("stdin")
    file_sizes = [(name, _whole(size, "files")) for name, size in read.pairs("files")]
    harness_sizes = [(name, _whole(size, "harness")) for name, size in read.pairs("harness")]
    shared_sizes = [(name, _whole(size, "shared")) for name, size in read.pairs("shared")]
    deadline_ms = read.whole("deadline_ms")
    if not 0 < deadline_ms <= MAX_DEADLINE_MS:
        raise BadJob("The deadline is not within one day.")
    try:
        limits = read_limits(read.mapping("limits"))
        network = read_network(read.mapping("network"))
    except (BadLimit, BadNetwork) as problem:
        raise BadJob(str(problem)) from problem
    spec = SandboxSpec(
        argv=read.texts("argv"),
        env=tuple((name, _text(value, "env")) for name, value in read.pairs("env")),
        limits=limits,
        outputs=read.texts("outputs"),
        correlation_id=read.text("correlation_id"),
        runtimes=read.texts("runtimes"),
        dependencies=read.text("dependencies"),
        network=network,
        stdin=read.take(stdin_size),
        files=tuple((name, read.take(size)) for name, size in file_sizes),
        harness=tuple((name, read.take(size)) for name, size in harness_sizes),
        workspace=read_files(read.rows("workspace"), read.take),
        keep_workspace=read.yes("keep_workspace"),
        shared=tuple((name, read.take(size)) for name, size in shared_sizes),
        waits=read.yes("waits"),
    )
    read.done()
    return check_spec(spec), deadline_ms


def encode_result(result: SandboxResult) -> Message:
    """Write a result as the last message of a job."""
    contents: Sequence[bytes] = [one.content for one in result.outputs]
    return Message(
        kind="result",
        fields={
            "reason": result.reason.value,
            "exit_code": result.exit_code,
            "stdout": len(result.stdout),
            "stderr": len(result.stderr),
            "result": len(result.result),
            "outputs": [[one.name, [len(one.content), one.refused]] for one in result.outputs],
            "stats": dict(asdict(result.stats)),
            "clamped": [[one.name, [one.asked, one.given]] for one in result.clamped],
            "detail": result.detail[:1000],
            "python": result.python,
            "workspace": change_fields(result.workspace),
            "crossings": [
                [one.host, [one.port, one.address, one.verdict, one.received, one.sent]]
                for one in result.crossings
            ],
        },
        body=b"".join(
            (
                *(result.stdout, result.stderr, result.result, *contents),
                *change_bodies(result.workspace),
            )
        ),
    )


def decode_result(message: Message) -> SandboxResult:
    """Read a result, or refuse it with BadFrame."""
    read = MessageFields(message)
    word = read.text("reason")
    if word not in set(Reason):
        raise BadFrame("The reason is not one of the closed list.")
    exit_code = read.optional_whole("exit_code")
    sizes = (read.whole("stdout"), read.whole("stderr"), read.whole("result"))
    outputs = read.pairs("outputs")
    stats = read.mapping("stats")
    if set(stats) != set(Stats.__dataclass_fields__):
        raise BadFrame("The statistics are not complete.")
    clamped: list[Clamp] = []
    for name, pair in read.pairs("clamped"):
        if not isinstance(pair, list) or len(pair) != 2:
            raise BadFrame("The field clamped does not hold pairs.")
        clamped.append(Clamp(name, _whole(pair[0], "clamped"), _whole(pair[1], "clamped")))
    result = SandboxResult(
        reason=Reason(word),
        exit_code=exit_code,
        stats=Stats(**{name: _whole(value, "stats") for name, value in stats.items()}),
        clamped=tuple(clamped),
        detail=read.text("detail"),
        python=read.text("python"),
        crossings=tuple(_crossing(host, row) for host, row in read.pairs("crossings")),
        stdout=read.take(sizes[0]),
        stderr=read.take(sizes[1]),
        result=read.take(sizes[2]),
        outputs=tuple(_output(read, name, row) for name, row in outputs),
        workspace=read_changes(read.anything("workspace"), read.take),
    )
    read.done()
    return result


def _output(read: MessageFields, name: str, row: JsonValue) -> Output:
    if not isinstance(row, list) or len(row) != 2:
        raise BadFrame("An output does not have a size and a refusal.")
    content = read.take(_whole(row[0], "outputs"))
    return Output(name=name, content=content, refused=_text(row[1], "outputs"))


def _crossing(host: str, row: JsonValue) -> Crossing:
    match row:
        case [int(port), str(address), str(verdict), int(received), int(sent)]:
            return Crossing(host, port, address, verdict, received, sent)
    raise BadFrame("A crossing does not have a port, an address, a verdict and two sizes.")
