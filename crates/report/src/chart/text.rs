//! How much room a text takes, which a picture without fonts can only estimate.

/// A count as pixels are counted.
pub(super) fn length(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// The width a text takes at most, as estimated: the advances of DejaVu Sans,
/// the widest face in common use, by kinds of characters.
pub(super) fn text_width(text: &str, size: i32) -> i32 {
    let thousandths: i32 = text.chars().map(advance).sum();
    thousandths * size / 1000 + 1
}

/// The same for bold text.
pub(super) fn bold_width(text: &str, size: i32) -> i32 {
    text_width(text, size) * 113 / 100
}

/// Thousandths of the size.
fn advance(c: char) -> i32 {
    match c {
        'i' | 'j' | 'l' | 'I' | ' ' | '.' | ',' | ':' | ';' | '|' | '\'' => 340,
        'f' | 'r' | 't' | '(' | ')' | '[' | ']' | '-' | '/' => 420,
        'm' | 'w' | 'M' | 'W' | '%' | '…' => 1000,
        '_' | 's' | 'c' | 'z' => 550,
        'A'..='Z' => 740,
        _ if c.is_ascii() => 637,
        _ => 1000,
    }
}

/// Which part of a text that is too long gives way.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cut {
    /// Of names: they differ at both ends.
    Middle,
    /// Of sentences: they say the most first.
    End,
}

/// The text, cut short where it is wider than `room`.
pub(super) fn fitted(text: &str, size: i32, room: i32, cut: Cut) -> String {
    if text_width(text, size) <= room {
        return text.to_owned();
    }
    let all: Vec<char> = text.chars().collect();
    // One character less at a time: the texts are short.
    (0..all.len())
        .rev()
        .map(|kept| {
            let tail = match cut {
                Cut::Middle => kept / 2,
                Cut::End => 0,
            };
            let head: String = all[..kept - tail].iter().collect();
            let tail: String = all[all.len() - tail..].iter().collect();
            format!("{}…{tail}", head.trim_end())
        })
        .find(|shorter| text_width(shorter, size) <= room)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_fits_is_left_alone() {
        assert_eq!(fitted("write_read", 13, 400, Cut::End), "write_read");
    }

    #[test]
    fn a_name_gives_way_in_the_middle_and_a_sentence_at_its_end() {
        let text = "abcdefghijklmnopqrstuvwxyz";
        let room = text_width("abcdefghijkl", 13);
        let name = fitted(text, 13, room, Cut::Middle);
        let sentence = fitted(text, 13, room, Cut::End);
        assert!(name.starts_with("abc") && name.ends_with("xyz"), "{name}");
        assert!(
            sentence.starts_with("abcdefg") && sentence.ends_with('…'),
            "{sentence}"
        );
        for short in [name, sentence] {
            assert!(text_width(&short, 13) <= room);
        }
        assert_eq!(fitted(text, 13, 0, Cut::End), "");
    }
}
