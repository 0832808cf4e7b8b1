//! What a client may receive: whole messages that are valid in its protocol, and nothing else.
//!
//! Written from the specifications alone, with nothing of the engine in it: a client's library that meets anything
//! else drops the line, and the call that it should have ended hangs.

use core::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

/// What a client speaks, as far as its own messages have shown it, and what it may receive for that.
#[derive(Clone, Debug, Default)]
pub struct ValidMessages {
    protocol: Protocol,
}

/// How strictly a message is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Not known yet: JSON-RPC 2.0, with or without an id in the error of what nobody could read.
    #[default]
    JsonRpc,
    /// MCP: results are objects, and so are parameters; ids are strings or whole numbers.
    Mcp(Revision),
    /// ACP: any result, and an id may be null.
    Acp,
    /// LSP: what JSON-RPC allows, without batches.
    Lsp,
    /// No protocol that is known here: whatever its server says passes.
    Unknown,
}

/// What differs between the revisions of MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Revision {
    /// 2024-11-05 and 2025-03-26: several messages may come as one.
    Batches,
    /// 2025-06-18: none may.
    Single,
    /// 2025-11-25 and after: the error of a message that nobody could read has no id, where it had null.
    NoNull,
}

impl ValidMessages {
    /// For a client whose protocol is known before it speaks.
    pub const fn of(protocol: Protocol) -> Self {
        Self { protocol }
    }

    /// The client says this.
    pub fn sent(&mut self, message: &str) {
        let Ok(message) = serde_json::from_str::<Value>(message) else { return };
        if message.is_object() && message.get("jsonrpc").is_none() {
            self.protocol = Protocol::Unknown;
            return;
        }
        let params = &message["params"];
        let version = match message["method"].as_str() {
            Some("initialize") => &params["protocolVersion"],
            Some(_) => &params["_meta"]["io.modelcontextprotocol/protocolVersion"],
            None => return,
        };
        let greets = message["method"] == "initialize";
        self.protocol = if let Some(revision) = version.as_str() {
            Protocol::Mcp(match revision {
                "2024-11-05" | "2025-03-26" => Revision::Batches,
                "2025-06-18" => Revision::Single,
                _ => Revision::NoNull,
            })
        } else if version.is_number() {
            Protocol::Acp
        } else if greets && params.get("processId").is_some() {
            Protocol::Lsp
        } else if greets {
            Protocol::Unknown
        } else {
            self.protocol
        };
    }

    /// What is wrong with a message that the client receives.
    ///
    /// # Errors
    ///
    /// The rule that it breaks, in words.
    pub fn check(&self, message: &str) -> Result<(), String> {
        check(self.protocol, message).map_err(|why| format!("no valid message ({:?}): {why}", self.protocol))
    }
}

/// What is wrong with a message of this protocol.
///
/// # Errors
///
/// The rule that it breaks, in words.
pub fn check(protocol: Protocol, message: &str) -> Result<(), String> {
    if protocol == Protocol::Unknown {
        return Ok(());
    }
    let may_be_batch = matches!(protocol, Protocol::JsonRpc | Protocol::Mcp(Revision::Batches));
    if !message.starts_with('[') {
        return check_one(protocol, message);
    }
    let batch: Vec<&RawValue> = serde_json::from_str(message).map_err(|error| error.to_string())?;
    if batch.is_empty() || !may_be_batch {
        return Err(if may_be_batch { "an empty batch" } else { "a batch" }.into());
    }
    batch.into_iter().try_for_each(|message| check_one(protocol, message.get()))
}

fn check_one(protocol: Protocol, message: &str) -> Result<(), String> {
    let message = Members::of(message)?;
    if message.string("jsonrpc").as_deref() != Some("2.0") {
        return Err("jsonrpc is not 2.0".into());
    }
    let (id, result, error) = (message.get("id"), message.get("result"), message.get("error"));
    match (message.get("method"), result, error) {
        (Some(_), None, None) => {
            message.string("method").ok_or("a method that is no string")?;
            id.map_or(Ok(()), |id| check_id(protocol, id))?;
            let lists = matches!(protocol, Protocol::JsonRpc | Protocol::Lsp);
            match message.get("params") {
                Some(params) if !(params.starts_with('{') || lists && params.starts_with('[')) => {
                    Err(format!("the params {params}"))
                }
                _ => Ok(()),
            }
        }
        (None, Some(result), None) => {
            check_id(protocol, id.ok_or("a result without an id")?)?;
            if matches!(protocol, Protocol::Mcp(_)) && !result.starts_with('{') {
                return Err(format!("the result {result}"));
            }
            Ok(())
        }
        (None, None, Some(error)) => {
            match id {
                None if matches!(protocol, Protocol::JsonRpc | Protocol::Mcp(Revision::NoNull)) => {}
                None => return Err("an error without an id".into()),
                Some("null") if protocol != Protocol::Mcp(Revision::NoNull) => {}
                Some(id) => check_id(protocol, id)?,
            }
            check_error(error)
        }
        (method, result, error) => {
            Err(format!("method: {}, result: {}, error: {}", method.is_some(), result.is_some(), error.is_some()))
        }
    }
}

