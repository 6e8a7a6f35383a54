"""Record batches, read and written: Kafka's RecordBatch v2, byte for byte.

Every record passes through here twice, in the producer and in the consumer; brokers use only
`batch`, and only once a batch. The modules that see each record are compiled by mypyc where there
is a compiler; `loading` decides which twin is used.
"""

from tidelog.records.loading import COMPILED

__all__ = ["COMPILED"]
