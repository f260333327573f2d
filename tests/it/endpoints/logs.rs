//! What is logged of a whole run: transitions with their evidence, and no secret ever.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::support::{
    Failure, Garden, LONG, Read, World, alone, kubeconfig, put_kubeconfig, put_pod, put_slice,
    weed_policy,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tracing::Level;

const TOKEN: &str = "recognisable-token-4711";
const KEY: &str = "recognisable-key-0815";

/// The lines that are logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Takes the lines of this process.
    fn begin(level: Level) -> Self {
        let log = Self::default();
        let lines = log.clone();
        tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .with_env_filter(format!("dependency_watchdog={level}"))
            .with_writer(move || lines.clone())
            .init();
        log
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// The lines since the last time, by which they are forgotten.
    fn take(&self) -> Vec<Value> {
        let text = String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

/// Runs this in a process of its own: whether a line is logged depends on who else listens in the same process.
fn logged(story: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    alone(|| runtime.enable_all().build().unwrap().block_on(story));
}

/// The lines about this cluster with this reason.
fn with_reason<'a>(lines: &'a [Value], reason: &str) -> Vec<&'a Value> {
    lines
        .iter()
        .filter(|it| it["cluster"] == "a" && it["reason"] == reason)
        .collect()
}

#[test]
fn each_transition_is_one_line_with_its_evidence() {
    logged(async {
        let log = Log::begin(Level::INFO);
        let world = World::running(&["a", "b"]).await;
        world.reason("a", "Healthy").await;
        world.reason("b", "Healthy").await;
        world.clock.pass(Duration::from_secs(1)).await;
        log.take();
        world.clock.pass(2 * LONG).await;
        assert_eq!(log.take(), [] as [Value; 0], "healthy probes say nothing");

        world.shoot("a").silence(0);
        world.protection("a", "Active").await;
        world.clock.pass(2 * LONG).await;
        let lines = log.take();
        for (reason, level) in [("ScalingDown", "WARN"), ("Protected", "INFO")] {
            let [outage] = with_reason(&lines, reason)[..] else {
                panic!("{lines:?}");
            };
            assert_eq!(outage["level"], level);
            let message = outage["message"].as_str().unwrap();
            assert!(message.contains("4 of 4"), "{message}");
        }
        let wrote: Vec<_> = lines.iter().filter(|it| it["message"] == "wrote").collect();
        assert_eq!(wrote.len(), 3, "{lines:?}");
        let step = wrote[0]["step"].as_str().unwrap();
        assert!(step.starts_with("scale down from "), "{step}");
        assert!(
            wrote[0]["why"].as_str().unwrap().contains("4 of 4"),
            "{}",
            wrote[0]
        );

        world.shoot("a").renew();
        world.protection("a", "None").await;
        let lines = log.take();
        assert_eq!(with_reason(&lines, "Restored").len(), 1, "{lines:?}");

        // What fails again and again is told once.
        for read in [Read::Cached, Read::Consistent] {
            world.shoot("a").fail(read, Failure::Status(503));
        }
        world
            .seed
            .fail(Failure::Status(503), (0, usize::MAX), |call| {
                call.resource == "clusters" || call.resource.starts_with("clusterhealths/")
            });
        world.seed.end_watches("clusters");
        world.clock.pass(2 * LONG).await;
        let mut lines = log.take();
        // Marks fall.
        lines.retain(|line| line["message"] != "wrote");
        assert_eq!(with_reason(&lines, "ServerError").len(), 1, "{lines:?}");
        assert_eq!(
            lines.len(),
            4,
            "the shoot, its policy, the watch, the status: {lines:?}"
        );
    });
}

