"""What every room needs: arguments, files, threads, progress, and which devices there are."""
