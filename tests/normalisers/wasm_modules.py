"""WebAssembly modules for tests, written as text."""

import wasmtime

from afflux.model.disks import VolumeIO

REQUEST = VolumeIO(31_457_280, 20_971_520, 4096)
MEMORY = '(memory (export "memory") 1)'
ALLOC = '(func (export "alloc") (param i32) (result i32) (i32.const 4096))'
NAME = '(func (export "name") (result i64) (i64.const 4))'  # at 0, 4 bytes
ESTIMATE = '(func {}(export "estimate_request") (param i32 i32) (result i64) {})'


def text_at(place: int, text: str) -> str:
    """A data segment."""
    escaped = "".join(f"\\{byte:02x}" for byte in text.encode())
    return f'(data (i32.const {place}) "{escaped}")'


def packed(place: int, length: int) -> str:
    """The constant that says where a text is."""
    return f"(i64.const 0x{place << 32 | length:x})"


def module(
    *more: str, memory: str = MEMORY, alloc: str = ALLOC, name: str = NAME, estimate: str = ""
) -> bytes:
    """A module with these parts; `estimate` is the body of estimate_request."""
    body = ESTIMATE.format("", estimate or packed(0, 0))
    parts = [memory, alloc, name, body, text_at(0, "test"), *more]
    return wasm(f"(module {' '.join(parts)})")


def answering(answer: str) -> bytes:
    """A module that answers every request with this text."""
    length = len(answer.encode())
    return module(text_at(8192, answer), estimate=packed(8192, length))


def wasm(text: str) -> bytes:
    return bytes(wasmtime.wat2wasm(text))


LOOPING = module(estimate="(loop (br 0)) (unreachable)")
