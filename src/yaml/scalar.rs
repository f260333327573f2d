//! What a word of YAML 1.1 means, as go-yaml reads it, and so kubectl.

use super::{Text, Value};

/// What a plain word means.
pub(super) fn plain(word: &str) -> Value {
    match word {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Value::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Value::Bool(false)
        }
        ".nan" | ".NaN" | ".NAN" => Value::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Value::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Value::Float(f64::NEG_INFINITY),
        _ => number(word).unwrap_or_else(|| text(word)),
    }
}

/// A text that is no literal block.
pub(super) fn text(text: &str) -> Value {
    Value::Text(Text {
        text: text.to_owned(),
        literal: false,
    })
}

fn number(word: &str) -> Option<Value> {
    if !word.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-' | '.')) {
        return None;
    }
    // A number needs no more, and a longer word is not copied.
    if word.len() > 400 {
        return None;
    }
    let word = if word.starts_with('.') {
        word.to_owned()
    } else {
        word.replace('_', "")
    };
    if let Some(int) = integer(&word) {
        return Some(Value::Int(int));
    }
    if is_float(&word) {
        return word
            .parse()
            .ok()
            .filter(|it: &f64| it.is_finite())
            .map(Value::Float);
    }
    None
}

/// A whole number of 64 bits, with Go's prefixes: 0x, 0o, 0b, and 0 alone for octal.
fn integer(word: &str) -> Option<i128> {
    let (negative, digits) = match word.as_bytes().first()? {
        b'-' => (true, word.get(1..)?),
        b'+' => (false, word.get(1..)?),
        _ => (false, word),
    };
    let prefixed = |prefixes: [&str; 2]| prefixes.iter().find_map(|it| digits.strip_prefix(it));
    let (digits, radix) = if let Some(digits) = prefixed(["0x", "0X"]) {
        (digits, 16)
    } else if let Some(digits) = prefixed(["0o", "0O"]) {
        (digits, 8)
    } else if let Some(digits) = prefixed(["0b", "0B"]) {
        (digits, 2)
    } else if digits.len() > 1 && digits.starts_with('0') {
        (digits, 8)
    } else {
        (digits, 10)
    };
    if !digits.starts_with(|first: char| first.is_ascii_hexdigit()) {
        return None;
    }
    let value = i128::from(u64::from_str_radix(digits, radix).ok()?);
    let value = if negative { -value } else { value };
    (value >= i128::from(i64::MIN)).then_some(value)
}

/// Whether a word is a number with a point or an exponent, or one too great for a whole number.
fn is_float(word: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = word.strip_prefix(['-', '+']).unwrap_or(word);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let exponent = exponent.is_none_or(|it| {
        let it = it.strip_prefix(['-', '+']).unwrap_or(it);
        !it.is_empty() && digits(it)
    });
    let (whole, decimals) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let some = !whole.is_empty() || !decimals.is_empty();
    exponent && some && digits(whole) && digits(decimals)
}
