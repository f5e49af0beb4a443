"""The public JSON Schema test suite, where it lies beside the project."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.domain.schemas import (
    DRAFT_6,
    DRAFT_7,
    DRAFT_2019_09,
    DRAFT_2020_12,
    BadSchema,
    check_schema,
    compile_schema,
)

DRAFTS = {
    "draft2020-12": DRAFT_2020_12,
    "draft2019-09": DRAFT_2019_09,
    "draft7": DRAFT_7,
    "draft6": DRAFT_6,
}
# The limits of ours that may refuse a valid schema, always by name.
OUR_LIMITS = {"remote_reference", "dialect"}


def _groups(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for file in sorted(folder.glob("*.json")):
        for group in json.loads(file.read_text(encoding="utf-8")):
            yield f"{file.name}: {group['description']}", group


@pytest.mark.parametrize("draft", DRAFTS)
def test_every_required_case_is_judged_as_the_suite_says(draft: str, record_property: Any) -> None:
    corpora = os.environ.get("KAIZEN_CORPORA")
    if not corpora:
        pytest.skip("KAIZEN_CORPORA is not set, so the JSON Schema test suite is not at hand.")
    folder = Path(corpora) / "json-schema-suite" / "tests" / draft
    dialect = DRAFTS[draft]
    judged: Counter[str] = Counter()
    wrong: list[str] = []
    for name, group in _groups(folder):
        schema = group["schema"]
        try:
            check_schema(schema, dialect=dialect, strict_own=False)
            validator = compile_schema(schema, dialect=dialect, strict=False)
        except BadSchema as refusal:
            judged[refusal.rule] += 1
            if refusal.rule not in OUR_LIMITS:
                wrong.append(f"{name}: refused by {refusal.rule} at {refusal.path}")
            continue
        for case in group["tests"]:
            judged["cases"] += 1
            if validator.is_valid(case["data"]) is not case["valid"]:
                wrong.append(f"{name}: {case['description']}")
    record_property("judged", dict(judged))
    print(draft, dict(judged))
    assert wrong == []
    assert judged["cases"] > 750


# What the suite calls optional and we do otherwise, in every dialect that has it.
OTHERWISE = {
    # Numbers past what a double holds are compared as doubles.
    "bignum.json: comparison works for high numbers",
    "bignum.json: comparison works for very negative numbers",
    # A schema declares no vocabulary of its own: whether formats are checked is ours to say.
    "format-assertion.json: format-assertion: false: invalid string",
    "format-assertion.json: format-assertion: true: invalid string",
}


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("strict", [True, False], ids=["formats", "the rest"])
def test_optional_cases_are_judged_as_the_suite_says_but_for_those_named(
    draft: str, strict: bool
) -> None:
    corpora = os.environ.get("KAIZEN_CORPORA")
    if not corpora:
        pytest.skip("KAIZEN_CORPORA is not set, so the JSON Schema test suite is not at hand.")
    folder = Path(corpora) / "json-schema-suite" / "tests" / draft / "optional"
    judged = 0
    wrong: set[str] = set()
    refused: set[str] = set()
    for name, group in _groups(folder / "format" if strict else folder):
        try:
            validator = compile_schema(group["schema"], dialect=DRAFTS[draft], strict=strict)
        except BadSchema as refusal:
            refused.add(f"{name.partition(':')[0]}: {refusal.rule}")
            continue
        for case in group["tests"]:
            judged += 1
            if validator.is_valid(case["data"]) is not case["valid"]:
                wrong.add(f"{name.partition(':')[0]}: {case['description']}")
    assert wrong <= OTHERWISE
    # A format that nobody checks is refused where formats are promises; other drafts are remote.
    assert refused <= {"unknown.json: unenforceable", "cross-draft.json: reference"}
    assert judged > 100
