"""What the tests of the Spark connector share: a session, topics, and what stands in them."""
