"""How many sequences a server has room for: its KV cache as the log states it, else the card's memory. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from roofline_probe.shard import Shard


@dataclass(frozen=True)
class Room:
    """Where the keys and values of a batch must fit; nothing known is no limit."""

    shard: Shard
    kv_cache_tokens: int | None = None
    """As the log states it."""
    memory_bytes: int | None = None
    """Of one card; it counts only where no log states a KV cache."""

    @property
    def weight_bytes(self) -> float:
        """What one GPU holds: all experts, and the input embedding, which no step streams."""
        shard = self.shard
        return shard.dense_weight_bytes + shard.lm_head_bytes + shard.embedding_bytes + shard.expert_bytes

    def kv_bytes(self, batch: int, context: int) -> float:
        """What ``batch`` sequences of ``context`` tokens hold in the cache of one GPU."""
        return batch * self.shard.attended(context) * self.shard.kv_bytes_per_token

    def batch(self, context: int) -> int | None:
        """Most sequences of ``context`` tokens; None if nothing is known. Of a card it is an upper limit: engines keep
        memory back for activations."""
        if self.kv_cache_tokens is not None:
            return self.kv_cache_tokens // context
        one = self.kv_bytes(1, context)
        if self.memory_bytes is None or not one:
            return None
        return max(0, int((self.memory_bytes - self.weight_bytes) / one))

    def holds(self, batch: int, context: int) -> bool:
        """Whether they fit, as far as is known."""
        most = self.batch(context)
        return most is None or batch <= most