fn check_id(protocol: Protocol, id: &str) -> Result<(), String> {
    match serde_json::from_str(id) {
        Ok(Value::String(_)) => Ok(()),
        Ok(Value::Null) if protocol == Protocol::Acp => Ok(()),
        Ok(Value::Number(number)) if number.is_i64() || number.is_u64() || protocol == Protocol::JsonRpc => Ok(()),
        _ => Err(format!("the id {id}")),
    }
}

fn check_error(error: &str) -> Result<(), String> {
    let error = Members::of(error)?;
    let code = error.get("code").ok_or("an error without a code")?;
    code.parse::<i64>().map_err(|_| format!("the code {code}"))?;
    error.string("message").ok_or("an error without a message")?;
    Ok(())
}

/// The members of one object in their order, names by their value.
pub(crate) struct Members<'a>(pub(crate) Vec<(String, &'a RawValue)>);

impl<'a> Members<'a> {
    /// Those of this text, each of which stands there once.
    fn of(text: &'a str) -> Result<Self, String> {
        let members: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        for (nth, (name, _)) in members.0.iter().enumerate() {
            if members.0[..nth].iter().any(|(other, _)| other == name) {
                return Err(format!("{name} stands twice"));
            }
        }
        Ok(members)
    }

    /// The text of the first of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(found, _)| found == name).map(|(_, value)| value.get())
    }

    fn string(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?).ok()
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;

        impl<'de> Visitor<'de> for All {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }

        deserializer.deserialize_map(All).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Protocol; 6] = [
        Protocol::JsonRpc,
        Protocol::Mcp(Revision::Batches),
        Protocol::Mcp(Revision::Single),
        Protocol::Mcp(Revision::NoNull),
        Protocol::Acp,
        Protocol::Lsp,
    ];

    #[test]
    fn what_no_protocol_allows_is_found_in_each() {
        for message in [
            "",
            "\u{feff}{}",
            "null",
            "[]",
            "{}",
            r#"{"jsonrpc":"2.0"}"#,
            r#"{"id":1,"result":{}}"#,
            r#"{"jsonrpc":2.0,"id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":true,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":[1],"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"x","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":"rate limited"}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"type":"overloaded"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":""}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":""}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":null}}"#,
            r#"{"jsonrpc":"2.0","method":7}"#,
            r#"{"jsonrpc":"2.0","method":"x","params":7}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"x":NaN}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}}{}"#,
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"x\":\"\t\"}}",
        ] {
            for protocol in ALL {
                assert!(check(protocol, message).is_err(), "{protocol:?}: {message}");
            }
        }
    }

    #[test]
    fn what_every_protocol_allows_passes_in_each() {
        for message in [
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":"","result":{"x":null}}"#,
            r#"{"jsonrpc":"2.0","id":-1,"error":{"code":-32603,"message":"","data":7}}"#,
            r#"{"jsonrpc":"2.0","id":18446744073709551615,"method":"x"}"#,
            r#" {"result" : {}, "id" : 0, "jsonrpc" : "2.0", "more": [] } "#,
            r#"{"jsonrpc":"2.0","method":"x","params":{}}"#,
        ] {
            for protocol in ALL {
                check(protocol, message).unwrap();
            }
        }
    }

    #[test]
    fn where_protocols_differ_so_does_what_is_valid() {
        let (batches, single, newest) =
            (Protocol::Mcp(Revision::Batches), Protocol::Mcp(Revision::Single), Protocol::Mcp(Revision::NoNull));
        let cases: [(&str, &[Protocol]); 7] = [
            (r#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#, &[Protocol::JsonRpc, batches]),
            (r#"{"jsonrpc":"2.0","id":1,"result":null}"#, &[Protocol::JsonRpc, Protocol::Acp, Protocol::Lsp]),
            (r#"{"jsonrpc":"2.0","id":null,"result":{}}"#, &[Protocol::Acp]),
            (r#"{"jsonrpc":"2.0","id":1.5,"result":{}}"#, &[Protocol::JsonRpc]),
            (r#"{"jsonrpc":"2.0","method":"x","params":[]}"#, &[Protocol::JsonRpc, Protocol::Lsp]),
            (r#"{"jsonrpc":"2.0","error":{"code":1,"message":""}}"#, &[Protocol::JsonRpc, newest]),
            (
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}"#,
                &[Protocol::JsonRpc, batches, single, Protocol::Acp, Protocol::Lsp],
            ),
        ];
        for (message, valid) in cases {
            for protocol in ALL {
                assert_eq!(check(protocol, message).is_ok(), valid.contains(&protocol), "{protocol:?}: {message}");
            }
        }
    }

    #[test]
    fn a_clients_own_messages_say_what_it_may_receive() {
        for (said, protocol) in [
            (r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}"#, ALL[1]),
            (r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#, ALL[2]),
            (r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#, ALL[3]),
            (r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#, ALL[4]),
            (r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"processId":null}}"#, ALL[5]),
            (r#"{"jsonrpc":"2.0","id":0,"method":"tools/list"}"#, ALL[0]),
            (r#"{"seq":1,"type":"request","command":"initialize"}"#, Protocol::Unknown),
        ] {
            let mut valid = ValidMessages::default();
            valid.sent(said);
            assert_eq!(valid.protocol, protocol, "{said}");
        }
    }
}
