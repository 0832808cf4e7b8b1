//! Which requests are cancelled.

use std::collections::BTreeSet;

use rescind_console::shims::{Query, Shim};
use rescind_feed::{Request, duration};

use super::target::Target;
use crate::{
    failure::Failure,
    fleet::{self, Facts, Heard, Pages, Selection, no_such_session, speak},
    screen::clean,
};

/// What the exit code says: the worst of what happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    Cancelled = 0,
    NotInFlight = 1,
    Failed = 2,
}

/// A request to cancel, as it was a moment ago.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    pub(super) shim: Shim,
    pub(super) request: Request,
    now: u64,
}

impl Chosen {
    /// How it is named so that nothing else fits.
    fn name(&self) -> String {
        let label = self.request.label();
        let label = label.strip_prefix("server:").unwrap_or(&label);
        format!("{}/{}:{}", self.shim.name(), self.request.from.as_str(), clean(label))
    }

    /// It, for a person to judge.
    pub(super) fn line(&self) -> String {
        let tool = self.request.name.as_deref().map(|name| format!(":{}", clean(name))).unwrap_or_default();
        let age = duration(self.now.saturating_sub(self.request.since));
        format!("  {}  {}{tool}  {age}", self.name(), clean(&self.request.method))
    }
}

/// The requests that are named; of a name that fits none or several it is said why.
pub(super) async fn by_name(targets: &[Target], session: Option<&str>) -> Result<(Vec<Chosen>, Verdict), Failure> {
    let shims = fleet::shims(session)?;
    let (mut chosen, mut verdict) = (Vec::<Chosen>::new(), Verdict::Cancelled);
    let mut unheard = BTreeSet::new();
    for target in targets {
        let meant: Vec<Shim> = match &target.session {
            None => shims.clone(),
            Some(session) => shims.iter().filter(|shim| shim.name() == session).cloned().collect(),
        };
        if let (Some(session), true) = (&target.session, meant.is_empty()) {
            no_such_session(session).say();
            verdict = verdict.max(Verdict::NotInFlight);
            continue;
        }
        let Fitting { requests: mut open, silent } = fitting(target, &meant, None).await;
        for one in &silent {
            if unheard.insert(one.session.clone()) {
                one.say();
            }
            verdict = Verdict::Failed;
        }
        match (open.pop(), open.is_empty()) {
            // A silent session may have one, too, and be the one that is meant.
            (Some(one), true) if !silent.is_empty() => say_unsure(target, Some(&one), &silent),
            (Some(one), true) => {
                let same =
                    |other: &Chosen| (other.shim.name(), &other.request.key) == (one.shim.name(), &one.request.key);
                if !chosen.iter().any(same) {
                    chosen.push(one);
                }
            }
            (Some(one), false) => {
                open.push(one);
                say_ambiguous(target, &open);
                verdict = verdict.max(Verdict::NotInFlight);
            }
            (None, _) if !silent.is_empty() => say_unsure(target, None, &silent),
            (None, _) => {
                let ended = fitting(target, &meant, Some("recent")).await.requests;
                say_missing(target, ended.last());
                verdict = verdict.max(Verdict::NotInFlight);
            }
        }
    }
    Ok((chosen, verdict))
}

/// Every request in flight of that kind which is not cancelled yet.
pub(super) async fn by_selection(selection: &Selection) -> Result<(Vec<Chosen>, Verdict), Failure> {
    let (mut chosen, mut verdict) = (Vec::new(), Verdict::Cancelled);
    let query = Query { cancelled: Some(false), ..selection.query() };
    let shims = fleet::shims(selection.session.as_deref())?;
    if shims.is_empty() {
        speak(&fleet::no_sessions());
        return Ok((chosen, Verdict::NotInFlight));
    }
    let (answered, silent) = parted(fleet::hear(shims, &query, Pages::All).await);
    for one in &silent {
        one.say();
        verdict = Verdict::Failed;
    }
    for (shim, facts) in answered {
        let Facts { now, requests, more, cut, .. } = facts;
        if let Some(error) = cut {
            let words = clean(&error.to_string());
            speak(&format!("error: {}: {more} more of them are not reached: {words}", shim.name()));
            verdict = Verdict::Failed;
        }
        let meant = |request: &Request| request.is_open() && request.cancel.is_none() && request.since <= now;
        let fresh = requests.into_iter().filter(meant);
        chosen.extend(fresh.map(|request| Chosen { shim: shim.clone(), request, now }));
    }
    if chosen.is_empty() {
        let of_those = if silent.is_empty() { "" } else { " in the sessions that answered" };
        speak(&format!("nothing of this kind is in flight{of_those}, or it is cancelled already"));
        verdict = verdict.max(Verdict::NotInFlight);
    }
    Ok((chosen, verdict))
}

