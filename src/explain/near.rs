//! Names like one that does not exist.

/// How many are told.
const MOST: usize = 5;

/// The names that the one who asked may have meant, the likeliest first.
pub(super) fn near<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut ranked: Vec<(usize, &str)> = names
        .into_iter()
        .filter_map(|other| Some((rank(name, other)?, other)))
        .collect();
    ranked.sort_unstable();
    ranked.truncate(MOST);
    ranked.into_iter().map(|(_, other)| other).collect()
}

/// The smaller the likelier. A part of a name is as good as one slip: the project is often left out.
fn rank(name: &str, other: &str) -> Option<usize> {
    if !name.is_empty() && other.contains(name) {
        return Some(1);
    }
    let slips = distance(name, other);
    (slips <= 1 + name.chars().count() / 5).then_some(slips)
}

/// How many characters have to be put in, taken out or exchanged.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (place, a) in one.chars().enumerate() {
        let mut next = vec![place + 1];
        let mut left = place + 1;
        for (b, above) in other.chars().zip(row.windows(2)) {
            let &[diagonal, above] = above else { continue };
            left = (diagonal + usize::from(a != b))
                .min(above + 1)
                .min(left + 1);
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (one, other, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("abc", "abc", 0),
            ("abc", "abd", 1),
            ("kitten", "sitting", 3),
            ("größe", "grösse", 2),
        ] {
            assert_eq!(distance(one, other), expected, "{one} {other}");
        }
    }

    #[test]
    fn what_may_have_been_meant() {
        let names = [
            "shoot--garden--alpha",
            "shoot--garden--alpine",
            "shoot--local--beta",
            "shoot--local--gamma",
        ];
        for (name, expected) in [
            (
                "shoot--garden--alfa",
                &["shoot--garden--alpha", "shoot--garden--alpine"][..],
            ),
            ("beta", &["shoot--local--beta"]),
            (
                "shoot--local",
                &["shoot--local--beta", "shoot--local--gamma"],
            ),
            (
                "shoot--local--bta",
                &["shoot--local--beta", "shoot--local--gamma"],
            ),
            ("something-else", &[]),
            ("", &[]),
        ] {
            assert_eq!(near(name, names), expected, "{name}");
        }
    }
}
