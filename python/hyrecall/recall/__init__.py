"""One batch of queries on one state: request, plan, arms, fusion, stages."""
