"""Dates and times, largest part first, like everywhere in the administration."""

DATE_FORMAT = "Y-m-d"
DATETIME_FORMAT = "Y-m-d H:i"
