//! Fills in templates without special instructions: copies the literals, then the digits
//! of each line.

use super::DigitRun;
use super::template::{MAX_FILLED, SLACK, Template};

/// See [`CodePath::fill`](super::CodePath::fill).
pub(super) fn fill(run: DigitRun<'_>, out: &mut [u8]) -> (u64, usize) {
    // A constant length lets the compiler copy the digits with a few moves.
    match run.templates[0].filled() {
        1 => fill_digits::<1>(run, out),
        2 => fill_digits::<2>(run, out),
        3 => fill_digits::<3>(run, out),
        4 => fill_digits::<4>(run, out),
        5 => fill_digits::<5>(run, out),
        6 => fill_digits::<6>(run, out),
        7 => fill_digits::<7>(run, out),
        8 => fill_digits::<8>(run, out),
        9 => fill_digits::<9>(run, out),
        10 => fill_digits::<10>(run, out),
        11 => fill_digits::<11>(run, out),
        12 => fill_digits::<12>(run, out),
        13 => fill_digits::<13>(run, out),
        14 => fill_digits::<14>(run, out),
        15 => fill_digits::<15>(run, out),
        _ => fill_digits::<MAX_FILLED>(run, out),
    }
}

fn fill_digits<const N: usize>(run: DigitRun<'_>, out: &mut [u8]) -> (u64, usize) {
    let literals = run.templates.each_ref().map(literals);
    let mut digits = [0; N];
    let mut rest = run.hundreds;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let (mut count, mut at) = (0, 0);
    while count < run.max_count {
        let third = ((run.hundreds + count) % 3) as usize;
        let template = &run.templates[third];
        if out.len() - at < template.len() + SLACK {
            break;
        }
        let segment = &mut out[at..at + template.len()];
        segment.copy_from_slice(&literals[third]);
        for &offset in template.digit_offsets() {
            segment[usize::from(offset)..][..N].copy_from_slice(&digits);
        }
        at += template.len();
        count += 1;
        add_one(&mut digits);
    }
    (count, at)
}

fn literals(template: &Template) -> Vec<u8> {
    let code = &template.code()[..template.len()];
    code.iter().map(|code| code.wrapping_neg()).collect()
}

fn add_one(digits: &mut [u8]) {
    for digit in digits.iter_mut().rev() {
        if *digit < b'9' {
            *digit += 1;
            return;
        }
        *digit = b'0';
    }
}
