"""One correlation id for one story, and no secret in any line."""

import io
import json
import logging
import logging.config
from collections.abc import Iterator

import pytest
import structlog
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from structlog.contextvars import bind_contextvars, clear_contextvars, get_contextvars

from kaizen import log
from kaizen.headers import SafeHeadersMiddleware


@pytest.fixture(autouse=True)
def _fresh_context() -> Iterator[None]:
    clear_contextvars()
    yield
    clear_contextvars()


@pytest.mark.parametrize(
    "name", ["password", "api_key", "apikey", "token", "Authorization", "set_cookie", "audit_key"]
)
def test_a_secret_is_hidden_by_its_name(name: str) -> None:
    assert log.mask_secrets(None, "info", {name: "hunter2"}) == {name: "[hidden]"}


@pytest.mark.parametrize("name", ["tokens_used", "event", "correlation_id", "task"])
def test_what_is_no_secret_stays(name: str) -> None:
    assert log.mask_secrets(None, "info", {name: "plain"}) == {name: "plain"}


def test_a_password_inside_an_address_is_hidden() -> None:
    event = log.mask_secrets(None, "info", {"event": "Lost redis://:hunter2@127.0.0.1:1/0 again"})
    assert event == {"event": "Lost redis://:[hidden]@127.0.0.1:1/0 again"}


def test_a_secret_inside_a_value_is_hidden() -> None:
    said = {"detail": {"token": "hunter2", "of": [{"password": "hunter2"}, "a://b:hunter2@c"]}}
    assert log.mask_secrets(None, "info", said) == {
        "detail": {"token": "[hidden]", "of": [{"password": "[hidden]"}, "a://b:[hidden]@c"]}
    }


@pytest.mark.parametrize("console", [True, False])
def test_a_failure_tells_no_password(console: bool) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    formatter = log.configuration(console=console, level="INFO")["formatters"]["kaizen"]
    factory = formatter.pop("()")
    handler.setFormatter(factory(**formatter))
    logger = logging.getLogger("tests.kaizen.log.failure")
    logger.addHandler(handler)
    try:
        raise ConnectionError("redis://:hunter2@127.0.0.1:1/0 does not answer")
    except ConnectionError:
        logger.exception("lost")
        structlog.get_logger("tests.kaizen.log.failure").exception("lost")
    finally:
        logger.removeHandler(handler)
    assert stream.getvalue().count("ConnectionError: redis://:[hidden]@127.0.0.1") == 2
    # The line of our own source that raised it is quoted as well.
    assert "hunter2" not in stream.getvalue()


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_lines_are_json_with_the_bound_context() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    formatter = log.configuration(console=False, level="INFO")["formatters"]["kaizen"]
    factory = formatter.pop("()")
    handler.setFormatter(factory(**formatter))
    logger = logging.getLogger("tests.kaizen.log")
    logger.addHandler(handler)
    logger.setLevel("INFO")
    try:
        bind_contextvars(correlation_id="c1")
        structlog.get_logger("tests.kaizen.log").info("from_structlog", password="hunter2")
        logger.info("from %s", "logging")
    finally:
        logger.removeHandler(handler)
    first, second = lines(stream)
    assert (first["event"], first["correlation_id"], first["password"]) == (
        "from_structlog",
        "c1",
        "[hidden]",
    )
    assert (second["event"], second["correlation_id"], second["level"]) == (
        "from logging",
        "c1",
        "info",
    )


def answer(path: str, **headers: str) -> tuple[HttpResponse, dict[str, object]]:
    seen: dict[str, object] = {}

    def view(request: HttpRequest) -> HttpResponse:
        seen.update(get_contextvars())
        return HttpResponse()

    stack = log.RequestLogMiddleware(SafeHeadersMiddleware(view))
    return stack(RequestFactory().get(path, headers=headers)), seen


def test_a_request_gets_an_id_of_ours_and_tells_it() -> None:
    response, seen = answer("/", **{"X-Correlation-ID": "chosen", "X-Request-ID": "chosen"})
    assert seen["correlation_id"] != "chosen"
    assert response["X-Correlation-ID"] == seen["correlation_id"]


def test_the_address_is_the_connection_and_not_what_a_header_claims() -> None:
    _, seen = answer("/", **{"X-Forwarded-For": "203.0.113.9"})
    assert seen["ip"] == "127.0.0.1"


def test_a_query_string_is_not_logged() -> None:
    request = RequestFactory().get("/find", {"q": "private words"})
    assert log.RequestLogMiddleware.format_request(request) == "GET /find"


def test_a_task_goes_on_under_the_id_of_its_request() -> None:
    bind_contextvars(task_id="t1", correlation_id="c1")
    log.bind_task()
    assert get_contextvars()["correlation_id"] == "c1"


def test_a_task_of_nobody_gets_an_id_of_its_own() -> None:
    bind_contextvars(task_id="t1")
    log.bind_task()
    assert get_contextvars()["correlation_id"] == "t1"


def test_pages_run_only_our_own_scripts() -> None:
    response, _ = answer("/rooms/")
    policy = response["Content-Security-Policy"]
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy


def test_a_view_may_set_a_policy_of_its_own() -> None:
    def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse(headers={"Content-Security-Policy": "sandbox"})

    response = SafeHeadersMiddleware(view)(RequestFactory().get("/preview/"))
    assert isinstance(response, HttpResponse)
    assert response["Content-Security-Policy"] == "sandbox"
