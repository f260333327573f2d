//! The command line and the environment.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStringExt as _,
    process::Command,
};

use clap::{CommandFactory as _, Parser as _};
use dependency_watchdog::cli::Cli;
use proptest::{prelude::*, sample::select};

use super::fuzz::fuzzed;

const ARGUMENTS: &[&str] = &[
    "prober",
    "weeder",
    "check",
    "convert",
    "explain",
    "restore",
    "--all",
    "-f",
    "-",
    "--kube-api-qps",
    "--kube-api-qps=0",
    "--kube-api-burst=-1",
    "--scale-qps=NaN",
    "--scale-burst=99999999999999999999",
    "--concurrent-reconciles=0",
    "--leader-elect-lease-duration=1h-5m",
    "--metrics-bind-addr=:99999",
    "--health-bind-addr=[::]:0",
    "--enable-leader-election=maybe",
    "--config-file",
    "--feature-gates",
    "--feature-gates=ExecProbeTimeout",
    "--leader-election-namespace=..",
    "shoot--a--b",
    "",
    "=",
    "--",
    "\u{202e}",
    "--kubeconfig",
    "1e400",
    "inf",
    "--leader-elect-renew-deadline=9999999999999999h",
];

fuzzed!(
    any_arguments_are_taken_or_refused,
    150,
    prop::collection::vec(select(ARGUMENTS), 0..7),
    |arguments| {
        let arguments = ["dependency-watchdog"]
            .iter()
            .chain(&arguments)
            .map(OsString::from);
        if let Err(error) = Cli::try_parse_from(arguments) {
            prop_assert!(!error.to_string().is_empty());
        }
        Ok(())
    }
);

/// A flag that takes a value.
#[derive(Clone, Debug)]
struct Flag {
    command: String,
    /// As it is written before the value.
    flag: String,
    /// The variable that means the same.
    variable: Option<OsString>,
}

/// Those of all commands.
fn flags() -> Vec<Flag> {
    let mut flags = Vec::new();
    for command in Cli::command().get_subcommands() {
        for argument in command.get_arguments() {
            if let (true, Some(long)) = (argument.get_action().takes_values(), argument.get_long())
            {
                flags.push(Flag {
                    command: command.get_name().to_owned(),
                    flag: format!("--{long}="),
                    variable: argument.get_env().map(OsStr::to_owned),
                });
            }
        }
    }
    assert!(flags.len() > 30, "{flags:?}");
    flags
}

fn value() -> impl Strategy<Value = OsString> {
    let odd = vec![
        "",
        " ",
        "0",
        "-0",
        "-1",
        "00",
        "1e400",
        "NaN",
        "inf",
        "-inf",
        "1e-400",
        "4294967296",
        "18446744073709551616",
        "true",
        "TRUE",
        "1s",
        "1h-5m",
        "24h0m0s1ms",
        "99999h99999h",
        "9999999999999999h",
        "0:0",
        ":",
        "::",
        "[::1]:0",
        "[",
        ":65536",
        ":-1",
        "..",
        "/",
        "-",
        "=",
        "a=b",
        ",",
        "info,",
        "[{",
        "x[y{z}]=trace",
        "off=off",
        "ExecProbeTimeout=",
        "json",
        "\u{202e}",
        "\n",
        "\u{1b}[31m",
    ];
    prop_oneof![
        4 => "\\PC{0,40}".prop_map(OsString::from),
        3 => select(odd).prop_map(OsString::from),
        1 => (1..100_000usize).prop_map(|length| OsString::from("9".repeat(length))),
        1 => prop::collection::vec(1..=u8::MAX, 0..20).prop_map(OsString::from_vec),
    ]
}

fuzzed!(
    any_value_of_a_flag_is_taken_or_refused,
    400,
    (select(flags()), value()),
    |(flag, value)| {
        let mut argument = OsString::from(&flag.flag);
        argument.push(&value);
        let command = OsString::from(&flag.command);
        let arguments = ["dependency-watchdog".into(), command, argument];
        if let Err(error) = Cli::try_parse_from(arguments) {
            // Which flag is wrong, unless something else is missing as well.
            let told = error.to_string();
            let named = told.contains(flag.flag.trim_end_matches('='));
            let other = told.contains("required") || told.contains("UTF-8");
            prop_assert!(named || other, "{}", told);
        }
        Ok(())
    }
);

fn variables() -> Vec<Flag> {
    let flags: Vec<Flag> = flags()
        .into_iter()
        .filter(|it| it.variable.is_some())
        .collect();
    assert!(flags.len() > 20, "{flags:?}");
    flags
}

fuzzed!(
    /// In a process of its own each, which finds no seed: a variable of this one would be one of all tests.
    any_environment_is_taken_or_refused,
    40,
    (select(variables()), value()),
    |(flag, value)| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dependency-watchdog"));
        command.arg(&flag.command).env_clear();
        for (other, value) in [
            ("--kubeconfig=", "/nowhere"),
            ("--metrics-bind-addr=", "0"),
            ("--health-bind-addr=", "0"),
        ] {
            let has = variables().iter().any(|it| it.command == flag.command && it.flag == other);
            if has && flag.flag != other {
                command.arg(format!("{other}{value}"));
            }
        }
        if ["explain", "restore"].contains(&&*flag.command) {
            command.arg("shoot--a--b");
        }
        command.env(flag.variable.as_ref().unwrap(), value);
        let output = command.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        prop_assert!(!told.contains("panicked"), "{}", told);
        // By itself, and not by a signal.
        prop_assert!(output.status.code().is_some_and(|code| code != 0), "{:?}", output);
        prop_assert!(told.contains("error"), "{}", told);
        Ok(())
    }
);
