"""Everything that differs between the rendered endpoint and the lab, declared once and printed at start.

What stands in no list here is not understood, and the lab refuses to start rather than to guess.
"""

from __future__ import annotations

from hypertier.lab.rules import Overlay, Rule

NO_GPU = "there is no GPU here"
ONE_MACHINE = "everything runs on this machine, on 127.0.0.1"
ONE_ROUTER = "one router here has nobody to tell"
NO_SECRET = "no Secret is mounted here; this machine alone may connect"
SMALL_MACHINE = "two engines share a small machine's memory"
BLOCK_TOKENS = 128
CAPTURE_FLAGS = (
    *("--capture-spool", "--capture-sampling-percentage", "--capture-mode", "--capture-max-payload-kb"),
    *("--capture-batch-size", "--capture-flush-seconds", "--capture-spool-bytes", "--capture-redact"),
)

# Of AWS's sample manifests, for their own containers: vLLM reads none of them. (Read 2026-12-02.)
# https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-model-deployment-deploy-ftm.html
_OF_SAMPLES = """
DJL_OFFLINE HF_MODEL_ID MODEL_CACHE_ROOT MODEL_SERVER_TYPE NUM_SHARD OPTION_ENABLE_REASONING
OPTION_REASONING_PARSER OPTION_ROLLING_BATCH OPTION_TRUST_REMOTE_CODE SAGEMAKER_CONTAINER_LOG_LEVEL
SAGEMAKER_ENV SAGEMAKER_MODEL_SERVER_TIMEOUT SAGEMAKER_MODEL_SERVER_WORKERS SAGEMAKER_PROGRAM
SAGEMAKER_SUBMIT_DIRECTORY SERVING_CHUNKED_READ_TIMEOUT SESSION_KEY VLLM_REQUEST_TIMEOUT
"""

