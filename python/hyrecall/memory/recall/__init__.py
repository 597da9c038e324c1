"""One recall of a store: caller, question and answer."""
