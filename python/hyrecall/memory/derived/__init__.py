"""The index that follows a store's rows: built, brought up to date and saved."""
