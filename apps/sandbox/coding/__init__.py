"""Programs that agents write: what is started for one, what comes of it, and what is said of it."""
