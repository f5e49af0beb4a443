"""Hashline: edit files by the line numbers that a read has shown, and only what was shown."""

from apps.domain.hashline.artifact import EditedText, edit_artifact_text
from apps.domain.hashline.engine import edit
from apps.domain.hashline.lines import LineSet
from apps.domain.hashline.refusals import Caution, Refusal, Rule
from apps.domain.hashline.results import Edited, FileOutcome, Refused, SectionResult
from apps.domain.hashline.snapshots import MAX_VERSIONS, Idle, Memory, Snapshot
from apps.domain.hashline.syntax import Grammar, Node, NoGrammar, Survey, SyntaxUnavailable
from apps.domain.hashline.targets import Target, targets_of
from apps.domain.hashline.text import MAX_FILE_BYTES, FileText, read_text, tag_of
from apps.domain.hashline.views import View, view

__all__ = [
    "MAX_FILE_BYTES",
    "MAX_VERSIONS",
    "Caution",
    "Edited",
    "EditedText",
    "FileOutcome",
    "FileText",
    "Grammar",
    "Idle",
    "LineSet",
    "Memory",
    "NoGrammar",
    "Node",
    "Refusal",
    "Refused",
    "Rule",
    "SectionResult",
    "Snapshot",
    "Survey",
    "SyntaxUnavailable",
    "Target",
    "View",
    "edit",
    "edit_artifact_text",
    "read_text",
    "tag_of",
    "targets_of",
    "view",
]
