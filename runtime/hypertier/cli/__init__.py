"""The command line: one file per command, each a click `command`."""
