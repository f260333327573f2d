//! How much memory hostile input takes: each is read by a process of its own, whose peak is known.
//!
//! Bodies are made while they are sent, by a server in the same process.

use std::{
    collections::BTreeMap,
    fs,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use dependency_watchdog::{
    check::{MAX_BYTES, documents},
    cluster::LeaseRules,
    convert::convert,
    prober::{instruments::Instruments, lease_judge::LeaseJudge, nodes::Facts},
    runtime::admin::Admin,
    shoot::{
        Consistency, Dial, Item, Lease, LeaseRead, List, MAX_FIELD_BYTES, MAX_ITEMS, Node, Shoot,
        Unread, parse,
    },
    util::mono_time::MonoTime,
};
use fake::farm::wire::{Message, begun};
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, TcpStream},
    runtime::Runtime,
};
use tokio_util::task::AbortOnDropHandle;

use crate::support::{acceptor, authority, encoded, head, kubeconfig};

const MIB: u64 = 1024 * 1024;
const GIB: u64 = 1024 * MIB;
/// Far more than any of these takes.
const LONG: Duration = Duration::from_secs(120);

/// Runs the test that calls it in a process of its own, which may have so many MiB at its peak.
fn alone(mib: u64, run: impl FnOnce()) {
    let told = crate::support::alone(|| {
        run();
        println!("peak {} KiB", peak());
    });
    let Some(told) = told else { return };
    let peak = told
        .lines()
        .find_map(|it| it.split_once("peak ")?.1.strip_suffix(" KiB"));
    let peak: u64 = peak.unwrap().parse().unwrap();
    println!("{} MiB of {mib}", peak / 1024);
    assert!(
        peak / 1024 <= mib,
        "{} MiB, and {mib} are allowed",
        peak / 1024
    );
}

/// The most that was ever resident, in KiB.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";

/// What a server sends: a start, and then the same again and again.
#[derive(Clone, Default)]
struct Flood {
    start: Vec<u8>,
    again: Vec<u8>,
    bytes: u64,
}

impl Flood {
    /// A list of this item over and over, in so many bytes, none of which is told by the head.
    fn of(kind: &str, item: &Message, bytes: u64) -> Self {
        Self::within(kind, &[], &Message::default().bytes(2, item), bytes)
    }

    /// A list that begins so, in which this is said over and over in so many bytes.
    fn within(kind: &str, path: &[(u64, Message)], again: &Message, bytes: u64) -> Self {
        let again = again.as_ref();
        let bytes = bytes.next_multiple_of(again.len() as u64);
        Self {
            start: [HEAD, &begun(kind, path, bytes)].concat(),
            again: again.repeat((64 * 1024_usize).div_ceil(again.len())),
            bytes,
        }
    }
}

/// A shoot that answers every request so.
struct Hostile {
    shoot: Shoot,
    sent: Arc<AtomicU64>,
    _serving: AbortOnDropHandle<()>,
}

impl Hostile {
    async fn start(flood: Flood) -> Self {
        let ca = authority();
        let acceptor = acceptor(&ca);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let sent = Arc::new(AtomicU64::new(0));
        let counted = sent.clone();
        let serving = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, flood, sent) = (acceptor.clone(), flood.clone(), counted.clone());
                tokio::spawn(async move {
                    let Ok(mut stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    head(&mut stream).await;
                    let mut left = flood.bytes;
                    if stream.write_all(&flood.start).await.is_err() {
                        return;
                    }
                    while left > 0 {
                        let length = left.min(flood.again.len() as u64);
                        let piece = &flood.again[..usize::try_from(length).unwrap()];
                        if stream.write_all(piece).await.is_err() {
                            return;
                        }
                        sent.fetch_add(length, Ordering::Relaxed);
                        left -= length;
                    }
                    let _ = stream.flush().await;
                    let _ = stream.shutdown().await;
                });
            }
        });
        let access = parse(&kubeconfig(&url, &ca.pem(), &json!({"token": "t"}))).unwrap();
        Self {
            shoot: Shoot::new(access, &Dial::default()),
            sent,
            _serving: AbortOnDropHandle::new(serving),
        }
    }

    /// How much was sent that nobody may want.
    fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    async fn leases(&self, limit: Duration) -> Unread {
        self.shoot
            .leases(Consistency::Cached, limit)
            .await
            .unwrap_err()
    }

    async fn nodes(&self) -> Unread {
        self.shoot
            .list(Consistency::Cached, LONG, |_: Node| {})
            .await
            .unwrap_err()
    }
}

