"""Kubernetes objects of a deployment, by cdk8s: engines, router, exporter, or AWS's operator's resource.

`objects.py` and what it calls are plain data; `endpoint.py` makes cdk8s charts of them; `render.py` is what
`hypertier render` and the CDK constructs call.
"""
