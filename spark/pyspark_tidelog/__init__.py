"""What Spark looks for by name: packages called `pyspark_*` announce a source without a line."""
