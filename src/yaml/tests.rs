//! Meanings, places and limits.

use super::*;
use proptest::prelude::*;
use rstest::rstest;

fn read(text: &str) -> Vec<Rc<Node>> {
    documents(text).collect::<Result<_, _>>().unwrap()
}

fn one(text: &str) -> Rc<Node> {
    let mut read = read(text);
    assert_eq!(read.len(), 1, "{text}");
    read.remove(0)
}

fn refused(text: &str) -> YamlError {
    documents(text).find_map(Result::err).unwrap()
}

/// A node as JSON has it, which tells types apart.
fn plain(node: &Node) -> String {
    match &node.value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Float(value) => format!("{value:?}"),
        Value::Text(text) => format!("{:?}", text.text),
        Value::List(items) => {
            let items: Vec<_> = items.iter().map(|item| plain(item)).collect();
            format!("[{}]", items.join(","))
        }
        Value::Map(entries) => {
            let entry = |it: &Entry| format!("{:?}:{}", it.key, plain(&it.value));
            let entries: Vec<_> = entries.iter().map(entry).collect();
            format!("{{{}}}", entries.join(","))
        }
    }
}

// As `kubectl create --dry-run=client -o json` reads them.
#[rstest]
#[case("~", "null")]
#[case("on", "true")]
#[case("Y", "true")]
#[case("off", "false")]
#[case("oN", "\"oN\"")]
#[case("'on'", "\"on\"")]
#[case("10", "10")]
#[case("+10", "10")]
#[case("-0", "0")]
#[case("010", "8")]
#[case("08", "8.0")]
#[case("0o10", "8")]
#[case("0x1F", "31")]
#[case("0b11", "3")]
#[case("1_000", "1000")]
#[case("18446744073709551615", "18446744073709551615")]
#[case("18446744073709551616", "1.8446744073709552e19")]
#[case("-9223372036854775809", "-9.223372036854776e18")]
#[case("1.5", "1.5")]
#[case("1e3", "1000.0")]
#[case(".5", "0.5")]
#[case("1.", "1.0")]
#[case("-.5", "-0.5")]
#[case("1e", "\"1e\"")]
#[case(".", "\".\"")]
#[case("--1", "\"--1\"")]
#[case("1e999", "\"1e999\"")]
#[case(".inf", "inf")]
#[case(".nan", "NaN")]
#[case("30s", "\"30s\"")]
#[case("60%", "\"60%\"")]
#[case("2001-01-01", "\"2001-01-01\"")]
#[case("1:30", "\"1:30\"")]
#[case("!!str 1", "\"1\"")]
#[case("!!float 1", "1.0")]
#[case("!!int '1'", "1")]
#[case("!Ref x", "\"x\"")]
fn words_mean_what_they_mean_to_kubectl(#[case] word: &str, #[case] meaning: &str) {
    assert_eq!(
        plain(one(&format!("- {word}")).items()[0].as_ref()),
        meaning
    );
}

#[rstest]
#[case::quoted("'a b': 1", r#"{"a b":1}"#)]
#[case::number("1_0: 1", r#"{"10":1}"#)]
#[case::boolean("on: 1", r#"{"true":1}"#)]
#[case::alias("{a: &x b, *x : 1}", r#"{"a":"b","b":1}"#)]
#[case::merged(
    "a: &a {x: 1, z: 2}\nb: {<<: *a, z: 3}",
    r#"{"a":{"x":1,"z":2},"b":{"x":1,"z":3}}"#
)]
#[case::merged_after(
    "- &a {x: 1, z: 2}\n- {z: 3, <<: *a, w: 4}",
    r#"[{"x":1,"z":2},{"z":2,"x":1,"w":4}]"#
)]
#[case::merged_in_what_is_merged("<<: {x: 1, <<: {x: 2, z: 3}}", r#"{"x":2,"z":3}"#)]
#[case::merged_one_after_the_other("<<: {x: 1}\n<<: {x: 2}", r#"{"x":2}"#)]
#[case::list_merged_after("x: 0\n<<: [{x: 1}, {x: 2}]", r#"{"x":1}"#)]
#[case::twice_and_merged("x: 0\n<<: {x: 1}\nx: 2", r#"{"x":1,"x":2}"#)]
#[case::merged_twice(
    "- &a {x: 1}\n- &b {x: 2, z: 2}\n- <<: [*a, *b]",
    r#"[{"x":1},{"x":2,"z":2},{"x":1,"z":2}]"#
)]
#[case::no_merge("'<<': 1", r#"{"<<":1}"#)]
#[case::twice("a: 1\na: 2", r#"{"a":1,"a":2}"#)]
#[case::json("{\n\t\"a\":\t\"x\\/\\u00e9\\ud83d\\ude00\"}", r#"{"a":"x/é😀"}"#)]
#[case::byte_order_mark("\u{feff}a: 1", r#"{"a":1}"#)]
#[case::carriage_returns("a: 1\r\nb: 2\r\n", r#"{"a":1,"b":2}"#)]
fn mappings(#[case] text: &str, #[case] meaning: &str) {
    assert_eq!(plain(&one(text)), meaning);
}

