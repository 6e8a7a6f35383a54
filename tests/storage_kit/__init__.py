"""What the tests of storage share: batches, logs on any disk, and a plain model to compare with."""
