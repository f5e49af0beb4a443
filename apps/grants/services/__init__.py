"""What can be done about what agents may use? Grant, set policy, pin arguments, choose."""

from apps.grants.services.choosing import MAX_CHOSEN, choose_tools, keep_all_tools, seat_of
from apps.grants.services.granting import MAX_GRANTS, grant_tool, revoke_tool
from apps.grants.services.pinning import pin_arguments, unpin_arguments
from apps.grants.services.policy import change_policy, check_changes

__all__ = [
    "MAX_CHOSEN",
    "MAX_GRANTS",
    "change_policy",
    "check_changes",
    "choose_tools",
    "grant_tool",
    "keep_all_tools",
    "pin_arguments",
    "revoke_tool",
    "seat_of",
    "unpin_arguments",
]
