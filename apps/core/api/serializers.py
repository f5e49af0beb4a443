"""What may stand in a request? Exactly the declared fields, each of its own JSON type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail, ValidationError

_SHOWN = 10


class StrictSerializer(serializers.Serializer):
    """A request shape that refuses fields which it does not declare."""

    def to_internal_value(self, data: Any) -> Any:
        """Refuse unknown fields by name before looking at the known ones."""
        if isinstance(data, Mapping):
            known = {name for name, field in self.fields.items() if not field.read_only}
            unknown = [str(name) for name in data if name not in known]
            if unknown:
                raise ValidationError(
                    {
                        name[:60]: [ErrorDetail("There is no such field.", code="unknown_field")]
                        for name in unknown[:_SHOWN]
                    }
                )
        return super().to_internal_value(data)


class NothingSerializer(StrictSerializer):
    """A request that carries no fields."""


class TextField(serializers.CharField):
    """A JSON string, kept as it is; numbers are not turned into text."""

    default_error_messages = {"not_text": "This is not a string."}

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("trim_whitespace", False)
        super().__init__(**kwargs)

    def to_internal_value(self, data: Any) -> str:
        """Take a string only."""
        if not isinstance(data, str):
            self.fail("not_text")
        return super().to_internal_value(data)


class FlagField(serializers.BooleanField):
    """A JSON true or false; words and numbers are not turned into one."""

    default_error_messages = {"not_flag": "This is neither true nor false."}

    def to_internal_value(self, data: Any) -> bool:
        """Take a boolean only."""
        if not isinstance(data, bool):
            self.fail("not_flag")
        return data


class WholeNumberField(serializers.IntegerField):
    """A JSON integer; text is not turned into one."""

    default_error_messages = {"not_whole": "This is not a whole number."}

    def to_internal_value(self, data: Any) -> int:
        """Take an integer only."""
        if not isinstance(data, int) or isinstance(data, bool):
            self.fail("not_whole")
        return int(super().to_internal_value(data))
