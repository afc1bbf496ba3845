"""Rules of network, each broken once and kept once."""

from __future__ import annotations

from rule_cases.case import SELFHOSTED, WORKER, Case

CERTIFICATE = {"acmArn": "arn:aws:acm:eu-west-1:123456789012:certificate/abc", "domainName": "models.example"}
BEHIND_60 = {
    "spec.tlsConfig": {"customCertificateConfig": CERTIFICATE},
    "spec.loadBalancer": {"idleTimeoutSeconds": 60},
}

CASES = [
    Case(
        "dns-needs-certificate",
        {"spec.dnsConfig": {"hostedZoneId": "Z123"}},
        "spec.tlsConfig.customCertificateConfig",
        {
            "spec.dnsConfig": {"hostedZoneId": "Z123"},
            "spec.tlsConfig": {"customCertificateConfig": CERTIFICATE},
        },
    ),
    Case(
        "certificate-region",
        {"spec.tlsConfig": {"customCertificateConfig": CERTIFICATE}},
        "spec.tlsConfig.customCertificateConfig.acmArn",
        deployment=SELFHOSTED,
    ),
    Case(
        "certificate-bucket",
        {"spec.tlsConfig": {"tlsCertificateOutputS3Uri": "s3://certificates-of-ours"}},
        "spec.tlsConfig.tlsCertificateOutputS3Uri",
        {"spec.tlsConfig": {"tlsCertificateOutputS3Uri": "s3://hyperpod-tls-ours/x"}},
    ),
    Case(
        "idle-timeout",
        {"spec.modelName": "Llama-3.1-405B", f"{WORKER}args": ["--max-model-len=131072"]},
        "spec.loadBalancer.idleTimeoutSeconds",
        {"spec.modelName": "Llama-3.1-8B", f"{WORKER}args": ["--max-model-len=8192"]},
    ),
    Case(
        "idle-timeout",
        {
            "spec.modelName": "Llama-3.1-405B",
            f"{WORKER}args": ["--max-model-len=131072"],
            "spec.loadBalancer": {"idleTimeoutSeconds": 60},
            "spec.tlsConfig": {"customCertificateConfig": CERTIFICATE},
        },
        "spec.loadBalancer.idleTimeoutSeconds",
        {"spec.modelName": "Llama-3.1-405B", f"{WORKER}args": ["--max-model-len=131072"]},
        deployment=SELFHOSTED,
        name="nothing before the routers",
    ),
    Case(
        "hold-behind-balancer",
        BEHIND_60,
        "spec.loadBalancer.idleTimeoutSeconds",
        {"spec.tlsConfig": {"customCertificateConfig": CERTIFICATE}},
        deployment={**SELFHOSTED, "scaling": {"min": 0, "max": 2}},
    ),
    Case(
        "hold-behind-balancer",
        BEHIND_60,
        "spec.loadBalancer.idleTimeoutSeconds",
        {"spec.tlsConfig": {"customCertificateConfig": CERTIFICATE}},
        deployment={
            **SELFHOSTED,
            "scaling": {"schedules": [{"name": "night", "cron": "cron(0 20 ? * * *)", "minReplicas": 0}]},
        },
        name="a night that goes to zero",
    ),
    Case(
        "hold-behind-balancer",
        BEHIND_60,
        "spec.loadBalancer.idleTimeoutSeconds",
        {**BEHIND_60, "spec.loadBalancer": {"idleTimeoutSeconds": 700}},
        deployment={**SELFHOSTED, "scaling": {"min": 0, "max": 2, "toZero": {"hold": "700s"}}},
        name="a hold that is as long",
    ),
    Case(
        "silence-behind-balancer",
        BEHIND_60,
        "spec.loadBalancer.idleTimeoutSeconds",
        {"spec.loadBalancer": {"idleTimeoutSeconds": 60}},
        deployment=SELFHOSTED,
    ),
    Case(
        "silence-behind-balancer",
        {"spec.tlsConfig": {"customCertificateConfig": CERTIFICATE}},
        "spec.loadBalancer.idleTimeoutSeconds",
        deployment={**SELFHOSTED, "routing": {"timeouts": {"response": "2h"}}},
        name="longer than a load balancer can wait",
    ),
]
