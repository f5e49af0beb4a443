"""Whatever dies at whatever step, nothing is done twice, lost, or told wrongly."""
