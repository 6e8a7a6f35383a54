"""What tests of running nodes share: nodes in this process and beside it, a raw client, disks."""
