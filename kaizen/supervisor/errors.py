"""What can keep the supervisor from its work? Each message is meant for a person."""


class CannotStart(Exception):
    """Something that Kaizen needs on this machine is missing or in the way."""


class GaveUp(Exception):
    """A child kept dying, so everything stops rather than limp on."""


class StopAsked(Exception):
    """Someone asked for a stop while the start was still under way."""