/// An object of this name.
fn named(name: &str) -> Message {
    Message::default().bytes(1, name)
}

fn block_on(run: impl Future<Output = ()>) {
    Runtime::new().unwrap().block_on(run);
}

#[test]
fn a_gigabyte_is_not_read() {
    alone(100, || {
        block_on(async {
            // So long that they are not too many before.
            let long = Message::default()
                .bytes(1, named("n"))
                .bytes(9, [0; 20_000]);
            let hostile = Hostile::start(Flood::of("LeaseList", &long, GIB)).await;
            let error = hostile.leases(LONG).await;
            let limit = format!("larger than {} bytes", Lease::MAX_BYTES);
            assert!(error.message.contains(&limit), "{error}");
            let most = Lease::MAX_BYTES as u64 + 32 * MIB;
            assert!(hostile.sent() < most, "{}", hostile.sent());
            let hostile = Hostile::start(Flood::of("NodeList", &long, GIB)).await;
            let error = hostile.nodes().await;
            let limit = format!("larger than {} bytes", Node::MAX_BYTES);
            assert!(error.message.contains(&limit), "{error}");
            assert!(hostile.sent() < GIB / 2, "{}", hostile.sent());
        });
    });
}

#[test]
fn many_nodes_and_leases_in_few_bytes_are_not_kept() {
    alone(150, || {
        block_on(async {
            let item = Message::default().bytes(1, named("n"));
            let leases = Flood::of("LeaseList", &item, 15 * MIB);
            let error = Hostile::start(leases).await.leases(LONG).await;
            assert!(error.message.contains("more than 10000 items"), "{error}");
            let nodes = Flood::of("NodeList", &item, 15 * MIB);
            let error = Hostile::start(nodes).await.nodes().await;
            assert!(error.message.contains("more than 10000 items"), "{error}");
            assert_eq!(error.reason, "Unreadable");
        });
    });
}

#[test]
fn what_is_listed_in_an_object_is_not_kept() {
    alone(100, || {
        block_on(async {
            // Larger than an object can be: managers that own no renewTime, and conditions.
            let (meta, owned) = (named("n").bytes(5, "u").bytes(6, "7"), named("{}"));
            let manager = Message::default().bytes(17, Message::default().bytes(7, owned));
            let status = (3, Message::default());
            let condition = Message::default().bytes(4, named("x").bytes(2, "True"));
            let nodes = [(2, Message::default().bytes(1, named("n"))), status];
            let leases = [(2, Message::default()), (1, meta)];
            let flood = Flood::within("LeaseList", &leases, &manager, 15 * MIB);
            let hostile = Hostile::start(flood).await;
            let read = hostile.shoot.leases(Consistency::Cached, LONG).await;
            assert_eq!(read.unwrap().list.items[0].stamp, None);
            // One that is as large, too.
            let one = [&nodes[..], &[(4, named("x").bytes(2, "True"))]].concat();
            let zeros = Message::default().bytes(6, [0; 60_000]);
            for (nodes, again, conditions) in [(&nodes[..], &condition, 16), (&one, &zeros, 0)] {
                let flood = Flood::within("NodeList", nodes, again, 100 * MIB);
                let hostile = Hostile::start(flood).await;
                let mut kept = Vec::new();
                let keep = |node: Node| kept.push(node.true_conditions.len());
                let read = hostile.shoot.list(Consistency::Cached, LONG, keep).await;
                assert!(read.unwrap().1 > 100 << 20);
                assert_eq!(kept, [conditions]);
            }
        });
    });
}

