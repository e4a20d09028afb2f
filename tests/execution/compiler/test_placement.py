"""Placement: what is alive at the same time never overlaps, and everything is aligned."""

from hypothesis import given
from hypothesis import strategies as st

from openane.compiler.buffers.intervals import Interval, allocate

REQUESTS = st.lists(st.tuples(st.integers(1, 5000), st.integers(0, 30), st.integers(0, 10)), max_size=40)


@given(REQUESTS, st.sampled_from([16, 64]))
def test_live_ranges_do_not_overlap(raw, step):
    requests = [Interval(key, size, first, first + length) for key, (size, first, length) in enumerate(raw)]
    offsets, total = allocate(requests, step)
    assert set(offsets) == {request.key for request in requests}
    for a in requests:
        assert offsets[a.key] % step == 0
        assert offsets[a.key] + a.size <= total
        for b in requests:
            together = a.first <= b.last and b.first <= a.last
            apart = offsets[a.key] + a.size <= offsets[b.key] or offsets[b.key] + b.size <= offsets[a.key]
            assert a is b or not together or apart


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=20))
def test_sequential_requests_share_one_place(sizes):
    requests = [Interval(key, size, key, key) for key, size in enumerate(sizes)]
    offsets, total = allocate(requests, 64)
    assert total == max(sizes)
    assert set(offsets.values()) == {0}


@given(REQUESTS, st.integers(1, 10))
def test_what_lies_above_lies_above_everything_else(raw, above):
    requests = [Interval(key, size, first, first + length, above=key % above == 0)
                for key, (size, first, length) in enumerate(raw)]
    offsets, _ = allocate(requests, 16)
    top = max((offsets[r.key] + r.size for r in requests if not r.above), default=0)
    assert all(offsets[r.key] >= top for r in requests if r.above)


@given(REQUESTS, st.sampled_from([1, 8]))
def test_each_request_lies_as_low_as_those_before_it_allow(raw, stretch):
    """The largest first: whoever lies in the way below is no smaller and in use at the same time."""
    requests = [Interval(key, size, stretch * first, stretch * (first + length))
                for key, (size, first, length) in enumerate(raw)]
    offsets, _ = allocate(requests, 16)
    served = sorted(requests, key=lambda r: (-r.size, r.first, r.key))
    for number, request in enumerate(served):
        beside = [r for r in served[:number] if r.first <= request.last and request.first <= r.last]
        free = [low for low in range(0, offsets[request.key] + 1, 16)
                if all(low + request.size <= offsets[r.key] or offsets[r.key] + r.size <= low for r in beside)]
        assert free[:1] == [offsets[request.key]]
