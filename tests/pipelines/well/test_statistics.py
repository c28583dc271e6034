"""Statistics in one pass are those of all numbers at once, and none that is missing is passed over."""

from pathlib import Path

import h5py
import numpy as np
import pytest
import yaml
from fredholm.pipelines.well import statistics
from fredholm.pipelines.well.folder import WellFolder
from fredholm.pipelines.well.statistics import compute_statistics, read_statistics, write_statistics
from helpers.well import write_file


@pytest.mark.parametrize("part", [1, 100, 1 << 22])
def test_one_pass_equals_all_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int) -> None:
    monkeypatch.setattr(statistics, "PART", part)
    files = [write_file(tmp_path / f"{seed}.hdf5", seed=seed, trajectories=seed + 1) for seed in range(3)]
    found = compute_statistics(files)
    everything = {}
    for name, order in (("density", 0), ("velocity", 1)):
        parts = []
        for file in files:
            with h5py.File(file) as opened:
                parts.append(opened[f"t{order}_fields/{name}"][()].astype(np.float64))
        everything[name] = np.concatenate(parts)
    for name, values in everything.items():
        kept = tuple(range(4))
        for suffix, numbers in (("", values), ("_delta", np.diff(values, axis=1))):
            np.testing.assert_allclose(found[f"mean{suffix}"][name], numbers.mean(kept), rtol=1e-12, atol=1e-15)
            np.testing.assert_allclose(found[f"std{suffix}"][name], numbers.std(kept), rtol=1e-11)
            np.testing.assert_allclose(found[f"rms{suffix}"][name], np.sqrt((numbers**2).mean(kept)), rtol=1e-12)


def test_a_small_spread_about_a_large_mean_is_not_lost() -> None:
    moments, rng = statistics.Moments(), np.random.default_rng(0)
    values = 1e9 + rng.normal(size=(50, 1000))
    for part in values:
        moments.add(part)
    np.testing.assert_allclose(moments.std, values.std(), rtol=1e-6)


def test_they_are_the_real_set_s_own(data_folder: Path) -> None:
    folder = WellFolder.open(data_folder / "pde/burgers_16")
    found, kept = compute_statistics(folder.files("train")), yaml.safe_load(folder.statistics_file.read_text())
    for key, values in kept.items():
        np.testing.assert_allclose(found[key]["u"], values["u"], rtol=1e-6, atol=1e-9)


def test_a_missing_statistic_stops_the_run_by_name(tmp_path: Path) -> None:
    """G2: the run went on without."""
    path = tmp_path / "stats.yaml"
    with pytest.raises(FileNotFoundError, match="fredholm pde stats"):
        read_statistics(path, ["density"], [])
    write_statistics(path, compute_statistics([write_file(tmp_path / "a.hdf5")]))
    changing, constant = read_statistics(path, ["density", "velocity"], [])
    assert len(changing.mean) == len(changing.std_delta) == 3
    assert constant.mean == ()
    content = yaml.safe_load(path.read_text())
    del content["mean_delta"], content["std"]["velocity"]
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(ValueError, match="lacks std of velocity, mean_delta of density, mean_delta of velocity"):
        read_statistics(path, ["density", "velocity"], [])


def test_a_number_that_is_none_is_told_with_its_file_and_field(tmp_path: Path) -> None:
    path = write_file(tmp_path / "a.hdf5")
    with h5py.File(path, "r+") as file:
        file["t1_fields/velocity"][0, 1, 0, 0, 1] = np.inf
    with pytest.raises(ValueError, match=r"a\.hdf5: the field velocity is not finite"):
        compute_statistics([path])
