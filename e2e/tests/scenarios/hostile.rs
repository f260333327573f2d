//! Shoots that send more than anybody can hold: each is told of, they take little memory, and a shoot
//! beside them is protected as ever.

use super::{Scenario, access::Bad};
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog::api::Protection;
use dependency_watchdog_e2e::{DEPENDENTS, Env, Kubeconfig, Operator, Seed};
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
const MOST: u64 = 600;

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![e2e_hostile_shoots_take_little_memory_and_harm_nobody]
}

/// What a shoot sends to whoever asks for leases, and for anything else.
#[derive(Clone, Copy)]
struct Hostile {
    name: &'static str,
    reason: &'static str,
    says: [&'static str; 2],
    leases: Flood,
    others: Flood,
}

/// A start, and then the same over and over: so many MiB in all, and an end.
#[derive(Clone, Copy)]
struct Flood {
    start: &'static str,
    again: &'static str,
    mib: usize,
    end: &'static str,
}

const HEAD: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\n";
const LEASES: &str = r#"{"kind":"LeaseList","metadata":{"resourceVersion":"7"},"items":["#;
const NODES: &str = r#"{"kind":"NodeList","metadata":{"resourceVersion":"7"},"items":["#;
const NODE: &str =
    r#"{"metadata":{"name":"n"},"status":{"conditions":[{"type":"a","status":"True"}]}},"#;

/// A gigabyte of Nodes.
const GIGABYTE_OF_NODES: Flood = Flood {
    start: NODES,
    again: NODE,
    mib: 1024,
    end: "{}]}",
};

fn all_hostile() -> Vec<Hostile> {
    let flood = |start, again, mib, end| Flood {
        start,
        again,
        mib,
        end,
    };
    let hostile = |name, reason, says, leases| Hostile {
        name,
        reason,
        says,
        leases,
        others: GIGABYTE_OF_NODES,
    };
    let lease = r#"{"metadata":{"name":"n","uid":"u","resourceVersion":"7"}},"#;
    let large = "TooLarge";
    vec![
        hostile(
            "gigabyte",
            large,
            ["larger than 16777216 bytes", "check what answers there"],
            flood(LEASES, lease, 1024, "{}]}"),
        ),
        hostile(
            "million",
            large,
            ["more than 10000 items", "5000 nodes"],
            flood(LEASES, "{},", 15, "{}]}"),
        ),
        hostile(
            "nested",
            "Unreadable",
            ["not whole JSON", "no proxy or login page"],
            flood("", "[", 15, ""),
        ),
        hostile(
            "header",
            "Unreachable",
            ["too large", "check the network"],
            // It begins within the head.
            flood("\u{0}", "X: y\r\n", 1024, ""),
        ),
    ]
}

/// One whose lease is silent, so that its Nodes are read, of which there is a gigabyte.
const fn of_nodes(name: &'static str) -> Hostile {
    Hostile {
        name,
        reason: "",
        says: ["list the nodes"; 2],
        leases: Flood {
            start: LEASES,
            again: "",
            mib: 0,
            end: r#"{"metadata":{"name":"n","uid":"u","resourceVersion":"7"},
                "spec":{"renewTime":"2026-11-20T11:02:33.123456Z"}}]}"#,
        },
        others: GIGABYTE_OF_NODES,
    }
}

/// So many at once that the memory for large answers does not do.
const OF_NODES: [Hostile; 6] = [
    of_nodes("nodes-a"),
    of_nodes("nodes-b"),
    of_nodes("nodes-c"),
    of_nodes("nodes-d"),
    of_nodes("nodes-e"),
    of_nodes("nodes-f"),
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
                let acceptor = acceptor.clone();
                connections.spawn(async move {
                    // Whoever does not want more ends the connection.
                    let _ = flood(acceptor, stream, hostile).await;
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

async fn flood(acceptor: TlsAcceptor, stream: TcpStream, hostile: Hostile) -> Result<()> {
    let mut stream = acceptor.accept(stream).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let asked = String::from_utf8_lossy(&head);
    let flood = match asked.contains("/leases") {
        true => hostile.leases,
        false => hostile.others,
    };
    let start = match flood.start.strip_prefix('\u{0}') {
        Some(start) => format!("{HEAD}{start}"),
        None => format!("{HEAD}\r\n{}", flood.start),
    };
    stream.write_all(start.as_bytes()).await?;
    let piece = flood.again.repeat(64 * 1024 / flood.again.len().max(1));
    for _ in 0..flood.mib * 16 {
        stream.write_all(piece.as_bytes()).await?;
    }
    stream.write_all(flood.end.as_bytes()).await?;
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
            "" => {
                bad.says_either(seed, &["TooLarge", "Crowded", "Timeout"])
                    .await?
            }
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
    for hostile in all_hostile().into_iter().chain(OF_NODES) {
        let server = Server::start(hostile).await?;
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
