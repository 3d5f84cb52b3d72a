"""NVML by a double: this machine's cards are not the test's business."""

from __future__ import annotations

import pytest

from roofline_probe.tail.card import CardReading, CardWatch, read_cards


class NVMLError(Exception):
    pass


class FakeNvml:
    """Cards as dictionaries; a missing entry is a query that the card does not support."""

    NVML_CLOCK_SM, NVML_TEMPERATURE_GPU = 1, 0
    NVMLError = NVMLError

    def __init__(self, *cards):
        self.cards = cards

    def nvmlDeviceGetCount(self):
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index):
        return self.cards[index]

    def __getattr__(self, name):
        def query(card, *arguments):
            key = name.removeprefix("nvmlDeviceGet")
            if key not in card:
                raise NVMLError(name)
            return card[key]

        return query


def card(**fields):
    known = {
        "Name": "NVIDIA H200",
        "ComputeRunningProcesses": ["vllm"],
        "ClockInfo": 1470,
        "MaxClockInfo": 1980,
        "PowerUsage": 691_000,
        "EnforcedPowerLimit": 700_000,
        "Temperature": 62,
        "CurrentClocksThrottleReasons": 0,
    }
    return {key: value for key, value in {**known, **fields}.items() if value is not None}


def test_one_card_is_read_in_clocks_watts_and_degrees():
    assert read_cards(FakeNvml(card())) == CardReading(1, "NVIDIA H200", 1470, 1980, 691.0, 700.0, 62, False, False)


@pytest.mark.parametrize(
    ("reasons", "capped", "hot"),
    [
        (0x0, False, False),
        (0x1, False, False),
        (0x4, True, False),
        (0x80, True, False),
        (0x20, False, True),
        (0x44, True, True),
    ],
    ids=["none", "idle", "software-power-cap", "power-brake", "thermal", "both"],
)
def test_reasons_for_slow_clocks_are_told_apart(reasons, capped, hot):
    reading = read_cards(FakeNvml(card(CurrentClocksThrottleReasons=reasons)))
    assert (reading.power_capped, reading.hot) == (capped, hot)


def test_of_several_cards_those_that_run_something_count_power_adds_up_and_the_slowest_clock_stands():
    idle = card(ComputeRunningProcesses=[], ClockInfo=345, PowerUsage=80_000)
    reading = read_cards(FakeNvml(card(), card(ClockInfo=1300, Temperature=70), idle))
    assert (reading.cards, reading.sm_clock_mhz, reading.power_w, reading.temperature_c) == (2, 1300, 1382.0, 70)


def test_where_none_runs_anything_all_are_read():
    assert read_cards(FakeNvml(card(ComputeRunningProcesses=None), card(ComputeRunningProcesses=[]))).cards == 2


def test_a_query_that_a_card_does_not_support_leaves_its_figure_out():
    reading = read_cards(FakeNvml(card(PowerUsage=None, Temperature=None), card()))
    assert reading.power_w is None
    assert reading.temperature_c == 62


def test_a_machine_without_cards_reads_nothing():
    assert read_cards(FakeNvml()) is None


def test_without_nvml_the_watch_ends_and_shows_nothing():
    watch = CardWatch(lambda: None)
    watch.start()
    watch.join(10)
    assert watch.reading is None


def test_a_driver_that_goes_away_leaves_no_stale_figures():
    nvml = FakeNvml(card())
    counts = iter([1])
    nvml.nvmlDeviceGetCount = lambda: next(counts)
    watch = CardWatch(lambda: nvml)
    watch._leaving.wait = lambda seconds: False
    watch.start()
    watch.join(10)
    assert watch.reading is None
