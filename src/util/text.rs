//! Text from others, made fit for a status, an event, a log line or a terminal.

use std::iter;

/// `text` in at most `max` characters of one line, with single spaces.
pub(crate) fn clean(text: &str, max: usize) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let words = words.filter(|word| !word.is_empty());
    let line = words.flat_map(|word| iter::once(' ').chain(word.chars()));
    // A text of any length is read no further than to see whether it is too long.
    let line = visible(&line.skip(1).take(max.saturating_add(1)).collect::<String>());
    let mut short: String = line.chars().take(max).collect();
    if short.len() < line.len() {
        short.pop();
        short.push('…');
    }
    short
}

/// Replaces what could forge a line, hide text in a terminal or move its cursor, except for ends of lines: all but
/// letters, digits, printable ASCII, and the mark of a text that was cut.
pub(crate) fn visible(lines: &str) -> String {
    // Hangul fillers are letters, and show nothing.
    let filler = |c| matches!(c, '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}');
    let shown = |c: char| c.is_ascii_graphic() || " \n…".contains(c) || c.is_alphanumeric();
    lines.replace(|c| filler(c) || !shown(c), "?")
}

/// The start of a body, as [`clean`] text.
pub(crate) fn clean_bytes(bytes: &[u8], max: usize) -> String {
    // A character takes at most four bytes; white space may be dropped, so look a little further.
    let start = bytes.get(..max.saturating_mul(8)).unwrap_or(bytes);
    clean(&String::from_utf8_lossy(start), max)
}

/// Returns whether the text is true, as Go's `strconv.ParseBool` reads it; `None` if it is no boolean.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keeps_what_is_printable_and_bounds_it() {
        for (text, max, expected) in [
            ("", 10, ""),
            ("connection refused", 80, "connection refused"),
            ("  two\r\n\tlines ", 80, "two lines"),
            ("\u{1b}[31mred\u{202e}evil\u{0}", 80, "[31mred?evil"),
            ("größer", 80, "größer"),
            ("a\u{3164}b\u{115f}c\u{1160}d\u{ffa0}", 80, "a?b?c?d?"),
            ("abcdef", 4, "abc…"),
            ("abcd", 4, "abcd"),
        ] {
            assert_eq!(clean(text, max), expected, "{text:?}");
        }
    }

    #[test]
    fn a_page_keeps_its_lines() {
        let page = "größer…\n\u{1b}[2J\u{202e}x\u{3164}\u{200b}\r\n";
        assert_eq!(visible(page), "größer…\n?[2J?x???\n");
    }

    #[test]
    fn booleans_are_those_of_go() {
        for text in ["1", "t", "T", "TRUE", "true", "True"] {
            assert_eq!(parse_bool(text), Some(true), "{text}");
        }
        for text in ["0", "f", "F", "FALSE", "false", "False"] {
            assert_eq!(parse_bool(text), Some(false), "{text}");
        }
        for text in ["", "yes", "tRUE", "on", " true", "2"] {
            assert_eq!(parse_bool(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_become_a_bounded_line(bytes: Vec<u8>, max in 1_usize..100) {
            let text = clean_bytes(&bytes, max);
            prop_assert!(text.chars().count() <= max);
            prop_assert!(!text.chars().any(char::is_control));
        }
    }
}
