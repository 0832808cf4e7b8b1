//! Names of members that a program may take for others.
//!
//! Some readers fold the case of names (Go's `encoding/json`, .NET for the web), some take `request_id` for `requestId` (the
//! models of Python's SDK), and of a name that stands there twice some take the first and some the last. Where a program has
//! one client, that is the client's affair. Where several share it, a message could be about one request here and about
//! another client's there. So what is sent there has each name that is read, here or by the protocol, to the letter and once.

use rescind_proto::{dialect::mcp, json};

/// Where in `_meta` a message names the task that it is about (TASK-10).
pub(crate) const RELATED: &str = "io.modelcontextprotocol/related-task";

/// What is read in an object of a message. What lies in its other members, such as arguments, is payload.
struct Read {
    names: &'static [&'static str],
    /// Which of those are objects that are read on.
    objects: &'static [(&'static str, &'static Self)],
}

const MESSAGE: Read =
    Read { names: &["jsonrpc", "id", "method", "params", "result", "error"], objects: &[("params", &PARAMS)] };

/// All that clients send, whatever the method.
const PARAMS: Read = Read {
    names: &[
        "_meta",
        "name",
        "arguments",
        "uri",
        "cursor",
        "requestId",
        "reason",
        "progressToken",
        "progress",
        "total",
        "message",
        "taskId",
        "task",
        "inputResponses",
        "requestState",
        "level",
        "ref",
        "argument",
        "context",
        "protocolVersion",
        "capabilities",
        "clientInfo",
        "sessionId",
        "notifications",
    ],
    objects: &[("_meta", &META), ("task", &TASK), ("ref", &REFERENCE), ("notifications", &LISTENING)],
};

const META: Read = Read {
    names: &[
        "progressToken",
        RELATED,
        mcp::VERSION_IN_META,
        "io.modelcontextprotocol/clientInfo",
        "io.modelcontextprotocol/clientCapabilities",
        "io.modelcontextprotocol/logLevel",
        "io.modelcontextprotocol/subscriptionId",
        "dev.rescind/deadlineMs",
        mcp::ABANDONABLE,
    ],
    objects: &[(RELATED, &TASK)],
};

const TASK: Read = Read { names: &["taskId", "ttl"], objects: &[] };

/// What `completion/complete` is about.
const REFERENCE: Read = Read { names: &["type", "name", "uri"], objects: &[] };

/// What a `subscriptions/listen` wants.
const LISTENING: Read = Read {
    names: &["toolsListChanged", "promptsListChanged", "resourcesListChanged", "resourceSubscriptions", "taskIds"],
    objects: &[],
};

/// Finds the name in a message that a reader may take for another, or that stands there twice. `None`: every reader reads
/// the same.
pub(crate) fn find(message: &[u8]) -> Option<String> {
    find_in(message, &MESSAGE)
}

fn find_in(object: &[u8], read: &Read) -> Option<String> {
    let mut seen = 0_u32;
    for member in json::members(object)?.map_while(Result::ok) {
        let Some(place) = read.names.iter().position(|name| member.key_is(name)) else {
            let Some(key) = json::text(member.key) else { continue };
            if read.names.iter().any(|name| folded(name).eq(folded(&key))) {
                return Some(key.into_owned());
            }
            continue;
        };
        if seen & 1 << place != 0 {
            return Some(read.names[place].to_owned());
        }
        seen |= 1 << place;
        let inner = read.objects.iter().find(|(name, _)| *name == read.names[place]);
        if let Some(found) = inner.and_then(|(_, read)| find_in(member.value, read)) {
            return Some(found);
        }
    }
    None
}

