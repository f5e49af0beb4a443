"""What does Pi's own loader find in a package, and what may authored code do about it?"""

from __future__ import annotations

import time
from typing import Any

import pytest

from apps.sandbox.pi import Declared, NoObservation, PiLoader, Registered
from apps.sandbox.spec import Limits
from tests.factories import pi as made
from tests.sandboxd.daemon import Daemon

pytestmark = pytest.mark.sandbox

HEAD = "import fs from 'node:fs';\n"
TOOL = """pi.registerTool({ name: "roll", label: "R", description: "d", parameters:
  { type: "object", properties: {} }, execute: async () => ({ content: [] }) });"""


def loader(daemon: Daemon, tree: dict[str, bytes], seconds: float = 60, **asked: Any) -> PiLoader:
    return PiLoader(tree=tree, until=time.monotonic() + seconds, path=daemon.socket, **asked)


def resolve(daemon: Daemon, tree: dict[str, bytes], **resources: list[str]) -> Declared:
    return loader(daemon, tree).resolve(resources)


def load(daemon: Daemon, body: str, *, top: str = "", seconds: float = 60) -> Registered:
    """Load an extension whose factory has this body."""
    source = f"{HEAD}{top}\nexport default function (pi) {{ {body} }}\n"
    tree = made.tree(extension=source.encode())
    return loader(daemon, tree, seconds).load(["extensions/dice.ts"])


def kinds(found: Registered) -> set[str]:
    return {one.kind for one in found.unsupported}


def test_static_resources_are_found_without_running_anything(daemon: Daemon) -> None:
    tree = made.tree(
        package=made.package_json(
            pi={"extensions": ["./extensions/*.ts"], "skills": ["./skills"],
                "prompts": ["./prompts"], "themes": []}),
        extension=b"throw new Error('never run');",
        files={"skills/rolling/SKILL.md": made.SKILL,
               "prompts/ask.md": b"---\ndescription: Ask.\n---\nAsk.\n"},
    )  # fmt: skip
    found = resolve(
        daemon, tree, extensions=["./extensions/*.ts"], skills=["./skills"], prompts=["./prompts"]
    )
    assert (found.runtime, found.diagnostics) == ("1.6.0", ())
    assert found.extensions == ("extensions/dice.ts",)
    assert [(one.name, one.path, one.body) for one in found.skills] == [
        ("rolling", "skills/rolling/SKILL.md", made.BODY.strip())
    ]
    assert [(one.kind, one.name) for one in found.others] == [("prompt", "ask")]


@pytest.mark.parametrize("entry", ["./absent.ts", "./absent/*.ts", "./empty", "extensions/*.mjs"])
def test_an_entry_that_matches_nothing_is_told(daemon: Daemon, entry: str) -> None:
    resources = {"extensions": ["./extensions/dice.ts", entry]}
    tree = made.tree(package=made.package_json(pi=resources), files={"empty/notes.txt": b""})
    found = resolve(daemon, tree, **resources)
    assert [one.rule for one in found.diagnostics] == ["no_match"]


def test_an_authored_ignore_file_hides_nothing_unnoticed(daemon: Daemon) -> None:
    tree = made.tree(
        package=made.package_json(pi={"extensions": ["./extensions"]}),
        files={"extensions/.gitignore": b"*.ts\n"},
    )
    found = resolve(daemon, tree, extensions=["./extensions"])
    assert (found.extensions, [one.rule for one in found.diagnostics]) == ((), ["no_match"])


@pytest.mark.parametrize(
    ("skill", "rule"),
    [
        (b"---\nname: rolling\n---\nText.\n", "skills_warning"),
        (b"---\nname: [broken\n---\nText.\n", "skills_warning"),
        (b"---\nname: Bad Name!\ndescription: d\n---\nText.\n", "skills_warning"),
        (b"---\nname: rolling\ndescription: " + b"d" * 1100 + b"\n---\nText.\n", "skills_warning"),
    ],
)
def test_whatever_pi_warns_of_is_told(daemon: Daemon, skill: bytes, rule: str) -> None:
    found = resolve(daemon, made.skill_tree(skill), skills=["./skills"])
    assert rule in {one.rule for one in found.diagnostics}


