//! Shoots that send more than anybody can hold: each is told of, they take little memory, and a shoot
//! beside them is protected as ever.

use super::{Scenario, access::Bad};
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog::api::Protection;
use dependency_watchdog_e2e::{DEPENDENTS, Env, Kubeconfig, Operator, Seed};
use fake::farm::wire::{Message, begun};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::json;
use std::{fs, sync::Arc};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    },
};

/// The most that the operator may ever have resident, in MiB. The manifests allow it 1024. All that
/// was sent would be ten times that, and each body of a few MiB that a naive reader keeps would be more.
const MOST: u64 = 200;

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![e2e_hostile_shoots_take_little_memory_and_harm_nobody]
}

/// What a shoot sends to whoever asks for leases, and for anything else.
#[derive(Clone)]
struct Hostile {
    name: &'static str,
    reason: &'static str,
    says: [&'static str; 2],
    leases: Flood,
    others: Flood,
}

/// A start, and then the same over and over: so many MiB in all.
#[derive(Clone)]
struct Flood {
    start: Vec<u8>,
    again: Vec<u8>,
    mib: usize,
}

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\n";

impl Flood {
    /// A list of this item over and over.
    fn of(kind: &str, item: &Message, mib: usize) -> Self {
        let again = Message::default().bytes(2, item);
        let piece = again.as_ref().repeat(PIECE / again.as_ref().len());
        let start = begun(kind, &[], (mib * PIECES_PER_MIB * piece.len()) as u64);
        Self {
            start: [HEAD, b"\r\n", &start].concat(),
            again: piece,
            mib,
        }
    }
}

const PIECE: usize = 64 * 1024;
const PIECES_PER_MIB: usize = 16;

fn named(name: &str) -> Message {
    Message::default().bytes(1, Message::default().bytes(1, name))
}

/// A gigabyte of Nodes.
fn gigabyte_of_nodes() -> Flood {
    Flood::of("NodeList", &named("n").bytes(9, [0; 15_000]), 1024)
}

fn all_hostile() -> Vec<Hostile> {
    let hostile = |name, reason, says, leases| Hostile {
        name,
        reason,
        says,
        leases,
        others: gigabyte_of_nodes(),
    };
    let large = "TooLarge";
    vec![
        hostile(
            "gigabyte",
            large,
            ["larger than 16777216 bytes", "check what answers there"],
            Flood::of("LeaseList", &named("n").bytes(9, [0; 20_000]), 1024),
        ),
        hostile(
            "million",
            large,
            ["more than 10000 items", "5000 nodes"],
            Flood::of("LeaseList", &Message::default(), 15),
        ),
        hostile(
            "html",
            "Unreadable",
            ["no whole protobuf", "no proxy or login page"],
            Flood {
                start: [HEAD, b"\r\n"].concat(),
                again: b"<html>".repeat(10_000),
                mib: 15,
            },
        ),
        hostile(
            "header",
            "Unreachable",
            ["too large", "check that the API server runs"],
            // It begins within the head.
            Flood {
                start: HEAD.to_vec(),
                again: b"X: y\r\n".repeat(10_000),
                mib: 1024,
            },
        ),
    ]
}

/// One whose lease is silent, so that its Nodes are read, of which there is a gigabyte.
fn of_nodes(name: &'static str) -> Hostile {
    let meta = Message::default().bytes(1, "n").bytes(5, "u").bytes(6, "7");
    let renewed = Message::default().number(1, 1_795_172_553);
    let spec = Message::default().bytes(4, renewed);
    let lease = Message::default().bytes(1, meta).bytes(2, spec);
    let list = begun("LeaseList", &[(2, lease)], 0);
    Hostile {
        name,
        reason: "",
        says: ["list the nodes"; 2],
        leases: Flood {
            start: [HEAD, b"\r\n", &list].concat(),
            again: vec![],
            mib: 0,
        },
        others: gigabyte_of_nodes(),
    }
}

/// So many at once that their bodies together would not fit.
const OF_NODES: [&str; 6] = [
    "nodes-a", "nodes-b", "nodes-c", "nodes-d", "nodes-e", "nodes-f",
];

/// A server of such a shoot. It ends with this value.
struct Server {
    kubeconfig: String,
    _serving: JoinSet<()>,
}

impl Server {
    async fn start(hostile: Hostile) -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()])?;
        let certificate = certificate.signed_by(&key, &authority)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let server = format!("https://{}", listener.local_addr()?);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, hostile) = (acceptor.clone(), hostile.clone());
                connections.spawn(async move {
                    // Whoever does not want more ends the connection.
                    let _ = flood(acceptor, stream, &hostile).await;
                });
            }
        });
        let kubeconfig = Kubeconfig {
            server,
            certificate_authority: authority.pem().into_bytes(),
            user: "probe".to_owned(),
            token: "t".to_owned(),
        };
        Ok(Self {
            kubeconfig: kubeconfig.to_string(),
            _serving: serving,
        })
    }
}

