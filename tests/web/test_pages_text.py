"""What the page makes of text: it is set, compared and shown, and never becomes markup."""

from __future__ import annotations

import json

import pytest

from tests.web.modules import Run

pytestmark = pytest.mark.browser


def rendered(run: Run, text: str) -> str:
    html: str = run(
        "room/markdown.js",
        "const box = document.createElement('div'); box.append(...module.markdown(text));"
        "return box.innerHTML;",
        text=text,
    )
    return html


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("# A\n\ntext", "<h1>A</h1><p>text</p>"),
        ("**b** and *i* and `c`", "<p><strong>b</strong> and <em>i</em> and <code>c</code></p>"),
        ("- one\n- two", "<ul><li>one</li><li>two</li></ul>"),
        ("- one\n  - inner\n- two", "<ul><li>one<ul><li>inner</li></ul></li><li>two</li></ul>"),
        ("3. c\n4. d", '<ol start="3"><li>c</li><li>d</li></ol>'),
        ("> q", "<blockquote><p>q</p></blockquote>"),
        ("```py\nx = '<b>'\n```", "<pre><code>x = '&lt;b&gt;'</code></pre>"),
        ("```\nunfinished", "<pre><code>unfinished</code></pre>"),
        ("a | b\n--|--\n1 | 2", "<table>"),
        ("a_b_c and 2*3*4", "<p>a_b_c and 2"),
        ("---", "<hr>"),
    ],
)
def test_growing_markdown_is_set_as_it_will_look(run: Run, text: str, html: str) -> None:
    assert rendered(run, text).startswith(html)


@pytest.mark.parametrize(
    "text",
    [
        "<script>window.evil = 1</script>",
        '<img src=x onerror="window.evil = 1">',
        "[a](javascript:window.evil=1)",
        "# <b onclick=1>x</b>",
        "| <i>a</i> |\n|---|\n| <svg onload=1> |",
    ],
)
def test_growing_markdown_can_make_nothing_but_text(run: Run, text: str) -> None:
    html = rendered(run, text)
    for never in ("<script", "<img", "<b ", "<i>", "<svg", "href"):
        assert never not in html


def test_growing_markdown_ends_for_every_beginning_of_a_text(run: Run) -> None:
    text = (
        "# T\n\n- a\n  1. b\n\n> c\n> - d\n\n| x | y |\n|---|---|\n| 1 | `2 |\n\n"
        "```\ncode\n**b*_~[x](y"
    )
    lengths = run(
        "room/markdown.js",
        "return [...text].map((_, end) => module.markdown(text.slice(0, end)).length);",
        text=text,
    )
    assert len(lengths) == len(text)


def test_lines_are_paired_side_by_side(run: Run) -> None:
    pairs = run(
        "room/diff.js",
        "return module.pairLines(before, after).map(({ left, right }) => [left, right]);",
        before=["a", "b", "c", "d"],
        after=["a", "x", "c", "y", "d"],
    )
    assert pairs == [[0, 0], [1, 1], [2, 2], [None, 3], [3, 4]]


def test_pictures_have_the_same_tint_as_on_the_server(run: Run) -> None:
    from apps.web.templatetags.kaizen import tint

    names = ["mara", "tomás", "scribe", "😀", ""]
    assert run("words.js", "return names.map(module.tint);", names=names) == [
        tint(name) for name in names
    ]


def test_exact_arguments_are_shown_whole_and_as_text(run: Run) -> None:
    detail = {
        "tool": "mail",
        "arguments": {"to": ["<b>a</b>", "b"], "deep": {"x": None}, "none": {}, "text": "a\nb"},
        "arguments_digest": "sha256:" + "ab" * 32,
        "about": {"comes_from": "package:mail@1.0.0"},
    }
    text = run("approval.js", "return module.argumentsBox(detail).innerText;", detail=detail)
    for part in ('"<b>a</b>"', "to[1]", "deep.x", "null", "{}", '"a\nb"', "sha256 abab…abab"):
        assert part in text
    assert json.dumps(detail["arguments"]["to"][0]) in text


def test_what_hides_in_arguments_is_shown_for_what_it_is(run: Run) -> None:
    hidden = {"path": "ab\u202egpj.exe", "name\u200b": "zero\u2066width", "bell": "\u0007"}
    detail = {"tool": "mail", "arguments": hidden, "arguments_digest": "sha256:" + "ab" * 32}
    for json_view in (False, True):
        text = run(
            "approval.js",
            "return module.argumentsBox(detail, { json }).innerText;",
            detail=detail,
            json=json_view,
        )
        for part in ("\\u202e", "\\u200b", "\\u2066", "\\u0007"):
            assert part in text
        assert not {"\u202e", "\u200b", "\u2066", "\u0007"} & set(text)


def test_long_text_is_readable_and_pinned_arguments_are_marked(run: Run) -> None:
    detail = {
        "tool": "mail",
        "arguments": {"body": "Dear all,\n" + "word " * 60, "project": "OPS", "to": "OPS"},
        "arguments_digest": "sha256:" + "ab" * 32,
        "pinned": ["project"],
    }
    code = (
        "const box = module.argumentsBox(detail); return [...box.querySelectorAll('.a')].map("
        "row => [row.className, row.querySelector('.tag') !== null, row.innerText]);"
    )
    body, project, to = run("approval.js", code, detail=detail)
    assert "tall" in body[0]
    assert "Dear all,\nword" in body[2]
    assert (project[1], to[1], body[1]) == (True, False, False)


def test_two_people_are_named_with_what_they_said(run: Run) -> None:
    people = [
        {"part": "first", "who": "Mara", "person": None, "said": True, "at": None},
        {"part": "second", "who": "An administrator", "person": None, "said": None, "at": None},
    ]
    code = "const list = module.peopleList({ people }); return list && list.innerText;"
    said = run("approval.js", code, people=people)
    assert "Mara" in said
    assert "agreed" in said
    assert "An administrator" in said
    assert run("approval.js", code, people=people[:1]) is None


@pytest.mark.parametrize(
    "text",
    [
        " ".join("`" * length for length in range(1, 450)),
        "[" * 100_000,
        "[a](" * 25_000,
        "a|b\n" + " " * 100_000 + "x",
        ">" * 100_000,
        "**a" * 33_000,
        "# a" + " " * 100_000 + "x",
        "# a" + "#" * 100_000 + "x",
        "\n".join("  " * level + "- x" for level in range(300)),
    ],
    ids=lambda text: text[:12],
)
def test_no_text_of_a_model_holds_up_the_page(run: Run, text: str) -> None:
    took = run(
        "room/markdown.js",
        "const started = performance.now(); const made = module.markdown(text);"
        "return made.length > 0 ? performance.now() - started : null;",
        text=text,
    )
    # A moment; a search without an end takes from ten seconds to hours.
    assert took < 5000
