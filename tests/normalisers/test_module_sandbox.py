"""A module answers requests in a sandbox; a hostile one is refused, whatever it tries."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from wasm_modules import ALLOC, MEMORY, REQUEST, answering, module, packed, text_at, wasm

from afflux.model.disks import Bandwidth, VolumeIO
from afflux.normalisers.errors import NormaliserRefusedError
from afflux.normalisers.module_limits import MAX_FUNCTION_BYTES, MAX_MODULE_BYTES
from afflux.normalisers.normaliser import MAX_BANDWIDTH, load_normaliser
from afflux.normalisers.sandbox import FUEL_PER_CALL

# The answer is the request itself.
ECHO = module(
    estimate="(i64.or (i64.shl (i64.extend_i32_u (local.get 0)) (i64.const 32))"
    " (i64.extend_i32_u (local.get 1)))"
)
GOOD = '{"rbps": "2000", "wbps": "1000"}'


def refusal(content: bytes) -> str:
    """Why the module is refused, when it is loaded or when it is asked."""
    with pytest.raises(NormaliserRefusedError) as refused:
        load_normaliser(content).estimate(REQUEST)
    message = str(refused.value)
    assert message.isprintable()
    assert len(message) < 500
    return message


class TestAnswers:
    def test_an_answer_has_what_the_request_takes(self) -> None:
        made = load_normaliser(answering('{"rbps": "2000", "wbps": "1000", "total": "2500"}'))
        assert made.name == "test"
        estimate = made.estimate(REQUEST)
        assert estimate.taken == Bandwidth(2000, 1000, 2500)
        assert 0 < estimate.fuel < FUEL_PER_CALL

    def test_the_total_is_the_sum_unless_it_is_given(self) -> None:
        assert load_normaliser(answering(GOOD)).estimate(REQUEST).taken.total == 3000

    @pytest.mark.parametrize("number", ['"1.2e3"', "1200", "1199.5", '"1199.01"'])
    def test_numbers_are_rounded_up(self, number: str) -> None:
        made = load_normaliser(answering(f'{{"rbps": {number}, "wbps": 0, "blockSize": "4k"}}'))
        assert made.estimate(REQUEST).taken == Bandwidth(1200, 0, 1200)

    def test_the_request_is_json_with_texts(self) -> None:
        made = load_normaliser(ECHO)
        assert made.estimate(VolumeIO(7, 5, 4096)).taken == Bandwidth(7, 5, 12)

    def test_no_call_sees_what_another_one_left(self) -> None:
        # The first digit of the answer is counted up in memory by each call.
        count = (
            "(i32.store8 (i32.const 8201) (i32.add (i32.load8_u (i32.const 8201)) (i32.const 1)))"
        )
        answer = '{"rbps":"1","wbps":"1"}'
        made = load_normaliser(
            module(text_at(8192, answer), estimate=count + packed(8192, len(answer)))
        )
        assert [made.estimate(REQUEST).taken.read for _ in range(3)] == [2, 2, 2]

    @pytest.mark.parametrize(
        ("answer", "problem"),
        [
            ("", "expected JSON"),
            ("null", "null, expected an object"),
            ("{}", "{}, expected an object"),
            ('{"rbps": "1"}', "wbps: missing"),
            ('{"rbps": "1", "wbps": "1", "iops": "1"}', '"iops": unknown field'),
            ('{"rbps": NaN, "wbps": 1}', "NaN, expected a finite number"),
            ('{"rbps": "NaN", "wbps": "1"}', 'rbps: "NaN", expected a number of bytes per second'),
            ('{"rbps": "-1", "wbps": "1"}', 'rbps: "-1", expected a number'),
            ('{"rbps": -1, "wbps": "1"}', "rbps: -1, expected a number"),
            ('{"rbps": "1", "wbps": 1e999}', "wbps: Infinity, expected a number"),
            ('{"rbps": "1", "wbps": "1e99"}', 'wbps: "1e99", expected a number'),
            ('{"rbps": "1", "wbps": true}', "wbps: true, expected a number"),
            ('{"rbps": "", "wbps": "1"}', 'rbps: "", expected a number'),
            ('{"rbps": 9, "wbps": 1, "total": 8}', "total: 8, expected at least 9"),
            (f'{{"rbps": {MAX_BANDWIDTH}, "wbps": 1}}', "total: 9007199254740993, expected"),
        ],
    )
    def test_a_wrong_answer_is_refused(self, answer: str, problem: str) -> None:
        message = refusal(answering(answer))
        assert message.startswith("the answer of estimate_request: ")
        assert problem in message


LOOP = "(loop (br 0)) (unreachable)"
GROW = f"(loop (drop (memory.grow (i32.const 1))) (br 0)) {packed(0, 0)}"
FILL = """(drop (memory.grow (i32.const 250)))
    (loop (memory.fill (i32.const 0) (i32.const 1) (i32.const 16000000)) (br 0)) (unreachable)"""
NO_FUEL = f"it used up {FUEL_PER_CALL} units of fuel"
HOSTILE = {
    "an endless loop": (module(estimate=LOOP), f"estimate_request: {NO_FUEL}"),
    "an endless loop in alloc": (
        module(alloc=f'(func (export "alloc") (param i32) (result i32) {LOOP})'),
        f"alloc: {NO_FUEL}",
    ),
    "an endless name": (
        module(name=f'(func (export "name") (result i64) {LOOP})'),
        f"name: {NO_FUEL}",
    ),
    "a start function that loops": (
        module(f"(func $go {LOOP}) (start $go)"),
        f"starting the module: {NO_FUEL}",
    ),
    "memory that grows": (module(estimate=GROW), f"estimate_request: {NO_FUEL}"),
    "memory that is filled again and again": (
        module(estimate=FILL),
        f"estimate_request: {NO_FUEL}",
    ),
    "too much memory at once": (
        module(memory='(memory (export "memory") 1000)'),
        "starting the module: memory minimum size of 1000 pages exceeds memory limits",
    ),
    "too large a table": (
        module("(table 20000 funcref)"),
        "starting the module: table minimum size of 20000 elements exceeds table limits",
    ),
    "two tables": (module("(table 1 funcref) (table 1 funcref)"), "starting the module: "),
    "a stack without end": (
        module("(func $r (call $r))", estimate=f"(call 3) {packed(0, 0)}"),
        "estimate_request: it used up 262144 bytes of stack",
    ),
    "a trap": (module(estimate="(unreachable)"), "`unreachable` instruction executed"),
    "a division by zero": (
        module(estimate="(i64.div_u (i64.const 1) (i64.const 0))"),
        "integer divide by zero",
    ),
    "a place outside of the memory": (
        module(estimate=packed(0xFFFF_FFFF, 10)),
        "estimate_request: place 4294967295 with 10 bytes is outside of the memory",
    ),
    "a text over the end of the memory": (
        module(estimate=packed(65_530, 10)),
        "estimate_request: place 65530 with 10 bytes is outside of the memory",
    ),
    "a huge length": (
        module(estimate=packed(0, 0xFFFF_FFFF)),
        "estimate_request: a text of 4294967295 bytes, expected at most 4096",
    ),
    "alloc outside of the memory": (
        module(alloc='(func (export "alloc") (param i32) (result i32) (i32.const -1))'),
        "alloc: place 4294967295 for 61 bytes is outside of the memory",
    ),
    "a name that is no text": (
        module(name='(func (export "name") (result i64) (i64.const 0x640000000002))'),
        'name: "\\u0000\\u0000", expected printable UTF-8',
    ),
    "a name that is not UTF-8": (
        module(
            '(data (i32.const 50) "\\ff\\fe")',
            name=f'(func (export "name") (result i64) {packed(50, 2)})',
        ),
        'name: "", expected printable UTF-8',
    ),
    "an import": (
        wasm('(module (import "env" "f" (func)))'),
        "the module has imports, expected none",
    ),
    "an imported memory": (
        wasm('(module (import "env" "memory" (memory 1)))'),
        "the module has imports, expected none",
    ),
    "no memory": (wasm(f"(module {ALLOC})"), "memory: not exported"),
    "no function": (wasm(f"(module {MEMORY} {ALLOC})"), "name: not exported, expected a function"),
    "a function of another type": (
        module(alloc='(func (export "alloc") (param i64) (result i32) (i32.const 0))'),
        "alloc: a function (i64) -> i32, expected a function (i32) -> i32",
    ),
    "memory of 64 bits": (
        module(memory='(memory (export "memory") i64 1)'),
        "no valid WebAssembly",
    ),
    "vectors": (module("(func (drop (v128.const i64x2 0 0)))"), "no valid WebAssembly"),
    "no module": (b"\0asm\x01\0\0\0\x01\x07nothing", "no valid WebAssembly"),
    "a component": (b"\0asm\x0d\0\x01\0", "no WebAssembly module of version 1"),
    "half a module": (answering(GOOD)[:-10], "the module is cut off"),
    "a module that is too large": (
        module(text_at(100, "a" * MAX_MODULE_BYTES), memory='(memory (export "memory") 10)'),
        "expected at most 131072",
    ),
    "a function that is too large": (
        wasm(f"(module (func {'(nop)' * MAX_FUNCTION_BYTES}))"),
        "function 0 has 32770 bytes, expected at most 32768",
    ),
    "too many local variables": (
        wasm(f"(module (func (local {'i64 ' * 301})))"),
        "function 0 has 301 local variables, expected at most 300",
    ),
    "too many local variables in all": (
        wasm("(module " + f"(func (local {'i64 ' * 300}))" * 34 + ")"),
        "10200 local variables in all functions, expected at most 10000",
    ),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_module_is_refused(what: str) -> None:
    content, problem = HOSTILE[what]
    assert problem in refusal(content)


def test_instructions_on_much_memory_use_fuel_in_proportion() -> None:
    fill = "(memory.fill (i32.const 16384) (i32.const 1) (i32.const {}))"
    answer = text_at(8192, GOOD)
    used = [
        load_normaliser(module(answer, estimate=fill.format(size) + packed(8192, len(GOOD))))
        .estimate(REQUEST)
        .fuel
        for size in (0, 40_000)
    ]
    assert used[1] - used[0] >= 40_000 // 16


def test_a_module_that_keeps_the_usual_register_allocator_busy_is_compiled() -> None:
    """With that allocator, this module of 25 KiB compiles for minutes."""
    steps = "".join(
        f"(local.set {i % 300} (i64.mul (local.get {i * 7 % 300}) (local.get {i * 13 % 300})))"
        f"(br_if {i % 900} (i32.wrap_i64 (local.get {i % 300})))"
        for i in range(1_500)
    )
    nested = f"{'(loop ' * 1000}{steps}{')' * 1000}"
    function = f"(func (local {'i64 ' * 300}) {nested})"
    made = load_normaliser(module(function, text_at(8192, GOOD), estimate=packed(8192, len(GOOD))))
    assert made.estimate(REQUEST).taken.total == 3000


def test_modules_answer_in_several_threads_at_once() -> None:
    made = load_normaliser(ECHO)

    def ask(read: int) -> Bandwidth:
        return made.estimate(VolumeIO(read, 5, 4096)).taken

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, range(400))) == [Bandwidth(n, 5, n + 5) for n in range(400)]


def test_the_engine_is_loaded_with_the_first_module() -> None:
    program = (
        "import sys; from afflux.normalisers import registry, normaliser, sandbox;"
        " print('wasmtime' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    assert done.stdout == "False\n"
