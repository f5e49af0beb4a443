"""What run_code tells of the document libraries is true of those that the sandbox has."""

from __future__ import annotations

import pytest

from apps.sandbox.coding.idioms import IDIOMS, Idiom
from apps.sandbox.coding.inspecting import inspect
from apps.sandbox.coding.programs import LIMITS, Language, start_of
from apps.tools.registry import BUILTIN_TOOLS
from tests.sandboxd.daemon import Daemon

pytestmark = pytest.mark.sandbox


@pytest.mark.parametrize("idiom", IDIOMS, ids=lambda one: one.library)
def test_each_idiom_runs_with_the_libraries_of_the_sandbox_and_makes_a_sound_file(
    daemon: Daemon, idiom: Idiom
) -> None:
    start = start_of(Language.PYTHON, idiom.program, runtimes=["office"])
    made = daemon.run(
        *start.argv,
        runtimes=start.runtimes,
        harness=start.harness,
        stdin=start.stdin,
        waits=start.waits,
        outputs=(idiom.target,),
        limits=LIMITS,
        deadline_s=60,
    )
    assert (made.reason, made.stderr) == ("ok", b"")
    [output] = made.outputs
    [found] = inspect([(output.name, output.content)], path=daemon.socket)
    assert found.unfit == ""
    assert found.preview is not None
    assert found.preview["summary"]


def test_the_description_carries_every_idiom_word_for_word() -> None:
    said = BUILTIN_TOOLS["run_code"].spec.description
    for idiom in IDIOMS:
        assert idiom.program in said
        assert idiom.library in said


def test_description_and_code_both_tell_of_the_shared_files() -> None:
    spec = BUILTIN_TOOLS["run_code"].spec
    for said in (spec.description, spec.input_schema["properties"]["code"]["description"]):
        assert "KAIZEN_SHARED_RESOURCES_DIR" in said
        assert "KAIZEN_SHARED_RESOURCES_MANIFEST" in said
