//! The number of examples that a property test draws. Their seed is in `.cargo/config.toml`.

use proptest::prelude::ProptestConfig;

/// Draws `count` examples, or as many as the environment variable `PROPTEST_CASES` says.
pub fn cases(count: u32) -> ProptestConfig {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default(),
        None => ProptestConfig::with_cases(count),
    }
}
