"""The owner of the queues of one state directory: the one process that opens their files.

`QueueOwner` and all below `state` and `tokens` need no extra; what serves HTTP is in `app` and
`server`, which need `http`.
"""
