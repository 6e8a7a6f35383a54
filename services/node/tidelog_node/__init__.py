"""One node: every service in one process, composed here (`tidelog up`)."""
