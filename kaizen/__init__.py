"""The roof of the house: settings, addresses, processes and the supervisor; it decides nothing."""
