//! What the envelope makes of single messages.

use rescind_proto::{
    frame::{self, Frame, Malformed, Params, Reason, ResponseBody, ResponseId},
    id::RequestId,
    json,
    kind::MessageKind,
};

fn request(body: &str) -> frame::Request<'_> {
    match frame::parse(body.as_bytes()) {
        Ok(Frame::Request(request)) => request,
        other => panic!("{body}: {other:?}"),
    }
}

fn notification(body: &str) -> frame::Notification<'_> {
    match frame::parse(body.as_bytes()) {
        Ok(Frame::Notification(notification)) => notification,
        other => panic!("{body}: {other:?}"),
    }
}

fn response(body: &str) -> frame::Response<'_> {
    match frame::parse(body.as_bytes()) {
        Ok(Frame::Response(response)) => response,
        other => panic!("{body}: {other:?}"),
    }
}

#[track_caller]
fn refused(body: &str) -> (Reason, MessageKind, Option<RequestId>) {
    match frame::parse(body.as_bytes()) {
        Err(Malformed::Invalid { reason, kind, id }) => (reason, kind, id),
        other => panic!("{body}: {other:?}"),
    }
}

fn id(text: &str) -> RequestId {
    RequestId::from_json(text.as_bytes()).expect("an id")
}

#[test]
fn a_request_has_a_method_and_an_id() {
    let body = r#" {"jsonrpc":"2.0", "id" : 7 ,"method":"tools/call","params":{"name":"slow","arguments":{"a":[1,"}"]},"_meta":{"progressToken":"t"}}} "#;
    let request = request(body);
    assert_eq!(request.id, RequestId::integer(7));
    assert_eq!(&body[request.id_span], "7");
    assert_eq!(request.method, "tools/call");
    assert_eq!(request.params.name, Some(&br#""slow""#[..]));
    assert_eq!(request.params.meta, Some(&br#"{"progressToken":"t"}"#[..]));
    assert!(request.params.raw.unwrap().ends_with(br#""t"}}"#));
}

#[test]
fn the_version_is_not_looked_at() {
    assert_eq!(request(r#"{"id":1,"method":"m"}"#).method, "m");
    assert_eq!(request(r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#).method, "m");
    assert_eq!(request(r#"{"jsonrpc":[2],"id":1,"method":"m"}"#).method, "m");
}

#[test]
fn unknown_members_of_the_envelope_pass() {
    assert_eq!(request(r#"{"traceparent":{"id":2},"id":1,"method":"m","":null}"#).id, RequestId::integer(1));
}

#[test]
fn a_null_id_with_a_method_is_a_request() {
    assert!(request(r#"{"id":null,"method":"m"}"#).id.is_null());
}

#[test]
fn a_method_is_unescaped() {
    assert_eq!(notification(r#"{"method":"\u0024\/cancel_request"}"#).method, "$/cancel_request");
}

#[test]
fn params_need_not_be_an_object() {
    for params in ["[1,{\"requestId\":2}]", "null", "\"text\"", "5"] {
        let body = format!(r#"{{"method":"m","params":{params}}}"#);
        let notification = notification(&body);
        assert_eq!(notification.params.raw, Some(params.as_bytes()));
        assert_eq!(notification.params, Params { raw: notification.params.raw, ..Params::default() });
    }
    assert_eq!(notification(r#"{"method":"m"}"#).params, Params::default());
}

#[test]
fn params_give_the_members_that_are_looked_at() {
    let body = r#"{"method":"m","params":{"sessionId":"s","task":{},"na\u006de":"n","_meta":{},"sessionId":"t"}}"#;
    let params = notification(body).params;
    let members = [(params.session_id, "\"t\""), (params.task, "{}"), (params.name, "\"n\""), (params.meta, "{}")];
    for (found, expected) in members {
        assert_eq!(found, Some(expected.as_bytes()));
    }
}

#[test]
fn a_response_has_a_result_or_an_error() {
    let body = r#"{"result":{"content":[]},"jsonrpc":"2.0","id":"x"}"#;
    let answer = response(body);
    assert_eq!(answer.id, Some(ResponseId::Exact(RequestId::string("x"))));
    assert_eq!(&body[answer.id_span], "\"x\"");
    assert_eq!(answer.body, ResponseBody::Result(br#"{"content":[]}"#));
    assert_eq!(response(r#"{"id":1,"error":{"code":-1}}"#).body, ResponseBody::Error(br#"{"code":-1}"#));
}

#[test]
fn null_beside_the_other_half_of_a_response_is_nothing() {
    assert_eq!(response(r#"{"id":1,"error":null,"result":{}}"#).body, ResponseBody::Result(b"{}"));
    assert_eq!(response(r#"{"id":1,"result":null,"error":{}}"#).body, ResponseBody::Error(b"{}"));
    assert_eq!(response(r#"{"id":1,"result":null,"error":null}"#).body, ResponseBody::Result(b"null"));
    assert_eq!(response(r#"{"id":1,"method":null,"result":null}"#).body, ResponseBody::Result(b"null"));
    assert_eq!(request(r#"{"id":1,"method":"m","result":null,"error":null}"#).method, "m");
}

#[test]
fn a_response_may_lack_an_id_or_carry_null() {
    let stray = response(r#"{"error":{"code":-32700}}"#);
    assert_eq!((stray.id, stray.id_span), (None, 0..0));
    assert_eq!(response(r#"{"id":null,"error":{}}"#).id, Some(ResponseId::Exact(RequestId::NULL)));
}

#[test]
fn a_float_that_is_whole_is_a_loose_id_in_a_response_only() {
    assert_eq!(response(r#"{"id":5.0,"result":1}"#).id, Some(ResponseId::Loose(5)));
    assert_eq!(refused(r#"{"id":5.0,"method":"m"}"#), (Reason::BadId, MessageKind::Request, None));
}

#[test]
fn ids_of_other_types_are_refused() {
    for bad in ["true", "1.5", "[1]", "{}", "1e3"] {
        assert_eq!(refused(&format!(r#"{{"id":{bad},"method":"m"}}"#)), (Reason::BadId, MessageKind::Request, None));
        assert_eq!(refused(&format!(r#"{{"id":{bad},"result":1}}"#)), (Reason::BadId, MessageKind::Response, None));
    }
}

#[test]
fn case_9_ids_keep_their_type_and_their_value() {
    let long = "x".repeat(5000);
    let texts = ["0", "\"\"", "5", "\"5\"", "9007199254740992", "9007199254740993", "-0", &format!("\"{long}\"")];
    for (at, text) in texts.iter().enumerate() {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{text},"method":"m"}}"#);
        let found = request(&body).id;
        let mut written = Vec::new();
        found.write(&mut written);
        assert_eq!(written, text.as_bytes());
        for (other_at, other) in texts.iter().enumerate() {
            assert_eq!(found == id(other), at == other_at, "{text} {other}");
        }
    }
}

#[test]
fn case_75_a_repeated_envelope_member_is_refused() {
    let one = Some(RequestId::integer(1));
    assert_eq!(refused(r#"{"id":1,"id":1,"method":"m"}"#), (Reason::RepeatedMember, MessageKind::Request, None));
    assert_eq!(
        refused(r#"{"method":"m","id":1,"method":"n"}"#),
        (Reason::RepeatedMember, MessageKind::Request, one.clone())
    );
    assert_eq!(
        refused(r#"{"params":1,"params":1,"method":"m"}"#),
        (Reason::RepeatedMember, MessageKind::Notification, None)
    );
    assert_eq!(
        refused(r#"{"id":1,"result":1,"result":1}"#),
        (Reason::RepeatedMember, MessageKind::Response, one.clone())
    );
    assert_eq!(
        refused(r#"{"id":1,"error":{},"error":{}}"#),
        (Reason::RepeatedMember, MessageKind::Response, one.clone())
    );
    assert_eq!(refused(r#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"m"}"#).0, Reason::RepeatedMember);
    assert_eq!(
        refused(r#"{"id":1,"jsonrpc":"2.0","id":1,"method":"m"}"#),
        (Reason::RepeatedMember, MessageKind::Request, None)
    );
}

#[test]
fn case_75_an_escaped_envelope_member_is_refused() {
    for key in [r"\u0069d", r"\u006aso\u006erpc", r"m\u0065thod", r"param\u0073", r"r\u0065sult", r"\u0065rror"] {
        let body = format!(r#"{{"{key}":1,"jsonrpc":"2.0","id":1,"method":"m"}}"#);
        assert_eq!(refused(&body).0, Reason::EscapedMember, "{key}");
    }
    assert_eq!(refused(r#"{"id":1,"method":"m","\u0069d":2}"#).2, None);
    assert_eq!(request(r#"{"id":1,"method":"m","\u0069dx":2}"#).id, RequestId::integer(1));
}

#[test]
fn case_76_an_escaped_id_is_the_same_id() {
    let escaped = request(r#"{"id":"\u00e9","method":"m"}"#).id;
    let plain = request(r#"{"id":"é","method":"m"}"#).id;
    assert_eq!(escaped, plain);
    assert_ne!(escaped, request(r#"{"id":"e","method":"m"}"#).id);
}

#[test]
fn a_message_of_two_kinds_or_none_is_refused() {
    let one = Some(RequestId::integer(1));
    assert_eq!(refused(r#"{"id":1,"method":"m","result":1}"#), (Reason::MixedKinds, MessageKind::Request, one.clone()));
    assert_eq!(refused(r#"{"id":1,"method":"m","error":{}}"#).0, Reason::MixedKinds);
    assert_eq!(refused(r#"{"id":1,"result":1,"error":{}}"#), (Reason::TwoOutcomes, MessageKind::Response, one.clone()));
    assert_eq!(refused(r#"{"id":1}"#), (Reason::NoKind, MessageKind::Unknown, one.clone()));
    assert_eq!(refused("{}"), (Reason::NoKind, MessageKind::Unknown, None));
    assert_eq!(refused(r#"{"id":1,"error":null}"#).0, Reason::NoKind);
    assert_eq!(refused(r#"{"id":1,"method":null}"#).0, Reason::BadMethod);
    assert_eq!(refused(r#"{"id":1,"method":5}"#), (Reason::BadMethod, MessageKind::Request, one));
    assert_eq!(refused(r#"{"id":1,"method":"\ud800"}"#).0, Reason::BadMethod);
}

#[test]
fn json_that_is_no_object_is_no_message() {
    for body in ["1", "\"text\"", "null", " true ", "-0.5e+3"] {
        assert_eq!(refused(body), (Reason::NoObject, MessageKind::Unknown, None), "{body}");
    }
}

#[test]
fn a_batch_gives_its_elements_raw() {
    let body = r#" [ {"id":1,"method":"m"} , 5,{"method":"n"}, [1] ] "#;
    let Ok(Frame::Batch(batch)) = frame::parse(body.as_bytes()) else { panic!() };
    let members: Vec<_> = batch.members().collect();
    assert_eq!(batch.len(), 4);
    assert_eq!(members[0], br#"{"id":1,"method":"m"}"#);
    assert!(matches!(frame::parse_member(members[0]), Ok(Frame::Request(_))));
    assert!(matches!(frame::parse_member(members[1]), Err(Malformed::Invalid { reason: Reason::NoObject, .. })));
    assert!(matches!(frame::parse_member(members[2]), Ok(Frame::Notification(_))));
    assert!(matches!(frame::parse_member(members[3]), Err(Malformed::Invalid { reason: Reason::NestedBatch, .. })));
    assert_eq!(refused(" [ ] "), (Reason::EmptyBatch, MessageKind::Batch, None));
}

#[test]
fn what_is_not_json_is_told_from_what_is_no_message() {
    let bad = [
        "",
        " ",
        "hello",
        "{",
        "}",
        "{]",
        "[}",
        "{\"id\":1",
        "{\"id\":1}}",
        "{\"id\":1} x",
        "{\"id\" 1}",
        "{\"id\":}",
        "{\"id\":1,}",
        "{,\"id\":1}",
        "{\"id\":1 \"method\":\"m\"}",
        "{'id':1}",
        "{id:1}",
        "{\"id\":01}",
        "{\"id\":+1}",
        "{\"id\":tru}",
        "{\"id\":truex}",
        "{\"id\":\"a}",
        "{\"id\":\"a\\\"}",
        "{\"method\":\"m\",\"params\":[1}",
        "{\"method\":\"m\",\"params\":{\"a\":[}]}",
        "{\"method\":\"m\",\"params\":{\"a\"}}",
        "{\"method\":\"m\",\"params\":{\"a\":1,}}",
        "{\"method\":\"m\",\"params\":[\\\"]}",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1",
        "nul",
        "1 2",
        "\u{feff}{\"id\":1,\"method\":\"m\"}",
    ];
    for body in bad {
        assert_eq!(frame::parse(body.as_bytes()).unwrap_err(), Malformed::NotJson, "{body}");
    }
}

#[test]
fn what_is_not_utf_8_is_not_json() {
    for at in [0, 60, 200, 4000] {
        let mut body = format!(r#"{{"method":"m","params":["{}é{}"]}}"#, "a".repeat(at), "b".repeat(100)).into_bytes();
        assert!(frame::parse(&body).is_ok());
        let wide = body.iter().position(|byte| *byte >= 0x80).unwrap();
        body[wide + 1] = b'x';
        assert_eq!(frame::parse(&body).unwrap_err(), Malformed::NotJson);
    }
}

#[test]
fn utf_8_is_told_apart_wherever_blocks_begin_and_end() {
    for len in 0..200 {
        let text = "é".repeat(len / 2) + &"a".repeat(len % 2);
        let mut body = format!(r#"{{"id":"{text}","method":"é"}}"#).into_bytes();
        let Ok(Frame::Request(request)) = frame::parse(&body) else { panic!("{text}") };
        assert_eq!((request.method.as_ref(), request.id), ("é", RequestId::string(&text)));
        for at in 7..7 + len {
            let right = core::mem::replace(&mut body[at], 0xFF);
            assert_eq!(frame::parse(&body).unwrap_err(), Malformed::NotJson, "{len} {at}");
            body[at] = right;
        }
    }
}

#[test]
fn containers_may_nest_as_deep_as_the_message_is_long() {
    let nested = |depth: usize| {
        let body = format!(r#"{{"method":"m","params":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
        frame::parse(body.as_bytes()).is_ok()
    };
    for depth in [63, 64, 65, 127, 128, 1023, 1024, 1_000_000] {
        assert!(nested(depth), "{depth}");
    }
    let mixed = |depth: usize, close: &str| {
        let body =
            format!(r#"{{"method":"m","params":{{"p":{}1{}}}}}"#, r#"[{"a":"#.repeat(depth), close.repeat(depth));
        frame::parse(body.as_bytes()).is_ok()
    };
    assert!(mixed(511, "}]"));
    assert!(mixed(100_000, "}]"));
    assert!(!mixed(100, "]}"));
}

#[test]
fn an_id_is_spliced_in_place() {
    let body = r#"{ "id" : "client-1" , "method":"m" }"#;
    let mut out = b">".to_vec();
    frame::splice(body.as_bytes(), request(body).id_span, &RequestId::integer(-5), &mut out);
    assert_eq!(out, br#">{ "id" : -5 , "method":"m" }"#);
}

#[test]
fn a_part_is_found_where_it_stands_and_is_spliced() {
    let body = r#"{"id":1,"method":"m","params":{"requestId":22}}"#;
    let request = request(body);
    let inner =
        frame::span_of(body.as_bytes(), json::member(request.params.raw.unwrap(), "requestId").unwrap()).unwrap();
    assert_eq!(&body[inner.clone()], "22");
    let mut out = Vec::new();
    frame::splice(body.as_bytes(), inner, &RequestId::integer(7), &mut out);
    assert_eq!(out, br#"{"id":1,"method":"m","params":{"requestId":7}}"#);
    assert_eq!(frame::span_of(b"abc", body.as_bytes()), None);
}

#[test]
fn members_and_elements_are_walked_without_a_tree() {
    let object = br#" { "a" : 1 , "b\u0063" : [ 1 , {"x":"]"} ] , "a" : {"b":{"c":"deep"}} } "#;
    assert_eq!(json::member(object, "a"), Some(&br#"{"b":{"c":"deep"}}"#[..]));
    assert_eq!(json::member(object, "bc"), Some(&br#"[ 1 , {"x":"]"} ]"#[..]));
    assert_eq!(json::member(object, "b"), None);
    assert_eq!(json::lookup(object, &["a", "b", "c"]), Some(&br#""deep""#[..]));
    assert_eq!(json::lookup(object, &["a", "x", "c"]), None);
    let elements: Result<Vec<_>, _> = json::elements(b"[1, [2] ,\"3\"]").unwrap().collect();
    assert_eq!(elements.unwrap(), [&b"1"[..], b"[2]", b"\"3\""]);
    assert!(json::members(b"[]").is_none() && json::elements(b"{}").is_none());
}

#[test]
fn a_malformed_object_ends_with_one_error() {
    for bad in ["{\"a\":1", "{\"a\":1,}", "{\"a\":1]", "{\"a\":1}x", "{\"a\":tr}"] {
        let members: Vec<_> = json::members(bad.as_bytes()).unwrap().collect();
        assert!(members.last().unwrap().is_err(), "{bad}");
        assert!(members.len() <= 2);
        assert_eq!(json::member(bad.as_bytes(), "a"), None);
    }
}

#[test]
fn a_value_ends_where_its_text_ends() {
    for (text, end) in [("\"a\\\"b\",1", 6), ("[1,[2]],", 7), ("{\"a\":\"}\"} ", 9), ("12,", 2), ("null}", 4)] {
        assert_eq!(json::value_end(text.as_bytes(), 0), Some(end), "{text}");
        assert_eq!(json::value_end(format!("x{text}").as_bytes(), 1), Some(end + 1), "{text}");
    }
    for bad in ["", "x", "\"a", "[1", "[1}", "[\\]"] {
        assert_eq!(json::value_end(bad.as_bytes(), 0), None, "{bad}");
    }
    assert_eq!(json::value_end(b"1", 2), None);
}
