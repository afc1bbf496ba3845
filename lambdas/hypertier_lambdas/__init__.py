"""The hooks: a CloudWatch alarm rings, one Lambda function acts. One folder a hook: event, decision, handler.

Each hook's folder stands on its own (boto3 and the standard library, imports within the folder), so it runs
from an asset that holds `hypertier_lambdas/`, and as well from one that holds what is in it.
"""
