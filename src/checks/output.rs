//! What may be shown of what others write: the end of it, in one line, and no secrets as far as they
//! can be told from other words.
//!
//! Whoever may read a ClusterHealth can read it. That a secret is recognised is not certain, so that
//! a command should write none; what is masked in vain costs a word.

use std::{collections::VecDeque, sync::LazyLock};

use regex::{Captures, Regex};

use crate::util::text::clean;

/// So many bytes of the end are kept, …
const MAX_KEPT: usize = 4096;
/// … and so many characters shown.
const MAX_SHOWN: usize = 400;

const MASK: &str = "[masked]";

/// What hides secrets. A group named `keep` stays before the mask.
static SECRETS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        // PEM, of which the beginning or the end may be lost.
        r"(?s)-----BEGIN [A-Z0-9 ]+-----.*?(-----END [A-Z0-9 ]+-----|\z)",
        r"(?s)\A.*-----END [A-Z0-9 ]+-----",
        // JSON web tokens, also of service accounts.
        r"eyJ[A-Za-z0-9_-]{4,}(\.[A-Za-z0-9_-]*){0,4}",
        // A user and a password in a URL.
        r#"(?P<keep>://)([^/\s:@"']*:[^\s"']*|[^/\s@"']+)@"#,
        // The same for a command: -u admin:x, --user=admin:x.
        r#"(?i)(?P<keep>(^|\s)(-u|--?user(name)?)(\s+|=)["']?[^\s:"']*:)[^\s"']+"#,
        // Headers.
        r"(?i)(?P<keep>\b(bearer|basic)\s+)[A-Za-z0-9+/=._~-]{6,}",
        // Whatever is said to be one: password=x, "token": "x", --client-secret x.
        r#"(?ix)(?P<keep>
            (passw(or)?d | (\b|_)pass\b | passwd | pwd | passphrase | secret | token | credentials?
                | authorization | cookie | api[-_.]?key | access[-_.]?key | private[-_.]?key | client[-_.]?key | key[-_.]?data)
            [\w.-]* (\\*["'])? \s* [:=] \s* )
            ( \\+"[^"]*"? | "([^"\\]|\\.)*"? | '[^']*'? | [^\s,;&"']+ )"#,
        r"(?i)(?P<keep>--?[\w-]*(password|passwd|passphrase|secret|token|key)\s+)[^\s-]\S*",
        // As Docker keeps them.
        r#"(?P<keep>\bauth\\*"\s*:\s*)\\*"[^"]*"?"#,
        // Tokens that can be told by their form: of bootstrapping, GitHub, GitLab, Slack, Vault, Google,
        // AWS.
        r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b",
        r"\bgh[a-z]_[A-Za-z0-9]{16,}",
        r"\b(glpat-|xox[a-z]-|hv[bs]\.|AIza)[A-Za-z0-9_-]{16,}",
        r"\b(AKIA|ASIA)[A-Z0-9]{16}\b",
        // What is long and no word: keys and digests, in hexadecimal digits or base64.
        r"[A-Za-z0-9+_=]{32,}",
        r"[A-Za-z0-9+/_=]{40,}",
    ]
    .into_iter()
    .filter_map(|pattern| Regex::new(pattern).ok())
    .collect()
});

/// `text` in one line of at most `max` characters, without control characters and without secrets.
pub fn bounded(text: &str, max: usize) -> String {
    clean(&mask(text), max)
}

fn mask(text: &str) -> String {
    // What hides within a word would hide the word.
    let mut text: String = text
        .chars()
        .filter(|c| !c.is_control() || c.is_whitespace())
        .collect();
    for secret in SECRETS.iter() {
        let masked = secret.replace_all(&text, |found: &Captures<'_>| {
            let kept = found.name("keep").map_or("", |kept| kept.as_str());
            format!("{kept}{MASK}")
        });
        text = masked.into_owned();
    }
    text
}

/// The end of what a command writes.
#[derive(Clone, Debug, Default)]
pub struct Tail {
    kept: VecDeque<u8>,
    /// Whether something was written before what is kept.
    cut: bool,
}

impl Tail {
    /// It has written this.
    pub fn push(&mut self, written: &[u8]) {
        let over = (self.kept.len() + written.len()).saturating_sub(MAX_KEPT);
        if over > 0 {
            self.cut = true;
            let old = over.min(self.kept.len());
            self.kept.drain(..old);
        }
        let from = written.len().saturating_sub(MAX_KEPT);
        self.kept.extend(written.get(from..).unwrap_or_default());
    }

