//! The UID of an object, in as little room as it takes: one of each node is kept.

use std::fmt;
use std::hash::{DefaultHasher, Hasher as _};

/// An object's `metadata.uid`, which tells it from others that had its name: a UUID, as API servers
/// give them, or what any other text is digested to.
///
/// That two texts have the same digest takes somebody who chooses them, who is the API server, and
/// could as well give one UID twice.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Uid([u8; 16]);

/// How many digits a UUID has before each of its hyphens, and behind the last.
const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

/// Instead of a digit.
const NO_DIGIT: u8 = 0x10;

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self(uuid(text).unwrap_or_else(|| digest(text)))
    }
}

impl From<String> for Uid {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

fn uuid(text: &str) -> Option<[u8; 16]> {
    let mut rest = text.as_bytes();
    let mut uuid = 0_u128;
    let mut odd = 0;
    for (group, digits) in GROUPS.into_iter().enumerate() {
        if group > 0 {
            rest = rest.strip_prefix(b"-")?;
        }
        let (group, behind) = rest.split_at_checked(digits)?;
        for byte in group {
            let digit = match byte {
                b'0'..=b'9' => byte - b'0',
                b'a'..=b'f' => byte - b'a' + 10,
                _ => NO_DIGIT,
            };
            odd |= digit;
            uuid = uuid << 4 | u128::from(digit);
        }
        rest = behind;
    }
    (rest.is_empty() && odd & NO_DIGIT == 0).then_some(uuid.to_be_bytes())
}

fn digest(text: &str) -> [u8; 16] {
    let half = |which: u8| {
        let mut hasher = DefaultHasher::new();
        hasher.write_u8(which);
        hasher.write(text.as_bytes());
        u128::from(hasher.finish())
    };
    (half(0) << 64 | half(1)).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UUID: &str = "a30baec9-bfbf-4071-bc1f-4728b398f53e";

    #[test]
    fn a_uuid_is_its_own_number() {
        let told = format!("{:?}", Uid::from(UUID));
        assert_eq!(told, UUID.replace('-', ""));
        for other in [
            UUID.to_uppercase(),
            UUID.replace('-', "0"),
            UUID.replacen("a3", "-3", 1),
            format!("{UUID}0"),
            String::new(),
            "ü".repeat(18),
        ] {
            assert_eq!(uuid(&other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn equal_are_those_of_equal_texts(
            one in "[0-9a-f]{8}(-[0-9a-fA]{4}){3}-[0-9a-f]{11,12}|[ab]{0,2}|.{0,40}",
            other in "[ab]{0,2}|.{0,40}",
        ) {
            prop_assert_eq!(Uid::from(&*one), Uid::from(one.clone()));
            prop_assert_eq!(Uid::from(&*one) == Uid::from(&*other), one == other);
        }
    }
}
