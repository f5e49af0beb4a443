"""What a program answers is read as a claim: closed, bounded, and never believed for its name."""

import base64
import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.domain.commandio.images import MAX_IMAGE_BYTES, MAX_SIDE, BadImage, image_type
from apps.domain.commandio.results import (
    MAX_BLOCKS,
    MAX_JSON_BYTES,
    MAX_RESULT_BYTES,
    MAX_STREAM_BYTES,
    MAX_TEXT_BYTES,
    BadResult,
    CommandResult,
    ImageBlock,
    JsonBlock,
    TextBlock,
    parse_result,
    pixels_apart,
    relative_output,
)
from tests.domain.commandio.images import (
    ANIMATED_PNG,
    END,
    HEADER,
    JPEG,
    PIXELS,
    PNG,
    SIGNATURE,
    WEBP,
    chunk,
    jpeg,
    png,
    webp_extended,
    webp_lossless,
    webp_lossy,
)

FILES = {"shots/a.png": PNG, "b.jpg": JPEG}


def file_of(name: str) -> bytes:
    if name not in FILES:
        raise BadResult("There is no such file.")
    return FILES[name]


def parsed(value: Any) -> CommandResult:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return parse_result(raw, "/out", file_of)


def content(*blocks: Any, **more: Any) -> dict[str, Any]:
    return {"content": list(blocks), **more}


def text(value: Any = "a", **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **more}


def image(**more: Any) -> dict[str, Any]:
    return {"type": "image", "mimeType": "image/png", **more}