#[test]
fn documents_are_told_apart_up_to_the_first_that_is_broken() {
    let read: Vec<_> = documents("a: 1\n---\n---\nb: 2\n...\n---\nc: [\n---\nd: 4").collect();
    let told: Vec<_> = read
        .iter()
        .map(|it| it.as_ref().map(|it| plain(it)).map_err(|it| it.place.line))
        .collect();
    let meant = [r#"{"a":1}"#, "null", r#"{"b":2}"#].map(|it| Ok(it.to_owned()));
    assert_eq!(told[..3], meant);
    assert!(matches!(told[3..], [Err(7 | 8)]), "{told:?}");
}

#[test]
fn nothing_is_no_document() {
    assert!(read("").is_empty());
    assert!(read("# only a comment\n").is_empty());
}

#[rstest]
#[case::key_and_value("a:\n  ä: x", "ä", 2, 6)]
#[case::item("a:\n- x\n- {b: c}", "b", 3, 7)]
fn places(#[case] text: &str, #[case] key: &str, #[case] line: usize, #[case] column: usize) {
    fn find(node: &Node, key: &str) -> Option<Place> {
        let below = node
            .entries()
            .iter()
            .map(|it| &it.value)
            .chain(node.items());
        let here = node.get(key).map(|it| it.place);
        here.or_else(|| below.into_iter().find_map(|it| find(it, key)))
    }
    assert_eq!(find(&one(text), key), Some(Place { line, column }));
}

#[rstest]
#[case::literal("data:\n  x: |\n    a: 1\n    b: 2\n", (4, 8))]
#[case::blanks_before("data:\n  x: |\n\n    # é\n    b: 2\n", (5, 8))]
#[case::told_indentation("data:\n  x: |2-\n      a: 1\n    # z\n\n      b: 2\n", (6, 10))]
#[case::carriage_returns("data:\r\n  x: |\r\n    a: 1\r\n    b: 2\r\n", (4, 8))]
#[case::folded("data:\n  x: >\n    {a: 1,\n    b: 2}\n", (3, 5))]
#[case::quoted("data:\n  x: \"a: 1\\nb: 2\"\n", (2, 6))]
fn a_place_in_a_text_is_one_in_its_file(
    #[case] file: &str,
    #[case] (line, column): (usize, usize),
) {
    let node = one(file);
    let node = node.get("data").unwrap().get("x").unwrap();
    let embedded = Embedded::of(file, node).unwrap();
    let inner = one(embedded.text);
    let place = embedded.shift().place(inner.get("b").unwrap().place);
    assert_eq!(place, Place { line, column });
}

#[rstest]
#[case::unclosed("a: [1,", "unclosed")]
#[case::document_without_a_beginning("a: 1\n...\nb: 2", "must begin with ---")]
#[case::unknown_alias("a: *b", "unknown anchor")]
#[case::alias_of_itself("a: &x [*x]", "an alias of what it stands in")]
#[case::key_of_a_list("[a]: 1", "a key must be a string")]
#[case::tag("a: !!int x", "not what its tag says")]
#[case::merge_of_a_text("<<: x", "<< takes mappings")]
fn refuses(#[case] text: &str, #[case] reason: &str) {
    let error = refused(text);
    assert!(error.message.contains(reason), "{error}");
}

#[test]
fn aliases_do_not_multiply() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let before = format!("*a{}", level - 1);
        let items = [before.as_str(); 10].join(", ");
        bomb += &format!("a{level}: &a{level} [{items}]\n");
    }
    assert!(refused(&bomb).message.contains("more than 500000 values"));
}

