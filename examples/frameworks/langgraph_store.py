"""A LangGraph agent that remembers each user between runs, in a store on the disk.

    python examples/frameworks/langgraph_store.py

Needs the extra [langgraph]. The model is a function of this file.
"""

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.base import BaseStore

from hyrecall.adapters.langgraph import HyrecallStore
from hyrecall.embed import HashEmbedder


def answer(state: MessagesState, config: RunnableConfig, *, store: BaseStore) -> dict:
    """Keep what the user says, and say what is remembered of it."""
    said = state["messages"][-1].content
    namespace = ("memories", config["configurable"]["user_id"])
    found = store.search(namespace, query=said, filter={"kind": "statement"}, limit=1)
    if said.endswith("?"):
        told = found[0].value["text"] if found else "nothing"
        return {"messages": [AIMessage(f"I remember: {told}")]}
    key = str(len(store.search(namespace)))
    store.put(namespace, key, {"text": said, "kind": "statement"}, index=["text"])
    return {"messages": [AIMessage("Noted.")]}


def run(store: BaseStore, user: str, said: str) -> str:
    """Run the graph once."""
    builder = StateGraph(MessagesState)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    graph = builder.compile(store=store)
    state = graph.invoke({"messages": [("user", said)]}, {"configurable": {"user_id": user}})
    return state["messages"][-1].content


def main() -> None:
    """Run twice over one store: the second time it is opened again."""
    # Every namespace of this program begins with "memories"; others are refused.
    with HyrecallStore.open("agent.mem", scope=("memories",), embedder=HashEmbedder()) as store:
        print(run(store, "ann", "My name is Ann and I drink green tea."))
        print(run(store, "ann", "I live in Oslo."))
        print(run(store, "bob", "I drink coffee."))
    with HyrecallStore.open("agent.mem", scope=("memories",), embedder=HashEmbedder()) as store:
        reply = run(store, "ann", "What do I drink?")
        print(reply)
        assert reply == "I remember: My name is Ann and I drink green tea."
        assert "coffee" in run(store, "bob", "What do I drink?")
        assert store.list_namespaces() == [("memories", "ann"), ("memories", "bob")]


if __name__ == "__main__":
    main()
