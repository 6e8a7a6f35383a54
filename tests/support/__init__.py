"""What tests of every level share: waiting for real processes, and finding what was left behind."""
