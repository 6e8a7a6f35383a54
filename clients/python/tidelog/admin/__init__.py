"""Administration: `Admin` and `AsyncAdmin`, equal but for `await`."""
