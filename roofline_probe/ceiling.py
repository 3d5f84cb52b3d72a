"""How long a step's unavoidable parts take: projections at a batch, KV at the read bandwidth, all-reduces on the link.

The projections' time comes from the profile's ceiling for the same model, dtype and tensor-parallel degree; without
one, from the same model's ceiling at another degree, scaled; without that, from the roofs. The last two are marked
estimated.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

from roofline_probe import roofline
from roofline_probe.point import Roof
from roofline_probe.profile import Link, LinkPoint, ModelCeiling, Profile
from roofline_probe.shard import Shard

_SAME = 0.02
"""Two models whose FLOPs per token agree within this, with equal layers and width, are one model, ..."""
_ALIKE = 0.12
"""... if the bytes they stream agree within this (a fit may not know the LM head)."""
_LAUNCH_HIDDEN_BYTES = 32 << 20
"""From this size on a collective runs longer than its launch, which then hides behind the one before."""


def interpolate(xs: Sequence[float], ys: Sequence[float], x: float) -> float:
    """Piecewise linear; below the first point its value, above the last in proportion to ``x``.

    A GEMM's time is flat while weights dominate and grows in proportion to the rows once arithmetic does.
    """
    at = bisect_left(xs, x)
    if at == 0:
        return ys[0]
    if at == len(xs):
        return ys[-1] * x / xs[-1]
    share = (x - xs[at - 1]) / (xs[at] - xs[at - 1])
    return ys[at - 1] + share * (ys[at] - ys[at - 1])


@dataclass(frozen=True)
class Ceiling:
    """Milliseconds of a step's parts on one GPU."""

    shard: Shard
    roof: Roof
    rows: tuple[float, ...] = ()
    """M of the measured points, ascending; empty where the projections are estimated from the roofs."""
    ms: tuple[float, ...] = ()
    head_ms: tuple[float, ...] = ()
    """Of which the LM head at as many rows; empty where it was not timed alone."""
    estimated: bool = True
    link_rows: tuple[float, ...] = ()
    """Message sizes (bytes) of the measured all-reduces."""
    link_s: tuple[float, ...] = ()
    link_reduces: float = 0.0
    """All-reduces per step; 0 without tensor parallelism."""
    caveats: tuple[str, ...] = ()

    def gemm_ms(self, rows: float, logit_rows: float | None = None) -> float | None:
        """All projections for ``rows`` tokens, the LM head for ``logit_rows`` of them (all, if not given).

        A prefill computes logits for the last token of each prompt only.
        """
        if not self.rows:
            return self._from_roofs(rows)
        whole = interpolate(self.rows, self.ms, rows)
        if logit_rows is None or logit_rows >= rows or not self.head_ms:
            return whole
        head = interpolate(self.rows, self.head_ms, rows) - interpolate(self.rows, self.head_ms, logit_rows)
        return whole - max(0.0, head)

    def _from_roofs(self, rows: float) -> float | None:
        """The longer of streaming the weights and computing with them, so both roofs are needed."""
        pi, beta = self.roof.pi_tflops, self.roof.read_beta_gbps
        if not pi or not beta:
            return None
        return max(self.shard.weight_bytes(rows) / beta / 1e6, rows * self.shard.linear_flops_per_token / pi / 1e9)

    def kv_ms(self, kv_bytes: float) -> float | None:
        """Reading ``kv_bytes`` at the read bandwidth."""
        return kv_bytes / self.roof.read_beta_gbps / 1e6 if self.roof.read_beta_gbps else None

    def attention_ms(self, flops: float) -> float | None:
        """Prefill attention at pi."""
        return flops / self.roof.pi_tflops / 1e9 if self.roof.pi_tflops else None

    def link_ms(self, rows: float) -> float | None:
        """All-reduces of one step of ``rows`` tokens; 0 without tensor parallelism, None if no link was measured."""
        if not self.link_reduces:
            return 0.0
        if not self.link_rows:
            return None
        message = rows * self.shard.hidden_size * self.shard.b_act
        return self.link_reduces * interpolate(self.link_rows, self.link_s, message) * 1e3

    def floor_ms(self, batch: float, context: float) -> float | None:
        """A decode step of ``batch`` sequences of ``context`` tokens without any engine time: a bound."""
        shard = self.shard
        read = batch * shard.attended(context) * shard.kv_bytes_per_token
        parts = (self.gemm_ms(batch), self.kv_ms(read), self.link_ms(batch) or 0.0)
        return None if parts[0] is None or parts[1] is None else parts[0] + parts[1] + parts[2]


