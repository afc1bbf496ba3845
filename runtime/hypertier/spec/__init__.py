"""What a user asks for: AWS's endpoint manifest and our deployment file, as frozen typed values."""

from hypertier.spec.deployment import Deployment, load_deployment
from hypertier.spec.endpoint import InferenceEndpointConfig

__all__ = ["Deployment", "InferenceEndpointConfig", "load_deployment"]
