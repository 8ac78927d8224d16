"""Small wrong versions of a right answer: one operator, constant, axis, bound, argument, condition or step changed.

    for mutant in mutants(source_of_a_function): ...

A mutant that no test tells from the original is either the same function written differently, or a mistake that a
student could make and nobody would notice.
"""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

# What stands in place of an operator: its neighbours, never all others
OPERATORS: dict[type[ast.AST], tuple[type[ast.AST], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Mult,),
    ast.Mod: (ast.FloorDiv,),
    ast.Pow: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
}


@dataclass(frozen=True)
class Mutant:
    """A changed definition: whose, which line became which (for people and for the list), and its source."""

    name: str
    before: str
    after: str
    source: str

    def __str__(self) -> str:
        return f"{self.name}: {self.before} --> {self.after}"


def mutants(definition: ast.FunctionDef | ast.ClassDef) -> list[Mutant]:
    """Every mutant of one definition, each once."""
    definition = bare(definition)
    found: dict[str, Mutant] = {ast.unparse(definition): Mutant("", "", "", "")}
    for statement, parent, field, index, node in _places(definition, definition):
        before = _line(statement)
        for changed in _changes(parent, field, node):
            _put(parent, field, index, changed)
            source = ast.unparse(ast.fix_missing_locations(definition))
            after = "nothing" if isinstance(changed, ast.Pass) else _line(changed if node is statement else statement)
            _put(parent, field, index, node)
            if source not in found:
                found[source] = Mutant(definition.name, before, after, source)
    return list(found.values())[1:]


def _line(statement: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(statement)).partition("\n")[0]


def bare(definition: ast.FunctionDef | ast.ClassDef) -> ast.FunctionDef | ast.ClassDef:
    """A copy without decorators of its own and without docstrings: neither is the answer."""
    definition = copy.deepcopy(definition)
    definition.decorator_list = []
    for node in ast.walk(definition):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return definition


def _places(node: ast.AST, statement: ast.AST) -> Iterator[tuple[ast.AST, ast.AST, str, int | None, ast.AST]]:
    """Every node below, with its statement and where it hangs; not what an error says, and no annotations."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "bases") or isinstance(node, ast.Raise | ast.JoinedStr):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST):
                inner = child if isinstance(child, ast.stmt) else statement
                yield inner, node, field, index, child
                yield from _places(child, inner)


def _put(parent: ast.AST, field: str, index: int | None, node: ast.AST | None) -> None:
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


def _changes(parent: ast.AST, field: str, node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.BinOp):
        yield from _binary(node)
    elif isinstance(node, ast.BoolOp):
        yield from (_with(node, op=other()) for other in OPERATORS[type(node.op)])
        yield from node.values
    elif isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            for other in OPERATORS.get(type(operator), ()):
                yield _with(node, ops=[*node.ops[:place], other(), *node.ops[place + 1 :]])
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.AugAssign):
        yield from (_with(node, op=other()) for other in OPERATORS.get(type(node.op), ()))
        yield ast.Pass()
    elif isinstance(node, ast.Constant):
        yield from map(ast.Constant, _constants(node.value))
    elif isinstance(node, ast.IfExp):
        yield from (node.body, node.orelse)
    elif isinstance(node, ast.If):
        yield from (_with(node, test=ast.Constant(value)) for value in (True, False))
    elif isinstance(node, ast.Call):
        yield from _calls(node)
    elif isinstance(node, ast.comprehension) and node.ifs:
        yield _with(node, ifs=[])
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and isinstance(node.slice, ast.Tuple):
        yield from _swapped(node.slice.elts, lambda elts: _with(node, slice=_with(node.slice, elts=elts)))
    elif isinstance(node, ast.Expr | ast.Continue | ast.Break):
        yield ast.Pass()
    if isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.BinOp) and _is_a_bound(parent, field):
        yield from (ast.BinOp(node, operator(), ast.Constant(1)) for operator in (ast.Add, ast.Sub))


def _with(node: ast.AST, **fields: object) -> ast.AST:
    made = copy.copy(node)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def _is_a_bound(parent: ast.AST, field: str) -> bool:
    """Of a slice or of a range: where an answer is off by one."""
    if isinstance(parent, ast.Slice):
        return field in ("lower", "upper")
    named = isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name | ast.Attribute)
    return named and field == "args" and ast.unparse(parent.func).rpartition(".")[2] in ("range", "arange", "islice")


def _binary(node: ast.BinOp) -> Iterator[ast.AST]:
    for other in OPERATORS.get(type(node.op), ()):
        yield _with(node, op=other())
    if not isinstance(node.op, ast.Add | ast.Mult | ast.BitAnd | ast.BitOr) or isinstance(node.left, ast.List):
        yield _with(node, left=node.right, right=node.left)
    yield node.left
    if not isinstance(node.op, ast.Div | ast.Pow | ast.FloorDiv | ast.Mod):
        yield node.right


def _constants(value: object) -> Iterator[object]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value - 1)
    elif isinstance(value, float):
        yield from (value * 2, value + 1.0)
    elif isinstance(value, str):
        yield value + "?"


def _calls(node: ast.Call) -> Iterator[ast.AST]:
    """Two neighbouring arguments swapped, one argument by name left out, a method of a value not called."""
    yield from _swapped(node.args, lambda args: _with(node, args=args))
    for place in range(len(node.keywords)):
        yield _with(node, keywords=node.keywords[:place] + node.keywords[place + 1 :])
    if isinstance(node.func, ast.Attribute):
        owner = node.func.value
        if not (isinstance(owner, ast.Name) and owner.id in ("torch", "F", "nn", "math", "np", "itertools", "random")):
            yield owner
        elif len(node.args) >= 1 and owner.id not in ("nn", "itertools") and not isinstance(node.args[0], ast.Starred):
            yield node.args[0]


def _swapped(items: list[ast.expr], make: object) -> Iterator[ast.AST]:
    for place in range(len(items) - 1):
        yield make([*items[:place], items[place + 1], items[place], *items[place + 2 :]])
