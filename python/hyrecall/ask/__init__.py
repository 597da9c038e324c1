"""A recall's options as checked plain data: filters, scopes, queries, arms, stages, recipes."""
