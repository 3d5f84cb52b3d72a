"""Devices as the system shows them: CPU files, the driver's library (scripted), names on the command line."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from roofline_probe.errors import UsageError
from roofline_probe.measure import device as seam
from roofline_probe.measure.adapters import cpu, cuda
from roofline_probe.measure.adapters._load import OthersLoad
from roofline_probe.measure.nvml import Nvml, reason_words

torch = pytest.importorskip("torch")


def put_cache(root: Path, core: int, index: int, level: int, size: str, shared: str) -> None:
    folder = root / f"cpu{core}" / "cache" / f"index{index}"
    folder.mkdir(parents=True)
    for name, text in (("level", str(level)), ("size", size), ("shared_cpu_list", shared)):
        (folder / name).write_text(text + "\n")


def test_the_last_level_cache_is_the_sum_over_core_complexes(tmp_path: Path) -> None:
    """An EPYC's L3 comes in pieces: one piece alone would let a buffer hide in the others."""
    for core in range(4):
        put_cache(tmp_path, core, 2, 2, "1024K", str(core))
        put_cache(tmp_path, core, 3, 3, "32768K", "0-1" if core < 2 else "2-3")
    assert cpu.last_level_cache_bytes(tmp_path) == 64 << 20


def test_no_cache_files_mean_unknown_and_not_zero(tmp_path: Path) -> None:
    assert cpu.last_level_cache_bytes(tmp_path) is None


def test_the_cpu_says_whose_gemm_it_is_and_how_many_threads_ran_it() -> None:
    device = cpu.open(0)
    assert device.info().threads == torch.get_num_threads()
    assert device.info().name
    environment = device.environment("probe measure")
    assert environment.blas
    assert environment.torch == torch.__version__


def test_the_cpu_offers_no_emulated_dtype() -> None:
    device = cpu.open(0)
    assert device.why_unsupported("fp32") is None
    assert device.why_unsupported("fp8")
    assert device.why_unsupported("tf32")
    assert all(device.why_unsupported(dtype) is None for dtype in device.traits.default_dtypes)


@pytest.mark.parametrize(
    ("capability", "supported", "unsupported"),
    [
        (75, {"fp16", "int8", "fp32"}, {"bf16", "fp8", "tf32", "fp4"}),
        (80, {"bf16", "tf32"}, {"fp8", "fp4"}),
        (89, {"fp8"}, {"fp4"}),
        (90, {"fp8", "bf16"}, {"fp4"}),
        (100, {"fp4"}, set()),
    ],
    ids=["T4", "A100", "L40S", "H200", "B200"],
)
def test_a_card_supports_what_its_generation_has_units_for(
    capability: int, supported: set[str], unsupported: set[str]
) -> None:
    assert all(cuda._why_not_on_cuda(dtype, capability) is None for dtype in supported)
    assert all("compute capability" in (cuda._why_not_on_cuda(dtype, capability) or "") for dtype in unsupported)


def test_an_mi300x_counts_its_infinity_cache() -> None:
    """Torch reports the 4 MiB L2; behind it stand 256 MiB that a 64 MiB buffer would measure."""
    properties = SimpleNamespace(gcnArchName="gfx942:sramecc+:xnack-", L2_cache_size=4 << 20)
    assert cuda._last_level_cache(properties) == 256 << 20


@pytest.mark.parametrize(
    ("memory_gib", "cache_mib", "gib"),
    [(140, 60, 4.0), (24, 72, 1.5), (8, 32, 1.0), (2, 4, 0.5), (192, 512, 4.0)],
    ids=["H200", "RTX-4090", "8-GiB", "2-GiB", "huge-cache"],
)
def test_arrays_are_as_large_as_the_cache_demands_and_the_memory_allows(
    memory_gib: int, cache_mib: int, gib: float
) -> None:
    properties = SimpleNamespace(total_memory=memory_gib << 30, major=9, minor=0)
    traits = cuda._traits("cuda", properties, cache_mib << 20)
    assert traits.array_bytes == gib * 2**30


