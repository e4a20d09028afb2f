"""How loops become machine code. Importing this imports numba, which takes some tenths of a second; compiling all loops
takes some twenty.

The code of some loops is one object with a function for each, `entry_0` and so on, that needs nothing of numba: it is
given a place for what the loop gives, then the arguments, arrays as the objects they are. One function more calls many
of them, see `records`. Loops take no memory from numba's runtime, which is not there when code is loaded that was kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from openane.machine_code.described import (
    DESCRIBED,
    ENTRY,
    NEEDED,
    ByProcessor,
    ByType,
    Part,
    Primitive,
    TaskLoop,
)
from openane.machine_code.records import RecordLayout

try:
    from llvmlite import ir
    from numba import config, njit, types
    from numba.core import cgutils, sigutils
    from numba.core.compiler import Flags, compile_extra
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.cpu_options import FastMathOptions
    from numba.core.registry import cpu_target
    from numba.extending import overload
    from numba.np import arrayobj

    from openane.machine_code.codegen import OBJECT, compiling_parts
    from openane.machine_code.primitives import BYTES, PRIMITIVES
    from openane.machine_code.sequencing import write_sequence
except ImportError as error:
    raise ImportError(f"{NEEDED} ({error})") from error
if getattr(config, "DISABLE_JIT", False):
    raise ImportError("numba is told not to compile (NUMBA_DISABLE_JIT), so that it would only be slow")

_arrays: Any = arrayobj
_utils: Any = cgutils
CONTRACTED = frozenset({"contract"})
OWN = frozenset({"malloc", "free", "sqrt"})
"""What code may call: the C library is in every process, with its mathematics."""
WORD, SINGLE, DOUBLE, PLACE = ir.IntType(32), ir.FloatType(), ir.DoubleType(), ir.IntType(64)
HEADER = object.__basicsize__
"""Bytes an object of Python begins with."""
DATA, DIMENSIONS, EXTENTS, STRIDES, KIND, FLAGS, NUMBER = 0, 8, 16, 24, 40, 48, 12
"""Bytes behind the header of an array object at which it says where its data is, how many dimensions it has, their
extents and strides, its kind and its flags, and behind that of a kind its number: numpy's binary interface."""
IN_ROWS = 1
"""Flag of an array whose last dimension is contiguous, and so on."""


class NotAlone(RuntimeError):
    """The code of loops needs what is not there without numba."""


def built(loops: Sequence[TaskLoop]) -> bytes:
    """The object with the code of some loops. NotAlone."""
    with global_compiler_lock, compiling_parts() as codegen:
        library = codegen.create_library(OBJECT)
        _fill(library, loops)
        needed = {function.name for function in library._final_module.functions if function.is_declaration
                  and not function.name.startswith("llvm.")}
        if not needed <= OWN:
            raise NotAlone(f"compiled loops need {', '.join(sorted(needed - OWN))}")
        code: bytes = codegen.emitted(library)
        return code


def _fill(library: Any, loops: Sequence[TaskLoop]) -> None:
    """Puts the loops and their entries into a library of numba's."""
    making = _Making()
    module, entries = library.create_ir_module("entries"), []
    for number, loop in enumerate(loops):
        result = making.compiled(loop)
        entries.append(_Entry(loop, result).write(module, ENTRY.format(number)))
        library.add_linking_library(result.library)
    write_sequence(module, RecordLayout.of(loops), entries)
    library.add_ir_module(module)
    library.finalize()


def dispatched(loops: Sequence[TaskLoop]) -> list[Callable[..., Any]]:
    """Loops as numba calls them."""
    making, compiler = _Making(), _compiler()
    return [compiler(signature_of(loop), nogil=True, _nrt=False, **_options(loop.contract))(making.ready(loop))
            for loop in loops]


def signature_of(loop: TaskLoop) -> str:
    """As numba spells it."""
    takes = ", ".join(f"UniTuple({kind}, {many})" if many else kind
                      for kind, _, many in (each.partition("*") for each in loop.takes))
    gives = {0: "void", 1: "".join(loop.gives)}.get(len(loop.gives), f"Tuple(({', '.join(loop.gives)}))")
    return f"{gives}({takes})"


def converts_halves() -> bool:
    """Whether loops are compiled for a processor that converts between fp16 and float32 by itself: AArch64 does, x86-64
    with F16C."""
    triple, _, features = cpu_target.target_context.codegen().magic_tuple()
    return triple.startswith(("aarch64", "arm64")) or "+f16c" in features.split(",")


def _compiler() -> Any:
    return njit


def _options(contract: bool) -> dict[str, Any]:
    return {"fastmath": set(CONTRACTED)} if contract else {}