async fn flood(acceptor: TlsAcceptor, stream: TcpStream, hostile: &Hostile) -> Result<()> {
    let mut stream = acceptor.accept(stream).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let asked = String::from_utf8_lossy(&head);
    let flood = match asked.contains("/leases") {
        true => &hostile.leases,
        false => &hostile.others,
    };
    stream.write_all(&flood.start).await?;
    for _ in 0..flood.mib * PIECES_PER_MIB {
        stream.write_all(&flood.again).await?;
    }
    stream.shutdown().await?;
    Ok(())
}

/// The most that a process has ever had resident, in MiB.
fn peak(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(kib.context("no VmHWM")?.parse::<u64>()? / 1024)
}

/// Waits until the operator says of each what is wrong with it.
async fn all_told(seed: &Seed, told: &[Bad]) -> Result<()> {
    for bad in told {
        match bad.reason {
            "" => bad.says_either(seed, &["TooLarge", "Timeout"]).await?,
            _ => bad.is_told(seed).await?,
        }
    }
    Ok(())
}

async fn e2e_hostile_shoots_take_little_memory_and_harm_nobody(env: Env) -> Result<()> {
    let seed = env.own_seed("hostile").await?;
    let operator = Operator::start(&seed, "prober", "prober", &[])?;
    let shoot = env
        .shoot("hostile")
        .dependents(DEPENDENTS)
        .on(&seed)
        .await?;
    let mut servers = Vec::new();
    let mut told = Vec::new();
    for hostile in all_hostile().into_iter().chain(OF_NODES.map(of_nodes)) {
        let server = Server::start(hostile.clone()).await?;
        let bad = Bad {
            name: hostile.name,
            data: Some(json!({"kubeconfig": server.kubeconfig})),
            reason: hostile.reason,
            says: hostile.says,
        };
        bad.create(&seed, "hostile", shoot.control_plane.kubeconfig_secret())
            .await?;
        servers.push(server);
        told.push(bad);
    }
    // What is sent is to be judged, however slow the machine.
    let patient = json!({"probeTimeout": "60s"});
    shoot.policy()?.with(&patient).apply().await?;
    shoot.is_found("Healthy").await?;
    all_told(&seed, &told).await?;
    shoot.cut_all();
    shoot.is_protected(Protection::Active).await?;
    shoot.restore_all();
    shoot.is_protected(Protection::None).await?;
    all_told(&seed, &told).await?;
    operator.process.ensure_running()?;
    let peak = peak(operator.process.pid().context("it has ended")?)?;
    tracing::info!("the operator has had {peak} MiB");
    println!(
        "the operator has had {peak} MiB at most, beside {} hostile shoots",
        told.len()
    );
    ensure!(peak <= MOST, "the operator has had {peak} MiB");
    Ok(())
}
