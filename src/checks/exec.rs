//! A command in a container, over a WebSocket through the API server.
//!
//! Nothing runs beside it: whoever has waited for long enough drops it, and the connection with it.
//! The process in the container outlives that: no API ends it. What comes before
//! the API server has taken the command is about the seed, and no evidence about the container.

use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::{api::AttachParams, core::Request};
use tokio::time::{MissedTickBehavior, interval};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Bytes, Message,
        protocol::{Role, WebSocketConfig},
    },
};

use super::{outcome::Outcome, pods::Chosen};
use crate::{
    runtime::seed::{CallError, Seed, is_for_lack_of_rights},
    util::text::clean,
};

/// The channel of the result, whose number precedes each of its messages. What the command writes
/// comes on others, and is dropped.
const STATUS: u8 = 3;

/// A command may say nothing for longer than what is between bears.
const PING: Duration = Duration::from_secs(60);
/// The API server sends what a command writes in pieces of 32 KiB; nobody is to fill our memory.
const MAX_MESSAGE: usize = 1 << 20;
/// Of what is read at once. Few commands write more.
const BUFFER: usize = 16 * 1024;
const MAX_CAUSE: usize = 300;

/// A command that the API server has taken.
pub(super) struct Command {
    chosen: Chosen,
    stream: WebSocketStream<TokioIo<Upgraded>>,
}

/// Has the API server take the command.
///
/// # Errors
///
/// If it does not: no evidence.
pub(super) async fn begin(
    seed: &Seed,
    namespace: &str,
    chosen: Chosen,
    command: &[String],
) -> Result<Command, Outcome> {
    let params = AttachParams::default().container(&chosen.container);
    let request = Request::new(format!("/api/v1/namespaces/{namespace}/pods"));
    let request = match request.exec(&chosen.pod, command, &params) {
        Ok(request) => request,
        Err(error) => return Err(not_run(&chosen, &error.to_string())),
    };
    let connection = match seed.call_at_turn(seed.client().connect(request)).await {
        Ok(connection) => connection.into_stream().into_inner(),
        Err(CallError::Refused(status)) => return Err(not_run(&chosen, &refusal(&status))),
        Err(error) => return Err(not_run(&chosen, &error.to_string())),
    };
    let config = WebSocketConfig::default()
        .read_buffer_size(BUFFER)
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE));
    let stream = WebSocketStream::from_raw_socket(connection, Role::Client, Some(config)).await;
    Ok(Command { chosen, stream })
}

impl Command {
    /// Waits for its end, without its timeout.
    ///
    /// # Errors
    ///
    /// If the API server does not say how it ended: the command may go on.
    pub(super) async fn end(self) -> Result<Outcome, Outcome> {
        let Self { chosen, mut stream } = self;
        let cut = |why: &str| Err(not_run(&chosen, why));
        let mut ping = interval(PING);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ping.reset();
        loop {
            let message = tokio::select! {
                message = stream.next() => message,
                _ = ping.tick() => {
                    match stream.send(Message::Ping(Bytes::new())).await {
                        Ok(()) => continue,
                        Err(error) => return cut(&error.to_string()),
                    }
                }
            };
            match message {
                Some(Ok(Message::Binary(message))) => {
                    if let Some((&STATUS, status)) = message.split_first() {
                        return Ok(ended(&chosen, status));
                    }
                }
                Some(Ok(Message::Close(_))) | None => {
                    return cut("the connection ended before the command did");
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return cut(&error.to_string()),
            }
        }
    }
}

/// It was not run, or nobody knows how it ended: that is no evidence.
fn not_run(chosen: &Chosen, why: &str) -> Outcome {
    let Chosen { pod, container } = chosen;
    let why = clean(why, MAX_CAUSE);
    Outcome::Unknown(format!(
        "the command could not be run in container {container} of pod {pod}: {why}"
    ))
}

fn refusal(status: &kube::core::Status) -> String {
    let remedy = match is_for_lack_of_rights(status) {
        true => {
            "; grant get and create on pods/exec to the operator's ServiceAccount, in the namespaces \
             of the control planes, as manifests/examples/exec-checks does"
        }
        false => "",
    };
    format!(
        "{} ({}){remedy}",
        clean(&status.message, MAX_CAUSE / 2),
        status.code
    )
}

/// What the API server says of a command that has ended.
fn ended(chosen: &Chosen, status: &[u8]) -> Outcome {
    let status: Status = match serde_json::from_slice(status) {
        Ok(status) => status,
        Err(error) => return not_run(chosen, &format!("the status cannot be read: {error}")),
    };
    if status.status.as_deref() == Some("Success") {
        return Outcome::Success;
    }
    match exit_code(&status) {
        Some(code) => Outcome::Failure(format!("the command ended with exit code {code}")),
        None => not_run(chosen, &status.message.unwrap_or_default()),
    }
}

/// The code of a command that has ended with another than 0.
fn exit_code(status: &Status) -> Option<i32> {
    if status.reason.as_deref() != Some("NonZeroExitCode") {
        return None;
    }
    let causes = status.details.as_ref()?.causes.as_ref()?;
    let cause = causes
        .iter()
        .find(|cause| cause.reason.as_deref() == Some("ExitCode"))?;
    cause.message.as_deref()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::checks::outcome::Said;

    fn chosen() -> Chosen {
        Chosen {
            pod: "etcd-main-0".to_owned(),
            container: "etcd".to_owned(),
        }
    }

    fn exit(code: &str) -> Value {
        json!({
            "status": "Failure", "reason": "NonZeroExitCode",
            "message": format!("command terminated with non-zero exit code: exit status {code}"),
            "details": {"causes": [{"reason": "ExitCode", "message": code}]},
        })
    }

    #[rstest]
    #[case::success(json!({"status": "Success", "metadata": {}}), Said::Yes, "it passed")]
    #[case::one(exit("1"), Said::No, "exit code 1")]
    #[case::not_found(exit("127"), Said::No, "exit code 127")]
    #[case::no_number(
        exit("x"),
        Said::Nothing,
        "could not be run in container etcd of pod etcd-main-0"
    )]
    #[case::internal(
        json!({"status": "Failure", "reason": "InternalError", "message": "no such\nfile"}),
        Said::Nothing,
        "pod etcd-main-0: no such file"
    )]
    #[case::empty(json!({}), Said::Nothing, "could not be run")]
    #[case::no_status(json!([]), Said::Nothing, "the status cannot be read")]
    fn ends(#[case] status: Value, #[case] said: Said, #[case] words: &str) {
        let outcome = ended(&chosen(), status.to_string().as_bytes());
        assert_eq!(outcome.said(), said, "{outcome}");
        assert!(outcome.to_string().contains(words), "{outcome}");
    }
}
