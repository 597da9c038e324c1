"""How large it can get: measured figures of a shard, and a simulation of many of them.

python -m bench.scale measure --out F.json    # what a shard and a caller cost on this machine
python -m bench.scale predict --from F.json   # latency, machines and cost to 10^10 documents
python -m bench.scale validate --from F.json  # the simulation beside real shards on this machine
"""
