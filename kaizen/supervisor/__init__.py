"""The processes of one machine, started and watched together; standard library only."""
