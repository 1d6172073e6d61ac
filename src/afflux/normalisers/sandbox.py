"""WebAssembly modules as normalisers, in a sandbox: no imports, bounded in fuel and memory.

Every call runs in an instance of its own, so that no call sees what another one left. A module
exports `memory`, `alloc(i32) -> i32`, `name() -> i64` and `estimate_request(i32, i32) -> i64`;
an i64 is the place of a text in its high half and the length in its low half.

Two properties of the engine carry this file, and tests keep watch over them. Instructions that
work on much memory at once use fuel in proportion. And registers are allocated in a single pass:
the usual way takes minutes for some modules of 25 KiB. wasmtime is imported with the first module,
because a scheduler without modules does not need it.
"""

from __future__ import annotations

import atexit
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar, cast

from afflux.model.disks import VolumeIO
from afflux.normalisers.errors import NormaliserRefusedError
from afflux.normalisers.module_interface import MAX_ANSWER_BYTES, decode_answer, encode_request
from afflux.normalisers.module_limits import check_module_limits
from afflux.normalisers.normaliser import Estimate, Kind
from afflux.normalisers.strict_json import shown

if TYPE_CHECKING:
    import wasmtime

# About an instruction each: at most 15 ms, also in loops that grow or copy memory.
FUEL_PER_CALL = 2_000_000
MAX_MEMORY_BYTES = 16 * 1024 * 1024
MAX_TABLE_ELEMENTS = 10_000
MAX_STACK_BYTES = 256 * 1024
MAX_NAME_BYTES = 100

_EXPORTS: dict[str, tuple[list[str], list[str]]] = {
    "alloc": (["i32"], ["i32"]),
    "name": ([], ["i64"]),
    "estimate_request": (["i32", "i32"], ["i64"]),
}
_LOW_HALF = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True, eq=False)
class WasmModule:
    """The normaliser that a module is."""

    name: str
    _compiled: wasmtime.Module
    kind: ClassVar[Kind] = "wasm"

    def estimate(self, volume: VolumeIO) -> Estimate:
        """Calls estimate_request in a new instance."""
        call = _Call(self._compiled)
        answer = call.estimate_request(encode_request(volume))
        return Estimate(decode_answer(answer), call.fuel_used())


def load_module(content: bytes) -> WasmModule:
    """Compiles the module and asks for its name; NormaliserRefusedError says what is wrong."""
    import wasmtime

    check_module_limits(content)
    try:
        compiled = wasmtime.Module(_engine(), content)
    except wasmtime.WasmtimeError as error:
        raise NormaliserRefusedError(f"no valid WebAssembly: {_last_line(error)}") from None
    _check_exports(compiled)
    try:
        name = _Call(compiled).name().decode()
    except UnicodeDecodeError:
        name = ""
    if not name.isprintable() or not name:
        raise NormaliserRefusedError(f"name: {shown(name)}, expected printable UTF-8")
    return WasmModule(name, compiled)


@cache
def _engine() -> wasmtime.Engine:
    import wasmtime

    config = wasmtime.Config()
    config.consume_fuel = True
    config.parallel_compilation = False
    config.cranelift_opt_level = "none"
    config.cranelift_flag_set("regalloc_algorithm", "single_pass")
    config.cranelift_nan_canonicalization = True
    config.max_wasm_stack = MAX_STACK_BYTES
    # Each call maps no more memory than it uses.
    config.memory_reservation = 0
    config.memory_guard_size = 0
    # What compilers do not use unless asked to is one thing less to trust.
    config.wasm_threads = False
    config.wasm_simd = False
    config.wasm_relaxed_simd = False
    config.wasm_memory64 = False
    config.wasm_multi_memory = False
    config.wasm_gc = False
    config.wasm_function_references = False
    config.wasm_tail_call = False
    config.wasm_exceptions = False
    # At exit the engine has to go before the library of which it is.
    atexit.register(_engine.cache_clear)
    return wasmtime.Engine(config)


