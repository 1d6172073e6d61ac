//! The fuzz target without a fuzzer: random bytes, and a corpus of series that failed once. See
//! `fuzz/README.md` for real fuzzing.

mod fuzzing;

/// Series per run.
const SERIES: u64 = 50_000;

#[test]
fn random_series_are_solved_correctly() {
    let seed = std::env::var("PROPTEST_RNG_SEED").ok();
    let first: u64 = seed.and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for seed in (0..SERIES).map(|number| first.wrapping_add(number)) {
        let bytes = random_bytes_of(seed);
        let outcome = std::panic::catch_unwind(|| fuzzing::run(&bytes));
        if outcome.is_err() {
            panic!("series {seed} failed: {bytes:?}");
        }
    }
}

#[test]
fn corpus_series_are_solved_correctly() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/changes");
    let files = std::fs::read_dir(folder).expect("the corpus is in the repository");
    for file in files {
        let path = file.expect("a file").path();
        println!("{}", path.display());
        fuzzing::run(&std::fs::read(path).expect("bytes"));
    }
}

/// Bytes determined by a seed (xorshift).
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