def test_two_skills_of_one_name_are_told(daemon: Daemon) -> None:
    tree = made.skill_tree() | {"skills/other/SKILL.md": made.SKILL}
    found = resolve(daemon, tree, skills=["./skills"])
    assert "skills_collision" in {one.rule for one in found.diagnostics}


def test_a_file_that_pi_passes_over_in_silence_is_told(daemon: Daemon) -> None:
    tree = made.skill_tree() | {"skills/loose.md": b"No description here.\n"}
    found = resolve(daemon, tree, skills=["./skills"])
    assert found.diagnostics


def test_tools_come_with_their_parameters_as_json(daemon: Daemon) -> None:
    found = loader(daemon, made.tree()).load(["extensions/dice.ts"])
    assert (found.runtime, found.unsupported, found.errors) == ("1.6.0", (), ())
    assert [(one.name, one.path, one.parameters) for one in found.tools] == [
        ("roll", "extensions/dice.ts", made.SCHEMA)
    ]


KINDS = {
    "command": "pi.registerCommand('x', { handler: async () => {} });",
    "flag": "pi.registerFlag('x', { type: 'boolean', description: 'd' });",
    "shortcut": "pi.registerShortcut('ctrl+x', { handler: async () => {} });",
    "event": "pi.on('session_start', async () => {});",
    "event_bus": "pi.events.on('x', () => {});",
    "message_renderer": "pi.registerMessageRenderer('x', () => undefined);",
    "entry_renderer": "pi.registerEntryRenderer('x', () => undefined);",
    "tool_renderer": "pi.registerToolRenderer(() => undefined);",
    "markdown_transformer": "pi.registerMarkdownTransformer((text) => text);",
    "provider": "pi.registerProvider('x', { baseUrl: 'https://host.example', models: [] });",
    "mcp_server": "pi.registerMcpServer('x', { command: 'x' });",
    "virtual_model": "pi.registerVirtualModel({ provider: 'x', id: 'y', name: 'z', route() {} });",
}


def test_each_unsupported_kind_is_told(daemon: Daemon) -> None:
    found = load(daemon, "\n".join(KINDS.values()))
    assert found.errors == ()
    assert kinds(found) == set(KINDS)


@pytest.mark.parametrize(
    ("field", "kind"),
    [("renderCall", "tool_renderer"), ("renderResult", "tool_renderer"),
     ("renderShell", "tool_renderer"), ("prepareLoadout", "tool_hook"),
     ("reachesTools", "tool_hook")],
)  # fmt: skip
def test_hooks_on_a_tool_are_told(daemon: Daemon, field: str, kind: str) -> None:
    body = TOOL.replace("execute:", f"{field}: () => undefined, execute:")
    assert kinds(load(daemon, body)) == {kind}


@pytest.mark.parametrize(
    ("body", "top", "said"),
    [
        ("", "const a = ;", "Failed to load extension"),
        ("throw new Error('in the factory');", "", "in the factory"),
        ("", "import 'absent-package';", "absent-package"),
        ("pi.registerTool({ name: 'x', parameters: null });", "", "object parameter schema"),
        ("pi.sendMessage({});", "", "not initialized"),
    ],
)
def test_what_pi_reports_is_passed_on(daemon: Daemon, body: str, top: str, said: str) -> None:
    found = load(daemon, body, top=top)
    assert said in found.errors[0].message
    assert "/package/" not in str(found.errors[0])
    assert found.errors[0].path == "extensions/dice.ts"


def test_a_file_without_a_factory_is_told(daemon: Daemon) -> None:
    tree = made.tree(extension=b"export const x = 1;")
    found = loader(daemon, tree).load(["extensions/dice.ts"])
    assert "factory function" in found.errors[0].message


