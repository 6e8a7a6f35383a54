"""What producer, consumer and admin share: connections, the view of the cluster, the event loop."""
