"""The API of requests: the inbox, answers, and what people do to a request together."""
