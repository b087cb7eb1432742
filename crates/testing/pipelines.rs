//! Pipelines as lines for sh.

const PRODUCERS: [&str; 5] = [
    "sleep 1000",
    "tail -f /dev/null",
    "while :; do echo a; sleep 0.2; done",
    "yes",
    "(sleep 1000 & wait)",
];
const FILTERS: [&str; 3] = ["cat", "grep --line-buffered a", "tee /dev/null"];
const CONSUMERS: [&str; 4] = [
    "cat > /dev/null",
    "sleep 1000",
    "while read x; do sleep 0.1; done",
    "(sleep 1000; cat)",
];

/// Sixty that move or wait for something outside, for a long time.
pub fn healthy() -> impl Iterator<Item = String> {
    PRODUCERS.into_iter().flat_map(|producer| {
        FILTERS.into_iter().flat_map(move |filter| {
            let line = move |consumer| format!("{producer} | {filter} | {consumer}");
            CONSUMERS.into_iter().map(line)
        })
    })
}
