"""The broker's handlers: one file for each call that clients make."""
