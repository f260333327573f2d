//! Text from others, made fit for a status, an event or a log line.

/// `text` in at most `max` characters of one line.
///
/// Control, formatting and other invisible characters could forge log lines or hide text in a
/// terminal, so only letters, digits, printable ASCII and single spaces stay.
pub(crate) fn clean(text: &str, max: usize) -> String {
    let mut out = String::new();
    let mut room = max;
    for word in text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|w| !w.is_empty())
    {
        let gap = if out.is_empty() { "" } else { " " };
        for c in gap.chars().chain(word.chars()) {
            if room == 0 {
                out.pop();
                out.push('…');
                return out;
            }
            room -= 1;
            let printable = c == ' ' || c.is_ascii_graphic() || c.is_alphanumeric();
            out.push(if printable { c } else { '?' });
        }
    }
    out
}

/// The start of a body, as [`clean`] text.
pub(crate) fn clean_bytes(bytes: &[u8], max: usize) -> String {
    // A character takes at most four bytes; white space may be dropped, so look a little further.
    let start = bytes.get(..max.saturating_mul(8)).unwrap_or(bytes);
    clean(&String::from_utf8_lossy(start), max)
}

/// Whether the text is true, as Go's `strconv.ParseBool` reads it; `None` if it is no boolean.
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
            ("abcdef", 4, "abc…"),
            ("abcd", 4, "abcd"),
        ] {
            assert_eq!(clean(text, max), expected, "{text:?}");
        }
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
