"""How do administrators see whether everything works? The sentences of the probes, on one page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from django.contrib import admin
from django.db import DatabaseError
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from apps.core.admin import Card, Cell, Fact, Sheet, Verb, code, moment, plural, span
from apps.core.gauges import waiting_work
from apps.core.health import Part, Word, look_around

MOST_SHOWN = 1000
_WORDS = {
    Word.OK: ("Works", "ok", "check_circle"),
    Word.AWAY: ("Away", "bad", "error"),
    Word.BEHIND: ("Behind", "bad", "error"),
    Word.OFF: ("Off", "wait", "warning"),
}
_CONSEQUENCE = (
    "Every part is asked again, and the sandbox is tried from inside, with each of its runtimes."
    " It takes half a minute at most and changes nothing."
)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def health(request: HttpRequest) -> TemplateResponse:
    """Show every part as `/readyz` tells of it; posted, after a probe that trusts no memory."""
    closely = request.method == "POST"
    sheet = health_sheet(look_around(closely=closely), closely=closely)
    whole = {
        **admin.site.each_context(request),
        "title": "Health",
        "is_fullwidth": "1",
        "sheet": sheet,
    }
    return TemplateResponse(request, "admin/sheet.html", whole)


def health_sheet(parts: Sequence[Part], *, closely: bool) -> Sheet:
    """Return the page: what is wrong first, then what each part says of itself."""
    serves = all(part.holds for part in parts)
    troubled = [part for part in parts if part.word is not Word.OK]
    return Sheet(
        title=_headline(parts),
        icon="monitor_heart",
        summary=(
            "Requests are served." if serves else "Requests are not served until that is mended."
        ),
        tags=[Cell("ready", "ok") if serves else Cell("unavailable", "bad")],
        verbs=[Verb(reverse("admin_health"), "Probe afresh", _CONSEQUENCE)],
        cards=[
            Card(
                "To mend",
                headers=("Part", "What to do"),
                rows=[(Cell(part.name), Cell(part.mend or part.sentence)) for part in troubled],
                empty="Nothing is to be mended.",
            ),
            Card(
                "Parts",
                headers=("Part", "State", "What it says"),
                rows=[(Cell(part.name), _state(part), Cell(part.sentence)) for part in parts],
            ),
            *(card for part in parts for card in _details(part)),
            _probe(closely=closely),
            *(_versions(part) for part in parts if part.versions),
            _work(parts),
        ],
    )


def _headline(parts: Sequence[Part]) -> str:
    troubled = [part.name for part in parts if part.word is not Word.OK]
    if not troubled:
        return "Everything works"
    return f"{plural(len(troubled), 'part does', 'parts do')} not work: {', '.join(troubled)}"


def _state(part: Part) -> Cell:
    words, tone, icon = _WORDS[part.word]
    return Cell(words, tone, icon)


def _details(part: Part) -> list[Card]:
    cards = []
    if part.missing:
        cards.append(
            Card(
                f"What the {part.name} lacks",
                headers=("Missing",),
                rows=[(Cell(line),) for line in part.missing],
            )
        )
    if part.in_force:
        cards.append(
            Card(
                f"What holds in the {part.name}",
                headers=("What", "How"),
                rows=[_in_force(line) for line in part.in_force],
            )
        )
    return cards


def _in_force(line: str) -> tuple[Cell, Cell]:
    what, apart, how = line.partition(": ")
    return (Cell(what), Cell(how)) if apart else (Cell("—"), Cell(what))


def _versions(part: Part) -> Card:
    facts = [Fact(name, code(version)) for name, version in part.versions]
    return Card("Runtimes", facts=facts, aside=True)


def _probe(*, closely: bool) -> Card:
    how = "just now, every part" if closely else "quickly, as probes do"
    facts = [
        Fact("Asked", Cell(how)),
        Fact("At", moment(timezone.now())),
        Fact("For probes", Cell("/readyz", mono=True, href=reverse("readyz"))),
    ]
    return Card("This look", facts=facts, aside=True)


def _work(parts: Sequence[Part]) -> Card:
    title = "Work that waits for a worker"
    try:
        work = list(waiting_work(MOST_SHOWN))
    except DatabaseError:
        return Card(title, headers=("Kind",), empty="Unknown while the database is away.")
    rows = [
        (
            Cell(name.replace("_", " ")),
            Cell(f"{many:,}{' or more' if many >= MOST_SHOWN else ''}"),
            Cell(span(timedelta(seconds=oldest))),
        )
        for name, many, oldest in work
        if many
    ]
    return Card(title, headers=("Kind", "Ready", "Oldest"), rows=rows, empty="Nothing waits.")
