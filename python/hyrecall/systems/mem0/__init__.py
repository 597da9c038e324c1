"""The routes of mem0's self-hosted server."""
