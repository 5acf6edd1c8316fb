"""Breaks the code in small ways, one at a time, and tells which breaks no unit test notices.

`make mutants` tries 20 in each package that reads run folders, always the same ones; MUTANTS=200 tries
those and more, PACKAGES="stats compare" these packages alone. It works on a copy of the source. A
survivor is a missing test, or a change that no user could see.
"""

import ast
import copy
import difflib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
# All that reads a run folder, and what judges the answers in it.
PACKAGES = (
    "stats checks prices run_data summary figures verdict compare history routing export reports"
)
MUTANTS_EACH = 20
# Whose tests notice a break, where they are not in the package's own folder, or not all of them.
TESTS_OF = {
    "figures": ("reports", "summary"),
    "run_data": ("run_data", "summary", "verdict"),
    "summary": ("summary", "verdict"),
    "verdict": ("verdict", "summary", "stats"),
    "reports": ("reports", "compare", "history"),
}
SWAPS: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.Gt), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.Lt), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,), ast.NotIn: (ast.In,), ast.And: (ast.Or,), ast.Or: (ast.And,),
    ast.Add: (ast.Sub,), ast.Sub: (ast.Add,), ast.Mult: (ast.Div,), ast.Div: (ast.Mult,), ast.FloorDiv: (ast.Mult,),
}  # fmt: skip
RENAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}


class Mutant(NamedTuple):
    """One break: where it is, and the whole file with it."""

    path: Path
    line: int
    source: bytes

    def __str__(self) -> str:
        before, after = self.path.read_text("utf-8").splitlines(), self.source.decode().splitlines()
        changed = [line for line in difflib.unified_diff(before, after, n=0) if line[0] in "+-"][2:]
        return "\n".join(
            [f"{self.path.relative_to(ROOT)}:{self.line}", *(f"    {line}" for line in changed)]
        )


def find_mutants(path: Path) -> Iterator[Mutant]:
    source = path.read_bytes()
    lines = source.splitlines(keepends=True)
    starts = [sum(map(len, lines[:number])) for number in range(len(lines))]
    for node in _running_nodes(ast.parse(source)):
        for broken, text in _breaks(node):
            begin = starts[broken.lineno - 1] + broken.col_offset
            end = starts[(broken.end_lineno or 0) - 1] + (broken.end_col_offset or 0)
            yield Mutant(path, broken.lineno, source[:begin] + text.encode() + source[end:])


def _running_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """All but annotations, decorators and class options; and f-strings, whose places Python 3.11 does not tell."""
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.keyword) and node.arg == "strict"):
        return
    yield node
    left_out = {
        "annotation",
        "returns",
        "decorator_list",
        "keywords" if isinstance(node, ast.ClassDef) else "",
    }
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name not in left_out:
                yield from _running_nodes(child)


def _breaks(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """What to put in place of which part of the code."""
    match node:
        case ast.Constant(value=bool(value)):
            yield node, str(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield node, repr(value + 1)
        case ast.Compare(ops=[op, *_]) | ast.BoolOp(op=op) | ast.BinOp(op=op):
            for swap in SWAPS.get(type(op), ()):
                changed = copy.deepcopy(node)
                if isinstance(changed, ast.Compare):
                    changed.ops[0] = swap()
                else:
                    changed.op = swap()
                yield node, f"({ast.unparse(changed)})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, f"({ast.unparse(operand)})"
        case ast.Name(id=name, ctx=ast.Load()) if name in RENAMES:
            yield node, RENAMES[name]
        case ast.IfExp(test=test):
            yield from ((test, "True"), (test, "False"))
        case ast.If(test=test):
            yield test, "False"
        case ast.comprehension(ifs=conditions):
            yield from ((condition, "True") for condition in conditions)
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield node, "return None"
        case ast.Raise() | ast.AugAssign() | ast.Expr(value=ast.Call()):
            yield node, "pass"
        case ast.Continue():
            yield node, "break"


def list_tests(package: str, module: str = "") -> list[str]:
    """The test files of a package, those named most like a module first: they notice it soonest."""
    files: list[Path] = []
    for folder in TESTS_OF.get(package, (package,)):
        files += sorted((ROOT / "tests" / "unit" / folder).rglob("test_*.py"))

    def likeness(file: Path) -> float:
        return difflib.SequenceMatcher(None, file.stem, f"test_{module}").ratio()

    files.sort(key=likeness, reverse=True)
    return [str(file) for file in files]


def tests_pass(copied: Path, files: list[str], limit_s: float | None = None) -> bool:
    """Whether tests pass on the copied source. Tests that do not end have noticed something too."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    command += ["--hypothesis-seed=0", *files]
    environment = dict(os.environ)
    environment["PYTHONPATH"] = str(copied)
    environment["HYPOTHESIS_STORAGE_DIRECTORY"] = str(copied / "hypothesis")
    try:
        tested = subprocess.run(
            command, cwd=ROOT, env=environment, timeout=limit_s, capture_output=True
        )
    except subprocess.TimeoutExpired:
        return False
    return tested.returncode == 0


def try_package(copied: Path, package: str, n_most: int) -> None:
    """Try up to `n_most` breaks of a package, and print those that no test notices."""
    mutants: list[Mutant] = []
    for path in sorted((SOURCE / "clawgauge" / package).rglob("*.py")):
        mutants += find_mutants(path)
    random.Random(package).shuffle(mutants)
    tried = mutants[:n_most]
    started_s = time.monotonic()
    if not tests_pass(copied, list_tests(package)):
        sys.exit(f"the tests of {package} fail as they are")
    limit_s = 10 + 5 * (time.monotonic() - started_s)
    n_survived = 0
    for number, mutant in enumerate(tried):
        target = copied / mutant.path.relative_to(SOURCE)
        target.write_bytes(mutant.source)
        # Two breaks of one length within a second would share their bytecode.
        os.utime(target, (number, number))
        if tests_pass(copied, list_tests(package, mutant.path.stem), limit_s):
            n_survived += 1
            print(mutant, flush=True)
        shutil.copyfile(mutant.path, target)
    n_killed = len(tried) - n_survived
    print(f"{package}: {n_killed} killed, {n_survived} survived, of {len(mutants)} there are\n")
    sys.stdout.flush()


def main() -> None:
    packages = os.environ.get("PACKAGES") or PACKAGES
    n_most = int(os.environ.get("MUTANTS") or MUTANTS_EACH)
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder, "src")
        shutil.copytree(SOURCE, copied, ignore=shutil.ignore_patterns("__pycache__"))
        for package in packages.split():
            try_package(copied, package, n_most)


if __name__ == "__main__":
    main()