/// What fits a name.
struct Fitting {
    /// The requests that fit best.
    requests: Vec<Chosen>,
    silent: Vec<Silent>,
}

/// A session that did not answer.
struct Silent {
    session: String,
    why: String,
}

impl Silent {
    fn say(&self) {
        speak(&format!("error: {}: {}", self.session, self.why));
    }
}

async fn fitting(target: &Target, shims: &[Shim], state: Option<&'static str>) -> Fitting {
    let query = Query { id: Some(target.id.clone()), state, ..Query::default() };
    let (answered, silent) = parted(fleet::hear(shims.to_vec(), &query, Pages::First).await);
    let mut found = Vec::new();
    for (shim, facts) in answered {
        let Facts { now, requests, .. } = facts;
        let fits = requests.into_iter().filter_map(|request| Some((target.fit(&request)?, request)));
        found.extend(fits.map(|(fit, request)| (fit, Chosen { shim: shim.clone(), request, now })));
    }
    let best = found.iter().map(|(fit, _)| *fit).max();
    let requests = found.into_iter().filter(|(fit, _)| Some(*fit) == best).map(|(_, one)| one).collect();
    Fitting { requests, silent }
}

/// The sessions that answered, and those that did not.
fn parted(heard: Vec<Heard>) -> (Vec<(Shim, Facts)>, Vec<Silent>) {
    let (mut answered, mut silent) = (Vec::new(), Vec::new());
    for Heard { shim, told } in heard {
        match told {
            Ok(facts) => answered.push((shim, facts)),
            Err(error) => silent.push(Silent { session: shim.name().to_owned(), why: clean(&error.to_string()) }),
        }
    }
    (answered, silent)
}

/// Whether the name fits nothing, or one request only, cannot be known.
fn say_unsure(target: &Target, one: Option<&Chosen>, silent: &[Silent]) {
    let silent = silent.iter().map(|one| one.session.as_str()).collect::<Vec<_>>().join(", ");
    let text = clean(&target.text);
    match one {
        None => speak(&format!("error: {text}: it may be in {silent}\nhint: try again; `rescind ps` says who answers")),
        Some(one) => {
            speak(&format!("error: {text}: fits this request, and may fit one in {silent}"));
            speak(&one.line());
            speak("hint: name the one that is meant as it stands here");
        }
    }
}

fn say_ambiguous(target: &Target, fitting: &[Chosen]) {
    speak(&format!("error: {}: fits {} requests in flight", clean(&target.text), fitting.len()));
    fitting.iter().for_each(|one| speak(&one.line()));
    speak("hint: name the one that is meant as it stands here");
}

fn say_missing(target: &Target, ended: Option<&Chosen>) {
    let text = clean(&target.text);
    let Some(Chosen { request, now, .. }) = ended else {
        speak(&format!("error: {text}: no such request\nhint: `rescind ps` lists those in flight"));
        return;
    };
    let how = request.settled.as_ref().map_or_else(String::new, |settled| {
        let ago = duration(now.saturating_sub(settled.at));
        let code = settled.code.map(|code| format!(" {code}")).unwrap_or_default();
        format!(": {}{code}, {ago} ago", settled.how.as_str())
    });
    speak(&format!("{text}: not in flight any more{how}"));
}