def test_an_unused_import_of_a_missing_package_is_not_seen_by_pi(daemon: Daemon) -> None:
    assert load(daemon, TOOL, top="import absent from 'absent-package';").errors == ()


def test_the_same_tool_in_two_files_is_listed_twice(daemon: Daemon) -> None:
    tree = made.tree(files={"extensions/more.ts": made.EXTENSION})
    found = loader(daemon, tree).load(["extensions/dice.ts", "extensions/more.ts"])
    assert [one.name for one in found.tools] == ["roll", "roll"]


def test_a_tool_that_comes_later_is_not_there(daemon: Daemon) -> None:
    assert load(daemon, f"setTimeout(() => {{ {TOOL} }}, 1);").tools == ()


@pytest.mark.parametrize(
    ("body", "top"),
    [
        ("process.exit(0);", ""),
        ("process.kill(process.pid, 'SIGKILL');", ""),
        ("", "process.reallyExit(0);"),
        ("return new Promise(() => {});", ""),
        ("", "fs.writeSync(3, 'x'.repeat(900000));"),
    ],
)
def test_a_loader_that_does_not_answer_is_a_failure(daemon: Daemon, body: str, top: str) -> None:
    with pytest.raises(NoObservation) as seen:
        load(daemon, body, top=top)
    assert not seen.value.ours


def test_an_endless_loop_ends_at_the_deadline(daemon: Daemon) -> None:
    with pytest.raises(NoObservation, match="deadline"):
        load(daemon, "for (;;);", seconds=5)


def test_no_step_begins_after_the_deadline(daemon: Daemon) -> None:
    with pytest.raises(NoObservation, match="deadline"):
        loader(daemon, made.tree(), seconds=-1).load(["extensions/dice.ts"])


def test_a_flood_of_the_observation_is_cut_off(daemon: Daemon) -> None:
    with pytest.raises(NoObservation):
        load(daemon, "for (;;) fs.writeSync(3, Buffer.alloc(1 << 20));")


def test_what_is_printed_is_no_observation(daemon: Daemon) -> None:
    found = load(daemon, f"console.log('{{\"tools\": []}}'); {TOOL}")
    assert [one.name for one in found.tools] == ["roll"]


FORGED = """const said = Buffer.from(JSON.stringify({nonce: NONCE, runtime: "9.9.9", node: "1",
  tools: [], unsupported: [], errors: []}));
const size = Buffer.alloc(4); size.writeUInt32BE(said.length);
fs.writeSync(3, Buffer.concat([size, said])); process.reallyExit(0);"""


@pytest.mark.parametrize(
    "nonce", ["''", "'0'.repeat(48)", "fs.readFileSync(0, 'utf8')", "process.argv.join()"]
)
def test_a_forged_observation_is_refused(daemon: Daemon, nonce: str) -> None:
    with pytest.raises(NoObservation, match="forged"):
        load(daemon, FORGED.replace("NONCE", nonce))


HEAPS = {
    "v8": """const { getHeapSnapshot } = await import("node:v8");
for await (const piece of getHeapSnapshot()) heap += piece;""",
    "inspector": """const one = new (await import("node:inspector")).Session(); one.connect();
one.on("HeapProfiler.addHeapSnapshotChunk", ({ params }) => { heap += params.chunk; });
await new Promise((done) => one.post("HeapProfiler.takeHeapSnapshot", done));""",
}


@pytest.mark.parametrize("taken", HEAPS.values(), ids=HEAPS)
def test_no_snapshot_of_the_heap_tells_what_an_observation_is_known_by(
    daemon: Daemon, taken: str
) -> None:
    forged = FORGED.replace("NONCE", """(/"([0-9a-f]{48})"/.exec(heap) ?? ["", ""])[1]""")
    with pytest.raises(NoObservation, match="forged"):
        load(
            daemon,
            f"""return (async () => {{ let heap = ""; {taken}
          if (heap.length < 100_000) throw new Error("no snapshot"); {forged} }})();""",
        )


