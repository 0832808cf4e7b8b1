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
    errands::Errands,
    failure::Failure,
    fetch::Aim,
};

impl HttpClient {
    /// Asks for the list of tools before a call is sent again that was refused, in `refusal`, for its headers; `false` if
    /// that cannot be asked.
    pub(crate) fn begin_survey(&mut self, call: ErrandKey, refusal: &[u8]) -> bool {
        let survey = self.errands.ask_for_tools(call, 1, None);
        let Some((survey, errand)) = survey.zip(self.errands.get_mut(call)) else { return false };
        errand.was_resent = true;
        errand.stage = Stage::Surveying(survey, refusal.to_vec());
        self.errands.come_back(call);
        true
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
            && let Some(next) = self.errands.ask_for_tools(call, pages + 1, Some(cursor))
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
        if is_read {
            return self.errands.carry(call, Aim::Send);
        }
        self.receive(now, call, refusal);
        self.fail(now, call, &Failure::not_run(Fault::Server, "the server refused the headers of the request"));
    }
}

impl Errands {
    /// Asks for a page of the list, in the name of the call.
    fn ask_for_tools(&mut self, call: ErrandKey, pages: u32, cursor: Option<&[u8]>) -> Option<ErrandKey> {
        let id = RequestId::string(&format!("rescind-tools-{}", self.allocate()));
        let errand = self.get(call)?;
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
        let key = self.insert(survey);
        self.carry(key, Aim::Send);
        Some(key)
    }
}
