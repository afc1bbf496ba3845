"""The rendered workloads as processes on this machine; `hypertier lab` and `make demo`."""
