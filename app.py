"""A deployment file -> stacks -> templates and a review page: `cdk synth -c deployment=FILE`."""

from infra.messages import plain_errors, print_review, refuse_what_lint_refuses, refuse_what_would_be_replaced
from infra.stacks import add_stacks, chosen_deployment, new_app

with plain_errors():
    app = new_app()
    deployment = chosen_deployment(app)
    refuse_what_lint_refuses(app)
    add_stacks(app, deployment)
    app.synth()
    refuse_what_would_be_replaced(app)
    print_review(app, deployment)
