//! The UID of an object, in as little room as it takes: one of each node is kept.

use std::fmt;

/// An object's `metadata.uid`. Two are equal when their texts are.
#[derive(Clone, PartialEq, Eq)]
pub struct Uid(Form);

#[derive(Clone, PartialEq, Eq)]
enum Form {
    /// What API servers give: a UUID in lower case.
    Uuid([u8; 16]),
    /// Any other text.
    Other(Box<str>),
}

/// Where a UUID has its hyphens, and how long it is.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];
const LENGTH: usize = 36;

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self(match uuid(text) {
            Some(uuid) => Form::Uuid(uuid),
            None => Form::Other(text.into()),
        })
    }
}

impl From<String> for Uid {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Other(text) => f.write_str(text),
            Form::Uuid(uuid) => uuid.iter().enumerate().try_for_each(|(place, byte)| {
                let hyphen = if [4, 6, 8, 10].contains(&place) {
                    "-"
                } else {
                    ""
                };
                write!(f, "{hyphen}{byte:02x}")
            }),
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn uuid(text: &str) -> Option<[u8; 16]> {
    if text.len() != LENGTH {
        return None;
    }
    let mut uuid = [0; 16];
    let mut digits = 0;
    for (place, byte) in text.bytes().enumerate() {
        let digit = match byte {
            b'-' if HYPHENS.contains(&place) => continue,
            _ if HYPHENS.contains(&place) => return None,
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        let half = uuid.get_mut(digits / 2)?;
        *half = *half << 4 | digit;
        digits += 1;
    }
    Some(uuid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UUID: &str = "a30baec9-bfbf-4071-bc1f-4728b398f53e";

    #[test]
    fn a_uuid_takes_no_text() {
        assert!(matches!(Uid::from(UUID), Uid(Form::Uuid(_))));
        for other in [
            UUID.to_uppercase(),
            UUID.replace('-', "0"),
            UUID.replacen("a3", "-3", 1),
            format!("{UUID}0"),
            String::new(),
            "ü".repeat(18),
        ] {
            assert!(matches!(Uid::from(&*other), Uid(Form::Other(_))), "{other}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_lost(
            text in "[0-9a-f]{8}(-[0-9a-fA]{4}){3}-[0-9a-f]{11,12}|[0-9a-f-]{36}|.{0,40}"
        ) {
            prop_assert_eq!(Uid::from(&*text).to_string(), text);
        }
    }
}
