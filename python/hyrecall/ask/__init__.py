"""What a caller asks, as plain data: filters, scopes, queries, arms, stages and recipes."""
