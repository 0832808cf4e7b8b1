//! The list of tools, read to find out which headers a call needs that was refused for them.

use bytes::Bytes;
use rescind_proto::{
    frame::{self, Frame, ResponseBody},
    id::RequestId,
    json,
    link::Fault,
    message,
    time::Instant,
};

use super::{
    ErrandKey, HttpClient,
    errand::{CallKind, Errand, Role, Stage, Waiting},
    failure::Failure,
    fetch::Aim,
};

impl HttpClient {
    /// Asks for the list of tools before a call is sent again that was refused, in `refusal`, for its headers.
    pub(crate) fn begin_survey(&mut self, now: Instant, call: ErrandKey, refusal: Vec<u8>) {
        let survey = self.ask_for_tools(call, 1, None);
        let Some(errand) = self.errands.get_mut(call) else { return };
        errand.was_resent = true;
        match survey {
            Some(survey) => {
                errand.stage = Stage::Surveying(survey, refusal);
                self.errands.come_back(call);
            }
            None => self.answer_with(now, call, refusal),
        }
    }

    /// Asks for a page of the list, in the name of the call.
    fn ask_for_tools(&mut self, call: ErrandKey, pages: u32, cursor: Option<&[u8]>) -> Option<ErrandKey> {
        let id = RequestId::string(&format!("rescind-tools-{}", self.errands.allocate()));
        let errand = self.errands.get(call)?;
        let Ok(Frame::Request(request)) = frame::parse(&errand.body) else { return None };
        let meta = request.params.meta?;
        let mut body = Vec::new();
        message::request(&id, "tools/list", &mut body, |out| {
            out.extend_from_slice(b"\"_meta\":");
            out.extend_from_slice(meta);
            if let Some(cursor) = cursor {
                out.extend_from_slice(b",\"cursor\":");
                out.extend_from_slice(cursor);
            }
        });
        let mut survey = Errand::new(Role::Survey { call, pages }, errand.dialect, None, Bytes::from(body));
        survey.credentials = errand.credentials.clone();
        survey.waiting.push(Waiting::new(id, CallKind::ListTools));
        let key = self.errands.insert(survey);
        self.errands.carry(key, Aim::Send);
        Some(key)
    }

    /// A page of the list came.
    pub(crate) fn survey_answered(
        &mut self,
        now: Instant,
        key: ErrandKey,
        (call, pages): (ErrandKey, u32),
        answer: &[u8],
        body: &ResponseBody<'_>,
    ) {
        let ResponseBody::Result(result) = body else { return self.end_survey(now, key, call, false) };
        let _ = self.tools.learn(answer, result);
        let cursor = json::member(result, "nextCursor").filter(|cursor| json::is_string(cursor));
        if let Some(cursor) = cursor.filter(|_| pages < self.config.max_pages)
            && let Some(next) = self.ask_for_tools(call, pages + 1, Some(cursor))
        {
            self.errands.forget(key);
            if let Some(Errand { stage: Stage::Surveying(survey, _), .. }) = self.errands.get_mut(call) {
                *survey = next;
            }
            return;
        }
        self.end_survey(now, key, call, true);
    }

    /// The list was read as far as it goes: the call is sent again, or its refusal is its answer.
    pub(crate) fn end_survey(&mut self, now: Instant, key: ErrandKey, call: ErrandKey, is_read: bool) {
        self.errands.forget(key);
        let Some(errand) = self.errands.get_mut(call) else { return };
        let Stage::Surveying(_, refusal) = core::mem::replace(&mut errand.stage, Stage::Away) else { return };
        match is_read {
            true => self.errands.carry(call, Aim::Send),
            false => self.answer_with(now, call, refusal),
        }
    }

    /// Makes the refusal of a call its answer.
    fn answer_with(&mut self, now: Instant, call: ErrandKey, refusal: Vec<u8>) {
        self.receive(now, call, refusal);
        self.fail(now, call, &Failure::not_run(Fault::Server, "the server refused the headers of the request"));
    }
}