def _check_exports(compiled: wasmtime.Module) -> None:
    import wasmtime

    exports = {export.name: export.type for export in compiled.exports}
    if not isinstance(exports.get("memory"), wasmtime.MemoryType):
        raise NormaliserRefusedError("memory: not exported, expected the memory of the module")
    for name, (parameters, results) in _EXPORTS.items():
        found = exports.get(name)
        expected = f"expected a function ({', '.join(parameters)}) -> {', '.join(results)}"
        if not isinstance(found, wasmtime.FuncType):
            raise NormaliserRefusedError(f"{name}: not exported, {expected}")
        if [*map(str, found.params)] != parameters or [*map(str, found.results)] != results:
            types = f"({', '.join(map(str, found.params))}) -> {', '.join(map(str, found.results))}"
            raise NormaliserRefusedError(f"{name}: a function {types}, {expected}")


class _Call:
    """One instance of a module, made for one call."""

    def __init__(self, compiled: wasmtime.Module) -> None:
        import wasmtime

        self._store = wasmtime.Store(_engine())
        self._store.set_limits(MAX_MEMORY_BYTES, MAX_TABLE_ELEMENTS, 1, 1, 1)
        self._store.set_fuel(FUEL_PER_CALL)
        try:
            self._exports = wasmtime.Instance(self._store, compiled, []).exports(self._store)
        except (wasmtime.Trap, wasmtime.WasmtimeError) as error:
            raise _refusal("starting the module", error) from None

    def name(self) -> bytes:
        return self._text("name", self._run("name"), MAX_NAME_BYTES)

    def estimate_request(self, request: bytes) -> bytes:
        place = self._run("alloc", len(request)) & _LOW_HALF
        memory = self._memory()
        if place + len(request) > memory.data_len(self._store):
            problem = f"alloc: place {place} for {len(request)} bytes is outside of the memory"
            raise NormaliserRefusedError(f"{problem}, expected a place inside")
        memory.write(self._store, request, place)
        answer = self._run("estimate_request", place, len(request))
        return self._text("estimate_request", answer, MAX_ANSWER_BYTES)

    def fuel_used(self) -> int:
        return FUEL_PER_CALL - self._store.get_fuel()

    def _run(self, name: str, *arguments: int) -> int:
        import wasmtime

        # The types of the exports were checked when the module was loaded.
        function = cast("wasmtime.Func", self._exports[name])
        try:
            return function(self._store, *arguments)
        except (wasmtime.Trap, wasmtime.WasmtimeError) as error:
            raise _refusal(name, error) from None

    def _memory(self) -> wasmtime.Memory:
        return cast("wasmtime.Memory", self._exports["memory"])

    def _text(self, name: str, packed: int, max_length: int) -> bytes:
        """The text at a place that is packed with its length."""
        place, length = packed >> 32 & _LOW_HALF, packed & _LOW_HALF
        if length > max_length:
            expected = f"expected at most {max_length}"
            raise NormaliserRefusedError(f"{name}: a text of {length} bytes, {expected}")
        memory = self._memory()
        if place + length > memory.data_len(self._store):
            problem = f"{name}: place {place} with {length} bytes is outside of the memory"
            raise NormaliserRefusedError(f"{problem}, expected a place inside")
        return bytes(memory.read(self._store, place, place + length))


def _refusal(name: str, error: wasmtime.Trap | wasmtime.WasmtimeError) -> NormaliserRefusedError:
    import wasmtime

    words = {
        wasmtime.TrapCode.OUT_OF_FUEL: f"it used up {FUEL_PER_CALL} units of fuel",
        wasmtime.TrapCode.STACK_OVERFLOW: f"it used up {MAX_STACK_BYTES} bytes of stack",
    }
    code = error.trap_code if isinstance(error, wasmtime.Trap) else None
    problem = words.get(code) if code else None
    return NormaliserRefusedError(f"{name}: {problem or _last_line(error)}, expected an answer")


def _last_line(error: Exception) -> str:
    """The cause in the engine's words, without its list of frames."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1].removeprefix("wasm trap: ")[:200] if lines else type(error).__name__
