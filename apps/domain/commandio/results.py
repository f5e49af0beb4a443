"""What may a program answer? One closed JSON object of at most 32 blocks, each within bounds."""

import base64
import binascii
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from apps.domain.commandio.images import MAX_IMAGE_BYTES, MIME_TYPES, BadImage, image_type
from apps.domain.tooling import ToolImage
from apps.domain.wire import BadJson, JsonValue, read_json
from apps.domain.words import shown

MAX_STREAM_BYTES: Final = 16 * 1024 * 1024
MAX_BLOCKS: Final = 32
MAX_TEXT_BYTES: Final = 64 * 1024
MAX_JSON_BYTES: Final = 512 * 1024
MAX_RESULT_BYTES: Final = 8 * 1024 * 1024
_MAX_PATH: Final = 4_096


class BadResult(ValueError):
    """An answer that is no result; the sentence says why, without quoting it."""


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A text."""

    text: str

    def as_dict(self) -> dict[str, Any]:
        """Return the block as it is written."""
        return {"type": "text", "text": self.text}


@dataclass(frozen=True, slots=True)
class JsonBlock:
    """A value."""

    data: JsonValue

    def as_dict(self) -> dict[str, Any]:
        """Return the block as it is written."""
        return {"type": "json", "data": self.data}


@dataclass(frozen=True, slots=True)
class ImageBlock:
    """An image with its bytes, whose kind they themselves say."""

    mime_type: str
    content: bytes

    def as_dict(self) -> dict[str, Any]:
        """Return the block as it is written."""
        data = base64.b64encode(self.content).decode("ascii")
        return {"type": "image", "mimeType": self.mime_type, "data": data}


Block = TextBlock | JsonBlock | ImageBlock


@dataclass(frozen=True, slots=True)
class CommandResult:
    """One normalised result: what a program answers, or the error that it states itself."""

    content: tuple[Block, ...]
    is_error: bool = False

    @property
    def error(self) -> str:
        """The text of an error that the program states itself."""
        first = self.content[0]
        return first.text if self.is_error and isinstance(first, TextBlock) else ""


def pixels_apart(value: Any) -> tuple[Any, tuple[ToolImage, ...]]:
    """Return a tool's value with its images told by digest and size, and those images.

    A value is text that is read and kept; what is to be looked at goes another way.
    """
    blocks = value.get("content") if isinstance(value, dict) else None
    if not isinstance(blocks, list):
        return value, ()
    images: list[ToolImage] = []
    told = [_told(block, images) for block in blocks]
    return {**value, "content": told}, tuple(images)


def _told(block: Any, images: list[ToolImage]) -> Any:
    if not isinstance(block, dict) or set(block) != {"type", "mimeType", "data"}:
        return block
    image = ToolImage(block["mimeType"], base64.b64decode(block["data"]))
    images.append(image)
    return {
        "type": "image",
        "mimeType": image.mime_type,
        "digest": image.digest,
        "bytes": len(image.content),
    }


FilesOf = Callable[[str], bytes]
"""Return the bytes of a file below the output folder by its relative name, or raise `BadResult`."""


def parse_result(printed: bytes, output_folder: str, file_of: FilesOf) -> CommandResult:
    """Return the result that a program printed, or raise `BadResult`."""
    try:
        raw = read_json(printed, max_bytes=MAX_STREAM_BYTES)
    except BadJson as refusal:
        raise BadResult(f"It is not acceptable JSON: {refusal}") from None
    if not isinstance(raw, dict):
        raise BadResult("It is not an object.")
    _only(raw, "content", optional=("isError",), what="the result")
    is_error = raw.get("isError", False)
    if not isinstance(is_error, bool):
        raise BadResult("isError is neither true nor false.")
    content = raw["content"]
    if not isinstance(content, list) or not 1 <= len(content) <= MAX_BLOCKS:
        raise BadResult(f"content is not a list of 1 to {MAX_BLOCKS} blocks.")
    if is_error:
        return _stated_error(content)
    blocks = tuple(
        _block(item, f"content[{index}]", output_folder, file_of)
        for index, item in enumerate(content)
    )
    check_size(blocks)
    return CommandResult(blocks)


def check_size(blocks: Iterable[Block]) -> None:
    """Refuse blocks that are larger together than a result may be, images as they are written."""
    # An image's Base64 is a third longer than its bytes, and the rest of a block takes little.
    size = sum(
        -(-len(one.content) // 3) * 4 + 64 if isinstance(one, ImageBlock) else _size(one.as_dict())
        for one in blocks
    )
    if size > MAX_RESULT_BYTES:
        raise BadResult(f"The result is larger than {MAX_RESULT_BYTES:,} bytes.")


def image_block(content: bytes, mime_type: str | None = None) -> ImageBlock:
    """Return an image as a block, its kind told by its bytes, or raise `BadResult`."""
    try:
        found = image_type(content)
    except BadImage as refusal:
        raise BadResult(str(refusal)) from None
    if mime_type is not None and mime_type != found:
        raise BadResult(f"The image says that it is {mime_type}, and its bytes are {found}.")
    return ImageBlock(found, content)


def relative_output(path: str, output_folder: str) -> str:
    """Return the name below the output folder that a path means, or raise `BadResult`."""
    if len(path) > _MAX_PATH or "\\" in path or any(ord(sign) < 32 for sign in path):
        raise BadResult("The path of an image is too long, or holds a control or a backslash.")
    if path.startswith("/"):
        prefix = f"{output_folder}/"
        if not path.startswith(prefix):
            raise BadResult("The path of an image lies outside the output folder.")
        path = path[len(prefix) :]
    if any(part in ("", ".", "..") for part in path.split("/")):
        raise BadResult("The path of an image has a part that is empty or dots.")
    return path


def _stated_error(content: list[JsonValue]) -> CommandResult:
    if len(content) != 1:
        raise BadResult("An error is stated in exactly one block of text.")
    block = _block(content[0], "content[0]", "", _no_file)
    if not isinstance(block, TextBlock) or not block.text.strip():
        raise BadResult("An error is stated in exactly one block of text that says something.")
    return CommandResult((block,), is_error=True)


def _no_file(name: str) -> bytes:
    raise BadResult("An error has no images.")


def _block(item: JsonValue, where: str, output_folder: str, file_of: FilesOf) -> Block:
    if not isinstance(item, dict):
        raise BadResult(f"{where} is not an object.")
    match item.get("type"):
        case "text":
            _only(item, "type", "text", what=where)
            return _text(item["text"], where)
        case "json":
            _only(item, "type", "data", what=where)
            if _size(item["data"]) > MAX_JSON_BYTES:
                raise BadResult(f"{where}.data is larger than {MAX_JSON_BYTES:,} bytes.")
            return JsonBlock(item["data"])
        case "image":
            return _image(item, where, output_folder, file_of)
        case _:
            raise BadResult(f"{where}.type is none of text, json and image.")


def _text(text: JsonValue, where: str) -> TextBlock:
    if not isinstance(text, str):
        raise BadResult(f"{where}.text is not a string.")
    if len(text.encode()) > MAX_TEXT_BYTES:
        raise BadResult(f"{where}.text is larger than {MAX_TEXT_BYTES:,} bytes.")
    return TextBlock(text)


def _image(
    item: dict[str, JsonValue], where: str, output_folder: str, file_of: FilesOf
) -> ImageBlock:
    mime_type, data, path = item.get("mimeType"), item.get("data"), item.get("path")
    given = "data" if "data" in item else "path"
    _only(item, "type", "mimeType", given, what=where)
    if not isinstance(mime_type, str) or mime_type not in MIME_TYPES:
        raise BadResult(f"{where}.mimeType is none of {', '.join(MIME_TYPES)}.")
    if given == "data":
        if not isinstance(data, str):
            raise BadResult(f"{where}.data is not a string.")
        content = _decoded(data, where)
    else:
        if not isinstance(path, str):
            raise BadResult(f"{where}.path is not a string.")
        content = file_of(relative_output(path, output_folder))
    return image_block(content, mime_type)


def _decoded(data: str, where: str) -> bytes:
    if len(data) > -(-MAX_IMAGE_BYTES // 3) * 4:
        raise BadResult(f"{where}.data is larger than {MAX_IMAGE_BYTES:,} bytes.")
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise BadResult(f"{where}.data is not Base64.") from None


def _only(
    item: dict[str, JsonValue], *required: str, optional: tuple[str, ...] = (), what: str
) -> None:
    for name in required:
        if name not in item:
            raise BadResult(f"{what} has no field {name}.")
    unknown = sorted(set(item) - {*required, *optional})
    if unknown:
        raise BadResult(f"{what} has the field {shown(unknown[0], limit=40)}, which it may not.")


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
