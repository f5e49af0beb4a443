"""Why may a call go ahead, or why not? Every rule's own answer, and the one that decided."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from apps.domain.policy.facts import Facts, ReceiptState
from apps.domain.policy.modes import Waived, approval_mode
from apps.domain.policy.rules import RULES, Rule
from apps.domain.policy.verdicts import Admit, Ask, Refuse, Repeat, Verdict
from apps.domain.tooling.specification import Specification
from apps.domain.tooling.words import Reason

# The rules that a catalog applies when it is put together, each in its own name.
OFFERING: Final = frozenset(
    {
        "tool_is_enabled",
        "policy_tree_allows",
        "agent_ceiling_covers",
        "run_ceiling_covers",
        "agent_was_granted",
        "run_selection_holds",
        "member_choice_holds",
        "member_permissions_cover",
        "room_admits",
    }
)


class Finding(StrEnum):
    """What one rule had to say."""

    PASSED = "passed"
    REFUSED = "refused"
    ASKS = "asks"
    REPEATS = "repeats"


class Fate(StrEnum):
    """What would become of a call."""

    ALLOWED = "allowed"
    ASKS = "asks"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Answer:
    """One rule's answer on the facts."""

    rule: str
    question: str
    finding: Finding
    says: str = ""
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The verdict, the rule that gave it, and what each rule said on its own."""

    verdict: Verdict
    answers: tuple[Answer, ...]

    @property
    def decided_by(self) -> str:
        """The name of the rule that decided; of none where nothing refused or asked."""
        return self.verdict.rule

    @property
    def comes_to(self) -> Fate:
        """What would become of the call."""
        match self.verdict:
            case Refuse():
                return Fate.REFUSED
            case Ask():
                return Fate.ASKS
            case _:
                return Fate.ALLOWED

    @property
    def says(self) -> str:
        """The sentence of the rule that decided, or nothing where none had to say something."""
        spoke = (answer.says for answer in self.answers if answer.rule == self.decided_by)
        return next(spoke, "")

    def then(self, refused: Refuse, question: str) -> "Explanation":
        """Add what is looked at only when a call begins, and would refuse it as things stand.

        Who is to be asked first is asked all the same: it may be there again by the time of a yes.
        """
        answer = Answer(refused.rule, question, Finding.REFUSED, refused.message, refused.reason)
        verdict = refused if self.comes_to is Fate.ALLOWED else self.verdict
        return Explanation(verdict=verdict, answers=(*self.answers, answer))

    @property
    def reason(self) -> Reason | None:
        """The stable code of a refusal."""
        return self.verdict.reason if isinstance(self.verdict, Refuse) else None


def decide(spec: Specification, facts: Facts) -> Verdict:
    """Return the verdict of the first rule that has one, or admit under the tool's own mode."""
    for rule in RULES:
        verdict = rule.ask(spec, facts, rule.name)
        if verdict is not None:
            return verdict
    resolved = approval_mode(spec, facts.asking)
    # A yes that was given is a receipt, whatever would pass without one.
    waived = Waived.NOT if facts.approval is ReceiptState.APPROVED else resolved.waived
    return Admit(resolved.mode, "nothing_refuses", waived)


def explain(spec: Specification, facts: Facts) -> Explanation:
    """Ask every rule, also those after the one that decides."""
    answers = tuple(_answer(rule, rule.ask(spec, facts, rule.name)) for rule in RULES)
    return Explanation(verdict=decide(spec, facts), answers=answers)


def may_be_offered(spec: Specification, facts: Facts) -> bool:
    """Tell whether a catalog may hold a tool: whatever of it would be refused anyway stays out.

    Only rules that speak of the tool itself are asked. Every call is judged again by all of them.
    """
    return not any(
        isinstance(rule.ask(spec, facts, rule.name), Refuse)
        for rule in RULES
        if rule.name in OFFERING
    )


def _answer(rule: Rule, verdict: Verdict | None) -> Answer:
    match verdict:
        case Refuse(reason=reason, message=message):
            return Answer(rule.name, rule.question, Finding.REFUSED, message, reason)
        case Ask(why=why):
            return Answer(rule.name, rule.question, Finding.ASKS, why)
        case Repeat():
            says = "The same call succeeded earlier in this turn."
            return Answer(rule.name, rule.question, Finding.REPEATS, says)
        case _:
            return Answer(rule.name, rule.question, Finding.PASSED)
