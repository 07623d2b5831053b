"""The Agent Protocol: assistants, threads and runs, as `langgraph_sdk` asks for them."""
