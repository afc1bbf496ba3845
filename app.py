"""A deployment file -> stacks -> templates and a review page: `cdk synth -c deployment=FILE`."""

import infra.process  # noqa: F401 - before the CDK, which starts Node.js
from hypertier.spec.located import located
from infra import messages, stacks

with messages.plain_errors():
    app = stacks.new_app()
    messages.refuse_what_lint_refuses(app)
    with located(stacks.chosen_file(app)):
        deployment = stacks.chosen_deployment(app)
        stacks.add_stacks(app, deployment)
        app.synth()
    messages.refuse_what_would_be_replaced(app)
    messages.print_review(app, deployment)
