"""One recall of a store: who asks, what is asked, and what comes back."""
