"""Chat models: any of LangChain's by name, and a scripted one for tests and dry runs."""
