"""What the tests of the documents share: blocks of code, and how they are run."""
