"""What a package's tool says of its own failure reaches the model as its answer would."""

from __future__ import annotations

import pytest

from apps.domain.manifests import parse_manifest
from apps.domain.projection import project
from apps.domain.tooling import ToolFailure
from apps.sandbox.runner import ReplyKind, ToolReply
from apps.tools.packaged import _result
from tests.factories import packages as made

TOOL = parse_manifest(made.manifest()).tools[0]


@pytest.mark.parametrize(
    ("kind", "whole"),
    [
        (ReplyKind.STATED, True),
        # What a program printed before it failed.
        (ReplyKind.CRASHED, True),
        (ReplyKind.RAISED, False),
        (ReplyKind.PROTOCOL_ERROR, False),
    ],
)
def test_its_own_words_are_bounded_as_results_and_sentences_about_it_as_sentences(
    kind: ReplyKind, whole: bool
) -> None:
    failure = _result(ToolReply(kind, message="x" * 20_000), TOOL, TOOL.specification())
    assert isinstance(failure, ToolFailure)
    message = project(failure, TOOL.specification())["message"]
    assert (message == "x" * 20_000) is whole
    assert message.endswith("[18000 more characters]") is not whole
