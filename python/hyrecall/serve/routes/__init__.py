"""The routes of the service, a file for each part of the store that they lead to."""
