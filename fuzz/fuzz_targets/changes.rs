//! Any bytes, as a series of changes and solves; see `tests/fuzzing` of `afflux-flow`.
#![no_main]

#[path = "../../crates/afflux-flow/tests/fuzzing/mod.rs"]
mod fuzzing;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::run(data));
