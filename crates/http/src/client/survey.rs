//! The list of tools, read to find out which headers a call needs that was refused for them.

use bytes::Bytes;
use rescind_proto::{
    dialect::Dialect,
    frame::{self, Frame, ResponseBody},
    id::RequestId,
    json,
    link::Fault,
    message,
    time::Instant,
};

use super::{
    HttpClient, StreamKey,
    failure::Failure,
    stream::{CallKind, Purpose, Stage, Stream, Waiting},
};

impl HttpClient {
    /// Asks for the list of tools before a call is sent again that was refused, in `refusal`, for its headers.
    pub(crate) fn begin_survey(&mut self, now: Instant, call: StreamKey, refusal: Vec<u8>) {
        let Some(stream) = self.streams.get_mut(&call) else { return };
        stream.was_resent = true;
        let dialect = stream.dialect;
        match self.ask_for_tools(call, dialect, 1, None) {
            Some(survey) => {
                let Some(stream) = self.streams.get_mut(&call) else { return };
                stream.come_back(&mut self.events);
                stream.stage = Stage::Surveying(survey, refusal);
            }
            None => self.answer_with(now, call, refusal),
        }
    }

    /// Asks for a page of the list, in the name of the call.
    fn ask_for_tools(
        &mut self,
        call: StreamKey,
        dialect: &'static Dialect,
        pages: u32,
        cursor: Option<&[u8]>,
    ) -> Option<StreamKey> {
        let Ok(Frame::Request(request)) = frame::parse(&self.streams.get(&call)?.body) else { return None };
        let meta = request.params.meta?.to_vec();
        let id = RequestId::string(&format!("rescind-tools-{}", self.allocate_key()));
        let mut body = Vec::new();
        message::request(&id, "tools/list", &mut body, |out| {
            out.extend_from_slice(b"\"_meta\":");
            out.extend_from_slice(&meta);
            if let Some(cursor) = cursor {
                out.extend_from_slice(b",\"cursor\":");
                out.extend_from_slice(cursor);
            }
        });
        let mut stream = Stream::new(Purpose::Survey { call, pages }, dialect, None, Bytes::from(body));
        stream.waiting.push(Waiting::new(id, CallKind::ListTools));
        let key = self.insert_stream(stream);
        let credentials = self.streams.get(&call).and_then(|call| call.credentials.clone());
        self.streams.get_mut(&key)?.credentials = credentials;
        self.start_post(key);
        Some(key)
    }

    /// A page of the list came.
    pub(crate) fn survey_answered(
        &mut self,
        now: Instant,
        key: StreamKey,
        call: StreamKey,
        pages: u32,
        answer: &[u8],
        body: &ResponseBody<'_>,
    ) {
        let ResponseBody::Result(result) = body else { return self.end_survey(now, key, call, false) };
        let _ = self.tools.learn(answer, result);
        let cursor = json::member(result, "nextCursor").filter(|cursor| json::is_string(cursor));
        let dialect = self.streams.get(&call).map(|stream| stream.dialect);
        if let Some((cursor, dialect)) = cursor.zip(dialect)
            && pages < self.config.max_pages
            && let Some(next) = self.ask_for_tools(call, dialect, pages + 1, Some(cursor))
        {
            self.forget_stream(key);
            if let Some(Stream { stage: Stage::Surveying(survey, _), .. }) = self.streams.get_mut(&call) {
                *survey = next;
            }
            return;
        }
        self.end_survey(now, key, call, true);
    }

    /// The list was read as far as it goes: the call is sent again, or its refusal is its answer.
    pub(crate) fn end_survey(&mut self, now: Instant, key: StreamKey, call: StreamKey, is_read: bool) {
        self.forget_stream(key);
        let Some(stream) = self.streams.get_mut(&call) else { return };
        let Stage::Surveying(_, refusal) = core::mem::replace(&mut stream.stage, Stage::Away) else { return };
        if is_read {
            return self.start_post(call);
        }
        self.answer_with(now, call, refusal);
    }

    /// Makes the refusal of a call its answer.
    fn answer_with(&mut self, now: Instant, call: StreamKey, refusal: Vec<u8>) {
        self.receive(now, call, refusal);
        self.fail_stream(now, call, &Failure::not_run(Fault::Server, "the server refused the headers of the request"));
    }
}
