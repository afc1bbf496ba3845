"""The table of vLLM's options against the parser of the vLLM that is installed."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from hypertier.catalog.vllm_options import OPTIONS, VERSIONS_READ
from hypertier.lab.engine_env import find_engine_python
from hypertier.spec.arguments import option_name

PROGRAM = """
import json
import vllm
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = make_arg_parser(FlexibleArgumentParser())
options = sorted(option for action in parser._actions for option in action.option_strings)
short = {}
for option in options:
    for end in range(3, len(option)):
        matches = parser._get_option_tuples(option[:end])
        if option.startswith("--") and len(matches) == 1 and option[:end] not in options:
            short[option[:end]] = matches[0][1]
print(json.dumps([vllm.__version__, options, short]))
"""


@pytest.mark.engine
def test_the_table_holds_what_the_parser_knows_and_reads_what_is_short_alike() -> None:
    python = find_engine_python(os.environ, Path())

    ran = subprocess.run([python, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=300)

    version, options, short = json.loads(ran.stdout.splitlines()[-1])
    assert tuple(map(int, version.split(".")[:2])) in VERSIONS_READ
    assert {option for option in options if option.startswith("--")} <= OPTIONS
    unlike = {word for word, option in short.items() if option_name(word) != option}
    assert {word for word in unlike if sum(option.startswith(word) for option in OPTIONS) == 1} == set()
    assert {option_name(word) for word in unlike} == unlike  # also short for an older vLLM's: left as it is
