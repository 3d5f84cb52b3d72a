"""Where profiles live: one file per device, nothing clobbered, the right default, names of shipped ones."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from roofline_probe import profile as document
from roofline_probe import profile_file, store
from roofline_probe.errors import NoRoof, UsageError
from roofline_probe.profile import Beta, DeviceInfo, Environment, ModelCeiling, Peak, Profile


def make_profile(
    kind: str = "cuda", name: str = "NVIDIA H200", created: str = "2026-11-29T10:00:00+00:00", **more: object
):
    base = Profile(
        schema_version=document.SCHEMA_VERSION,
        method_version=document.METHOD_VERSION,
        created=created,
        device=DeviceInfo(kind=kind, name=name, uuid=more.pop("uuid", None)),  # type: ignore[arg-type]
        environment=Environment(probe_version="0", command_line="probe measure", python="3.12", platform="Linux"),
    )
    return msgspec.structs.replace(base, **more)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(store, "data_folder", lambda: tmp_path / "profiles")
    return tmp_path / "profiles"


def put(profile: Profile) -> Path:
    path = store.path_for(profile.device, quick=profile.quick)
    profile_file.save(profile, path)
    return path


def test_two_cards_of_one_model_have_two_files() -> None:
    a = DeviceInfo(kind="cuda", name="NVIDIA H200", uuid="GPU-11111111-aaaa-bbbb")
    b = DeviceInfo(kind="cuda", name="NVIDIA H200", uuid="GPU-22222222-aaaa-bbbb", index=1)
    assert store.path_for(a) != store.path_for(b)


def test_a_quick_run_does_not_replace_a_full_one() -> None:
    device = DeviceInfo(kind="cuda", name="NVIDIA H200", uuid="GPU-11111111")
    assert store.path_for(device) != store.path_for(device, quick=True)


def test_a_file_name_holds_nothing_but_letters_digits_and_dashes() -> None:
    device = DeviceInfo(kind="cuda", name="../../evil\x1b[31m card", uuid="../x")
    assert store.path_for(device).parent == store.data_folder()
    assert set(store.path_for(device).stem) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


def test_the_default_prefers_an_accelerator_to_the_cpu_even_when_older() -> None:
    put(make_profile("cpu", "AMD EPYC", created="2026-12-01T00:00:00+00:00"))
    gpu = put(make_profile("cuda", created="2026-11-01T00:00:00+00:00"))
    assert store.find_default()[1] == gpu


def test_the_default_prefers_a_full_run_to_a_newer_quick_one() -> None:
    put(make_profile(quick=True, created="2026-12-01T00:00:00+00:00"))
    full = put(make_profile(created="2026-11-01T00:00:00+00:00"))
    assert store.find_default()[1] == full


def test_the_default_of_two_cards_is_the_one_measured_last() -> None:
    put(make_profile(uuid="GPU-1", created="2026-11-01T00:00:00+00:00"))
    newer = put(make_profile(uuid="GPU-2", created="2026-12-01T00:00:00+00:00"))
    assert store.find_default()[1] == newer


def test_a_damaged_profile_does_not_hide_a_good_one(folder: Path) -> None:
    good = put(make_profile())
    (folder / "aaa.json").write_text("{")
    assert store.find_default()[1] == good


def test_only_damaged_profiles_are_an_error_that_names_the_file(folder: Path) -> None:
    folder.mkdir()
    (folder / "aaa.json").write_text("{")
    with pytest.raises(UsageError, match=r"aaa\.json"):
        store.find_default()


def test_a_profile_nested_without_end_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text('{"schema_version":1,"x":' + '{"a":' * 9999 + "1" + "}" * 10000)
    with pytest.raises(UsageError, match=r"deep\.json is not a probe profile"):
        store.load(str(tmp_path / "deep.json"))


def test_nothing_measured_names_the_ways_out() -> None:
    with pytest.raises(NoRoof, match=r"probe measure.*--roof datasheet.*--pi and --beta"):
        store.find_default()


def test_an_interrupted_run_goes_beside_a_finished_profile() -> None:
    finished = put(make_profile())
    beside = store.path_for_result(finished, complete=False)
    assert beside != finished
    profile_file.save(make_profile(complete=False), beside)
    assert store.stored() == [finished]


def test_an_interrupted_first_run_takes_the_place_itself(folder: Path) -> None:
    assert store.path_for_result(folder / "new.json", complete=False) == folder / "new.json"


def peak(dtype: str, regime: str = "burst") -> Peak:
    return Peak(dtype=dtype, regime=regime, tflops=1, implementation="mm", m=1, n=1, k=1)  # type: ignore[arg-type]


def ceiling(model: str) -> ModelCeiling:
    return ModelCeiling(model=model, dtype="bf16", tp=1, weight_bytes=1, flops_per_token=1, points=[])


COPY = Beta(pattern="copy", gbps=1, implementation="x", array_bytes=1)
FULL = {
    "peaks": [peak("bf16"), peak("bf16", "sustained"), peak("fp8")],
    "betas": [COPY],
    "ceilings": [ceiling("llama-3.1-8b")],
}


@pytest.mark.parametrize(
    ("measured", "name"),
    [
        pytest.param({"betas": [COPY]}, "nvidia-h200-0.bandwidth.json", id="bandwidth only"),
        pytest.param({"peaks": FULL["peaks"]}, "nvidia-h200-0.bf16-fp8.json", id="gemm only"),
        pytest.param({"peaks": [peak("fp8")], "betas": [COPY], "quick": True}, None, id="quick has its own file"),
        pytest.param(
            {**FULL, "peaks": [peak("bf16"), peak("fp8")]},
            "nvidia-h200-0.bf16-fp8-burst-bandwidth-llama-3-1-8b-tp1.json",
            id="no soak",
        ),
        pytest.param(
            {**FULL, "ceilings": [ceiling("llama-3.1-70b")]},
            "nvidia-h200-0.bf16-fp8-bandwidth-llama-3-1-70b-tp1.json",
            id="another model",
        ),
        pytest.param(FULL, None, id="the same again"),
        pytest.param({**FULL, "ceilings": [*FULL["ceilings"], ceiling("llama-3.1-70b")]}, None, id="more"),
    ],
)
def test_a_run_that_measured_less_goes_beside_the_fuller_profile(measured: dict[str, object], name: str | None) -> None:
    put(make_profile(**FULL))
    profile = make_profile(**measured)
    target = store.path_for(profile.device, quick=profile.quick)
    assert store.path_beside_fuller(target, profile).name == (name or target.name)


def test_a_damaged_profile_is_replaced_by_whatever_was_measured(folder: Path) -> None:
    folder.mkdir()
    (folder / "x.json").write_text("{")
    assert store.path_beside_fuller(folder / "x.json", make_profile(betas=[COPY])) == folder / "x.json"


@pytest.mark.parametrize(
    "less", [{"betas": [COPY]}, {**FULL, "peaks": [peak("fp8")]}], ids=["bandwidth only", "one dtype"]
)
def test_the_default_of_one_device_is_its_fuller_profile_though_older(less: dict[str, object]) -> None:
    full = put(make_profile(created="2026-11-01T00:00:00+00:00", **FULL))
    newer = make_profile(created="2026-12-01T00:00:00+00:00", **less)
    beside = store.path_beside_fuller(full, newer)
    profile_file.save(newer, beside)
    assert beside in store.stored()
    assert store.find_default()[1] == full


def test_the_default_prefers_a_quick_run_with_both_roofs_to_half_of_a_full_one() -> None:
    quick = put(make_profile(quick=True, **FULL))
    put(make_profile(created="2026-12-01T00:00:00+00:00", betas=[COPY]))
    assert store.find_default()[1] == quick


def test_the_default_of_two_models_on_one_device_is_the_newer() -> None:
    full = put(make_profile(created="2026-11-01T00:00:00+00:00", **FULL))
    newer = make_profile(created="2026-12-01T00:00:00+00:00", **{**FULL, "ceilings": [ceiling("llama-3.1-70b")]})
    profile_file.save(newer, store.path_beside_fuller(full, newer))
    assert store.find_default()[0].ceilings[0].model == "llama-3.1-70b"


def test_load_takes_a_path_a_stored_name_and_refuses_the_rest(tmp_path: Path) -> None:
    path = put(make_profile(uuid="GPU-1"))
    assert store.load(str(path))[1] == path.stem
    assert store.load(path.stem)[0].device.uuid == "GPU-1"
    with pytest.raises(UsageError, match="neither a file nor a known name"):
        store.load("no-such-card")
    with pytest.raises(UsageError, match="folder"):
        store.load(str(tmp_path))


def test_every_shipped_profile_is_valid_complete_and_named_in_the_list() -> None:
    for name in store.shipped():
        profile, shown = store.load(name)
        assert shown == name
        assert profile.complete
        assert profile.peaks
        assert profile.betas
