"""The waiter for nodes: a custom resource that is complete once pods could run on the cluster."""
