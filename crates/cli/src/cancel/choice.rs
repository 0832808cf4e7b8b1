//! Finds the requests to cancel.

use std::collections::BTreeSet;

use rescind_feed::{Request, SettledHow, duration};
use rescind_operator::{ListingQuery, Shim};
use rescind_proto::dialect::Dialect;

use super::target::Target;
use crate::{
    absence::no_sessions,
    completion::Completion,
    failure::Failure,
    fleet::{self, Pages, Selection, SessionListing, ShimAnswer, report},
    screen::clean,
    session_name::{self, Sessions, no_such_session},
};

/// A request to cancel, as it was a moment ago.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) shim: Shim,
    pub(crate) request: Request,
    now: u64,
}

impl Chosen {
    /// A name that matches no other request.
    fn name(&self) -> String {
        let label = self.request.label();
        let label = label.strip_prefix("server:").unwrap_or(&label);
        format!("{}/{}:{}", self.shim.name(), self.request.from.as_str(), clean(label))
    }

    /// Whether it is in flight, or the other side works on it after its end.
    pub(crate) fn is_worked_on(&self) -> bool {
        self.request.is_open() || self.request.cancel.as_ref().is_some_and(|cancel| cancel.works_on)
    }

    /// Whether it was cancelled at this time of its session's clock or later.
    pub(crate) fn is_cancelled_since(&self, time: u64) -> bool {
        self.request.cancel.as_ref().is_some_and(|cancel| cancel.asked >= time)
    }

    /// A line about it for a person.
    pub(super) fn line(&self) -> String {
        let tool = self.request.name.as_deref().map(|name| format!(":{}", clean(name))).unwrap_or_default();
        let age = duration(self.now.saturating_sub(self.request.since));
        format!("  {}  {}{tool}  {age}", self.name(), clean(&self.request.method))
    }
}

/// Finds the named requests. Reports names that match none or several.
pub(super) async fn by_name(targets: &[Target], session: Option<&str>) -> Result<(Vec<Chosen>, Completion), Failure> {
    let Some(shims) = shims(session).await? else { return Ok((Vec::new(), Completion::Partial)) };
    let (mut chosen, mut completion) = (Vec::<Chosen>::new(), Completion::Whole);
    let (mut silent_reported, mut sessions) = (BTreeSet::new(), None);
    for (place, target) in targets.iter().enumerate() {
        if targets[..place].contains(target) {
            continue;
        }
        let Located { target, meant } = match locate(target, &shims, &mut sessions).await {
            Ok(located) => located,
            Err(failure) => {
                failure.report();
                completion = completion.max(Completion::Partial);
                continue;
            }
        };
        let target = &target;
        let Fitting { requests: mut open, silent } = fitting(target, &meant, None).await;
        for one in &silent {
            if silent_reported.insert(one.session.clone()) {
                one.report();
            }
            completion = Completion::Failed;
        }
        match (open.pop(), open.is_empty()) {
            // A silent session may have such a request too, and it may be the one that is meant.
            (Some(one), true) if !silent.is_empty() => report_unsure(target, Some(&one), &silent),
            (Some(one), true) => {
                let same =
                    |other: &Chosen| (other.shim.name(), &other.request.key) == (one.shim.name(), &one.request.key);
                if !chosen.iter().any(same) {
                    chosen.push(one);
                }
            }
            (Some(one), false) => {
                open.push(one);
                report_ambiguous(target, &open);
                completion = completion.max(Completion::Partial);
            }
            (None, _) if !silent.is_empty() => report_unsure(target, None, &silent),
            (None, _) => {
                let ended = fitting(target, &meant, Some("recent")).await.requests;
                report_missing(target, ended.last(), &meant);
                completion = completion.max(Completion::Partial);
            }
        }
    }
    Ok((chosen, completion))
}

