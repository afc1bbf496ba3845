"""A deployment file -> stacks -> templates and a review page: `cdk synth -c deployment=FILE`."""

import gc
import os

# Before the imports, and worth seconds (docs/performance.md): Python's looking for cycles frees next to
# nothing, and V8 compiles the validator by more threads than gain from it.
gc.disable()
os.environ.setdefault("NODE_OPTIONS", "--v8-pool-size=1")

from hypertier.spec.located import located  # noqa: E402
from infra import messages, stacks  # noqa: E402

with messages.plain_errors():
    app = stacks.new_app()
    messages.refuse_what_lint_refuses(app)
    with located(stacks.chosen_file(app)):
        deployment = stacks.chosen_deployment(app)
        stacks.add_stacks(app, deployment)
        app.synth()
    messages.refuse_what_would_be_replaced(app)
    messages.print_review(app, deployment)
