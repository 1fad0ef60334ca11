"""The served policy: a Ray Serve application with an OpenAI-compatible API and a page."""
