"""A team's own stack that takes one construct of hypertier: a KV cache for engines in its own network."""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2

from hypertier_cdk import CacheStore

app = cdk.App()
stack = cdk.Stack(app, "Chat", env=cdk.Environment(region="us-west-2"))
vpc = ec2.Vpc(stack, "Vpc", max_azs=2)
engines = ec2.SecurityGroup(stack, "Engines", vpc=vpc)

cache = CacheStore(stack, "KvCache", vpc=vpc, bandwidth_bytes_per_second=2 * 10**9, size_bytes=512 * 2**30)
cache.connections.allow_default_port_from(engines)
cdk.CfnOutput(stack, "CacheUrl", value=cache.url)
app.synth()
