"""Reading topics: `Consumer` and `AsyncConsumer`, equal but for `await`."""