/// A name as the least exact of readers has it: without case, in all of Unicode (ſ is s, the Kelvin sign is k, the Turkish
/// letters are i), and without what joins words.
fn folded(name: &str) -> impl Iterator<Item = char> + '_ {
    /// What is left above a capital İ when it is made small.
    const DOT: char = '\u{307}';
    let small = name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    small.filter(|letter| !matches!(letter, '_' | '-' | &DOT))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All objects that are read, and where they stand in a message.
    const PLACES: [(&Read, &str, &str); 6] = [
        (&MESSAGE, "{", "}"),
        (&PARAMS, r#"{"params":{"#, "}}"),
        (&META, r#"{"params":{"_meta":{"#, "}}}"),
        (&TASK, r#"{"params":{"task":{"#, "}}}"),
        (&REFERENCE, r#"{"params":{"ref":{"#, "}}}"),
        (&LISTENING, r#"{"params":{"notifications":{"#, "}}}"),
    ];

    /// Ways to write a name so that some reader takes it for that name and none has to.
    fn look_alikes(name: &str) -> Vec<String> {
        let swap = |from: char, to: &str| name.contains(from).then(|| name.replacen(from, to, 1));
        let first = |to: fn(char) -> String| {
            let mut letters = name.chars();
            letters.next().map(|letter| to(letter) + letters.as_str())
        };
        let snake = name.chars().fold(String::new(), |snake, letter| match letter.is_ascii_uppercase() {
            true => snake + "_" + &letter.to_ascii_lowercase().to_string(),
            false => snake + &letter.to_string(),
        });
        let mut forms = vec![name.to_uppercase(), name.to_lowercase(), snake.replace('_', "-"), snake];
        forms.extend(
            [swap('s', "ſ"), swap('k', "\u{212a}"), swap('i', "İ"), swap('i', "ı"), swap('I', "İ")]
                .into_iter()
                .flatten(),
        );
        forms.extend(
            [first(|letter| letter.to_uppercase().to_string()), first(|letter| format!("_{letter}"))]
                .into_iter()
                .flatten(),
        );
        forms.retain(|form| form != name);
        forms
    }

    /// A text of JSON, with nothing or everything written as an escape.
    fn spellings(name: &str) -> [String; 2] {
        let mut units = [0; 2];
        let escaped = name.chars().flat_map(|letter| letter.encode_utf16(&mut units).to_vec());
        let escaped: String = escaped.map(|unit| format!("\\u{unit:04x}")).collect();
        [format!("\"{name}\""), format!("\"{escaped}\"")]
    }

    #[test]
    fn every_name_that_is_read_has_no_look_alike_and_no_double() {
        let mut tried = 0;
        for (read, before, after) in PLACES {
            for name in read.names {
                for form in look_alikes(name).into_iter().chain([(*name).to_owned()]) {
                    for spelling in spellings(&form) {
                        for (first, second) in
                            [(&*spelling, &*format!("\"{name}\"")), (&*format!("\"{name}\""), &*spelling)]
                        {
                            let message = format!("{before}{first}:1,\"other\":2,{second}:3{after}");
                            assert_eq!(find(message.as_bytes()).as_deref(), Some(&*form), "{message}");
                            tried += 1;
                        }
                    }
                }
                let message = format!("{before}\"{name}\":1{after}");
                assert_eq!(find(message.as_bytes()), None, "{message}");
            }
        }
        assert!(tried > 1000, "{tried}");
    }

    /// Where nothing is found, readers that fold names, and those that take the first of two or the last, read what we read.
    #[test]
    fn what_passes_is_read_alike_by_every_reader() {
        let mut random = 1_u64;
        let mut next = |below: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(random >> 33).unwrap() % below
        };
        let mut passed = 0;
        for (read, before, after) in PLACES {
            let pool: Vec<String> = read.names.iter().flat_map(|name| look_alikes(name)).collect();
            for _ in 0..2000 {
                let keys: Vec<String> = (0..next(5))
                    .map(|_| match next(4) {
                        0 => pool[next(pool.len())].clone(),
                        1 => format!("x{}", next(9)),
                        _ => read.names[next(read.names.len())].to_owned(),
                    })
                    .collect();
                let members: Vec<String> = keys.iter().map(|key| spellings(key)[next(2)].clone() + ":1").collect();
                if find(format!("{before}{}{after}", members.join(",")).as_bytes()).is_some() {
                    continue;
                }
                passed += 1;
                for name in read.names {
                    let exactly = keys.iter().position(|key| key == name);
                    let is_like = |key: &String| folded(key).eq(folded(name));
                    assert_eq!(keys.iter().position(is_like), exactly, "{keys:?}");
                    assert_eq!(keys.iter().rposition(is_like), exactly, "{keys:?}");
                }
            }
        }
        assert!(passed > 2000, "{passed}");
    }

    #[test]
    fn what_is_payload_may_have_any_names() {
        for payload in ["arguments", "inputResponses", "capabilities", "clientInfo", "context", "unknown"] {
            let message = format!(
                r#"{{"id":1,"method":"m","params":{{"{payload}":{{"ID":1,"id":2,"id":3,"TASKID":4,"_META":{{}}}}}}}}"#
            );
            assert_eq!(find(message.as_bytes()), None, "{message}");
        }
        for message in ["[]", "1", "", "{", r#"{"params":[{"ID":1}]}"#, r#"{"params":{"_meta":{"request_id":"a"}}}"#] {
            assert_eq!(find(message.as_bytes()), None, "{message}");
        }
    }
}