/// Finds every selected request in flight that is not cancelled yet; without what is a part of another or works in the
/// background, if only turns are meant.
pub(super) async fn by_selection(selection: &Selection, turn_only: bool) -> Result<(Vec<Chosen>, Completion), Failure> {
    let (mut chosen, mut completion) = (Vec::new(), Completion::Whole);
    let query = ListingQuery { cancelled: Some(false), ..selection.query() };
    let Some(shims) = shims(selection.session.as_deref()).await? else { return Ok((chosen, Completion::Partial)) };
    if shims.is_empty() {
        report(&no_sessions());
        return Ok((chosen, Completion::Partial));
    }
    let (answered, silent) = partition(fleet::ask_shims(shims, &query, Pages::All).await);
    for one in &silent {
        one.report();
        completion = Completion::Failed;
    }
    for (shim, facts) in answered {
        let SessionListing { now, requests, more, cut, .. } = facts;
        if let Some(error) = cut {
            let words = clean(&error.to_string());
            report(&format!("error: {}: {more} more requests match and were not cancelled: {words}", shim.name()));
            completion = Completion::Failed;
        }
        let is_beside = |request: &Request| request.is_part() || Dialect::is_any_background(&request.method);
        let is_meant = |request: &Request| !turn_only || !is_beside(request);
        let meant = |one: &Chosen| one.request.is_open() && one.request.cancel.is_none() && is_meant(&one.request);
        chosen.extend(self::chosen(&shim, now, requests, meant));
    }
    if chosen.is_empty() {
        let of_those = if silent.is_empty() { "" } else { " in the sessions that answered" };
        let cause = format_args!(
            "nothing to cancel: no request in flight matches{of_those}, or each that matches is cancelled already"
        );
        Failure::new("rescind cancel", cause, "`rescind ps` lists the requests in flight").report();
        completion = completion.max(Completion::Partial);
    }
    Ok((chosen, completion))
}

/// Those requests of a listing that are `meant`, without any that began after it was asked for.
pub(crate) fn chosen(
    shim: &Shim,
    now: u64,
    requests: Vec<Request>,
    meant: impl Fn(&Chosen) -> bool,
) -> impl Iterator<Item = Chosen> {
    let listed = requests.into_iter().filter(move |request| request.since <= now);
    listed.map(move |request| Chosen { shim: shim.clone(), request, now }).filter(meant)
}

/// Finds the shims to ask. Reports a session that does not exist, or is not the only one of its name, and returns `None`.
async fn shims(session: Option<&str>) -> Result<Option<Vec<Shim>>, Failure> {
    let shims = fleet::shims()?;
    let Some(session) = session else { return Ok(Some(shims)) };
    match session_name::find(session, shims).await {
        Ok(shim) => Ok(Some(vec![shim])),
        Err(failure) => {
            failure.report();
            Ok(None)
        }
    }
}

/// A target, and the shims that may have it.
struct Located {
    target: Target,
    meant: Vec<Shim>,
}

/// Finds the session before the slash of a target. The sessions are asked what they are called at most once, and only if
/// that is the number of none.
async fn locate(target: &Target, shims: &[Shim], sessions: &mut Option<Sessions>) -> Result<Located, Failure> {
    let numbered = |session: &String| shims.iter().find(|shim| shim.name() == session).cloned();
    if let Some(shim) = target.session.as_ref().and_then(numbered) {
        return Ok(Located { target: target.clone(), meant: vec![shim] });
    }
    let all = || Located { target: target.clone(), meant: shims.to_vec() };
    if target.session.is_none() && !target.may_name_entry() {
        return Ok(all());
    }
    if sessions.is_none() {
        *sessions = Some(Sessions::ask(shims.to_vec()).await);
    }
    let sessions = sessions.get_or_insert_default();
    let named = sessions.before_slash(&target.text).and_then(|name| target.of_session(&name));
    match (named, &target.session) {
        (Some(target), _) => {
            let meant = vec![sessions.named(target.session.as_deref().unwrap_or_default())?];
            Ok(Located { target, meant })
        }
        // Which may be the name of a session that did not answer.
        (None, Some(session)) => Err(sessions.named(session).err().unwrap_or_else(|| no_such_session(session))),
        (None, None) => Ok(all()),
    }
}

