"""The rules of the house, held by reading the source: who may import whom, where bits are handled, how code is kept."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from support.house import (
    MAY_IMPORT,
    ROOT,
    SOURCE,
    all_imports,
    imported,
    imported_files,
    imports_of,
    module_of,
    modules,
    name_of,
    room_of,
    tree_of,
)

LONGEST_FILE = 330

BITS_BY_HAND = {
    "registers/": "the register language: the one place that turns fields into bits",
    "formats/": "file formats state their own bytes",
    "chips/table_format.py": "the bytes of an activation table, stated once",
    "devices/linux/interface.py": "the driver's structures, stated once",
    "devices/simdriver/seccomp.py": "structures, filters and registers of the kernel's seccomp interface, stated once",
    "machine_code": "rounding works on the bits of a number",
    "ops/half_products.py": "rounding works on the bits of a number",
    "program/verify/written_l2.py": "a set of bytes is the binary digits of one number",
    "simulator/arithmetic": "rounding works on the bits of a number",
    "simulator/compiled": "rounding works on the bits of a number",
}
"""Where shifts, masks and struct.pack may appear, and why. Everywhere else the register tables do it."""

NO_NUMPY = ("registers", "engine", "chips", "program", "formats")


def test_imports_point_one_way() -> None:
    wrong = []
    for path in modules():
        room = room_of(path)
        if room in ("cli", "__init__", "__main__"):
            continue
        allowed = MAY_IMPORT[room] | {room, "errors", "record_classes", "rounding", "version"}
        for each in imports_of(path):
            top, _, rest = each.of().partition(".")
            if top == "openane" and rest.partition(".")[0] not in allowed:
                wrong.append(f"{name_of(path)}:{each.line} imports {each.of()}; {room} may see "
                             f"{', '.join(sorted(allowed))}")
    assert not wrong, "\n".join(wrong)


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """Modules that import each other in turn, the first once more at the end; empty where there are none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_import_circles() -> None:
    found = circle(imported_files(all_imports()))
    assert not found, "these import each other: " + " and ".join(found)


@pytest.mark.parametrize("back", [
    "import openane.a", "from openane.a import x", "from openane import a",
    "def f():\n    from openane.a import x", "if TYPE_CHECKING:\n    from openane.a import x",
    "from importlib import import_module\nimport_module('openane.a')",
])
def test_a_circle_of_three_files_is_found(back: str) -> None:
    sources = {"openane": "", "openane.a": "from openane.b import y", "openane.b": "from openane.c import z",
               "openane.c": back}
    imports = {module: tuple(imported(ast.parse(text))) for module, text in sources.items()}
    assert set(circle(imported_files(imports))) == {"openane.a", "openane.b", "openane.c"}
    other = tuple(imported(ast.parse("from openane.d import a")))
    assert not circle(imported_files(imports | {"openane.c": other}))


def bit_handling(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, what) of every shift, mask with a number, and struct call."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp | ast.AugAssign):
            sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.value,)
            numbers = [isinstance(s, ast.Constant) and type(s.value) is int for s in sides]
            number = any(numbers)
            if len(sides) == 2 and all(numbers):
                continue  # a size such as 2 << 20
            if isinstance(node.op, ast.LShift | ast.RShift):
                yield node.lineno, "a shift"
            elif isinstance(node.op, ast.BitAnd | ast.BitOr | ast.BitXor) and number:
                yield node.lineno, "a mask"
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "struct" and node.attr != "error":
            yield node.lineno, f"struct.{node.attr}"


@cache
def bits_by_hand() -> dict[str, list[tuple[int, str]]]:
    """The same of every file that has any."""
    found = {name_of(path): list(bit_handling(tree_of(path))) for path in modules()}
    return {name: places for name, places in found.items() if places}


def test_bits_are_handled_in_one_place() -> None:
    wrong = [f"{name}:{line} has {what}" for name, places in bits_by_hand().items()
             if not any(name.startswith(place) for place in BITS_BY_HAND) for line, what in places]
    assert not wrong, "use a register table, or say in BITS_BY_HAND why not:\n" + "\n".join(wrong)


def test_the_list_of_exceptions_is_not_longer_than_needed() -> None:
    needed = {place for place in BITS_BY_HAND for name in bits_by_hand() if name.startswith(place)}
    assert needed == set(BITS_BY_HAND)


