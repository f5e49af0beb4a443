"""What may a tool of a Pi package answer? Its content, rebuilt block by block, and two values.

Whatever else it puts into its result is not looked at.
"""

import base64
import binascii
import json
from typing import Any, Final

from apps.domain.commandio.images import MAX_IMAGE_BYTES
from apps.domain.commandio.results import (
    MAX_BLOCKS,
    MAX_JSON_BYTES,
    BadResult,
    Block,
    TextBlock,
    check_size,
    image_block,
)
from apps.domain.wire import JsonValue

MAX_TEXT_BYTES: Final = 256 * 1024
_VALUES: Final = ("details", "structuredContent")


def rebuild(value: JsonValue) -> dict[str, Any]:
    """Return a tool's result from the fields that are known, or raise `BadResult`."""
    if not isinstance(value, dict):
        raise BadResult("The result is not an object.")
    content = value.get("content")
    if not isinstance(content, list) or len(content) > MAX_BLOCKS:
        raise BadResult(f"content is not a list of at most {MAX_BLOCKS} blocks.")
    blocks = tuple(_block(item, f"content[{index}]") for index, item in enumerate(content))
    check_size(blocks)
    found: dict[str, Any] = {"content": [block.as_dict() for block in blocks]}
    for name in _VALUES:
        if name not in value or value[name] is None:
            continue
        if len(json.dumps(value[name], ensure_ascii=False).encode()) > MAX_JSON_BYTES:
            raise BadResult(f"{name} is larger than {MAX_JSON_BYTES:,} bytes.")
        found[name] = value[name]
    return found


def _block(item: JsonValue, where: str) -> Block:
    if not isinstance(item, dict):
        raise BadResult(f"{where} is not an object.")
    text, mime_type, data = item.get("text"), item.get("mimeType"), item.get("data")
    if item.get("type") == "text" and isinstance(text, str):
        if len(text.encode()) > MAX_TEXT_BYTES:
            raise BadResult(f"{where}.text is larger than {MAX_TEXT_BYTES:,} bytes.")
        return TextBlock(text)
    if item.get("type") == "image" and isinstance(mime_type, str) and isinstance(data, str):
        return image_block(_decoded(data, where), mime_type)
    raise BadResult(f"{where} is neither a text nor an image.")


def _decoded(data: str, where: str) -> bytes:
    if len(data) > -(-MAX_IMAGE_BYTES // 3) * 4:
        raise BadResult(f"{where}.data is larger than {MAX_IMAGE_BYTES:,} bytes.")
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise BadResult(f"{where}.data is not Base64.") from None
