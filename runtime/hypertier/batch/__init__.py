"""OpenAI's batch files, sent through a running endpoint: no request is lost, none is paid for twice."""
