//! What a list in protobuf means, as JSON: by a reader that has the messages from a table, and reads
//! each to its end before it looks at anything.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    MAGIC,
    schema::{Field, Kind},
};

/// What a field holds, as it is read.
enum Held<'a> {
    Number(i64),
    Bytes(&'a [u8]),
    Fixed,
}

impl<'a> Held<'a> {
    fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Held::Bytes(bytes) => Some(bytes),
            Held::Number(_) | Held::Fixed => None,
        }
    }

    fn number(self) -> Option<i64> {
        match self {
            Held::Number(number) => Some(number),
            Held::Bytes(_) | Held::Fixed => None,
        }
    }
}

/// The fields of a message; `None` if it is none.
fn fields(mut bytes: &[u8]) -> Option<Vec<(u32, Held<'_>)>> {
    fn number(bytes: &mut &[u8]) -> Option<u64> {
        let length = bytes.iter().position(|byte| byte & 0x80 == 0)? + 1;
        let (digits, rest) = bytes.split_at(length);
        *bytes = rest;
        let digit =
            |(place, byte): (usize, &u8)| u128::from(byte & 0x7f) << (7 * place as u32).min(100);
        let number: u128 = digits.iter().enumerate().map(digit).sum();
        (length <= 10).then_some(number as u64)
    }
    let mut found = vec![];
    while !bytes.is_empty() {
        let tag = number(&mut bytes)?;
        let length = match tag & 7 {
            0 => 0,
            1 => 8,
            5 => 4,
            2 => usize::try_from(number(&mut bytes)?).ok()?,
            _ => return None,
        };
        let held = match tag & 7 {
            0 => Held::Number(number(&mut bytes)?.cast_signed()),
            2 => Held::Bytes(bytes.get(..length)?),
            _ => bytes.get(..length).map(|_| Held::Fixed)?,
        };
        bytes = &bytes[length..];
        found.push((u32::try_from(tag >> 3).ok()?, held));
    }
    Some(found)
}

/// Takes in what a message says of an object; `None` if it cannot be read.
fn read(bytes: &[u8], schema: &[Field], object: &mut Map<String, Value>) -> Option<()> {
    for (number, held) in fields(bytes)? {
        let Some(Field(_, name, kind)) = schema.iter().find(|it| it.0 == number) else {
            continue;
        };
        let name = (*name).to_owned();
        let lossy = |bytes| Value::from(String::from_utf8_lossy(bytes));
        let said = match kind {
            Kind::Text => json!(str::from_utf8(held.bytes()?).ok()?),
            Kind::Lossy => lossy(held.bytes()?),
            Kind::Sticky => match held.bytes()? {
                b"" => continue,
                bytes => lossy(bytes),
            },
            Kind::Number => json!(held.number()?),
            Kind::Time => time(held.bytes()?)?,
            Kind::Json => {
                for (field, held) in fields(held.bytes()?)? {
                    if field == 1 {
                        let value = serde_json::from_slice::<Value>(held.bytes()?);
                        object.insert("unreadable".to_owned(), value.is_err().into());
                        object.insert(name.clone(), value.unwrap_or_default());
                    }
                }
                continue;
            }
            Kind::Message(schema) => {
                let inner = object.entry(name).or_insert_with(|| json!({}));
                read(held.bytes()?, schema, inner.as_object_mut()?)?;
                continue;
            }
            Kind::List(schema) => {
                let mut item = Map::new();
                read(held.bytes()?, schema, &mut item)?;
                if item.remove("unreadable") == Some(true.into()) {
                    item = Map::from_iter([("fieldsV1".to_owned(), owned())]);
                }
                let list = object.entry(name).or_insert_with(|| json!([]));
                list.as_array_mut()?.push(item.into());
                continue;
            }
            Kind::Map => {
                let mut entry = [&b""[..]; 2];
                for (field, held) in fields(held.bytes()?)? {
                    if let Some(part) = entry.get_mut((field as usize).wrapping_sub(1)) {
                        *part = held.bytes()?;
                    }
                }
                let [key, value] = entry.map(lossy);
                let map = object.entry(name).or_insert_with(|| json!({}));
                map.as_object_mut()?.insert(key.as_str()?.to_owned(), value);
                continue;
            }
        };
        object.insert(name, said);
    }
    Some(())
}

/// What stands for fields that cannot be read, without a time: they may be those of the first owner.
fn owned() -> Value {
    json!({"f:spec": {"f:renewTime": {}}})
}

fn time(bytes: &[u8]) -> Option<Value> {
    let (mut seconds, mut nanos) = (0, 0);
    for (field, held) in fields(bytes)? {
        match field {
            1 => seconds = held.number()?,
            2 => nanos = held.number()?,
            _ => {}
        }
    }
    let time = i32::try_from(nanos).ok();
    let time = time.and_then(|nanos| Timestamp::new(seconds, nanos).ok());
    let time = time.filter(|_| !bytes.is_empty());
    Some(time.map_or(Value::Null, |time| time.to_string().into()))
}

/// The list in JSON; `None` if it is no list that can be read.
pub(super) fn in_json(body: &[u8], schema: &[Field]) -> Option<Value> {
    let (mut kind, mut raw) = ("", None);
    for (field, held) in fields(body.strip_prefix(MAGIC)?)? {
        match field {
            1 => {
                for (field, held) in fields(held.bytes()?)? {
                    if field == 2 {
                        kind = str::from_utf8(held.bytes()?).ok()?;
                    }
                }
            }
            2 => raw = Some(held.bytes()?),
            3 if !held.bytes()?.is_empty() => return None,
            _ => {}
        }
    }
    let mut list = Map::from_iter([("kind".to_owned(), kind.into())]);
    list.insert("items".to_owned(), json!([]));
    read(raw?, schema, &mut list)?;
    Some(list.into())
}
