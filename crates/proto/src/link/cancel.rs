//! Reading and writing a cancel notification (D3, D6, D20, D29).
//!
//! A cancel that cannot be read is ignored: it is never answered and never
//! fatal (MCP-C12), and nothing is kept of it but that there was one.

use std::borrow::Cow;

use crate::{
    cause::{MAX_REASON, cut},
    dialect::{CancelForm, Dialect},
    id::RequestId,
    json, message,
};

/// A readable cancel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cancel<'a> {
    pub(crate) id: RequestId,
    /// Words of the sender: untrusted, cut at [`MAX_REASON`].
    pub(crate) reason: Option<Cow<'a, str>>,
    /// The spelling that was used.
    pub(crate) form: CancelForm,
    /// A reason was given that is no string: it is dropped, the cancel stands.
    pub(crate) reason_dropped: bool,
}

/// Reads the cancel `method` with these params as the forms of `dialect`, and those of `also`, have it. `None` if it names
/// nothing: without params that are an object, without the member that names a request, with one that is no id, or with two
/// of them, one parser's id and another's decoy.
pub(crate) fn read<'a>(
    dialect: &'static Dialect,
    also: &[&'static Dialect],
    method: &str,
    params: Option<&'a [u8]>,
) -> Option<Cancel<'a>> {
    let forms = || {
        let known = dialect.forms().chain(also.iter().flat_map(|dialect| dialect.forms()));
        known.filter(|form| form.method == method)
    };
    let mut found: Option<(usize, &CancelForm, &[u8])> = None;
    let mut reason: Option<&'a [u8]> = None;
    for member in json::members(params?)? {
        let member = member.ok()?;
        if let Some((rank, form)) = forms().enumerate().find(|(_, form)| member.key_is(form.id)) {
            match found {
                Some((earlier, ..)) if earlier == rank => return None,
                // Both spellings of the member stand there: ours wins, whatever the order.
                Some((earlier, ..)) if earlier < rank => {}
                Some(_) | None => found = Some((rank, form, member.value)),
            }
        } else if forms().any(|form| form.reason.is_some_and(|name| member.key_is(name))) {
            reason = Some(member.value);
        }
    }
    let (_, form, value) = found?;
    let id = RequestId::from_json(value).filter(|id| !id.is_null() || dialect.null_ids)?;
    let text = reason.and_then(json::text);
    Some(Cancel {
        id,
        reason_dropped: reason.is_some() && text.is_none(),
        reason: text.map(|text| match text {
            Cow::Borrowed(text) => cut(text, MAX_REASON).into(),
            Cow::Owned(text) => cut(&text, MAX_REASON).to_owned().into(),
        }),
        form: *form,
    })
}

/// Appends a cancel for `id`, with the reason where there is one and the form has a place for it.
pub(crate) fn write(form: CancelForm, id: &RequestId, reason: Option<&str>, out: &mut Vec<u8>) {
    message::notification(form.method, out, |out| {
        json::write_string(out, form.id);
        out.push(b':');
        id.write(out);
        if let (Some(member), Some(reason)) = (form.reason, reason) {
            out.push(b',');
            json::write_string(out, member);
            out.push(b':');
            json::write_string(out, reason);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{acp, lsp, mcp};

    fn mcp(params: &str) -> Option<Cancel<'_>> {
        read(&mcp::LATEST_LEGACY, &[], "notifications/cancelled", Some(params.as_bytes()))
    }

    #[test]
    fn a_cancel_names_its_request_and_may_say_why() {
        let cancel = mcp(r#"{"requestId":"123","reason":"User \u0070ressed Stop"}"#).unwrap();
        assert_eq!(cancel.id, RequestId::string("123"));
        assert_eq!(cancel.reason.as_deref(), Some("User pressed Stop"));
        assert_eq!(mcp(r#"{"requestId":0}"#).unwrap().id, RequestId::integer(0));
        assert_eq!(mcp(r#"{"requestId":""}"#).unwrap().id, RequestId::string(""));
    }

    #[test]
    fn malformed_ids_name_nothing() {
        for id in ["null", "true", "1.5", "1.0", "[1]", r#"{"id":1}"#] {
            assert_eq!(mcp(&format!(r#"{{"requestId":{id}}}"#)), None, "{id}");
        }
        assert_eq!(mcp("{}"), None);
        assert_eq!(mcp("[1]"), None);
        assert_eq!(mcp(r#"{"requestId":1,"requestId":2}"#), None);
        assert_eq!(mcp(r#"{"requestId":1,"request\u0049d":2}"#), None);
        assert_eq!(read(&lsp::LSP, &[], "$/cancelRequest", None), None);
    }

    #[test]
    fn a_reason_that_is_no_string_is_dropped_and_the_cancel_stands() {
        for reason in ["null", "5", "[]"] {
            let params = format!(r#"{{"requestId":1,"reason":{reason}}}"#);
            let cancel = mcp(&params).unwrap();
            assert_eq!((cancel.reason, cancel.reason_dropped), (None, true));
        }
    }

    #[test]
    fn every_known_spelling_is_read() {
        fn said(method: &str, params: &str) -> (RequestId, &'static str) {
            let cancel = read(&acp::V1, &[], method, Some(params.as_bytes())).unwrap();
            (cancel.id, cancel.form.id)
        }
        for method in ["$/cancel_request", "$/cancelRequest"] {
            for member in ["requestId", "id"] {
                assert_eq!(said(method, &format!(r#"{{"{member}":7}}"#)), (RequestId::integer(7), member));
            }
        }
        let both = said("$/cancelRequest", r#"{"id":1,"requestId":2}"#);
        assert_eq!(both.0, RequestId::integer(2), "the current member wins");
        assert_eq!(said("$/cancel_request", r#"{"requestId":null}"#).0, RequestId::NULL);
    }
}