TIERS = "--kv-transfer-config.kv_connector_extra_config"
ENGINE = Overlay(
    options=(
        Rule("--served-model-name", "{served_model_name}", "clients keep the name they know"),
        Rule("--tensor-parallel-size", "1", NO_GPU + " to split the model over"),
        Rule("--max-model-len", "{max_model_len}", SMALL_MACHINE),
        Rule("--dtype", "float32", "CPUs compute float32; bfloat16 would be emulated"),
        Rule("--enforce-eager", "", "CUDA graphs and compilation do nothing for a CPU of this size"),
        Rule("--block-size", str(BLOCK_TOKENS), "vLLM's blocks on CPUs are multiples of 32 tokens"),
        Rule("--kv-cache-memory-bytes", "{kv_cache_bytes}", SMALL_MACHINE),
        Rule("--gpu-memory-utilization", None, NO_GPU, only_if_set=True),
        Rule("--distributed-executor-backend", "uni", "one process per engine less to start"),
        Rule("--enable-prompt-tokens-details", "", "answers tell how many tokens came from a cache"),
        Rule("--host", "127.0.0.1", ONE_MACHINE),
        Rule("--port", "{port}", ONE_MACHINE),
        Rule("--kv-events-config.endpoint", "tcp://*:{events_port}", ONE_MACHINE),
        Rule("--kv-events-config.replay_endpoint", "tcp://*:{replay_port}", ONE_MACHINE),
        Rule("--pipeline-parallel-size", None, NO_GPU, only_if_set=True),
        Rule("--data-parallel-size", None, NO_GPU, only_if_set=True),
        Rule("--enable-expert-parallel", None, NO_GPU, only_if_set=True),
        Rule("--attention-backend", None, NO_GPU, only_if_set=True),
        Rule("--compilation-config", None, NO_GPU, only_if_set=True),
        Rule("--quantization", None, "the small model is not quantized", only_if_set=True),
        Rule("--kv-cache-dtype", None, "CPUs keep KV in the model's type", only_if_set=True),
        Rule("--load-format", None, "the small model is a file on this disk", only_if_set=True),
        Rule("--model-loader-extra-config", None, "the small model is a file on this disk", only_if_set=True),
        Rule("--revision", None, "the small model has none", only_if_set=True),
        Rule("--ssl-certfile", None, NO_SECRET, only_if_set=True),
        Rule("--ssl-keyfile", None, NO_SECRET, only_if_set=True),
        Rule("--ssl-ca-certs", None, NO_SECRET, only_if_set=True),
        Rule("--ssl-cert-reqs", None, NO_SECRET, only_if_set=True),
        Rule("--enable-ssl-refresh", None, NO_SECRET, only_if_set=True),
        Rule("--tokenizer", None, "the small model brings its own", only_if_set=True),
        Rule("--chat-template", None, "the small model brings its own", only_if_set=True),
        Rule("--max-num-seqs", "8", SMALL_MACHINE),
        Rule("--max-num-batched-tokens", "{max_model_len}", SMALL_MACHINE),
        Rule(f"{TIERS}.spec_name", "PortableTieringSpec", "vLLM's own spec copies with CUDA alone"),
        Rule(f"{TIERS}.spec_module_path", "hypertier.tier.spec", "vLLM's own spec copies with CUDA alone"),
        Rule(f"{TIERS}.cpu_bytes_to_use", "{l1_bytes}", SMALL_MACHINE, numeric=True),
        Rule(f"{TIERS}.blocks_per_chunk", "1", "a block of 128 tokens is chunk enough", numeric=True),
        Rule(
            f"{TIERS}.secondary_tiers.0.prior_l2_bytes_per_second",
            "0",
            "Valkey is on this machine, not where the plan has it",
            numeric=True,
            only_if_set=True,
        ),
        Rule(
            f"{TIERS}.secondary_tiers.0.prior_prefill_tokens_per_second",
            "0",
            NO_GPU + " whose prefill the plan tells",
            numeric=True,
        ),
        Rule(
            f"{TIERS}.secondary_tiers.0.lookup_deadline_ms",
            "2000",
            "engines, router and Valkey share a few slow cores",
            numeric=True,
        ),
        Rule(
            f"{TIERS}.secondary_tiers.0.load_deadline_ms",
            "2000",
            "engines, router and Valkey share a few slow cores",
            numeric=True,
        ),
        Rule(
            f"{TIERS}.secondary_tiers.0.io_timeout_ms",
            "5000",
            "engines, router and Valkey share a few slow cores",
            numeric=True,
        ),
    ),
    kept_options=frozenset(
        {
            "--api-server-count",
            "--disable-access-log-for-endpoints",
            "--disable-log-stats",
            "--disable-uvicorn-access-log",
            "--enable-auto-tool-choice",
            "--enable-chunked-prefill",
            "--enable-force-include-usage",
            "--enable-log-requests",
            "--enable-lora",
            "--max-loras",
            "--max-lora-rank",
            "--trust-request-chat-template",
            "--enable-prefix-caching",
            "--enable-request-id-headers",
            "--generation-config",
            "--max-log-len",
            "--no-enable-log-requests",
            "--override-generation-config",
            "--kv-events-config",
            "--kv-transfer-config",
            "--prefix-caching-hash-algo",
            "--scheduling-policy",
            "--seed",
            "--shutdown-timeout",
            "--tool-call-parser",
            "--trust-remote-code",
            "--uvicorn-log-level",
        }
    ),
    env=(
        Rule("HYPERTIER_L2_URL", "redis://127.0.0.1:{l2_port}", "an embedded Valkey, without TLS", True),
        Rule("HYPERTIER_L2_SECRET_ARN", None, "no AWS here: the password is made up at start", True),
        Rule("HYPERTIER_L2_KEY_SECRET_ARN", None, "no AWS here, and nobody else to read Valkey", True),
        Rule("HYPERTIER_L2_USERNAME", None, "Valkey's default user", True),
        Rule("HYPERTIER_L2_PASSWORD", "{l2_password}", "made up at start"),
        Rule("POD_IP", "127.0.0.1", ONE_MACHINE, True),
        Rule("POD_NAME", "lab", ONE_MACHINE, True),
        Rule("POD_NAMESPACE", "lab", ONE_MACHINE, True),
        Rule("NODE_NAME", "localhost", ONE_MACHINE, True),
        Rule("HF_TOKEN", None, "nothing is downloaded", True),
        Rule("HF_HUB_OFFLINE", "1", "nothing is downloaded"),
        Rule("TRANSFORMERS_OFFLINE", "1", "nothing is downloaded"),
        Rule("VLLM_NO_USAGE_STATS", "1", "nothing is sent anywhere"),
        Rule("DO_NOT_TRACK", "1", "nothing is sent anywhere"),
        Rule("OMP_NUM_THREADS", "1", "one core per engine; more threads would wait for each other"),
        Rule("VLLM_ENABLE_V1_MULTIPROCESSING", "0", "one process per engine less to start"),
        Rule("VLLM_SERVER_DEV_MODE", "1", "POST /reset_prefix_cache, to show what L1 does"),
        Rule("VLLM_NIXL_SIDE_CHANNEL_HOST", None, NO_GPU + " to move KV cache from", True),
        Rule("VLLM_NIXL_SIDE_CHANNEL_PORT", None, NO_GPU + " to move KV cache from", True),
        Rule("FI_PROVIDER", None, "there is no EFA here", True),
        Rule("FI_EFA_USE_DEVICE_RDMA", None, "there is no EFA here", True),
        Rule("NCCL_DEBUG", None, NO_GPU, True),
        Rule("NVIDIA_VISIBLE_DEVICES", None, NO_GPU, True),
        Rule("NVIDIA_DRIVER_CAPABILITIES", None, NO_GPU, True),
        Rule("CUDA_VISIBLE_DEVICES", None, NO_GPU, True),
    ),
    kept_env=frozenset(
        {
            "PYTHONHASHSEED",
            "PYTHONUNBUFFERED",
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING",
            "VLLM_LOGGING_LEVEL",
            "AWS_REGION",
            "AWS_DEFAULT_REGION",
            "HOME",
        }
        | {"HF_HOME", "VLLM_CACHE_ROOT", "XDG_CACHE_HOME", "TMPDIR"}
        | set(_OF_SAMPLES.split())
    ),
)