def public_functions(body: list[ast.stmt], owner: str = "") -> Iterator[tuple[int, str, str | None]]:
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.lineno, node.name, ast.get_docstring(node)
            yield from public_functions(node.body, f"{node.name}.")
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            decorators = {getattr(d, "id", "") or getattr(d, "attr", "") for d in node.decorator_list}
            if not decorators & {"overload", "setter"}:
                yield node.lineno, owner + node.name, ast.get_docstring(node)


def test_everything_public_has_a_docstring() -> None:
    missing = []
    for path in modules():
        tree = tree_of(path)
        if tree.body and not ast.get_docstring(tree):
            missing.append(f"{name_of(path)} (the module)")
        missing += [f"{name_of(path)}:{line} {name}" for line, name, doc in public_functions(tree.body) if not doc]
    assert not missing, "\n".join(missing)


def test_tests_are_skipped_in_one_place() -> None:
    """Everything else says what it needs (`support.needs`), so that a list can hold all that may be skipped."""
    wrong = [f"{path.relative_to(ROOT)}:{node.lineno}" for path in sorted((ROOT / "tests").rglob("*.py"))
             if path.name != "needs.py" for node in ast.walk(tree_of(path))
             if isinstance(node, ast.Attribute) and node.attr in ("skip", "skipif", "importorskip")
             and getattr(node.value, "id", getattr(node.value, "attr", "")) in ("pytest", "mark", "unittest")]
    assert not wrong, "\n".join(wrong)


def test_no_file_is_long() -> None:
    files = [path for folder in ("src", "tests", "examples", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    long = [f"{path.relative_to(ROOT)}: {count} lines" for path in files
            if (count := len(path.read_text().splitlines())) > LONGEST_FILE]
    assert not long, "\n".join(long)


def test_no_machine_is_mentioned() -> None:
    """Nobody's home directory or scratch path belongs into the project."""
    pattern = re.compile(r"(?<![\w.])/(?:home|Users|root|work|tmp|opt)/\w")
    files = [path for folder in ("src", "tests", "examples", "benchmarks", "docs")
             for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md")]
    wrong = [f"{path.relative_to(ROOT)}:{number}" for path in files
             for number, line in enumerate(path.read_text().splitlines(), 1) if pattern.search(line)]
    assert not wrong, "\n".join(wrong)


def python(code: str) -> str:
    """Runs code in a fresh interpreter and returns what it prints."""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60,
                            env={"PYTHONPATH": str(SOURCE.parent)}, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


WITHOUT_NUMPY = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] == 'numpy':
            raise ImportError('numpy is not available here')
sys.meta_path.insert(0, Blocker())
"""


def test_registers_to_formats_need_no_numpy() -> None:
    names = [module_of(path) for path in modules() if room_of(path) in NO_NUMPY]
    assert len(names) > len(NO_NUMPY)
    python(WITHOUT_NUMPY + "import importlib\n" + "\n".join(f"importlib.import_module({name!r})" for name in names))


@pytest.mark.parametrize("code", ["import openane", "import openane.cli; openane.cli.main(['--version'])"])
def test_importing_the_package_loads_nothing_heavy(code: str) -> None:
    loaded = python(f"{code}\nimport sys\nprint(*sys.modules)").split()
    rooms = {name for name in loaded if name.startswith("openane.")}
    assert "numpy" not in loaded
    assert rooms <= {"openane.errors", "openane.version", "openane.cli"}


def test_the_public_names_exist() -> None:
    import openane

    missing = [name for name in openane.__all__ if getattr(openane, name, None) is None]
    assert not missing
    with pytest.raises(AttributeError, match="load_graph"):
        openane.no_such_name  # noqa: B018


@pytest.mark.parametrize("path", [pytest.param(path, id=str(path.relative_to(ROOT)))
                                  for folder in ("examples", "benchmarks") for path in (ROOT / folder).rglob("*.py")])
def test_examples_and_benchmarks_import_what_is_there(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "openane":
            assert node.module is not None
            module = importlib.import_module(node.module)
            for name in (alias.name for alias in node.names):
                assert hasattr(module, name) or importlib.util.find_spec(f"{node.module}.{name}"), name


def test_one_place_prints() -> None:
    """What comes from files is printed by functions that show control characters escaped (cli/output.py); nothing
    outside `cli` prints."""
    allowed = {"cli/output.py": "the one place", "cli/__init__.py": "errors and warnings"}
    wrong = [f"{name_of(path)}:{node.lineno} prints" for path in modules() if name_of(path) not in allowed
             for node in ast.walk(tree_of(path))
             if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"]
    assert not wrong, "use say of cli/output.py:\n" + "\n".join(wrong)
