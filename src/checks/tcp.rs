//! A connection over TCP, and what it says that there is none.

use std::{
    io::{self, ErrorKind},
    net::SocketAddr,
};

use tokio::net::TcpStream;

use super::outcome::Outcome;
use crate::util::text::clean;

/// Too many files are open in this process, or on this machine.
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;
/// There is no memory left for buffers.
const ENOBUFS: i32 = 105;
const MAX_CAUSE: usize = 120;

/// Connects to the first of these that takes the connection.
pub(super) async fn connect(addresses: &[SocketAddr]) -> Result<TcpStream, Outcome> {
    let mut refusal = None;
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            // One that cannot be reached from here, as IPv6 often cannot, hides no other's refusal.
            Err(error) => match (&refusal, refused(&error)) {
                (Some(Outcome::Failure(_)), Outcome::Unknown(_)) => {}
                (_, outcome) => refusal = Some(outcome),
            },
        }
    }
    Err(refusal.unwrap_or_else(|| Outcome::Unknown("there is no address".to_owned())))
}

/// What a connection that was not made says. What this side lacks is no evidence of the other.
fn refused(error: &io::Error) -> Outcome {
    let cause = clean(&error.to_string(), MAX_CAUSE);
    let ours = matches!(
        error.kind(),
        ErrorKind::NetworkDown
            | ErrorKind::NetworkUnreachable
            | ErrorKind::AddrNotAvailable
            | ErrorKind::AddrInUse
            | ErrorKind::PermissionDenied
            | ErrorKind::OutOfMemory
            | ErrorKind::Unsupported
    ) || matches!(error.raw_os_error(), Some(EMFILE | ENFILE | ENOBUFS));
    match ours {
        true => Outcome::Unknown(format!("no connection can be made from here: {cause}")),
        false => Outcome::Failure(format!("the connection failed: {cause}")),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::checks::outcome::Said;

    #[rstest]
    #[case::alone(&["255.255.255.255:1"], Said::Nothing)]
    #[case::first(&["255.255.255.255:1", "127.0.0.1:1"], Said::No)]
    #[case::last(&["127.0.0.1:1", "255.255.255.255:1"], Said::No)]
    #[tokio::test]
    async fn an_address_out_of_reach_hides_no_refusal(
        #[case] addresses: &[&str],
        #[case] expected: Said,
    ) {
        let addresses: Vec<SocketAddr> = addresses.iter().map(|it| it.parse().unwrap()).collect();
        let outcome = connect(&addresses).await.unwrap_err();
        assert_eq!(outcome.said(), expected, "{outcome}");
    }

    #[rstest]
    #[case::refused(111, Said::No)]
    #[case::reset(104, Said::No)]
    #[case::timed_out_by_the_kernel(110, Said::No)]
    #[case::no_route_to_host(113, Said::No)]
    #[case::network_unreachable(101, Said::Nothing)]
    #[case::network_down(100, Said::Nothing)]
    #[case::no_ports_left(99, Said::Nothing)]
    #[case::refused_by_our_firewall(1, Said::Nothing)]
    #[case::no_files_left(EMFILE, Said::Nothing)]
    #[case::no_files_left_anywhere(ENFILE, Said::Nothing)]
    #[case::no_memory(12, Said::Nothing)]
    #[case::no_buffers(ENOBUFS, Said::Nothing)]
    fn what_this_side_lacks_is_no_evidence(#[case] code: i32, #[case] expected: Said) {
        let outcome = refused(&io::Error::from_raw_os_error(code));
        assert_eq!(outcome.said(), expected, "{outcome}");
    }
}