/// What matches a name.
struct Fitting {
    /// The requests that match best.
    requests: Vec<Chosen>,
    silent: Vec<SilentSession>,
}

/// A session that did not answer.
struct SilentSession {
    session: String,
    why: String,
}

impl SilentSession {
    fn report(&self) {
        report(&format!("error: {}: {}", self.session, self.why));
    }
}

async fn fitting(target: &Target, shims: &[Shim], state: Option<&'static str>) -> Fitting {
    let query = ListingQuery { id: Some(target.id.clone()), state, ..ListingQuery::default() };
    let (answered, silent) = partition(fleet::ask_shims(shims.to_vec(), &query, Pages::First).await);
    let mut found = Vec::new();
    for (shim, facts) in answered {
        let SessionListing { now, requests, .. } = facts;
        let fits = requests.into_iter().filter_map(|request| Some((target.fit(&request)?, request)));
        found.extend(fits.map(|(fit, request)| (fit, Chosen { shim: shim.clone(), request, now })));
    }
    let best = found.iter().map(|(fit, _)| *fit).max();
    let requests = found.into_iter().filter(|(fit, _)| Some(*fit) == best).map(|(_, one)| one).collect();
    Fitting { requests, silent }
}

/// Separates the sessions that answered from those that did not.
fn partition(answers: Vec<ShimAnswer>) -> (Vec<(Shim, SessionListing)>, Vec<SilentSession>) {
    let (mut answered, mut silent) = (Vec::new(), Vec::new());
    for ShimAnswer { shim, answer } in answers {
        match answer {
            Ok(facts) => answered.push((shim, facts)),
            Err(error) => {
                silent.push(SilentSession { session: shim.name().to_owned(), why: clean(&error.to_string()) })
            }
        }
    }
    (answered, silent)
}

/// Reports a name that may match a request in a session that did not answer.
fn report_unsure(target: &Target, one: Option<&Chosen>, silent: &[SilentSession]) {
    let sessions = if silent.len() == 1 { "session" } else { "sessions" };
    let silent = silent.iter().map(|one| one.session.as_str()).collect::<Vec<_>>().join(", ");
    let (text, unasked) = (clean(&target.text), format!("{sessions} {silent} could not be asked"));
    match one {
        None => report(&format!(
            "error: {text}: not cancelled, since {unasked}\nhint: try again; `rescind ps` shows which sessions answer"
        )),
        Some(one) => {
            report(&format!("error: {text}: not cancelled: it matches this request, but {unasked}"));
            report(&one.line());
            report("hint: use the full name shown here");
        }
    }
}

fn report_ambiguous(target: &Target, fitting: &[Chosen]) {
    report(&format!("error: {}: matches {} requests in flight", clean(&target.text), fitting.len()));
    fitting.iter().for_each(|one| report(&one.line()));
    report("hint: use the full name shown here");
}

/// Reports a name that matches no request in flight in `shims`. `ended` is a request of that name which has ended.
fn report_missing(target: &Target, ended: Option<&Chosen>, shims: &[Shim]) {
    let text = clean(&target.text);
    let Some(Chosen { request, now, .. }) = ended else {
        if shims.iter().any(|shim| shim.name() == target.text) {
            let hint = format!("name a request as `rescind ps` lists it, or use --session {text} --all");
            return Failure::new(text, "is a session, and no request has this id", hint).report();
        }
        return Failure::new(text, "no such request", "`rescind ps` lists the requests in flight").report();
    };
    let how = request.settled.as_ref().map_or_else(String::new, |settled| {
        let ago = duration(now.saturating_sub(settled.at));
        let code = match (settled.how, settled.code) {
            (_, None) => String::new(),
            (SettledHow::Error, Some(code)) => format!(" {code}"),
            (_, Some(code)) => format!(" with error {code}"),
        };
        format!(": {}{code}, {ago} ago", settled.how.as_str())
    });
    report(&format!("{text}: no longer in flight{how}"));
}