/// What is kept of a shoot's leases and Nodes, for as long as it is probed, is little, whatever is in
/// them: as many as are taken, with the longest names, and Nodes that have no lease.
#[test]
fn many_full_lists_are_kept_in_little() {
    const SHOOTS: usize = 20;
    alone(300, || {
        let name = |what: &str, number: usize| format!("{what}{number:0>252}");
        let lease = |number: usize| {
            json!({
                "metadata": {
                    "name": name("l", number), "uid": format!("{number:0>1000}"),
                    "resourceVersion": "7",
                },
                "spec": {"renewTime": "2026-11-20T11:02:33.123456Z"},
            })
        };
        let leases: Vec<Value> = (0..MAX_ITEMS).map(lease).collect();
        let leases = json!({
            "kind": "LeaseList", "metadata": {"resourceVersion": "7"}, "items": leases,
        });
        let node = |what| move |number| json!({"metadata": {"name": name(what, number)}});
        let nodes = (0..MAX_ITEMS - 1).map(node("n"));
        let nodes: Vec<Value> = nodes.chain([node("l")(0)]).collect();
        let nodes = json!({
            "kind": "NodeList", "metadata": {"resourceVersion": "7"}, "items": nodes,
        });
        let [leases, nodes] = [leases, nodes].map(|list| encoded(&list));
        let kept: Vec<LeaseJudge> = (0..SHOOTS)
            .map(|_| {
                let list = List::<Lease>::decode(&leases).unwrap();
                let mut watch = LeaseJudge::new(LeaseRules::default());
                watch.observe(&LeaseRead {
                    started: MonoTime::from_nanos(0),
                    finished: MonoTime::from_nanos(1),
                    date: None,
                    consistency: Consistency::Consistent,
                    bytes: 0,
                    list,
                });
                let mut facts = Facts::new(MonoTime::from_nanos(1));
                for node in List::<Node>::decode(&nodes).unwrap().items {
                    facts.take_node(&node, &BTreeMap::new());
                }
                watch.learn(&facts);
                watch
            })
            .collect();
        for watch in kept {
            assert_eq!(watch.leases().iter().count(), MAX_ITEMS);
        }
    });
}

/// Of a list that is coming no more than one field is kept.
#[test]
fn many_large_lists_at_once_take_little() {
    alone(100, || {
        block_on(async {
            let condition = named(&"x".repeat(64)).bytes(2, "True");
            let status = Message::default().all(4, vec![condition; 50]);
            let node = Message::default()
                .bytes(1, named("n"))
                .bytes(3, status)
                .bytes(9, [0; 9_000]);
            let flood = Flood::of("NodeList", &node, 120 * MIB);
            let hostile = join_all((0..12).map(|_| Hostile::start(flood.clone()))).await;
            let reads = hostile
                .iter()
                .map(|it| it.shoot.list(Consistency::Cached, LONG, |_: Node| {}));
            for read in join_all(reads).await {
                assert!(read.unwrap().1 > 100 << 20);
            }
        });
    });
}

#[test]
fn answers_without_end_are_given_up() {
    alone(100, || {
        block_on(async {
            let endless = |start: &str, again: &str| Flood {
                start: format!("HTTP/1.1 200 OK\r\n{start}").into_bytes(),
                again: again.as_bytes().to_vec(),
                bytes: u64::MAX,
            };
            let chunked = "Transfer-Encoding: chunked\r\n\r\n";
            for (case, flood) in [
                ("a header", endless("X: ", &"x".repeat(4096))),
                ("headers", endless("", &"X: y\r\n".repeat(100))),
                (
                    "the extension of a chunk",
                    endless(&format!("{chunked}1;"), &"x".repeat(4096)),
                ),
                (
                    "chunks of nothing but extensions",
                    endless(chunked, "1;xxxxxxxxxxxxxxx\r\nx\r\n"),
                ),
                (
                    "trailers",
                    endless(&format!("{chunked}0\r\n"), &"X: y\r\n".repeat(100)),
                ),
            ] {
                // By what it is, not since the time is up.
                let hostile = Hostile::start(flood).await;
                let error = hostile.leases(LONG).await;
                assert!(
                    error.to_string().starts_with("cannot list the leases"),
                    "{case}: {error}"
                );
                assert_ne!(error.reason, "Timeout", "{case}: {error}");
                assert!(hostile.sent() < GIB, "{case}");
            }
            // Any number of these may come before an answer.
            let interim = Flood {
                start: vec![],
                again: b"HTTP/1.1 102 Processing\r\n\r\n".repeat(100),
                bytes: u64::MAX,
            };
            let hostile = Hostile::start(interim).await;
            let error = hostile.leases(Duration::from_secs(5)).await;
            assert!(
                error.to_string().starts_with("cannot list the leases"),
                "{error}"
            );
            assert_eq!(error.reason, "Timeout", "{error}");
        });
    });
}

