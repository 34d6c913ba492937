"""The other papers' experiments, run again on generated workloads: the paper's figure beside ours."""