class _Making:
    """Functions whose names mean what numba compiles, where they meant what is described."""

    def __init__(self) -> None:
        self._made: dict[int, Any] = {}

    def ready(self, described: Part | TaskLoop) -> Any:
        """The function of a part or a loop."""
        function: Any = described.function
        names = dict(function.__globals__)
        made = FunctionType(function.__code__, names, function.__name__)
        for name in function.__code__.co_names:
            if isinstance(names.get(name), DESCRIBED) and names[name] is not described:
                names[name] = self._called(names[name])
        return made

    def compiled(self, loop: TaskLoop) -> Any:
        """What numba made of a loop."""
        spelled: Any = sigutils.normalize_signature
        options: Any = Flags
        fast: Any = FastMathOptions
        compile_one: Any = compile_extra
        arguments, gives = spelled(signature_of(loop))
        flags = options()
        flags.release_gil, flags.no_cpython_wrapper, flags.no_cfunc_wrapper = True, True, True
        if loop.contract:
            flags.fastmath = fast(set(CONTRACTED))
        typing, target = cpu_target.typing_context, cpu_target.target_context
        typing.refresh()
        target.refresh()
        return compile_one(typing, target, self.ready(loop), arguments, gives, flags, {})

    def _called(self, described: Any) -> Any:
        """What a function calls."""
        found = self._made.get(id(described))
        if found is None:
            self._made[id(described)] = found = self._new(described)
        return found

    def _new(self, described: Any) -> Any:
        if isinstance(described, Primitive):
            return PRIMITIVES[described]
        if isinstance(described, ByProcessor):
            return self._called(described.converting if converts_halves() else described.plain)
        if isinstance(described, ByType):
            return self._by_type(self._called(described.single), self._called(described.double))
        compiler = _compiler()
        function = self.ready(described)
        made = compiler(nogil=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True,
                        **_options(described.contract))(function)
        function.__globals__[function.__name__] = made  # it may call itself
        return made

    @staticmethod
    def _by_type(single: Any, double: Any) -> Any:
        def called(value: Any) -> Any:
            raise NotImplementedError("what loops are compiled with")

        choose: Any = overload

        @choose(called, jit_options={"_nrt": False})
        def choice(value):  # type: ignore[no-untyped-def]
            return (lambda value: single(value)) if value == types.float32 else (lambda value: double(value))

        return called


class _Entry:
    """Writes the function that C calls for a loop: `int entry(void *gives, arguments ...)`. It returns 0, or the number
    of the first argument that is no array of its kind, counted from 1, or less than 0 where the loop failed."""

    def __init__(self, loop: TaskLoop, result: Any) -> None:
        self._loop, self._result = loop, result
        self._context = result.target_context

    def write(self, module: Any, name: str) -> Any:
        """Writes it into a module; what it is there."""
        kinds, stated = self._result.signature.args, []
        for kind in kinds:
            stated += [_passed(each) for each in (kind if isinstance(kind, types.UniTuple) else [kind])]
        function = ir.Function(module, ir.FunctionType(WORD, [BYTES, *stated]), name)
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        place, *passed = function.args
        arguments, given = [], iter(passed)
        for number, kind in enumerate(kinds, 1):
            if isinstance(kind, types.UniTuple):
                arguments.append(_utils.pack_array(builder, [next(given) for _ in kind]))
            elif isinstance(kind, types.Array):
                arguments.append(self._array(builder, next(given), kind, number))
            else:
                arguments.append(self._scalar(builder, next(given), kind))
        called = self._context.declare_function(module, self._result.fndesc)
        status, found = self._context.call_conv.call_function(
            builder, called, self._result.signature.return_type, kinds, arguments)
        with builder.if_then(status.is_error, likely=False):
            builder.ret(ir.Constant(WORD, -1))
        self._give(builder, place, found)
        builder.ret(ir.Constant(WORD, 0))
        return function

    def _scalar(self, builder: Any, value: Any, kind: Any) -> Any:
        if kind == types.boolean:
            return builder.icmp_signed("!=", value, ir.Constant(value.type, 0))
        return value

    def _field(self, builder: Any, thing: Any, offset: int, kind: Any) -> Any:
        """A field behind the header of an object."""
        place = builder.gep(thing, [ir.Constant(PLACE, HEADER + offset)])
        return builder.load(builder.bitcast(place, kind.as_pointer()))

    def _array(self, builder: Any, thing: Any, kind: Any, number: int) -> Any:
        """An array as loops know it, of the object it is."""
        number_of_kind = self._field(builder, self._field(builder, thing, KIND, BYTES), NUMBER, WORD)
        in_rows = builder.and_(self._field(builder, thing, FLAGS, WORD), ir.Constant(WORD, IN_ROWS))
        stated = [(number_of_kind, np.dtype(str(kind.dtype)).num),
                  (self._field(builder, thing, DIMENSIONS, WORD), kind.ndim)]
        stated += [(in_rows, IN_ROWS)] if kind.layout == "C" else []
        wrong = ir.Constant(ir.IntType(1), 0)
        for found, wanted in stated:
            wrong = builder.or_(wrong, builder.icmp_signed("!=", found, ir.Constant(WORD, wanted)))
        with builder.if_then(wrong, likely=False):
            builder.ret(ir.Constant(WORD, number))
        array = _arrays.make_array(kind)(self._context, builder)
        size = self._context.get_abi_sizeof(self._context.get_data_type(kind.dtype))
        shape, strides = ([builder.load(builder.gep(self._field(builder, thing, field, PLACE.as_pointer()),
                                                    [ir.Constant(PLACE, axis)])) for axis in range(kind.ndim)]
                          for field in (EXTENTS, STRIDES))
        data = builder.bitcast(self._field(builder, thing, DATA, BYTES), array.data.type)
        _arrays.populate_array(array, data, shape, strides, size, None)
        return array._getvalue()

    def _give(self, builder: Any, place: Any, found: Any) -> None:
        """Writes what a loop gives: 64 bits each."""
        count = len(self._loop.gives)
        for number, kind in enumerate(self._loop.gives):
            value = found if count == 1 else builder.extract_value(found, number)
            wide = DOUBLE if kind.startswith("float") else PLACE
            if kind != "float64" and kind != "int64":
                value = builder.zext(value, wide) if kind == "boolean" else builder.sext(value, wide)
            goal = builder.gep(builder.bitcast(place, wide.as_pointer()), [ir.Constant(PLACE, number)])
            builder.store(value, goal)


def _passed(kind: Any) -> Any:
    """How C passes an argument."""
    if isinstance(kind, types.Array):
        return BYTES
    return {types.boolean: ir.IntType(8), types.int64: PLACE, types.float32: SINGLE, types.float64: DOUBLE}[kind]