#[test]
fn deep_nesting_is_refused() {
    alone(150, || {
        block_on(async {
            // What a manager owns is JSON.
            for (start, again) in [("", "["), (r#"{"f:spec":"#, r#"{"f:spec":"#)] {
                let deep = format!("{start}{}", again.repeat(MAX_FIELD_BYTES / 2 / again.len()));
                let manager = Message::default().bytes(7, named(&deep));
                let meta = named("n").bytes(5, "u").bytes(6, "7").bytes(17, manager);
                let item = Message::default().bytes(1, meta);
                let flood = Flood::of("LeaseList", &item, 1);
                let hostile = Hostile::start(flood).await;
                let read = hostile
                    .shoot
                    .leases(Consistency::Cached, LONG)
                    .await
                    .unwrap();
                assert_eq!(read.list.items[0].stamp, None);
            }
        });
        for (open, depth) in [
            ("[", 100_000),
            ("{a: ", 30_000),
            ("- ", 100_000),
            ("? ", 100_000),
        ] {
            let text = open.repeat(depth);
            assert!(parse(text.as_bytes()).is_err());
            assert!(documents(&text).is_err());
        }
    });
}

/// An anchor that holds nine of the one before, and so on: a few bytes that mean a billion.
fn laughs(levels: usize) -> String {
    let mut text = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for level in 1..levels {
        let below = vec![format!("*a{}", level - 1); 9].join(", ");
        text += &format!("a{level}: &a{level} [{below}]\n");
    }
    text
}

#[test]
fn files_do_not_multiply() {
    alone(300, || {
        for levels in [5, 6, 7, 10, 30] {
            let text = laughs(levels);
            assert!(parse(text.as_bytes()).is_err());
            assert!(convert(&text, "default").is_err());
        }
        // One long text, again and again.
        let long = format!(
            "a: &a {}\nb:\n{}",
            "x".repeat(100_000),
            "- *a\n".repeat(30_000)
        );
        assert!(parse(long.as_bytes()).is_err());
        assert!(documents(&long).is_err());
        let long = format!(
            "kind: Config\nusers: &a [{{name: {}}}]\n",
            "x".repeat(100_000)
        );
        let merged = format!("{long}clusters:\n{}", "- {<<: *a}\n".repeat(10_000));
        assert!(parse(merged.as_bytes()).is_err());
        // The largest file that is read at all, filled with what is said in the fewest bytes.
        let fill = |unit: &str| unit.repeat(MAX_BYTES / unit.len() - 1);
        assert!(documents(&format!("[{}", fill("{},"))).is_err());
        assert!(documents(&fill("a: b\n---\n")).is_err());
    });
}

/// Whoever reaches the ports for metrics and health may send whatever they like.
#[test]
fn a_gigabyte_for_the_endpoints_is_not_kept() {
    alone(60, || {
        block_on(async {
            let (_, registry) = Instruments::new();
            let (here, shown) = ("127.0.0.1:0", (registry, Default::default()));
            let admin = Admin::bind(here, here, shown).await.unwrap();
            let address = admin.addresses()[0];
            let _serving = AbortOnDropHandle::new(tokio::spawn(admin.run()));
            let begin = "GET /metrics HTTP/1.1\r\nHost: x\r\n";
            let chunked = format!("{begin}Transfer-Encoding: chunked\r\n\r\n");
            let body = format!("{begin}Content-Length: {GIB}\r\n\r\n");
            for (case, start, again) in [
                ("a path", "GET /", "x"),
                ("a header", &*format!("{begin}X: "), "x"),
                ("headers", begin, "X: y\r\n"),
                ("a body", &*body, "x"),
                ("chunks", &*chunked, "1\r\nx\r\n"),
                ("the extension of a chunk", &*format!("{chunked}1;"), "x"),
                ("empty lines", "", "\r\n"),
                ("nothing that is HTTP", "", "\0"),
            ] {
                let mut stream = TcpStream::connect(address).await.unwrap();
                stream.write_all(start.as_bytes()).await.unwrap();
                let piece = again.repeat(64 * 1024 / again.len());
                let mut sent = 0;
                while sent < GIB && stream.write_all(piece.as_bytes()).await.is_ok() {
                    sent += piece.len() as u64;
                }
                assert!(sent < GIB, "{case}: all of it was taken");
            }
        });
    });
}
