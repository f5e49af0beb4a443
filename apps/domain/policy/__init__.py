"""May this call go ahead? A pure answer from gathered facts, and the rule that gave it.

The rules are asked in one fixed order and the first that has something to say decides. A fact
that nobody could establish is `None`, and an unknown is always a refusal. Facts are added to
`facts.py`, rules to `rules.py`, in their place; what asks and what passes is in `modes.py`.
"""

from apps.domain.policy.explain import (
    OFFERING,
    Answer,
    Explanation,
    Fate,
    Finding,
    decide,
    explain,
    may_be_offered,
)
from apps.domain.policy.facts import Facts, Narrowing, ReceiptState
from apps.domain.policy.modes import (
    ApprovalMode,
    Asking,
    AskPolicy,
    AskRule,
    Floor,
    MemberMode,
    Resolved,
    Scope,
    Second,
    Waived,
    approval_mode,
    ask_policy,
    asks_unattended,
    declared_mode,
    may_ask,
)
from apps.domain.policy.rules import RULES, Rule, needs_grant
from apps.domain.policy.tree import (
    OPEN_FAMILIES,
    ROOT,
    Level,
    NodeState,
    Path,
    PolicyTree,
    Standing,
    Why,
    level_of,
    node_words,
    path_of,
)
from apps.domain.policy.verdicts import Admit, Ask, Refuse, Repeat, Verdict

__all__ = [
    "OFFERING",
    "OPEN_FAMILIES",
    "ROOT",
    "RULES",
    "Admit",
    "Answer",
    "ApprovalMode",
    "Ask",
    "AskPolicy",
    "AskRule",
    "Asking",
    "Explanation",
    "Facts",
    "Fate",
    "Finding",
    "Floor",
    "Level",
    "MemberMode",
    "Narrowing",
    "NodeState",
    "Path",
    "PolicyTree",
    "ReceiptState",
    "Refuse",
    "Repeat",
    "Resolved",
    "Rule",
    "Scope",
    "Second",
    "Standing",
    "Verdict",
    "Waived",
    "Why",
    "approval_mode",
    "ask_policy",
    "asks_unattended",
    "decide",
    "declared_mode",
    "explain",
    "level_of",
    "may_ask",
    "may_be_offered",
    "needs_grant",
    "node_words",
    "path_of",
]