/// A key is copied where it stands, a value is not.
#[rstest]
#[case::keys("b:\n", "  ? *x\n  : 1\n")]
#[case::merged("m: &m\n  ? *x\n  : 1\nb:\n", "- {<<: *m}\n")]
fn texts_are_not_repeated_without_end(#[case] start: &str, #[case] repeated: &str) {
    let long = format!("a: &x '{}'\n{start}", "k".repeat(200_000));
    assert_eq!(read(&(long.clone() + &repeated.repeat(10))).len(), 1);
    let error = refused(&(long + &repeated.repeat(20_000)));
    assert!(error.message.contains("longer than 16 MiB"), "{error}");
}

#[rstest]
#[case::flow("[", "]")]
#[case::flow_mappings("{a: ", "}")]
#[case::block("- ", "")]
fn depth_is_limited(#[case] open: &str, #[case] close: &str) {
    let nested = |depth: usize| format!("{}x{}", open.repeat(depth), close.repeat(depth));
    assert_eq!(read(&nested(MAX_DEPTH)).len(), 1);
    refused(&nested(MAX_DEPTH + 1));
    refused(&nested(100_000));
}

#[test]
fn length_is_limited() {
    assert!(
        refused(&" ".repeat(MAX_BYTES + 1))
            .message
            .contains("longer than 16 MiB")
    );
}

#[test]
fn the_number_of_values_is_limited() {
    assert!(
        refused(&"- x\n".repeat(MAX_NODES + 1))
            .message
            .contains("more than")
    );
}

fn fragment() -> impl Strategy<Value = String> {
    const FRAGMENTS: &[&str] = &[
        "a",
        "b",
        ": ",
        "- ",
        "\n",
        "\n  ",
        "\n    ",
        "{",
        "}",
        "[",
        "]",
        ", ",
        "&x ",
        "*x ",
        "<<",
        "|",
        ">",
        "'",
        "\"",
        "\\",
        "# ",
        "---\n",
        "...\n",
        "!!str ",
        "!t ",
        "%YAML 1.2\n",
        "? ",
        "1",
        "~",
        "é",
        "\t",
        "\r\n",
        "\u{feff}",
        "\0",
    ];
    proptest::collection::vec(proptest::sample::select(FRAGMENTS), 0..40)
        .prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC*") {
        documents(&text).for_each(drop);
    }

    #[test]
    fn any_yaml_is_read_or_refused(text in fragment()) {
        for document in documents(&text).flatten() {
            prop_assert!(document.size <= MAX_NODES);
            let lines = text.split('\n').count();
            prop_assert!((1..=lines + 1).contains(&document.place.line), "{:?}", document.place);
            for entry in document.entries() {
                if let Some(embedded) = Embedded::of(&text, &entry.value) {
                    embedded.shift().place(Place { line: 1, column: 1 });
                }
            }
        }
    }

    #[test]
    fn a_literal_block_keeps_the_places_of_its_lines(
        before in 0..3usize, blanks in 0..3usize, indent in 1..6usize, after in "( [a-z]|[a-z]){0,4}",
    ) {
        let pad = " ".repeat(indent);
        let file = format!("{}x: |\n{}{pad}key: {after}v\n{pad}next: w\n", "# c\n".repeat(before), "\n".repeat(blanks));
        let node = one(&file);
        let embedded = Embedded::of(&file, node.get("x").unwrap()).unwrap();
        let inner = one(embedded.text);
        let place = embedded.shift().place(inner.entries()[1].place);
        prop_assert_eq!(place, Place { line: before + blanks + 3, column: indent + 1 });
    }
}
