//! What comes over sockets: answers of HTTP of one who is checked, and what the API server tells of a command.

use std::{
    fmt::Display,
    sync::{Arc, Mutex},
};

use dependency_watchdog::checks::{CheckMetrics, outcome::Said};
use futures::SinkExt as _;
use proptest::{prelude::*, sample::select};
use serde_json::json;
use tokio::{io::AsyncWriteExt as _, runtime::Runtime};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Message, protocol::frame::coding::CloseCode};

use super::mutate::{changed, text};
use crate::support::{Activity, Target, api, check, exit, gone, head, once, runner};

/// What makes HTTP of text.
const HTTP: &[&str] = &[
    "",
    "\r\n",
    "\n",
    "\r\n\r\n",
    "\r",
    "\0",
    " ",
    ":",
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.0 200\r\n",
    "HTTP/2 200 OK\r\n",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.1 101 Switching Protocols\r\n",
    "204",
    "304",
    "301",
    "500",
    "999",
    "Content-Length: 0\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: -1\r\n",
    "Content-Length: 18446744073709551616\r\n",
    "Content-Encoding: gzip\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip, chunked\r\n",
    "0\r\n\r\n",
    "5\r\n",
    "ffffffffffffffff\r\n",
    "fffffffffffffffff\r\n",
    ";ext=1\r\n",
    "Location: /x\r\n",
    "Location: http://example.org/\r\n",
    "Location: //\r\n",
    "Connection: close\r\n",
    "Upgrade: websocket\r\n",
    "é",
    "\t",
];

fn answers() -> Vec<String> {
    [
        "200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "200 OK\r\n\r\nuntil it ends",
        "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n",
        "500 Internal Server Error\r\nContent-Length: 13\r\n\r\n[-]etcd failed",
    ]
    .map(|it| format!("HTTP/1.1 {it}"))
    .to_vec()
}

fn printable(told: &impl Display) -> bool {
    let told = told.to_string();
    told.chars().count() <= 700 && !told.chars().any(char::is_control)
}

#[test]
fn any_answer_to_a_check_is_a_result() {
    let runtime = Runtime::new().unwrap();
    let answer: Arc<Mutex<Vec<u8>>> = Arc::default();
    let shared = answer.clone();
    let target = runtime.block_on(Target::start(&Activity::default(), move |mut stream| {
        let answer = shared.clone();
        async move {
            head(&mut stream).await;
            let answer = answer.lock().unwrap().clone();
            let _ = stream.write_all(&answer).await;
            let _ = stream.shutdown().await;
            gone(&mut stream).await;
        }
    }));
    let action = json!({"service": "s", "port": target.address.port()});
    let check = check(json!({"httpGet": action, "timeoutSeconds": 20}));
    let runner = {
        let _in_runtime = runtime.enter();
        runner(None, "", CheckMetrics::default())
    };
    crate::untrusted::fuzz::fuzz(
        file!(),
        "any_answer_to_a_check_is_a_result",
        200,
        text(answers(), HTTP),
        |text| {
            *answer.lock().unwrap() = text.clone().into_bytes();
            let outcome = runtime.block_on(once(&runner, &check)).outcome;
            prop_assert!(printable(&outcome), "{}", outcome);
            // One that passes has answered, with a status that says so.
            let passed = outcome.said() == Said::Yes;
            let status = |it: &str| text.contains(&format!(" {it}"));
            prop_assert!(
                !passed || (200..400).any(|it| status(&it.to_string())),
                "{}",
                outcome
            );
            Ok(())
        },
    );
}

/// What is sent over a WebSocket.
#[derive(Clone, Debug)]
enum Sent {
    Message(u8, String),
    Text(String),
    Ping,
    Close,
    /// As it is, whatever frame that makes.
    Raw(Vec<u8>),
}

fn sent() -> impl Strategy<Value = Sent> {
    let status = changed(
        vec![
            exit(0),
            exit(7),
            json!({"status": "Failure", "message": "m"}),
        ],
        3,
    );
    prop_oneof![
        3 => (0..6u8, "\\PC{0,20}").prop_map(|(channel, text)| Sent::Message(channel, text)),
        3 => status.prop_map(|it| Sent::Message(3, it.text)),
        1 => "\\PC{0,20}".prop_map(Sent::Text),
        1 => select(vec![Sent::Ping, Sent::Close]),
        // Lengths of 2^63, reserved bits, a mask that servers do not use, a continuation of nothing.
        1 => select(vec![
            vec![0x82, 127, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            vec![0x82, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            vec![0xf2, 1, 0], vec![0x82, 0x81, 1, 2, 3, 4, 5], vec![0x80, 0], vec![0x89, 126, 1, 0],
        ]).prop_map(Sent::Raw),
        1 => prop::collection::vec(any::<u8>(), 0..20).prop_map(Sent::Raw),
    ]
}

#[test]
fn whatever_is_told_of_a_command_is_a_result() {
    let runtime = Runtime::new().unwrap();
    let script: Arc<Mutex<Vec<Sent>>> = Arc::default();
    let shared = script.clone();
    let pods = json!([{
        "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Running"},
    }]);
    let server = runtime.block_on(api(&Activity::default(), pods, move |_, mut socket| {
        let script = shared.lock().unwrap().clone();
        async move {
            for sent in script {
                let message = match sent {
                    Sent::Message(channel, text) => {
                        Message::Binary([&[channel], text.as_bytes()].concat().into())
                    }
                    Sent::Text(text) => Message::Text(text.into()),
                    Sent::Ping => Message::Ping(vec![0; 100].into()),
                    Sent::Close => Message::Close(Some(CloseFrame {
                        code: CloseCode::Away,
                        reason: "x".into(),
                    })),
                    Sent::Raw(bytes) => {
                        let _ = socket.get_mut().write_all(&bytes).await;
                        continue;
                    }
                };
                let _ = socket.send(message).await;
            }
            let _ = socket.get_mut().shutdown().await;
            gone(socket.get_mut()).await;
        }
    }));
    let action = json!({"podSelector": {"matchLabels": {"a": "b"}}, "command": ["x"]});
    let check = check(json!({"exec": action, "timeoutSeconds": 20}));
    let runner = {
        let _in_runtime = runtime.enter();
        runner(Some(&server), "", CheckMetrics::default())
    };
    crate::untrusted::fuzz::fuzz(
        file!(),
        "whatever_is_told_of_a_command_is_a_result",
        150,
        prop::collection::vec(sent(), 0..6),
        |sent| {
            *script.lock().unwrap() = sent.clone();
            let outcome = runtime.block_on(once(&runner, &check)).outcome;
            prop_assert!(printable(&outcome), "{}", outcome);
            let told = |words: &str| {
                sent.iter()
                    .any(|it| matches!(it, Sent::Message(3, text) if text.contains(words)))
            };
            // Neither a success nor a failure without a status that may have said so.
            let escaped = told("\\u");
            match outcome.said() {
                Said::Yes => prop_assert!(told("Success") || escaped, "{}", outcome),
                Said::No => prop_assert!(told("NonZeroExitCode") || escaped, "{}", outcome),
                Said::Nothing => {}
            }
            Ok(())
        },
    );
}
