"""Published peaks: whole-token matching, no guesses, and the sparse headline refused."""

from __future__ import annotations

import pytest

from roofline_probe import datasheet
from roofline_probe.errors import UsageError


@pytest.mark.parametrize(
    ("device", "card"),
    [
        ("NVIDIA H200", "H200 SXM 141GB"),
        ("NVIDIA H200 NVL", "H200 NVL 141GB"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM5 80GB"),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM4 80GB"),
        ("NVIDIA A100-SXM4-40GB", "A100 SXM4 40GB"),
        ("NVIDIA L40S", "L40S"),
        ("Tesla T4", "T4"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("AMD Instinct MI300X", "MI300X"),
        ("NVIDIA B300 SXM6 AC", "B300"),
        ("NVIDIA GB200", "GB200"),
    ],
    ids=lambda value: value.replace(" ", "-"),
)
def test_a_device_name_finds_its_own_card(device: str, card: str) -> None:
    found = datasheet.find(device)
    assert found is not None
    assert found.card == card
    assert found.source


@pytest.mark.parametrize(
    ("device", "why"),
    [
        ("NVIDIA A10", "not the A100, nor the A10G"),
        ("NVIDIA A10G", "not the A10"),
        ("NVIDIA L4", "not the L40S"),
        ("NVIDIA H100", "does not tell SXM from PCIe or NVL"),
        ("NVIDIA H100 PCIe", "not the SXM card"),
        ("NVIDIA A100-PCIE-40GB", "not the SXM card"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "a smaller chip at a lower power limit"),
        ("NVIDIA GeForce RTX 3090 Ti", "another card"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "a slice has a part of the card's units"),
        ("NVIDIA H200 MIG 3g.71gb", "a slice has a part of the card's units"),
        ("AMD EPYC 9354", "a CPU"),
        ("", "no name at all"),
    ],
    ids=lambda value: value.replace(" ", "-") or "empty",
)
def test_a_card_not_listed_gets_no_datasheet_rather_than_a_guess(device: str, why: str) -> None:
    assert datasheet.find(device) is None, why


def test_every_listed_figure_is_dense() -> None:
    """Where a sparse 16-bit headline is published it is twice the dense figure (or the rounded twice)."""
    for card in datasheet.cards():
        if card.sparse_16bit_tflops is not None:
            assert card.tflops["fp16"] <= card.sparse_16bit_tflops / 1.98


def test_the_h200_has_the_figures_that_the_check_table_uses() -> None:
    found = datasheet.find("NVIDIA H200")
    assert found is not None
    assert (found.tflops["bf16"], found.tflops["fp8"], found.gbps) == (989.4, 1978.9, 4800)


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_the_sparse_headline_is_refused_for_16_bit_with_the_dense_figure(dtype: str) -> None:
    with pytest.raises(UsageError, match=r"2:4 sparsity.*989\.4"):
        datasheet.with_given("NVIDIA H100 80GB HBM3", {dtype: 1979.0}, None)


def test_the_same_number_is_the_honest_dense_fp8_peak() -> None:
    found, _ = datasheet.with_given("NVIDIA H100 80GB HBM3", {"fp8": 1979.0}, None)
    assert found is not None
    assert found.tflops["fp8"] == 1979.0


def test_given_peaks_replace_the_listed_ones_and_say_so() -> None:
    found, _ = datasheet.with_given("NVIDIA H200", {"bf16": 1000.0}, 5000.0)
    assert found is not None
    assert (found.tflops["bf16"], found.tflops["fp8"], found.gbps) == (1000.0, 1978.9, 5000.0)
    assert found.source.startswith(datasheet.GIVEN)


def test_an_unknown_card_takes_given_peaks_and_nothing_else() -> None:
    found, card = datasheet.with_given("Some new card", {"bf16": 100.0}, None)
    assert card is None
    assert found is not None
    assert (found.card, found.tflops, found.gbps) == ("Some new card", {"bf16": 100.0}, None)


def test_an_unknown_card_without_given_peaks_has_no_datasheet() -> None:
    assert datasheet.with_given("Some new card", {}, None) == (None, None)


@pytest.mark.parametrize(
    ("typed", "card"),
    [
        pytest.param("H100 SXM", "H100 SXM5 80GB", id="part of a word"),
        pytest.param("h200 nvl", "H200 NVL 141GB", id="any case"),
        pytest.param("4090", "RTX 4090", id="number alone"),
        pytest.param("NVIDIA H100 80GB HBM3", "H100 SXM5 80GB", id="as the driver names it"),
        pytest.param("A100", None, id="two cards fit"),
        pytest.param("H999", None, id="no card fits"),
        pytest.param("…", None, id="no word"),
        pytest.param("b3", None, id="a word too short to name a model"),
        pytest.param("L", None, id="a letter"),
        pytest.param("T4", "T4", id="a model of two characters"),
    ],
)
def test_a_typed_name_finds_the_one_card_it_fits(typed: str, card: str | None) -> None:
    found = datasheet.named(typed)
    assert (found and found.card) == card
