"""Every module says which of its names are for others, and others keep to those."""

import ast
import symtable
from functools import cache
from pathlib import Path

import memspec_actors
from tests.import_order import paths

ROOT = Path(memspec_actors.__file__).parent
BENCH = ROOT.parent / "bench"
MODULES = {
    ".".join(("memspec_actors", *file.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): file
    for folder in (ROOT, ROOT / "actors", ROOT / "protocols")  # the latter two are links, which are not gone into
    for file in folder.rglob("*.py")
}


def bound_names(file: Path) -> set[str]:
    """Return the names that a module binds: defines, assigns or imports."""
    symbols = symtable.symtable(file.read_text(), str(file), "exec").get_symbols()
    return {symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported()}


@cache
def public_names(file: Path) -> frozenset[str] | None:
    """Return what a module says in ``__all__``, None if nothing."""
    for node in ast.parse(file.read_text()).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                return frozenset(ast.literal_eval(value))
            case _:
                pass
    return None


def defined_for_others(file: Path) -> set[str]:
    """Return the classes and functions of a module whose names are public, but for commands, which nobody calls."""
    definitions = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [node for node in ast.parse(file.read_text()).body if isinstance(node, definitions)]
    commands = [node for node in found if any(ast.unparse(each).startswith("app.") for each in node.decorator_list)]
    return {node.name for node in found if node not in commands and not node.name.startswith("_")}


def test_modules_say_what_is_for_others() -> None:
    """A name that is meant for its own file would be built on elsewhere; one that is gone would still be promised."""
    for file in MODULES.values():
        own, public = bound_names(file) - {"__all__"}, public_names(file)
        if public is None:
            assert not own or file.name == "__main__.py", file
        elif "__getattr__" not in own:
            assert public <= own, file
            assert defined_for_others(file) <= public, f"{file}: a name for its own file alone begins with _"


def test_only_what_is_for_others_is_imported() -> None:
    """Whoever changes a module looks into its ``__all__`` for what others may depend on."""
    for file in (*MODULES.values(), *BENCH.glob("*.py")):
        for path in paths(file):
            module, _, name = path.rpartition(".")
            if module in MODULES and path not in MODULES:
                assert name in (public_names(MODULES[module]) or ()), f"{file} imports {path}"
