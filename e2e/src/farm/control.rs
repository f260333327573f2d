//! How a farm is started and told what to do: lines of JSON over a socket in the run's directory.

use crate::{
    Process,
    wait::{self, Look},
};
use anyhow::{Context as _, Result};
use fake::farm::{Count, Death, Micros};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{path::Path, time::Duration};
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
    /// The first so many kubelets of these shoots reach nobody from then on.
    Cut {
        shoots: Vec<usize>,
        nodes: usize,
        at: Micros,
    },
    /// They do again from then on.
    Restore { shoots: Vec<usize>, at: Micros },
    /// These shoots' API servers are dead from now on; nobody writes to them from then on.
    Kill {
        shoots: Vec<(usize, Death)>,
        at: Micros,
    },
    /// Answer a [`Count`] of each shoot.
    Count,
}

/// What there is to know of a farm that has started.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Description {
    /// From which the phases of its kubelets count.
    pub started: Micros,
    /// The certificate of its authority, PEM.
    pub authority: String,
    /// Where its shoots listen on 127.0.0.1.
    pub ports: Vec<u16>,
}

/// Starts a farm in a process of its own: this program once more, whose command `farm` calls
/// [`run`](super::run). It ends with the process that is returned.
pub async fn start(
    root: &Path,
    name: &str,
    shoots: usize,
    nodes: usize,
    lease: Duration,
) -> Result<(Process, Control, Description)> {
    let socket = root.join(format!("{name}.socket"));
    let process = Process::new(name, std::env::current_exe()?, root)
        .args(["farm".as_ref(), "--socket".as_ref(), socket.as_os_str()])
        .args([
            format!("--shoots={shoots}"),
            format!("--nodes={nodes}"),
            format!("--lease-seconds={}", lease.as_secs()),
        ]);
    process.start()?;
    let mut control = wait::until("the farm to take orders", async || {
        process.ensure_running()?;
        Ok(Look::Met(Control::connect(&socket).await?))
    })
    .await?;
    let description = control.describe().await?;
    Ok((process, control, description))
}

/// A connection to a farm.
pub struct Control(BufReader<UnixStream>);

impl Control {
    /// Connects to a farm that listens there.
    pub async fn connect(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket).await;
        let stream = stream.with_context(|| format!("no farm at {}", socket.display()))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// What it is.
    pub async fn describe(&mut self) -> Result<Description> {
        self.ask(&Order::Describe).await
    }

    /// What each shoot was asked for so far.
    pub async fn count(&mut self) -> Result<Vec<Count>> {
        self.ask(&Order::Count).await
    }

    /// Cuts the first so many kubelets of each of these shoots off.
    pub async fn cut(&mut self, shoots: &[usize], nodes: usize, at: Micros) -> Result<()> {
        let shoots = shoots.to_vec();
        self.ask(&Order::Cut { shoots, nodes, at }).await
    }

    /// Lets them back.
    pub async fn restore(&mut self, shoots: &[usize], at: Micros) -> Result<()> {
        let shoots = shoots.to_vec();
        self.ask(&Order::Restore { shoots, at }).await
    }

    /// Lets the API servers of these shoots die, to which nobody writes from then on.
    pub async fn kill(&mut self, shoots: &[(usize, Death)], at: Micros) -> Result<()> {
        let shoots = shoots.to_vec();
        self.ask(&Order::Kill { shoots, at }).await
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
