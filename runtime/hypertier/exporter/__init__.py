"""From the engines' /metrics to CloudWatch series that an alarm can watch."""
