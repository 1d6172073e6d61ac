//! A few seconds of the fuzz target, without a fuzzer: random bytes, and a corpus of series that
//! went wrong once. See `fuzz/README.md` for the real thing.

mod fuzzing;

/// Series per run.
const SERIES: u64 = 50_000;

#[test]
fn random_bytes() {
    for seed in 1..=SERIES {
        let bytes = random_bytes_of(seed);
        let outcome = std::panic::catch_unwind(|| fuzzing::run(&bytes));
        if outcome.is_err() {
            panic!("series {seed} went wrong: {bytes:?}");
        }
    }
}

#[test]
fn the_corpus() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/changes");
    let files = std::fs::read_dir(folder).expect("the corpus is in the repository");
    for file in files {
        let path = file.expect("a file").path();
        println!("{}", path.display());
        fuzzing::run(&std::fs::read(path).expect("bytes"));
    }
}

/// Bytes that are always the same for a seed (xorshift).
fn random_bytes_of(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let length = 40 + next() % 500;
    (0..length).map(|_| (next() >> 32) as u8).collect()
}