#[test]
fn no_secret_is_logged() {
    logged(async {
        let log = Log::begin(Level::TRACE);
        let mut world = World::new(&["a"]).await;
        let good = world.shoot("a").kubeconfig_with(TOKEN);
        let put = |world: &World, text: &[u8]| put_kubeconfig(&world.seed, "a", text);
        put(&world, &good);
        world.start();
        world.reason("a", "Healthy").await;
        for failure in Failure::ALL {
            world.shoot("a").fail(Read::Cached, failure);
            world.clock.pass(Duration::from_secs(15)).await;
        }
        world.shoot("a").heal();
        world.reason("a", "Healthy").await;
        world.shoot("a").silence(0);
        world.protection("a", "Active").await;
        world.shoot("a").renew();
        world.protection("a", "None").await;

        // The seed answers with anything but Secrets.
        for failure in Failure::ALL {
            let secrets = |call: &crate::support::Call| call.resource == "secrets";
            world.seed.fail(failure, (0, usize::MAX), secrets);
            world.seed.compact();
            world.seed.end_watches("secrets");
            world.clock.pass(LONG).await;
            world.seed.heal();
        }
        // A server that does not accept it, and kubeconfigs with mistakes right beside what is secret.
        world.shoot("a").accept("another");
        world.reason("a", "Unauthorized").await;
        let with_user = |user: Value| kubeconfig("https://127.0.0.1:1", "no certificate", &user);
        let encoded = STANDARD.encode(KEY);
        let text = String::from_utf8(good).unwrap();
        for bad in [
            with_user(json!({"token": TOKEN})),
            with_user(json!({"token": {TOKEN: TOKEN}})),
            with_user(json!({"token": [TOKEN]})),
            with_user(json!({"client-key-data": encoded, "client-certificate-data": encoded})),
            with_user(json!({"client-key-data": KEY, "client-certificate-data": KEY})),
            with_user(json!({"password": TOKEN, "username": KEY})),
            with_user(json!({"auth-provider": {"config": {"id-token": TOKEN}}})),
            text.replace("\"token\":", "\"token\": !").into_bytes(),
            text.replace("token\"", "token").into_bytes(),
            format!("{TOKEN}: [{KEY}").into_bytes(),
        ] {
            put(&world, &bad);
            world.clock.pass(Duration::from_secs(15)).await;
        }
        world.stop().await;

        let text = log.text();
        assert!(text.lines().count() > 50, "it says something");
        for secret in [TOKEN, KEY, &encoded, &STANDARD.encode(TOKEN)] {
            let line = text.lines().find(|line| line.contains(secret));
            assert_eq!(line, None);
        }
    });
}

/// One line for each window and each pod.
#[test]
fn the_weeder_says_what_it_does_and_why() {
    logged(async {
        let log = Log::begin(Level::INFO);
        let mut garden = Garden::new(&["a", "b", "c"]);
        garden.seed.put(&weed_policy("p", "etcd", "api"));
        for namespace in ["a", "b"] {
            put_slice(&garden.seed, namespace, "etcd", true);
        }
        put_slice(&garden.seed, "c", "etcd", false);
        put_pod(&garden.seed, "a", "api-1", "api", true);
        garden.start();
        garden
            .status_where("windows are open", |status| status["openWindows"] == 2)
            .await;
        let lines = log.take();
        let [opened, _, deleted, window] = &lines[..] else {
            panic!("{lines:#?}");
        };
        assert_eq!(window["reason"], "Recovery");
        assert_eq!(opened["message"], "the service is ready: a window opens");
        assert_eq!(
            (&opened["namespace"], &opened["service"]),
            (&json!("a"), &json!("etcd"))
        );
        for (field, expected) in [
            ("reason", "PodWeeded"),
            ("namespace", "a"),
            ("pod", "api-1"),
            ("policy", "p"),
        ] {
            assert_eq!(deleted[field], expected, "{deleted}");
        }

        put_slice(&garden.seed, "c", "etcd", true);
        garden.pass(2).await;
        let lines = log.take();
        let [recovered] = &lines[..] else {
            panic!("{lines:#?}");
        };
        assert_eq!(recovered["namespace"], "c");
        assert_eq!(recovered["seconds"], 60.0);

        garden.pass(55).await;
        assert_eq!(log.take(), Vec::<Value>::new());
        garden.change_policy(|policy| policy["spec"]["suspend"] = json!(true));
        garden.pass(2).await;
        let lines = log.take();
        let closed = lines
            .iter()
            .filter(|it| it["message"] == "the window closes");
        assert_eq!(closed.count(), 3, "{lines:#?}");
    });
}
