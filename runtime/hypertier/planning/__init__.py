"""Pure arithmetic on a deployment: memory, start-up time, the bill."""
