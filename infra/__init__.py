"""What is deployed together: a stack each for the network, the cluster, the serving and its operation."""

import os

# jsii would print a page about Node 20, which still runs it, over the review. Before aws_cdk is imported.
os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")