def base64_of(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def test_three_kinds_of_blocks_are_read() -> None:
    read = parsed(
        content(
            text("hello"),
            {"type": "json", "data": {"a": [1, None, True, "x"]}},
            image(data=base64_of(PNG)),
            image(path="shots/a.png"),
            image(path="/out/b.jpg", mimeType="image/jpeg"),
        )
    )
    assert read == CommandResult(
        (
            TextBlock("hello"),
            JsonBlock({"a": [1, None, True, "x"]}),
            ImageBlock("image/png", PNG),
            ImageBlock("image/png", PNG),
            ImageBlock("image/jpeg", JPEG),
        )
    )
    assert not read.is_error
    assert parsed(content(text(), isError=False)) == CommandResult((TextBlock("a"),))


def test_an_image_comes_embedded_whatever_way_it_was_given() -> None:
    (given, read) = parsed(content(image(data=base64_of(PNG)), image(path="shots/a.png"))).content
    assert given.as_dict() == read.as_dict() == image(data=base64_of(PNG))


def test_a_stated_error_is_exactly_one_text() -> None:
    read = parsed(content(text("Choose a smaller range."), isError=True))
    assert (read.is_error, read.error) == (True, "Choose a smaller range.")


@pytest.mark.parametrize(
    "value",
    [
        [],
        "text",
        {},
        {"content": []},
        {"content": text()},
        {"content": None},
        content(*[text()] * (MAX_BLOCKS + 1)),
        content(text(), extra=1),
        content(text(), _meta={}),
        content(text(), isError="true"),
        content(text(), isError=1),
        content(text(), isError=None),
        content(text(), text(), isError=True),
        content(text(" \n"), isError=True),
        content({"type": "json", "data": 1}, isError=True),
        content(image(data=base64_of(PNG)), isError=True),
        content(image(path="shots/a.png"), isError=True),
        content("a"),
        content({"type": "audio", "data": ""}),
        content({"text": "a"}),
        content({"type": "text"}),
        content(text(1)),
        content(text(None)),
        content(text(annotations={})),
        content({"type": "json"}),
        content({"type": "json", "data": 1, "schema": {}}),
        content(image()),
        content({"type": "image", "data": base64_of(PNG)}),
        content(image(data=base64_of(PNG), path="shots/a.png")),
        content(image(data=base64_of(PNG), alt="x")),
        content(image(data=1)),
        content(image(path=1)),
        content(image(data="")),
        content(image(data="####")),
        content(image(data=base64_of(PNG) + "\n")),
        content(image(data=base64_of(PNG).rstrip("=") + "A")),
        content(image(data=base64_of(JPEG))),
        content(image(data=base64_of(PNG), mimeType="image/jpeg")),
        content(image(data=base64_of(PNG), mimeType="image/gif")),
        content(image(data=base64_of(b"GIF89a" + b"\x00" * 40), mimeType="image/gif")),
        content(image(data=base64_of(ANIMATED_PNG))),
        content(image(path="gone.png")),
        content(image(path="../shots/a.png")),
        content(image(path="shots/../shots/a.png")),
        content(image(path="shots//a.png")),
        content(image(path="/out")),
        content(image(path="/out/../out/b.jpg")),
        content(image(path="/other/shots/a.png")),
        content(image(path="/outside/a.png")),
        content(image(path="")),
        content(text("\x00")),
        b"",
        b"{",
        b'{"content":[{"type":"text","text":"a"}]} x',
        b'{"content":[{"type":"text","text":"a"}]}{"content":[]}',
        b'{"content":[{"type":"text","text":"a"}],"content":[{"type":"text","text":"b"}]}',
        b'{"content":[{"type":"json","data":NaN}]}',
        b'{"content":[{"type":"json","data":-Infinity}]}',
        b'{"content":[{"type":"json","data":' + b"[" * 70 + b"]" * 70 + b"}]}",
        b'{"content":[{"type":"json","data":' + b"1" * 41 + b"}]}",
        b'{"content":[{"type":"text","text":"\\ud800"}]}',
        b'{"content":[{"type":"text","text":"\xff"}]}',
        b'\xef\xbb\xbf{"content":[{"type":"text","text":"a"}]}',
    ],
    ids=lambda value: repr(value)[:70],
)
def test_everything_else_is_no_result(value: Any) -> None:
    with pytest.raises(BadResult) as refused:
        parsed(value)
    assert len(str(refused.value)) < 500


def test_bounds_are_inclusive() -> None:
    assert parsed(content(text("é" * (MAX_TEXT_BYTES // 2))))
    with pytest.raises(BadResult, match="larger"):
        parsed(content(text("é" * (MAX_TEXT_BYTES // 2) + "a")))
    assert parsed(content({"type": "json", "data": "x" * (MAX_JSON_BYTES - 2)}))
    with pytest.raises(BadResult, match="larger"):
        parsed(content({"type": "json", "data": "x" * (MAX_JSON_BYTES - 1)}))
    assert parsed(content(*[text()] * MAX_BLOCKS))


def test_a_result_is_bounded_as_a_whole_and_so_is_what_is_printed() -> None:
    large = {"type": "json", "data": "x" * (MAX_JSON_BYTES - 2)}
    assert parsed(content(*[large] * 15))
    with pytest.raises(BadResult, match=f"{MAX_RESULT_BYTES:,}"):
        parsed(content(*[large] * 16))
    with pytest.raises(BadResult):
        parsed(b" " * MAX_STREAM_BYTES + b'{"content":[{"type":"text","text":"a"}]}')


def test_an_image_may_have_four_mebibytes_and_its_text_counts_for_the_whole() -> None:
    padding = MAX_IMAGE_BYTES - len(PNG) - 12
    whole = SIGNATURE + HEADER + chunk(b"teXt", b"x" * padding) + PIXELS + END
    assert len(whole) == MAX_IMAGE_BYTES
    assert parsed(content(image(data=base64_of(whole)))).content[0] == ImageBlock(
        "image/png", whole
    )
    with pytest.raises(BadResult):
        parsed(content(image(data=base64_of(whole + b"x"))))
    with pytest.raises(BadResult, match=f"{MAX_RESULT_BYTES:,}"):
        parsed(content(*[image(data=base64_of(whole))] * 2))


@pytest.mark.parametrize(
    ("raw", "found"), [(PNG, "image/png"), (JPEG, "image/jpeg"), (WEBP, "image/webp")]
)
def test_an_image_is_told_by_its_own_bytes(raw: bytes, found: str) -> None:
    assert image_type(raw) == found


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"GIF89a" + b"\x00" * 40,
        b"BM" + b"\x00" * 40,
        b"<svg/>",
        SIGNATURE,
        SIGNATURE + PIXELS + END,
        SIGNATURE + HEADER + END,
        SIGNATURE + HEADER + PIXELS,
        PNG[:-1],
        PNG + b"x",
        ANIMATED_PNG,
        SIGNATURE + HEADER + PIXELS + chunk(b"fdAT", b"") + END,
        SIGNATURE + HEADER + b"\xff\xff\xff\xffIDAT",
        JPEG[:-1],
        b"\xff\xd8\xff",
        WEBP[:-1],
        WEBP + b"x",
        WEBP.replace(b"VP8L", b"ALPH"),
        WEBP.replace(b"VP8L\x05", b"VP8X\x05"),
        webp_extended(1, 1, flags=0x02),
        b"\xff\xd8\xff\xda" + JPEG[2:],
        b"\xff\xd8\xff\xe0\xff\xff" + b"\x00" * 20 + b"\xff\xd9",
        b"\xff\xd8" + b"\xff" * 65_536 + b"\xff\xd9",
        b"\xff\xd8\xff<script>alert(1)</script>\xff\xd9",
        b"RIFF\x04\x00\x00\x00WEBP",
        b"\x00" * (MAX_IMAGE_BYTES + 1),
    ],
    ids=lambda raw: repr(raw[:24]),
)
def test_everything_else_is_no_image(raw: bytes) -> None:
    with pytest.raises(BadImage):
        image_type(raw)


@pytest.mark.parametrize("made", [png, jpeg, webp_lossless, webp_lossy, webp_extended])
def test_few_bytes_that_stand_for_many_pixels_are_no_image(made: Any) -> None:
    for sides in ((1, 1), (MAX_SIDE - 1, 3_000), (7_000, 7_000)):
        assert image_type(made(*sides)) in ("image/png", "image/jpeg", "image/webp")
    sides_of = {jpeg: (0xFFFF, 1), webp_lossless: (9_000, 9_000), webp_lossy: (9_000, 9_000)}
    for sides in ((9_000, 9_000), sides_of.get(made, (MAX_SIDE + 1, 1))):
        with pytest.raises(BadImage, match=f"{sides[0]:,} by {sides[1]:,}"):
            image_type(made(*sides))
    if made in (png, jpeg, webp_lossy):
        with pytest.raises(BadImage, match="0 by 5"):
            image_type(made(0, 5))


def test_what_a_model_reads_of_an_image_is_its_digest_and_its_size() -> None:
    value = {"content": [text("a"), image(data=base64_of(PNG))]}
    apart, images = pixels_apart(value)
    told = apart["content"]
    assert [(one.digest, one.mime_type) for one in images] == [
        (one["digest"], one["mimeType"]) for one in told if one["type"] == "image"
    ]
    assert told[0] == text("a")
    assert set(told[1]) == {"type", "mimeType", "digest", "bytes"}
    assert told[1]["bytes"] == len(PNG)
    assert pixels_apart("a") == ("a", ())


plain_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.text("ab\u00e9\U0001f600", max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
blocks = st.one_of(
    st.builds(TextBlock, st.text("ab \n\u00e9\U0001f600", max_size=20)),
    st.builds(JsonBlock, plain_values),
    st.sampled_from(
        [
            ImageBlock("image/png", PNG),
            ImageBlock("image/jpeg", JPEG),
            ImageBlock("image/webp", WEBP),
        ]
    ),
)


@given(st.lists(blocks, min_size=1, max_size=6))
@settings(max_examples=200, deadline=None)
def test_what_is_written_is_read_again(found: list[Any]) -> None:
    written = {"content": [block.as_dict() for block in found]}
    assert parsed(written) == CommandResult(tuple(found))


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "text", "data", "path", "mimeType", "content", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_any_value_in_any_place_is_read_or_refused(data: st.DataObject) -> None:
    value: Any = content(text(), image(data=base64_of(PNG)), isError=False)
    inner: Any = value
    while True:
        key = data.draw(st.sampled_from(sorted(inner)) if isinstance(inner, dict) else st.just(0))
        if not isinstance(inner[key], dict | list) or data.draw(st.booleans()):
            break
        inner = inner[key]
    inner[key] = data.draw(junk)
    try:
        read = parsed(value)
    except BadResult:
        return
    # What is read is written again as the same closed blocks, and nothing beside them.
    assert [block.as_dict() for block in read.content] == value["content"]


@given(st.binary(max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    for opened in (raw, SIGNATURE + raw, b"RIFF" + raw, b'{"content":' + raw):
        with contextlib.suppress(BadResult):
            parsed(opened)
        with contextlib.suppress(BadImage):
            image_type(opened)


@given(st.text(st.sampled_from("a./\\\x00o u t"), max_size=20))
@settings(max_examples=300, deadline=None)
def test_no_path_of_an_image_leads_out_of_its_folder(path: str) -> None:
    try:
        name = relative_output(path, "/out")
    except BadResult:
        return
    assert not name.startswith("/")
    assert not {"", ".", ".."} & set(name.split("/"))
