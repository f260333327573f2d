//! The ways in which a request fails.

use super::Reply;

/// A way in which a request fails, on whichever side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nothing listens.
    Refused,
    /// The connection is reset instead of an answer.
    Reset,
    /// No answer ever.
    Hang,
    /// This status, as API servers report it.
    Status(u16),
    /// 429 that asks to wait that many seconds.
    RetryAfter(u64),
    /// The answer ends in the middle of its body.
    Truncated,
    /// 200 with a page for people.
    Html,
    /// 200 with an object of another kind.
    WrongKind,
    /// 404, as API servers say it of a path that they do not serve.
    Unserved,
}

impl Failure {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::Refused,
        Self::Reset,
        Self::Hang,
        Self::Status(401),
        Self::Status(403),
        Self::Status(404),
        Self::Status(409),
        Self::Status(422),
        Self::Status(429),
        Self::RetryAfter(7),
        Self::Status(500),
        Self::Status(503),
        Self::Truncated,
        Self::Html,
        Self::WrongKind,
    ];

    /// The reply on a socket, in place of the good one. A refusal cannot be told by a server that
    /// listens: an orderly end comes closest.
    pub fn instead_of(self, good: Reply) -> Reply {
        match self {
            Self::Refused => Reply::close(),
            Self::Reset => Reply::reset(),
            Self::Hang => Reply::hang(),
            Self::Status(code) => Reply::status(code, reason(code), "scripted failure"),
            Self::RetryAfter(seconds) => Reply::status(429, "TooManyRequests", "scripted failure")
                .header("Retry-After", &seconds.to_string()),
            Self::Truncated => good.truncate_after(30),
            Self::Html => Reply::body(200, "text/html", "<html>Sign in</html>"),
            Self::WrongKind => Reply::json(200, &super::wrong_kind()),
            Self::Unserved => Reply::body(404, "text/plain", UNSERVED),
        }
    }
}

/// What API servers say of a path that they do not serve.
pub const UNSERVED: &str = "404 page not found\n";

/// The reason that API servers give beside a status code.
pub fn reason(code: u16) -> &'static str {
    match code {
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        _ => "Unknown",
    }
}
