//! Arrays of messages, where a revision has them (MCP-B01).

use bytes::Bytes;
use rescind_proto::{
    frame::{self, Batch, Frame, Malformed},
    id::RequestId,
};

/// A member as bytes, and what it is.
pub(crate) type Member<'a> = (&'a [u8], Result<Frame<'a>, Malformed>);

pub(crate) fn members<'a>(batch: &Batch<'a>) -> Vec<Member<'a>> {
    batch.members().map(|member| (member, frame::parse_member(member))).collect()
}

/// An array of messages.
pub(crate) fn array(members: &[&[u8]]) -> Bytes {
    let mut body = vec![b'['];
    body.extend_from_slice(&members.join(&b','));
    body.push(b']');
    body.into()
}

/// A batch without the request of this id: `Some(None)` if nothing else is in it, and `None` if it is not a batch.
pub(crate) fn without(body: &[u8], id: &RequestId) -> Option<Option<Bytes>> {
    let Ok(Frame::Batch(batch)) = frame::parse(body) else { return None };
    let is_named =
        |member: &&[u8]| matches!(frame::parse_member(member), Ok(Frame::Request(request)) if request.id == *id);
    let rest: Vec<&[u8]> = batch.members().filter(|member| !is_named(member)).collect();
    Some((!rest.is_empty()).then(|| array(&rest)))
}