class FakeNvml(SimpleNamespace):
    """The driver's library with one card; a call that is not defined fails as in a container that forbids it."""

    NVMLError = type("NVMLError", (Exception,), {})
    NVML_CLOCK_SM = 1
    NVML_CLOCK_MEM = 2
    NVML_TEMPERATURE_GPU = 0
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
    NVML_VOLATILE_ECC = 0

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def forbidden(*arguments: object) -> None:
            raise self.NVMLError(name)

        return forbidden


def card(**calls: Any) -> Nvml:
    return Nvml(FakeNvml(**calls), "handle")


def test_a_driver_that_forbids_everything_yields_no_figures_and_no_error() -> None:
    silent = card()
    assert silent.read().sm_clock_mhz is None
    assert silent.users() == ()
    assert set(silent.identity().values()) == {None}
    assert silent.uncorrected_ecc_errors() is None


def test_a_server_on_the_card_is_named_with_its_pid_and_memory() -> None:
    server = SimpleNamespace(pid=17, usedGpuMemory=65 << 30)
    found = card(
        nvmlDeviceGetComputeRunningProcesses=lambda handle: [server],
        nvmlSystemGetProcessName=lambda pid: b"/usr/bin/python3",
    ).users()
    assert found == ("python3 (pid 17, 65.0 GiB)",)


def test_this_process_is_not_somebody_else() -> None:
    me = SimpleNamespace(pid=os.getpid(), usedGpuMemory=5 << 30)
    memory = SimpleNamespace(used=6 << 30, reserved=0)
    found = card(
        nvmlDeviceGetComputeRunningProcesses=lambda handle: [me], nvmlDeviceGetMemoryInfo=lambda handle: memory
    )
    assert found.users() == ()


def test_a_process_whose_pid_is_hidden_shows_by_the_memory_it_holds() -> None:
    memory = SimpleNamespace(used=70 << 30)
    found = card(nvmlDeviceGetMemoryInfo=lambda handle: memory).users()
    assert len(found) == 1
    assert "70.0 GiB" in found[0]


def test_an_idle_drivers_memory_is_nobody() -> None:
    assert card(nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(used=500 << 20)).users() == ()


@pytest.mark.parametrize(
    ("mask", "words"),
    [(0x0, ()), (0x1, ()), (0x4, ("software power cap",)), (0x44, ("software power cap", "hardware thermal slowdown"))],
    ids=["none", "idle", "power", "power-and-heat"],
)
def test_clock_event_reasons_in_words(mask: int, words: tuple[str, ...]) -> None:
    assert reason_words(mask) == words


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cpu:1", "quantum", "cuda:99"])
def test_a_device_that_is_not_there_is_refused_in_one_sentence(name: str) -> None:
    with pytest.raises(UsageError, match="device"):
        seam.open_device(name)


def test_missing_torch_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise ImportError("No module named 'torch'")

    monkeypatch.setattr(seam.importlib, "import_module", fail)
    with pytest.raises(UsageError, match=r"pip install 'roofline-probe\[measure\]'"):
        seam.require_torch()


def test_every_adapter_file_is_a_kind_of_device() -> None:
    found = seam._adapters()
    assert list(found)[-1] == "cpu"
    assert {"cuda", "xpu", "mps"} <= set(found)


def test_the_load_of_others_is_what_was_busy_since_the_start_but_for_our_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat, hertz = tmp_path / "stat", os.sysconf("SC_CLK_TCK")
    own = iter([(1.0, 0.5, 0.0, 0.0, 0.0), (3.0, 0.5, 0.0, 0.0, 0.0)])
    monkeypatch.setattr("os.times", lambda: next(own))

    def say(user: int, idle: int, stolen: int) -> None:
        fields = [user, 0, 0, idle, 0, 0, 0, stolen, 0, 0]
        stat.write_text(f"cpu  {' '.join(str(f * hertz) for f in fields)}\ncpu0 1 2 3\n")

    say(user=1_000, idle=5_000, stolen=0)
    load = OthersLoad(stat)
    say(user=1_005, idle=5_010, stolen=1)
    assert load.share() == pytest.approx((5 + 1 - 2) / 16)


def test_the_load_of_others_is_unknown_where_the_system_does_not_say(tmp_path: Path) -> None:
    assert OthersLoad(tmp_path / "none").share() is None
    (tmp_path / "stat").write_text("cpu  a b\n")
    assert OthersLoad(tmp_path / "stat").share() is None