def build_ceiling(profile: Profile | None, roof: Roof, shard: Shard) -> Ceiling:
    """The ceiling of ``shard`` under ``roof``: measured where the profile has it."""
    link_rows, link_s, link_caveats = _link(profile.link if profile else None, shard)
    estimated = "ceiling_from_roofs" if profile and roof.origin == "measured" else "ceiling_from_given"
    from_roofs = (estimated,) if roof.pi_tflops and roof.read_beta_gbps else ()
    bare = Ceiling(
        shard,
        roof,
        link_rows=link_rows,
        link_s=link_s,
        link_reduces=2 * shard.layers if shard.tp > 1 else 0.0,
        caveats=(*from_roofs, *link_caveats),
    )
    found = _find(profile, roof, shard) if profile and roof.origin == "measured" else None
    if found is None:
        return bare
    measured, scale = found
    points = sorted((p for p in measured.points if p.ms is not None), key=lambda p: p.m)
    heads = tuple(p.lm_head_ms * scale for p in points if p.lm_head_ms is not None)
    return replace(
        bare,
        rows=tuple(float(p.m) for p in points),
        ms=tuple((p.ms or 0.0) * scale for p in points),
        head_ms=heads if len(heads) == len(points) else (),
        estimated=scale != 1.0,
        caveats=link_caveats if scale == 1.0 else ("ceiling_of_other_tp", *link_caveats),
    )


def _find(profile: Profile, roof: Roof, shard: Shard) -> tuple[ModelCeiling, float] | None:
    """The ceiling of the same model and dtype, its own tensor-parallel degree first."""
    same = [c for c in profile.ceilings if c.dtype == roof.dtype and _same_model(c, shard) and _has_points(c)]
    exact = next((c for c in same if c.tp == shard.tp), None)
    if exact is not None:
        return exact, 1.0
    other = min(same, key=lambda c: c.tp, default=None)
    return None if other is None else (other, other.tp / shard.tp)


def _has_points(ceiling: ModelCeiling) -> bool:
    return any(p.ms is not None for p in ceiling.points)


def _same_model(ceiling: ModelCeiling, shard: Shard) -> bool:
    whole = shard.layers * shard.pp
    if shard.pp > 1:
        return False
    fitted = shard.source == "fit"  # knows its FLOPs, not its layers
    if not fitted and (ceiling.layers not in (None, whole) or ceiling.hidden_size not in (None, shard.hidden_size)):
        return False
    per_token = shard.linear_flops_per_token * shard.tp
    heads = (0.0, shard.lm_head_flops_per_row * shard.tp)  # counted by some documents, not by others
    counted = ceiling.flops_per_token * ceiling.tp
    if not shard.experts and abs(ceiling.weight_bytes * ceiling.tp / (shard.weight_bytes(1) * shard.tp) - 1) > _ALIKE:
        return False  # the same arithmetic over smaller weights: a weight-only quantization
    return any(abs(counted / (per_token + head) - 1) < _SAME for head in heads)


def _link(link: Link | None, shard: Shard) -> tuple[tuple[float, ...], tuple[float, ...], tuple[str, ...]]:
    """Message sizes and seconds of an all-reduce inside a captured step.

    A small collective launched from the host pays that launch (about 30 us); inside an engine's graph it does not. Such
    points therefore only tell the bandwidth: their times are taken as bytes over the best bus bandwidth, a lower bound.
    """
    if shard.tp < 2:
        return (), (), ()
    points = sorted(
        (p for p in (link.points if link else []) if p.collective == "all_reduce"), key=lambda p: p.message_bytes
    )
    if not points or link is None:
        return (), (), ("link_unmeasured",)
    ranks = link.ranks
    best = max(roofline.ring_all_reduce_bytes(p.message_bytes, ranks) / p.seconds for p in points)
    seconds = tuple(
        roofline.ring_all_reduce_bytes(p.message_bytes, ranks) / best if _pays_launch(p) else p.seconds for p in points
    )
    caveats = ("link_lower_bound",) if any(map(_pays_launch, points)) else ()
    return tuple(float(p.message_bytes) for p in points), seconds, caveats


def _pays_launch(point: LinkPoint) -> bool:
    return point.timer != "cuda-graph" and point.message_bytes < _LAUNCH_HIDDEN_BYTES
