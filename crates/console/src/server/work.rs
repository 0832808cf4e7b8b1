//! What a receipt means for the work, added to the requests of an event for the page.

use std::collections::BTreeMap;

use rescind_feed::{Request, WorkStatus};
use rescind_proto::dialect::Dialect;
use serde::Serialize;
use serde_json::{
    Result, from_str,
    value::{RawValue, to_raw_value},
};

/// An event with what each receipt means for the work. What a shim of another version wrote stays as it is.
pub(super) fn explained(event: &str) -> Result<Box<RawValue>> {
    let whole: &RawValue = from_str(event)?;
    let members = from_str::<BTreeMap<String, &RawValue>>(event).unwrap_or_default();
    let requests = members.get("requests").and_then(|list| from_str::<Vec<&RawValue>>(list.get()).ok());
    let Some(requests) = requests else { return Ok(whole.to_owned()) };
    let requests = to_raw_value(&requests.into_iter().map(with_work).collect::<Result<Vec<_>>>()?)?;
    let members = members.into_iter().map(|(name, value)| match name.as_str() {
        "requests" => (name, &*requests),
        _ => (name, value),
    });
    to_raw_value(&members.collect::<BTreeMap<_, _>>())
}

/// A request with the member, which is the last one, so that it stands whatever else the request has.
fn with_work(request: &RawValue) -> Result<Box<RawValue>> {
    let (Ok(known), Some(members)) = (from_str::<Request>(request.get()), request.get().strip_suffix('}')) else {
        return Ok(request.to_owned());
    };
    let work = serde_json::to_string(&Work::of(&known))?;
    RawValue::from_string(format!("{members},\"work\":{work}}}"))
}

/// The member that is added to a request.
#[derive(Debug, Serialize)]
struct Work {
    /// While more may become known.
    awaited: &'static str,
    /// When nothing more is awaited.
    last: &'static str,
    /// What the words of its cancel leave out.
    remark: String,
}

impl Work {
    fn of(request: &Request) -> Self {
        let status = |is_awaited| WorkStatus::of(request, is_awaited).as_str();
        let is_card = || Dialect::is_any_question(&request.method);
        let remark = request.cancel.as_ref().map(|cancel| cancel.remark(request, is_card()));
        Self { awaited: status(true), last: status(false), remark: remark.unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests {
    use rescind_feed::{Cancel, Outcome, Side, State};
    use rescind_testkit::fake_shim::{asked, request};
    use serde_json::{Value, json};

    use super::*;
    use crate::page;

    #[test]
    fn each_request_says_what_its_receipt_means_and_keeps_what_is_not_known_here() {
        let cancel = Cancel { outcome: Outcome::Sent, confirms: true, ..asked(0, None) };
        let card = Request {
            from: Side::Server,
            cancel: Some(cancel.in_words(None)),
            state: State::Ended,
            ..request(7, "session/request_permission", None, 0)
        };
        let mut shown = json!({ "seq": 3, "newer": [1.50], "requests": [card, request(1, "tools/call", None, 0), {}] });
        shown["requests"][0]["work"] = json!("of a shim that says so itself");
        let explained: Value = from_str(explained(&shown.to_string()).unwrap().get()).unwrap();
        let with_client = json!({
            "awaited": "stopping", "last": "with its client", "remark": "; the card may still be shown"
        });
        let running = json!({ "awaited": "stopping", "last": "unknown", "remark": "" });
        assert_eq!((&explained["requests"][0]["work"], &explained["requests"][1]["work"]), (&with_client, &running));
        assert_eq!((&explained["newer"], &explained["requests"][2]), (&json!([1.5]), &json!({})));
        assert_eq!(super::explained("{\"requests\":7}").unwrap().get(), "{\"requests\":7}");
        assert!(super::explained("{").is_err());
    }

    /// The page has a sign, a tone and two properties for each word.
    #[test]
    fn the_page_knows_the_words_and_what_they_say() {
        let (_, script) = page::asset("words.js").unwrap();
        let (_, table) = script.split_once("const WORK = {\n").unwrap();
        let (table, _) = table.split_once("\n};").unwrap();
        let found: Vec<(String, bool, bool)> = table
            .lines()
            .map(|line| {
                let (word, properties) = line.trim().split_once(": ").unwrap();
                let says = |property: &str| properties.contains(&format!("{property}: true"));
                (word.trim_matches('"').to_owned(), says("isOver"), says("resists"))
            })
            .collect();
        let expected = WorkStatus::ALL.map(|status| (status.as_str().to_owned(), status.is_over(), status.resists()));
        assert_eq!(found, expected);
    }
}
