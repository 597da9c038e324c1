"""One batch of queries on one state: ranking, plan, arms, stages, explanations."""
