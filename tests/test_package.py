"""What is installed, under which name, and what it drags in."""

import ast
import importlib
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from types import FunctionType

import fredholm
import pytest

ROOT = Path(__file__).resolve().parents[1]
FLOORS = ("apps", "backbones", "kernels", "pipelines")


@pytest.fixture(scope="module")
def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def run(program: str) -> str:
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, cwd="/")
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.strip()


def test_the_package_list_is_complete(project) -> None:
    found = {"fredholm"}
    for floor in FLOORS:
        for marker in (ROOT / floor).rglob("__init__.py"):
            found.add(".".join(("fredholm", *marker.parent.relative_to(ROOT).parts)))
    listed = project["tool"]["setuptools"]["packages"]
    assert sorted(listed) == listed
    assert set(listed) == found


def test_every_folder_of_modules_is_a_package() -> None:
    for floor in FLOORS:
        for module in (ROOT / floor).rglob("*.py"):
            assert (module.parent / "__init__.py").is_file(), module


def test_every_listed_package_imports(project) -> None:
    for name in project["tool"]["setuptools"]["packages"]:
        importlib.import_module(name)


def test_typing_information_is_installed(project) -> None:
    assert (ROOT / "py.typed").is_file()
    assert "py.typed" in project["tool"]["setuptools"]["package-data"]["fredholm"]
    assert (Path(fredholm.__file__).parent / "py.typed").is_file()


def test_the_files_that_come_with_a_package_are_there(project) -> None:
    for package, files in project["tool"]["setuptools"]["package-data"].items():
        folder = ROOT.joinpath(*package.split(".")[1:])
        assert [name for name in files if not (folder / name).is_file()] == []


def test_the_version_is_the_projects(project) -> None:
    assert metadata.version("fredholm") == project["project"]["version"]


def test_kernels_need_no_other_floor_and_no_heavy_package() -> None:
    banned = ("triton", "monai", "nibabel", "matplotlib", "lightning_fabric", "scipy", "skimage", "rich", "tyro")
    loaded = run(
        "import sys, torch; before = set(sys.modules)\n"
        "import fredholm.kernels\n"
        f"print(sorted(m for m in set(sys.modules) - before if m.split('.')[0] in {banned!r} or m.startswith("
        "('fredholm.apps', 'fredholm.backbones', 'fredholm.pipelines'))))"
    )
    assert loaded == "[]"


def test_kernels_import_where_triton_and_monai_are_absent() -> None:
    run(
        "import sys\n"
        "for name in ('triton', 'monai', 'nibabel'):\n"
        "    sys.modules[name] = None\n"
        "import torch\n"
        "from fredholm.kernels import fftconv\n"
        "fftconv(torch.ones(1, 1, 4), torch.ones(1, 1, 3))"
    )


def test_backbones_need_no_file_format_and_no_command_line() -> None:
    loaded = run(
        "import sys\nimport fredholm.backbones\n"
        "print(sorted(m for m in sys.modules if m.startswith(('fredholm.apps', 'fredholm.pipelines', 'tyro'))))"
    )
    assert loaded == "[]"


def test_nothing_with_a_bare_name_is_installed(project) -> None:
    assert all(name.split(".")[0] == "fredholm" for name in project["tool"]["setuptools"]["packages"])
    names = metadata.packages_distributions()
    assert "fredholm" not in {each for floor in FLOORS for each in names.get(floor, [])}
    found = run(
        "import importlib.util, json\n"
        f"specs = [importlib.util.find_spec(name) for name in {FLOORS!r}]\n"
        "print(json.dumps([spec.origin or list(spec.submodule_search_locations) for spec in specs if spec]))"
    )
    assert str(ROOT) not in found


@pytest.mark.parametrize("name", ["fredholm.kernels", "fredholm.backbones"])
def test_the_public_face_is_sorted_and_complete(name) -> None:
    module = importlib.import_module(name)
    assert list(module.__all__) == sorted(module.__all__)
    assert len(set(module.__all__)) == len(module.__all__)
    assert all(hasattr(module, each) for each in module.__all__)
    lines = [each for each in ast.parse(Path(module.__file__).read_text()).body if isinstance(each, ast.ImportFrom)]
    assert {name.name for line in lines if line.level for name in line.names} == set(module.__all__)


@pytest.mark.parametrize("name", ["fredholm.kernels", "fredholm.backbones"])
def test_every_public_name_has_a_docstring(name) -> None:
    module = importlib.import_module(name)
    for each in module.__all__:
        value = getattr(module, each)
        assert value.__doc__ or not isinstance(value, type | FunctionType), each
