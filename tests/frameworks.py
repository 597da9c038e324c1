"""The frameworks that have an adapter or a page, and what each is imported by."""

# Module of hyrecall.adapters, or page of docs/frameworks -> package.
FRAMEWORKS = {
    "langchain": "langchain_core",
    "langgraph": "langgraph",
    "llama_index": "llama_index.core",
    "haystack": "haystack",
    "loomflow": "loomflow",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
    "autogen": "autogen_core",
    "crewai": "crewai",
    "dspy": "dspy",
}
