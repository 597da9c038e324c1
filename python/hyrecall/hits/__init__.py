"""What comes back: hits, their scores and the reasons for them, as objects and tables."""
