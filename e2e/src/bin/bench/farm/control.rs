//! How the bench tells the farm what to do: lines of JSON over a socket in the run's directory.

use super::{clock::Micros, count::Count, death::Death};
use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::path::Path;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::UnixStream,
};

/// What the farm is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Order {
    /// Answer a [`Description`].
    Describe,
    /// The kubelets of these shoots reach nobody from then on.
    Cut { shoots: Vec<usize>, at: Micros },
    /// They do again from then on.
    Restore { shoots: Vec<usize>, at: Micros },
    /// These shoots' API servers are dead from now on.
    Kill { shoots: Vec<(usize, Death)> },
    /// Answer a [`Count`] of each shoot.
    Count,
}

/// What there is to know of a farm that has started.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Description {
    /// From which the phases of its kubelets count.
    pub(crate) started: Micros,
    /// The certificate of its authority, PEM.
    pub(crate) authority: String,
    /// Where its shoots listen on 127.0.0.1.
    pub(crate) ports: Vec<u16>,
}

/// A connection to a farm.
pub(crate) struct Control(BufReader<UnixStream>);

impl Control {
    /// Connects to a farm that listens there.
    pub(crate) async fn connect(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket).await;
        let stream = stream.with_context(|| format!("no farm at {}", socket.display()))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// What it is.
    pub(crate) async fn describe(&mut self) -> Result<Description> {
        self.ask(&Order::Describe).await
    }

    /// What each shoot was asked for so far.
    pub(crate) async fn count(&mut self) -> Result<Vec<Count>> {
        self.ask(&Order::Count).await
    }

    /// Cuts the kubelets of these shoots off.
    pub(crate) async fn cut(&mut self, shoots: &[usize], at: Micros) -> Result<()> {
        let shoots = shoots.to_vec();
        self.ask(&Order::Cut { shoots, at }).await
    }

    /// Lets them back.
    pub(crate) async fn restore(&mut self, shoots: &[usize], at: Micros) -> Result<()> {
        let shoots = shoots.to_vec();
        self.ask(&Order::Restore { shoots, at }).await
    }

    /// Lets the API servers of these shoots die.
    pub(crate) async fn kill(&mut self, shoots: &[(usize, Death)]) -> Result<()> {
        let shoots = shoots.to_vec();
        self.ask(&Order::Kill { shoots }).await
    }

    async fn ask<T: DeserializeOwned>(&mut self, order: &Order) -> Result<T> {
        let context = || format!("the farm did not answer {order:?}");
        send(&mut self.0, order).await.with_context(context)?;
        let answer = receive(&mut self.0).await.with_context(context)?;
        answer.with_context(context)
    }
}

/// Sends one value.
pub(super) async fn send<T: Serialize>(
    stream: &mut BufReader<UnixStream>,
    value: &T,
) -> Result<()> {
    let mut line = serde_json::to_string(value)?;
    line.push('\n');
    Ok(stream.write_all(line.as_bytes()).await?)
}

/// Receives one value; none at the end.
pub(super) async fn receive<T: DeserializeOwned>(
    stream: &mut BufReader<UnixStream>,
) -> Result<Option<T>> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(&line)?))
}
