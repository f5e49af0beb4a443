"""The processes of one machine, started and watched together, before any settings exist."""
