"""The closed vocabularies of tools and calls: every value that may ever be stored or compared."""

from enum import StrEnum


class Effect(StrEnum):
    """What a tool does to the world: whatever outlives the turn is a write."""

    READ = "read"
    WRITE = "write"
    SENSITIVE = "sensitive"


class EffectKind(StrEnum):
    """One declared side effect of a tool."""

    READS = "reads"
    WRITES = "writes"
    DELETES = "deletes"
    NETWORK = "network"
    SPAWNS_RUN = "spawns-run"
    EMITS_EVENT = "emits-event"
    EXTERNAL_SIDE_EFFECT = "external-side-effect"
    SENSITIVE_DATA_EGRESS = "sensitive-data-egress"


class SideEffectClass(StrEnum):
    """What kind of trace a tool leaves, which is another thing than what it may be used for."""

    NONE = "none"
    READ = "read"
    # What can be computed again was refreshed on the way.
    DERIVED = "derived"
    MUTATION = "mutation"
    ORCHESTRATION = "orchestration"
    EXTERNAL = "external"
    UNKNOWN = "unknown"


class Guard(StrEnum):
    """What stands before the effect: the member's own store, an isolated child, or an outside."""

    MEMBER_STORE = "member_store"
    ISOLATED = "isolated"
    EXTERNAL = "external"


class EffectDomain(StrEnum):
    """Where the effect lands, and so what can be known of it after a crash."""

    OURS = "ours"
    CHECKPOINTED = "checkpointed"
    EXTERNAL = "external"


class CollaborationClass(StrEnum):
    """What a tool may be offered for in a shared room; the unknown stays out."""

    EXACT_ROOM = "exact_room"
    AUDIENCE_READ = "audience_read"
    ACTOR_BOUND_READ = "actor_bound_read"
    ACTOR_BOUND_WRITE = "actor_bound_write"
    ACTOR_PRIVATE_READ = "actor_private_read"
    UNKNOWN = "unknown"


class Family(StrEnum):
    """Whose tool it is: our own, of an admitted package, or of an MCP server."""

    KAIZEN = "kaizen"
    PACKAGES = "packages"
    MCP = "mcp"


class Capability(StrEnum):
    """What an agent's ceiling is made of, and what a member's permissions are compared with."""

    ARTIFACTS_READ = "artifacts.read"
    ARTIFACTS_WRITE = "artifacts.write"
    AGENTS_READ = "agents.read"
    AGENTS_INVOKE = "agents.invoke"
    DOCS_READ = "docs.read"
    PACKAGES_CALL = "packages.call"
    CODE_RUN = "code.run"

    @property
    def reads_only(self) -> bool:
        """Tell whether this capability covers reading only."""
        return self.value.endswith(".read")


class Risk(StrEnum):
    """How much a wrong call may cost, as shown to the one who decides."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Visibility(StrEnum):
    """Whether a catalog offers the tool directly or only where it is searched for."""

    DIRECT = "direct"
    DEFERRED = "deferred"


class RepeatPolicy(StrEnum):
    """What an identical write of the same turn means: run it again, or nothing new."""

    RUN = "run"
    REDUNDANT = "redundant"


class CallState(StrEnum):
    """Where a call stands; it settles exactly once."""

    PROPOSED = "proposed"
    WAITING = "waiting"
    DISPATCHED = "dispatched"
    SETTLED = "settled"


class Outcome(StrEnum):
    """How a call ended."""

    OK = "ok"
    ERROR = "error"
    RAISED = "raised"
    TIMEOUT = "timeout"
    ABANDONED = "abandoned"
    SUPPRESSED = "suppressed"
    REFUSED = "refused"
    DENIED = "denied"
    STOPPED = "stopped"
    AMBIGUOUS = "ambiguous"


class FaultDomain(StrEnum):
    """Whose failure it was: what answers for it, and so what may be learned from it."""

    TOOL = "tool"
    CALLER = "caller"
    BOUNDARY = "boundary"
    DEPENDENCY = "dependency"

    @property
    def counts_against_tool(self) -> bool:
        """Tell whether the tool could not do its job, rather than doing it and saying no."""
        return self in (FaultDomain.TOOL, FaultDomain.DEPENDENCY)


class Reason(StrEnum):
    """Why a call failed or was refused: stable codes for models, clients and metrics."""

    INVALID_ARGUMENTS = "invalid_arguments"
    NOT_FOUND = "not_found"
    PERMISSION_DENIED = "permission_denied"
    APPROVAL_DENIED = "approval_denied"
    APPROVAL_EXPIRED = "approval_expired"
    SUPERSEDED = "superseded"
    RECEIPT_SPENT = "receipt_spent"
    DEPENDENCY_UNAVAILABLE = "dependency_unavailable"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    COMMAND_FAILED = "command_failed"
    STALE_VERSION = "stale_version"
    STALE_FILE = "stale_file"
    CONFLICT = "conflict"
    EXECUTION_ERROR = "execution_error"
    CONTRACT_ERROR = "contract_error"
    OUTSIDE_CATALOG = "outside_catalog"
    STALE_FENCE = "stale_fence"
    ROOM_CLOSED = "room_closed"
    NOT_ADMITTED_HERE = "not_admitted_here"
    TOOL_DISABLED = "tool_disabled"
    RUN_OVER = "run_over"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"
    OUTCOME_UNKNOWN = "outcome_unknown"
    LIMIT_EXCEEDED = "limit_exceeded"
    REPORTED_FAILURE = "reported_failure"
    REPEATED_FAILURE = "repeated_failure"
    TOOL_CUT_OFF = "tool_cut_off"
    QUOTA_EXCEEDED = "quota_exceeded"
    SUBSTITUTE_BLOCKED = "substitute_blocked"
    PROTOCOL_FAILURE = "protocol_failure"
