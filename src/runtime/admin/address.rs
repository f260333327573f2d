//! Where the endpoints are served, as Go programs are told: `:9643`, `host:9643`, `0` for nowhere.

use std::{fmt, io, str::FromStr};

use tokio::net::TcpListener;

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindAddress {
    /// Nowhere.
    Off,
    /// Here.
    At {
        /// All of the machine's addresses without one.
        host: Option<String>,
        /// Any free one, if 0.
        port: u16,
    },
}

impl FromStr for BindAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "0" {
            return Ok(Self::Off);
        }
        let malformed =
            || "must be HOST:PORT, :PORT for all addresses, or 0 to serve nothing".to_owned();
        let (host, port) = text.rsplit_once(':').ok_or_else(malformed)?;
        let port = port.parse().map_err(|_| malformed())?;
        let host = match host.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']').ok_or_else(malformed)?,
            None if host.contains(':') => return Err(malformed()),
            None => host,
        };
        let host = Some(host)
            .filter(|host| !host.is_empty())
            .map(str::to_owned);
        Ok(Self::At { host, port })
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => write!(f, "0"),
            Self::At { host: None, port } => write!(f, ":{port}"),
            Self::At {
                host: Some(host),
                port,
            } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::At {
                host: Some(host),
                port,
            } => write!(f, "{host}:{port}"),
        }
    }
}

impl BindAddress {
    /// Listens there; nowhere, if it is off.
    pub(super) async fn listen(&self) -> io::Result<Option<TcpListener>> {
        let Self::At { host, port } = self else {
            return Ok(None);
        };
        let listener = match host {
            Some(host) => TcpListener::bind((host.as_str(), *port)).await?,
            // It takes IPv4 as well, where there is IPv6 at all.
            None => match TcpListener::bind(("::", *port)).await {
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                    TcpListener::bind(("0.0.0.0", *port)).await?
                }
                bound => bound?,
            },
        };
        Ok(Some(listener))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_go() {
        let at = |host: Option<&str>, port| BindAddress::At {
            host: host.map(str::to_owned),
            port,
        };
        for (text, expected) in [
            ("0", Some(BindAddress::Off)),
            (":9643", Some(at(None, 9643))),
            (":0", Some(at(None, 0))),
            ("127.0.0.1:1", Some(at(Some("127.0.0.1"), 1))),
            ("localhost:65535", Some(at(Some("localhost"), 65_535))),
            ("[::1]:80", Some(at(Some("::1"), 80))),
            ("", None),
            ("9643", None),
            (":", None),
            (":65536", None),
            (":http", None),
            ("::1:80", None),
            ("[::1:80", None),
            ("http://a:80", None),
        ] {
            let parsed = text.parse::<BindAddress>();
            assert_eq!(parsed.as_ref().ok(), expected.as_ref(), "{text}");
            if let Ok(address) = parsed {
                assert_eq!(address.to_string(), text);
            }
        }
    }
}
