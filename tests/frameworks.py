"""The frameworks that have an adapter or a page, and what each is imported by."""

# Adapter, or page of docs/frameworks -> package.
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


def module_of(name: str) -> str:
    """Return the module of an adapter: loomflow's is with the system whose recipe it follows."""
    return "hyrecall.systems.loom.loomflow" if name == "loomflow" else f"hyrecall.adapters.{name}"
