"""What AWS says of a deployment before it is deployed: `hypertier doctor`."""
