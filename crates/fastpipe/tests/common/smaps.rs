//! The memory behind a buffer, as /proc/self/smaps shows it.

use fastpipe::buffer::Buffer;

/// Returns the bytes of a buffer that are in memory.
pub fn resident(buffer: &Buffer) -> usize {
    sum(buffer, &["Rss:", "Private_Hugetlb:"])
}

/// Returns the bytes of a buffer that are in huge pages, which one page-table entry maps.
pub fn huge(buffer: &Buffer) -> usize {
    sum(buffer, &["AnonHugePages:", "Private_Hugetlb:"])
}

/// Sums fields over the mappings of a buffer.
fn sum(buffer: &Buffer, fields: &[&str]) -> usize {
    let start = buffer.as_ptr().addr();
    let range = start..start + buffer.mapped_len();
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (mut is_inside, mut kib) = (false, 0);
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        let first = words.next().unwrap();
        if let Some((from, _)) = first.split_once('-') {
            is_inside = range.contains(&usize::from_str_radix(from, 16).unwrap());
        } else if is_inside && fields.contains(&first) {
            kib += words.next().unwrap().parse::<usize>().unwrap();
        }
    }
    kib * 1024
}
