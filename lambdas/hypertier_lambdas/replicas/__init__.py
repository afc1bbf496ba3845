"""The hook for replicas: the cache-utilisation alarm steps a Kubernetes Deployment up or down by one."""