    /// The end of it, as it may be shown: of what is cut, nothing but whole words.
    pub fn shown(&self) -> String {
        let (front, back) = self.kept.as_slices();
        let kept = [front, back].concat();
        let mut text = String::from_utf8_lossy(&kept).into_owned();
        if self.cut {
            let word = text.find(char::is_whitespace).unwrap_or(text.len());
            text.drain(..word);
        }
        let line = bounded(&text, usize::MAX);
        let letters = line.chars().count();
        if letters <= MAX_SHOWN && !self.cut {
            return line;
        }
        let skipped = (letters + 1).saturating_sub(MAX_SHOWN);
        let end: String = line.chars().skip(skipped).collect();
        format!("…{end}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    const JWT: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl-_x";
    const PEM: &str =
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nAbCd\n-----END RSA PRIVATE KEY-----";

    fn shown(written: &[u8]) -> String {
        let mut tail = Tail::default();
        tail.push(written);
        tail.shown()
    }

    #[test]
    fn all_patterns_are_valid() {
        assert_eq!(SECRETS.len(), 15);
    }

    #[rstest]
    #[case("", "")]
    #[case("not ready\r\n\ton disk\n", "not ready on disk")]
    #[case("\u{1b}[31mred\u{0}\u{202e}", "[31mred?")]
    #[case("grüße", "grüße")]
    #[case(
        "member 8e9e05c52164694d is unhealthy",
        "member 8e9e05c52164694d is unhealthy"
    )]
    #[case(
        "pod kube-controller-manager-6d5f7c8b9d-abcde",
        "pod kube-controller-manager-6d5f7c8b9d-abcde"
    )]
    #[case(
        "/var/lib/kubelet/pods/etcd/volumes",
        "/var/lib/kubelet/pods/etcd/volumes"
    )]
    #[case("the token has expired", "the token has expired")]
    #[case("password=hunter2 next", "password=[masked] next")]
    #[case("DB_PASSWORD: 'hunter 2', x", "DB_PASSWORD: [masked], x")]
    #[case(
        r#"{"client_secret": "hun\"ter", "a": 1}"#,
        r#"{"client_secret": [masked], "a": 1}"#
    )]
    #[case("--client-secret hunter2 --v=2", "--client-secret [masked] --v=2")]
    #[case("Authorization: Bearer abc.def", "Authorization: [masked] [masked]")]
    #[case("bearer abcdefgh", "bearer [masked]")]
    #[case("https://user:pass@host/x", "https://[masked]host/x")]
    #[case("https://user:p@ss/word@host/x", "https://[masked]host/x")]
    #[case(
        "dial https://10.0.0.1:443/healthz: refused",
        "dial https://10.0.0.1:443/healthz: refused"
    )]
    #[case("curl -u admin:hunter2 host", "curl -u admin:[masked] host")]
    #[case("etcdctl --user=root:hunter2 get", "etcdctl --user=root:[masked] get")]
    #[case("DB_PASS=hunter2 next", "DB_PASS=[masked] next")]
    #[case("passed: 3, bypass 4", "passed: 3, bypass 4")]
    #[case(
        r#"{\"password\":\"hun ter2\",\"a\":1}"#,
        r#"{\"password\":[masked],\"a\":1}"#
    )]
    #[case(r#"{"auth": "dXNlcjpwYXNz"}"#, r#"{"auth": [masked]}"#)]
    #[case("Cookie: session=hunter2", "Cookie: [masked]")]
    #[case("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "[masked]")]
    #[case("glpat-0123456789abcdefghij", "[masked]")]
    #[case("hvs.CAESIJ0123456789abcdef", "[masked]")]
    #[case("abcdef.0123456789abcdef", "[masked]")]
    #[case("AKIAIOSFODNN7EXAMPLE", "[masked]")]
    #[case("ghp_0123456789abcdefghij", "[masked]")]
    #[case("tail of it\n-----END CERTIFICATE-----\nafter", "[masked] after")]
    #[case("-----BEGIN PRIVATE KEY-----\nMIIE", "[masked]")]
    fn what_is_shown(#[case] written: &str, #[case] expected: &str) {
        assert_eq!(shown(written.as_bytes()), expected);
    }

    #[test]
    fn the_end_is_kept_of_what_is_long() {
        let mut tail = Tail::default();
        for number in 0..100_000 {
            tail.push(format!("line {number}\n").as_bytes());
        }
        let text = tail.shown();
        assert!(
            text.starts_with('…') && text.ends_with("line 99998 line 99999"),
            "{text}"
        );
        assert_eq!(text.chars().count(), MAX_SHOWN);
        assert!(tail.kept.capacity() <= 4 * MAX_KEPT);
    }

    /// Of a word that is cut nobody can tell whether it was a secret.
    #[test]
    fn half_a_word_is_not_shown() {
        assert_eq!(shown("x-".repeat(MAX_KEPT).as_bytes()), "…");
        let mut long = "y-".repeat(MAX_KEPT);
        long.push_str(" end");
        assert_eq!(shown(long.as_bytes()), "…end");
    }

    proptest! {
        #[test]
        fn any_bytes_become_a_bounded_line(writes: Vec<Vec<u8>>, repeated in 1_usize..50) {
            let mut tail = Tail::default();
            for written in writes.iter().cycle().take(writes.len() * repeated) {
                tail.push(written);
            }
            let text = tail.shown();
            prop_assert!(text.chars().count() <= MAX_SHOWN);
            prop_assert!(!text.chars().any(char::is_control));
            prop_assert!(tail.kept.len() <= MAX_KEPT);
        }

        #[test]
        fn no_secret_is_shown(
            before in "[ -~\\n]{0,30}[ \\n]|",
            after in "([ \\n][ -~\\n]{0,30})?",
            password in "[a-zA-Z0-9!$%^*._-]{8,20}",
            which in 0_usize..6,
        ) {
            let (written, secret) = match which {
                0 => (JWT.to_owned(), "c2lnbmF0dXJl"),
                1 => (PEM.to_owned(), "MIIEow"),
                2 => (format!("password={password}"), password.as_str()),
                3 => (format!("\"token\": \"{password}\""), password.as_str()),
                4 => (format!("MY_SECRET='{password}'"), password.as_str()),
                _ => (format!("postgres://admin:{password}@db/x"), password.as_str()),
            };
            let text = shown(format!("{before}{written}{after}").as_bytes());
            prop_assert!(!text.contains(secret), "{}", text);
        }

        /// Wherever what is kept begins.
        #[test]
        fn no_secret_is_shown_of_which_the_start_is_lost(lost in 0_usize..200) {
            for secret in [JWT, PEM] {
                let filler = "a ".repeat((MAX_KEPT - secret.len() + lost) / 2);
                let text = shown(format!("{secret} {filler}").as_bytes());
                for part in ["MIIEow", "AbCd", "c2lnbmF0dXJl", "ZXN0ZW0"] {
                    prop_assert!(!text.contains(part), "{}", text);
                }
            }
        }
    }
}
