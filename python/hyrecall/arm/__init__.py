"""Arms other than text and vectors, one file each; users import them from hyrecall.arms."""
