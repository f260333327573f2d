//! Where a server sends those who ask it.

use http::Uri;

use super::resolve::Target;
use crate::api::Scheme;

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Whether it is encrypted.
    pub scheme: Scheme,
    /// The host and the port.
    pub target: Target,
    /// The path and query.
    pub path: String,
}

/// What a redirection comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is followed: the host is the same.
    Same(Place),
    /// It leads to another host, and is not followed.
    OtherHost,
    /// It leads nowhere.
    Nowhere,
}

impl Place {
    /// Where `location` leads, read as a reference that is relative to here (RFC 3986).
    pub fn follow(&self, location: &str) -> Next {
        let location = match location.split_once('#') {
            Some((location, _)) => location,
            None => location,
        };
        if let Some(rest) = location.strip_prefix("//") {
            return self.at(self.scheme, rest);
        }
        match location.split_once("://") {
            Some((scheme, rest)) if is_scheme(scheme) => {
                if scheme.eq_ignore_ascii_case("http") {
                    self.at(Scheme::Http, rest)
                } else if scheme.eq_ignore_ascii_case("https") {
                    self.at(Scheme::Https, rest)
                } else {
                    Next::Nowhere
                }
            }
            _ => self.to(self.resolve(location)),
        }
    }

    fn to(&self, path: String) -> Next {
        Next::Same(Self {
            path,
            ..self.clone()
        })
    }

    fn at(&self, scheme: Scheme, rest: &str) -> Next {
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let Ok(authority) = authority.parse::<http::uri::Authority>() else {
            return Next::Nowhere;
        };
        let host = authority
            .host()
            .trim_start_matches('[')
            .trim_end_matches(']');
        if !host.eq_ignore_ascii_case(&self.target.host) {
            return Next::OtherHost;
        }
        Next::Same(Self {
            scheme,
            target: Target {
                host: self.target.host.clone(),
                port: authority.port_u16().unwrap_or(match scheme {
                    Scheme::Http => 80,
                    Scheme::Https => 443,
                }),
            },
            path: rooted(path),
        })
    }

    /// A relative reference, without its dots: `../a` from `/b/c/d` is `/b/a`.
    fn resolve(&self, reference: &str) -> String {
        let own = self.path.split('?').next().unwrap_or_default();
        if reference.is_empty() {
            return self.path.clone();
        }
        if reference.starts_with('/') {
            return reference.to_owned();
        }
        if reference.starts_with('?') {
            return format!("{own}{reference}");
        }
        let (path, query) = match reference.find('?') {
            Some(at) => reference.split_at(at),
            None => (reference, ""),
        };
        let folder = own.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut segments: Vec<&str> = folder.split('/').skip(1).collect();
        let mut last = "";
        for segment in path.split('/') {
            segments.extend((!last.is_empty()).then_some(last));
            last = "";
            match segment {
                "." => {}
                ".." => drop(segments.pop()),
                segment => last = segment,
            }
        }
        segments.push(last);
        format!("/{}{query}", segments.join("/"))
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
}

fn rooted(path: &str) -> String {
    match path.starts_with('/') {
        true => path.to_owned(),
        false => format!("/{path}"),
    }
}

/// A path and query as a request takes it: what may not stand in a URL is encoded, as Go does it, and
/// what follows a `#` is for nobody but the client.
pub(super) fn origin_form(path: &str) -> Option<Uri> {
    let path = path.split('#').next().unwrap_or_default();
    let mut encoded = String::with_capacity(path.len());
    for letter in rooted(path).chars() {
        match letter {
            '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}' => {
                encoded.push_str(&format!("%{:02X}", u32::from(letter)));
            }
            letter => encoded.push(letter),
        }
    }
    encoded.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn place(url: &str) -> Place {
        let uri: Uri = url.parse().unwrap();
        Place {
            scheme: match uri.scheme_str().unwrap() {
                "https" => Scheme::Https,
                _ => Scheme::Http,
            },
            target: Target {
                host: uri.host().unwrap().trim_matches(['[', ']']).to_owned(),
                port: uri.port_u16().unwrap(),
            },
            path: uri.path_and_query().unwrap().to_string(),
        }
    }

    #[rstest]
    #[case::path("/other", "http://a:80/other")]
    #[case::path_and_query("/other?x=1#top", "http://a:80/other?x=1")]
    #[case::relative("other", "http://a:80/b/c/other")]
    #[case::above("../other?y=/../z", "http://a:80/b/other?y=/../z")]
    #[case::above_the_root("../../../../other", "http://a:80/other")]
    #[case::here("./", "http://a:80/b/c/")]
    #[case::query_alone("?x=2", "http://a:80/b/c/d?x=2")]
    #[case::itself("", "http://a:80/b/c/d?q")]
    #[case::port("http://a:8080/x", "http://a:8080/x")]
    #[case::default_port("http://A/x", "http://a:80/x")]
    #[case::encrypted("HTTPS://a/x", "https://a:443/x")]
    #[case::no_path("https://a:444", "https://a:444/")]
    #[case::query_without_path("http://a?x", "http://a:80/?x")]
    #[case::same_scheme("//a:81/x", "http://a:81/x")]
    #[case::a_url_in_a_query("/x?u=http://b/", "http://a:80/x?u=http://b/")]
    fn what_is_followed(#[case] location: &str, #[case] expected: &str) {
        let here = place("http://a:80/b/c/d?q");
        assert_eq!(here.follow(location), Next::Same(place(expected)));
    }

    #[rstest]
    #[case::host("http://b/", Next::OtherHost)]
    #[case::host_without_scheme("//b/x", Next::OtherHost)]
    #[case::user("http://a@b/", Next::OtherHost)]
    #[case::subdomain("http://a.b/", Next::OtherHost)]
    #[case::other_protocol("ftp://a/", Next::Nowhere)]
    #[case::no_url("http:// /", Next::Nowhere)]
    #[case::no_host("http:///x", Next::Nowhere)]
    fn what_is_not_followed(#[case] location: &str, #[case] expected: Next) {
        assert_eq!(place("http://a:80/").follow(location), expected);
    }

    #[test]
    fn addresses_are_hosts() {
        let here = place("http://[::1]:80/");
        assert_eq!(
            here.follow("http://[::1]:81/x"),
            Next::Same(place("http://[::1]:81/x"))
        );
        assert_eq!(here.follow("http://[::2]/"), Next::OtherHost);
    }

    #[rstest]
    #[case("/", "/")]
    #[case("/a?b=c#d", "/a?b=c")]
    #[case("/a{b}|\"<c>\\^`", "/a%7Bb%7D%7C%22%3Cc%3E%5C%5E%60")]
    #[case("/%zz%20", "/%zz%20")]
    fn paths_as_requested(#[case] path: &str, #[case] expected: &str) {
        assert_eq!(origin_form(path).unwrap().to_string(), expected);
    }

    proptest! {
        /// Whatever the schema takes can be asked for.
        #[test]
        fn any_path_of_a_policy_is_one(path in "/[!-~]{0,60}") {
            prop_assert!(origin_form(&path).is_some(), "{}", path);
        }

        #[test]
        fn no_redirection_leads_to_another_host(location in "\\PC{0,40}|(http:)?//[a-z@:.]{0,8}/?[!-~]{0,20}") {
            let here = place("http://a:80/b/c");
            if let Next::Same(next) = here.follow(&location) {
                prop_assert_eq!(&next.target.host, "a");
                prop_assert!(next.path.starts_with('/'), "{}", next.path);
            }
        }
    }
}