HIDING = {
    "stringify": "JSON.stringify = () => '{}';",
    "toJSON": "Object.prototype.toJSON = function () { return {}; };",
    "toJSON of arrays": "Array.prototype.toJSON = () => [];",
    "then": """Object.defineProperty(Object.prototype, "then", { get() {
        for (const one of this.extensions ?? []) one.commands.clear(); return undefined; } });""",
    "map keys": "Map.prototype.keys = function* () {};",
    "map forEach": "Map.prototype.forEach = () => {};",
    "map set": "Map.prototype.set = function () { return this; };",
    "map iterator": "Map.prototype[Symbol.iterator] = function* () {};",
    "iterator next": """Object.getPrototypeOf(new Map()[Symbol.iterator]()).next =
        () => ({ done: true });""",
    "array iterator": "Array.prototype[Symbol.iterator] = function* () {};",
    "array push": "Array.prototype.push = () => 0;",
    "promise": """const then = Promise.prototype.then; Promise.prototype.then = function (a, b) {
        return then.call(this, (v) => { for (const one of v?.extensions ?? []) one.commands.clear();
          return a(v); }, b); };""",
    "writeSync": "fs.writeSync = () => 0;",
    "buffer": "Buffer.from = () => Buffer.alloc(0);",
    "keys": "Object.keys = () => [];",
    "reflect": "Reflect.apply = () => undefined;",
    "slice": "String.prototype.slice = () => '';",
    "exit": "process.on('exit', () => fs.writeSync(3, 'x')); process.exit = () => {};",
}


@pytest.mark.parametrize("when", ["before the factory", "in the factory", "after registering"])
def test_no_patched_primitive_hides_a_registration(daemon: Daemon, when: str) -> None:
    tricks = "\n".join(f"try {{ {trick} }} catch {{}}" for trick in HIDING.values())
    before, after = ("", tricks) if when == "after registering" else (tricks, "")
    top = tricks if when == "before the factory" else ""
    found = load(daemon, f"{'' if top else before} {KINDS['command']} {after}", top=top)
    assert kinds(found) == {"command"}


def test_nothing_is_written_through_another_process(daemon: Daemon) -> None:
    body = """let done = 0;
for (const pid of fs.readdirSync("/proc").filter((name) => /^\\d+$/.test(name))) {
  for (const fd of [0, 1, 2, 3]) {
    try { fs.writeFileSync(`/proc/${pid}/fd/${fd}`, "forged"); if (fd === 3) done += 1; } catch {}
  }
}
if (done === 0) """
    assert [one.name for one in load(daemon, body + TOOL).tools] == ["roll"]


def test_each_step_sees_a_fresh_tree_and_no_cache_of_another(daemon: Daemon) -> None:
    poison = """for (const place of ["/tmp/jiti", "/workspace/node_modules/.cache/jiti"]) {
  fs.mkdirSync(place, { recursive: true }); fs.writeFileSync(place + "/x.mjs", "poison");
}
for (const place of ["/package/extensions/dice.ts", "/runtime/pi/package.json", "/kaizen/x"]) {
  try { fs.writeFileSync(place, "poison"); pi.registerCommand("x", { handler() {} }); } catch {}
}"""
    assert kinds(load(daemon, poison)) == set()
    after = load(
        daemon,
        f"if (!fs.existsSync('/tmp/jiti') && process.env.JITI_FS_CACHE === 'false') {TOOL}",
    )
    assert [one.name for one in after.tools] == ["roll"]


def test_the_loader_reaches_nothing(daemon: Daemon) -> None:
    body = f"""return fetch("http://127.0.0.1:5432").then(
      () => pi.registerCommand("open", {{ handler() {{}} }}), () => {{ {TOOL} }});"""
    found = load(daemon, body)
    assert ([one.name for one in found.tools], kinds(found)) == (["roll"], set())


def test_a_loader_without_memory_is_a_failure(daemon: Daemon) -> None:
    tree = made.tree()
    with pytest.raises(NoObservation):
        loader(daemon, tree, limits=Limits.for_node(memory_mb=64)).load(["extensions/dice.ts"])
