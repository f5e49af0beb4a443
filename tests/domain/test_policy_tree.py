"""The four levels: who may tighten, who may let in, and who has the last word."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.domain.policy import (
    ROOT,
    Level,
    NodeState,
    Path,
    PolicyTree,
    Standing,
    Why,
    level_of,
    node_words,
)

FAMILY: Path = ("mcp",)
SURFACE: Path = ("mcp", "deploy")
TOOL: Path = ("mcp", "deploy", "restart")
CHAIN = (ROOT, FAMILY, SURFACE, TOOL)

UNSET, ALLOWED, DISABLED = NodeState.UNSET, NodeState.ALLOWED, NodeState.DISABLED


def tree(*states: NodeState, open_family: bool = False) -> PolicyTree:
    """A tree with these words from the root down."""
    families = frozenset({"mcp"}) if open_family else frozenset[str]()
    return PolicyTree(dict(zip(CHAIN, states, strict=True)), open_families=families)


@pytest.mark.parametrize("open_family", [False, True])
@pytest.mark.parametrize("states", list(product(NodeState, repeat=4)))
def test_every_combination_of_the_four_levels(
    states: tuple[NodeState, ...], open_family: bool
) -> None:
    standing = tree(*states, open_family=open_family).standing(TOOL)
    root, family, surface, exact = states
    if DISABLED in states:
        # A ceiling, whatever stands beneath it; the highest is the one to name.
        assert standing == Standing(False, Why.DISABLED, CHAIN[states.index(DISABLED)])
    elif exact is ALLOWED:
        assert standing == Standing(True, Why.ALLOWED, TOOL)
    elif surface is ALLOWED:
        assert standing == Standing(True, Why.ALLOWED, SURFACE)
    elif open_family:
        assert standing == Standing(True, Why.OPEN_FAMILY, FAMILY)
    else:
        # Allowing the root or a source grants nothing beneath it.
        assert standing == Standing(False, Why.NOT_LET_IN, FAMILY)
    assert {root, family} <= set(NodeState)


def test_the_untouched_tree_keeps_own_and_package_tools_open_and_all_else_out() -> None:
    untouched = PolicyTree()
    assert untouched.standing(("kaizen", "artifacts", "create_artifact")).allowed
    assert untouched.standing(("packages", "weather", "pkg_weather_convert")).allowed
    assert not untouched.standing(("mcp", "deploy", "restart")).allowed
    assert not untouched.standing(("somewhere-new", "a", "b")).allowed


def test_an_allowed_surface_admits_operations_that_do_not_exist_yet() -> None:
    admitting = PolicyTree({SURFACE: ALLOWED})
    assert admitting.standing((*SURFACE, "made_tomorrow")) == Standing(True, Why.ALLOWED, SURFACE)
    assert not admitting.standing(("mcp", "billing", "made_tomorrow")).allowed


def test_an_exact_disabled_tool_is_an_exception_under_an_allowed_surface() -> None:
    mixed = PolicyTree({SURFACE: ALLOWED, TOOL: DISABLED})
    assert mixed.standing(TOOL) == Standing(False, Why.DISABLED, TOOL)
    assert mixed.standing((*SURFACE, "list")).allowed


@pytest.mark.parametrize("ceiling", [ROOT, FAMILY, SURFACE])
def test_an_old_exact_allow_does_not_reach_through_a_disabled_ancestor(ceiling: Path) -> None:
    pierced = PolicyTree({TOOL: ALLOWED}).changed({ceiling: DISABLED})
    assert pierced.standing(TOOL) == Standing(False, Why.DISABLED, ceiling)
    assert pierced.changed({ceiling: UNSET}).standing(TOOL).allowed


@pytest.mark.parametrize("node", CHAIN)
def test_a_node_that_cannot_be_read_shuts_what_hangs_beneath_it_and_nothing_else(
    node: Path,
) -> None:
    torn = PolicyTree({TOOL: ALLOWED}, unreadable=frozenset({node}))
    assert torn.standing(TOOL) == Standing(False, Why.UNREADABLE, node)
    elsewhere = torn.standing(("kaizen", "artifacts", "create_artifact"))
    assert elsewhere.allowed is (node != ROOT)
    # Saying it anew mends it.
    assert torn.changed({node: ALLOWED}).standing(TOOL).allowed


def test_root_and_source_answer_only_whether_they_are_open() -> None:
    assert PolicyTree().standing(ROOT) == Standing(True, Why.NOT_TIGHTENED, ROOT)
    assert PolicyTree({FAMILY: DISABLED}).standing(FAMILY) == Standing(False, Why.DISABLED, FAMILY)
    assert [level_of(path) for path in CHAIN] == list(Level)


def test_nodes_have_words() -> None:
    assert [node_words(path) for path in CHAIN] == [
        "the whole deployment",
        "the source mcp",
        "the surface deploy",
        "the tool restart",
    ]


words = st.sampled_from(["kaizen", "mcp", "a", "b"])
paths = st.lists(words, max_size=4).map(tuple).filter(lambda path: len(path) <= 3)
endpoints = st.tuples(words, words, words)
trees = st.builds(
    PolicyTree,
    st.dictionaries(paths, st.sampled_from(list(NodeState))),
    st.frozensets(paths, max_size=1),
)


@given(trees, endpoints, paths)
@settings(deadline=None, max_examples=500)
def test_disabling_any_node_never_admits_anything(
    given_tree: PolicyTree, tool: Path, node: Path
) -> None:
    if node not in given_tree.unreadable:
        tighter = given_tree.changed({node: DISABLED})
        assert tighter.standing(tool).allowed <= given_tree.standing(tool).allowed


@given(trees, endpoints, paths.filter(lambda path: len(path) < Level.SURFACE))
@settings(deadline=None, max_examples=500)
def test_allowing_root_or_source_never_admits_more_than_leaving_them_alone(
    given_tree: PolicyTree, tool: Path, node: Path
) -> None:
    allowed = given_tree.changed({node: ALLOWED}).standing(tool).allowed
    assert allowed == given_tree.changed({node: UNSET}).standing(tool).allowed


@given(trees, endpoints)
@settings(deadline=None, max_examples=500)
def test_what_is_allowed_has_no_ceiling_above_and_a_word_or_an_open_source(
    given_tree: PolicyTree, tool: Path
) -> None:
    standing = given_tree.standing(tool)
    chain = [tool[:depth] for depth in range(4)]
    assert standing.decided_by in chain
    if standing.allowed:
        assert all(given_tree.state(node) is not DISABLED for node in chain)
        let_in = given_tree.state(tool) is ALLOWED or given_tree.state(tool[:2]) is ALLOWED
        assert let_in or tool[0] in given_tree.open_families


@given(trees, st.dictionaries(paths, st.sampled_from(list(NodeState))))
def test_changes_change_exactly_what_they_name(
    given_tree: PolicyTree, changes: dict[Path, NodeState]
) -> None:
    after = given_tree.changed(changes)
    for path in {*given_tree.states, *changes}:
        assert after.state(path) is changes.get(path, given_tree.state(path))
