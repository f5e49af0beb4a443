"""Ask tree-sitter about a text, in this process.

Its grammars are C code, and some of them crash or take very long on texts made to that end. So a
process that holds anything worth having never does this: the child does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from apps.domain.hashline.languages import LANGUAGES, language_of
from apps.domain.hashline.syntax import Node, Survey, SyntaxUnavailable
from apps.domain.hashline.text import indent_of, rows_of

if TYPE_CHECKING:
    import tree_sitter
    from tree_sitter_language_pack import SupportedLanguage

MAX_DEPTH = 512
"""A node that lies deeper belongs to no text that a person edits."""

_COMMENTS = frozenset({"comment", "line_comment", "block_comment"})


class TreeSitter:
    """The grammars of tree-sitter; the last trees are kept, for one text is asked about twice."""

    def __init__(self, *, keep: int = 2) -> None:
        self._keep = keep
        self._trees: dict[tuple[str, str], tree_sitter.Tree] = {}

    def survey(self, path: str, text: str, rows: Sequence[int]) -> Survey | None:
        """Answer for these rows, None where no grammar is known, or raise SyntaxUnavailable."""
        language = language_of(path)
        if language is None:
            return None
        root = self._tree(language, text).root_node
        lines = rows_of(text) if rows else []
        chains: dict[int, tuple[Node, ...]] = {}
        for row in rows:
            if 0 <= row < len(lines) and lines[row].strip(" \t"):
                chains[row] = _chain(root, row, len(indent_of(lines[row])))
        constructs = sum(1 for child in root.named_children if child.type not in _COMMENTS)
        return Survey(root.has_error, constructs, chains)

    def _tree(self, language: str, text: str) -> tree_sitter.Tree:
        key = (language, text)
        tree = self._trees.pop(key, None)
        if tree is None:
            tree = _parser(language).parse(text.encode())
        self._trees[key] = tree
        while len(self._trees) > self._keep:
            del self._trees[next(iter(self._trees))]
        return tree


def load_grammars() -> None:
    """Load every grammar now, for a process that will not be able to open files later."""
    for language in sorted(LANGUAGES):
        _parser(language).parse(b"")


def _parser(language: str) -> tree_sitter.Parser:
    # Grammars are megabytes of code, and most processes never parse anything.
    from tree_sitter_language_pack import get_parser

    return get_parser(cast("SupportedLanguage", language))


def _chain(root: tree_sitter.Node, row: int, column: int) -> tuple[Node, ...]:
    # One column wide, not a point: some grammars have nodes without width there.
    smallest = root.named_descendant_for_point_range((row, column), (row, column + 1))
    if smallest is None or smallest.id == root.id:
        return ()
    outermost_first: list[Node] = []
    node = root.child_with_descendant(smallest)
    while node is not None:
        if len(outermost_first) > MAX_DEPTH:
            raise SyntaxUnavailable("The syntax is nested too deeply.")
        if node.is_named:
            outermost_first.append(_described(node))
        if node.id == smallest.id:
            break
        node = node.child_with_descendant(smallest)
    return tuple(reversed(outermost_first))


def _described(node: tree_sitter.Node) -> Node:
    start, end = node.start_point, node.end_point
    return Node(
        kind=node.type,
        start_row=start[0],
        start_column=start[1],
        end_row=end[0],
        end_column=end[1],
        broken=node.has_error,
        error=node.is_error,
    )