ROUTER = Overlay(
    options=(
        Rule("--listen", "127.0.0.1:{port}", ONE_MACHINE),
        Rule("--discover", None, "there is no Kubernetes here; the replicas are named", True),
        Rule("--prefill-discover", None, "no engine here prefills for others", True),
        Rule("--routes", "{routes_file}", "there is no ConfigMap here; clients may choose a strategy", True),
        Rule("--otlp-endpoint", None, "no collector is started here", True),
        Rule("--peers", None, ONE_ROUTER, True),
        Rule("--peer", None, ONE_ROUTER, True),
        Rule("--peer-listen", None, ONE_ROUTER, True),
        Rule("--access", None, NO_SECRET, True),
        Rule("--api-keys", None, NO_SECRET, True),
        Rule("--tls-cert", None, NO_SECRET, True),
        Rule("--tls-key", None, NO_SECRET, True),
        Rule("--replica-ca", None, NO_SECRET, True),
        Rule("--replica-cert", None, NO_SECRET, True),
        Rule("--replica-key", None, NO_SECRET, True),
        Rule("--replica-server-name", None, NO_SECRET, True),
        Rule("--workers", None, "a small machine's cores are the engines'", True),
        Rule("--busy-polling", None, "a small machine's cores are the engines'", True),
        Rule("--prefill-threshold", None, "nothing prefills here", True),
        Rule("--trace-sample-ratio", None, "no collector is started here", True),
        Rule("--salt-key", None, NO_SECRET, True),
        Rule("--guardrail-url", None, "no service that looks at requests is started here", True),
        Rule("--guardrail-on-failure", None, "nothing looks at requests here", True),
        Rule("--guardrail-timeout-seconds", None, "nothing looks at requests here", True),
        *(Rule(flag, None, "nothing is captured here", True) for flag in CAPTURE_FLAGS),
        Rule("--kv-events-port", None, "every engine has a port of its own here", True),
        Rule("--metrics-port", "{metrics_port}", ONE_MACHINE, True),
        Rule("--l1-tokens", "{l1_tokens}", SMALL_MACHINE, True),
        Rule("--explain", "", "answers tell which replica served them"),
        Rule("--lameduck-seconds", "0", "no load balancer has to notice that the router leaves", True),
        Rule("--drain-seconds", "5", "nobody waits for long answers here"),
    ),
    kept_options=frozenset(
        {
            "--strategy",
            "--model-alias",
            "--prefill-replica",
            "--explain-on-request",
            "--session-key",
            "--hold-seconds",
            "--hold-requests",
            "--retries",
            "--retry-budget",
            "--migration-limit",
            "--stall-timeout-seconds",
            "--gather-seconds",
            "--slow-start-seconds",
            "--max-body-bytes",
            "--max-head-bytes",
        }
        | {"--max-buffered-bytes", "--index-bytes", "--connect-timeout", "--response-timeout"}
        | {"--read-timeout", "--idle-timeout", "--stream-idle-timeout"}
        | {"--health-interval", "--health-timeout"}
    ),
    env=(
        Rule("POD_IP", "127.0.0.1", ONE_MACHINE, True),
        Rule("POD_NAME", "lab", ONE_MACHINE, True),
        Rule("POD_NAMESPACE", "lab", ONE_MACHINE, True),
    ),
    kept_env=frozenset({"PYTHONUNBUFFERED", "PYTHONHASHSEED", "AWS_REGION", "AWS_DEFAULT_REGION"}),
)
