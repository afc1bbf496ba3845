"""Data capture: a share of the requests and answers, as SageMaker's endpoints keep them. Off by default."""
