"""The shape of the house is a test: who may import whom, how long things may grow, where packages come from."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("agent", "cbt", "cython_ext", "elfstream", "job", "master", "srt")
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 600
TIED = (("job.plan", "job.spark_sql"),)
"""Circles that stay: `Plan.to_spark_sql()` belongs to the plan, and what it calls must know plans."""
HEAVY = ("sqlglot", "pyspark", "pyarrow", "numpy", "pandas", "rich", "click", "aiohttp")


def _tracked(pattern: str) -> list[Path]:
    skip = {"build", ".venv", "dist"}
    return [path for path in sorted(ROOT.glob(pattern)) if not skip & set(path.relative_to(ROOT).parts)]


def test_imports_point_downwards() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def _imports(path: Path) -> set[str]:
    """The modules of the house that `path` imports when it runs, also inside functions; not those for type checkers."""
    names: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(path.read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        waiting += ast.iter_child_nodes(node)
    return names


def test_no_module_imports_itself_by_a_detour() -> None:
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for package in PACKAGES
        for path in _tracked(f"{package}/**/*.py")
        if path.name != "__init__.py"
    }
    graph = {name: _imports(path) & modules.keys() for name, path in modules.items()}
    for user, used in TIED:
        graph[user].remove(used)
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise AssertionError(f"circular import: {' <- '.join(error.args[1])}") from None


def test_kernels_cimport_only_kernels() -> None:
    allowed = re.compile(r"(libc|libcpp|cpython|posix|cython_ext|cython)\b")
    for path in [*_tracked("**/*.pyx"), *_tracked("**/*.pxd")]:
        assert path.parent.name == "cython_ext", f"{path}: kernels live in cython_ext"
        for line in path.read_text().splitlines():
            found = re.match(r"\s*(?:from\s+(\S+)\s+cimport|cimport\s+(\S+))", line)
            if found:
                name = found.group(1) or found.group(2)
                assert allowed.match(name), f"{path.name} cimports {name}"


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_come_from_this_checkout(package: str) -> None:
    """`agent`, `srt` and others are names on the package index too: name the offender if one shadows ours."""
    where = Path(str(import_module(package).__file__)).resolve()
    assert where.is_relative_to(ROOT), f"package {package} was loaded from {where}: uninstall what is there"


def test_an_agent_stays_light() -> None:
    code = "import sys, agent.pipeline, agent.files, master.stages; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(HEAVY) & set(done.stdout.split()) == set()


NETWORKED = re.compile(
    r"(elfstream/.*|\w+/driver|srt/(peer_socket|dials|greetings)|master/(api|api_\w+|sql_compiler|spark/paced_socket))\.py"
)
"""Drivers, the HTTP API and the face. All else is synchronous: bytes and times in, values out."""


def test_only_drivers_know_loops_and_sockets() -> None:
    for package in PACKAGES:
        for path in _tracked(f"{package}/**/*.py"):
            name = str(path.relative_to(ROOT))
            found = {module.partition(".")[0] for module in _imports(path)} & {"asyncio", "aiohttp", "uvloop", "socket"}
            assert not found or NETWORKED.fullmatch(name), f"{name} imports {', '.join(sorted(found))}"


def test_spark_stays_in_its_place() -> None:
    """Nodes never load it: only the face and `master/spark` itself import `master/spark`, and only that imports PySpark."""
    for package in PACKAGES:
        for path in _tracked(f"{package}/**/*.py"):
            name = str(path.relative_to(ROOT))
            found = _imports(path) | _foreign_imports(path)
            if not name.startswith(("master/spark/", "elfstream/")):
                assert not any(module.startswith("master.spark") for module in found), f"{name} imports master.spark"
            if not name.startswith("master/spark/"):
                assert "pyspark" not in {module.partition(".")[0] for module in found}, f"{name} imports pyspark"


def test_the_command_line_starts_light() -> None:
    code = "import sys, elfstream.cli; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    heavy = {"sqlglot", "pyspark", "pyarrow", "numpy", "pandas", "rich", "cython_ext.scan"}
    assert heavy & set(done.stdout.split()) == set()


def test_sockets_and_loops_stay_in_drivers() -> None:
    """Cores are plain functions of events and times; what waits, blocks or runs beside them is in these modules."""
    drivers = {
        "srt": {"driver", "dials", "greetings", "peer_socket"},
        "job": set(),
        "cbt": set(),
    }
    for package, allowed in drivers.items():
        for path in (ROOT / package).rglob("*.py"):
            heads = {name.partition(".")[0] for name in _foreign_imports(path)}
            if path.stem not in allowed:
                assert not heads & {"asyncio", "aiohttp", "uvloop", "socket"}, f"{path} is no driver"


def _foreign_imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def test_every_kernel_has_a_stub() -> None:
    for path in _tracked("**/*.pyx"):
        assert path.with_suffix(".pyi").exists(), f"{path.name} has no .pyi"


def test_nothing_grows_too_long() -> None:
    long = []
    for path in _tracked("**/*.py"):
        text = path.read_text()
        if len(text.splitlines()) > FILE_LINES_MAX:
            long.append(f"{path.relative_to(ROOT)} has {len(text.splitlines())} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    long.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name} has {lines} lines")
    assert long == []


def test_python_test_names_are_unique() -> None:
    names = [path.name for path in _tracked("**/test_*.py")]
    assert len(names) == len(set(names))


def test_every_package_is_listed_for_installation() -> None:
    import tomllib

    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    found = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for package in PACKAGES
        for path in (ROOT / package).rglob("__init__.py")
    }
    assert listed == found
