//! The picture: a row for each call over one time axis.

use super::story::{Answer, Call, Canceller, Story, WorkEnd};
use crate::{
    axis::{Axis, MARGIN},
    ms::Ms,
    paint::{Cell, Ink, Paint, join, legend},
};

/// Columns before the axis, and columns after it for what the client received.
const BEFORE: usize = 13;
const AFTER: usize = 37;

/// In milliseconds: the shortest axis, the longest with the closest labels, and their distance.
const SHORTEST: f64 = 2100.0;
const LONGEST: f64 = 3000.0;
const LABELS: f64 = 500.0;

pub(super) fn draw(story: &Story, paint: Paint) -> String {
    let axis = axis(story, paint.width.saturating_sub(BEFORE + AFTER));
    let mut picture = heading(&axis, paint);
    for call in &story.calls {
        let name = format!("{:<8}", call.tool.name());
        picture += &format!("  {} {} ", call.id, paint.text(Ink::Name, name));
        picture += &join(&cells(&axis, call, paint), paint);
        picture += &format!("  {}\n", received(call));
    }
    picture + "\n" + &explain_signs(paint)
}

fn axis(story: &Story, columns: usize) -> Axis {
    let last = story.calls.iter().flat_map(times).fold(SHORTEST, f64::max);
    let label = LABELS * (last / LONGEST).ceil();
    // The most whole columns from label to label that leave room for the last sign.
    let pitch = (columns.saturating_sub(MARGIN) as f64 / (last / label)).floor().max(1.0) as usize;
    let columns = (last / label * pitch as f64).ceil() as usize + MARGIN;
    Axis { lead: 0, columns, label, pitch }
}

fn heading(axis: &Axis, paint: Paint) -> String {
    let mut line = format!("{:BEFORE$}", "  call");
    for (column, time) in axis.labels() {
        let label = if column == 0 { "0 s".to_owned() } else { format!("{:.1}", time / 1000.0) };
        line = format!("{line:<at$}{label}", at = BEFORE + column);
    }
    let line = format!("{line:<at$}the client received", at = BEFORE + axis.columns + 2);
    paint.text(Ink::Faint, line) + "\n"
}

fn cells(axis: &Axis, call: &Call, paint: Paint) -> Vec<Cell> {
    let cancelled = call.cancel.as_ref().map_or(axis.columns, |cancel| axis.column(cancel.at_ms));
    let work = call.work.started_ms.map_or(0..0, |started| {
        let started = axis.column(started);
        // Work without a mark of its end is drawn to the end of the axis.
        let ended = call.work.ended_ms.map_or(axis.columns - MARGIN, |ended| axis.column(ended).max(started + 1));
        started..ended
    });
    let signs = signs(call, paint).into_iter().map(|(at, sign)| (axis.column(at), sign));
    axis.row(work, cancelled, signs.collect(), paint)
}

/// Returns the signs of one row, ordered by time.
fn signs(call: &Call, paint: Paint) -> Vec<(Ms, Cell)> {
    let glyphs = paint.glyphs;
    let mut signs = Vec::new();
    if let Some(cancel) = &call.cancel {
        let sign = match cancel.by {
            Canceller::Client => glyphs.cancel,
            Canceller::Shim => glyphs.clock,
        };
        signs.push((cancel.at_ms, (sign, Ink::Cancel)));
    }
    if let (Some(ended), Some(WorkEnd::Exited)) = (call.work.ended_ms, call.work.end) {
        signs.push((ended, (glyphs.death, Ink::Bad)));
    }
    if let Some(late) = call.swallowed.answer_ms {
        signs.push((late, (glyphs.swallowed, Ink::Unwanted)));
    }
    for answer in &call.client.answers {
        let ink = if answer.error.is_none() { Ink::Answer } else { Ink::Bad };
        signs.push((answer.at_ms, (glyphs.answer, ink)));
    }
    signs.sort_by(|(Ms(one), _), (Ms(other), _)| one.total_cmp(other));
    signs
}

fn times(call: &Call) -> impl Iterator<Item = f64> {
    let answers = call.client.answers.iter().map(|answer| answer.at_ms);
    let times = [call.work.ended_ms, call.swallowed.answer_ms, call.cancel.as_ref().map(|cancel| cancel.at_ms)];
    times.into_iter().flatten().chain(answers).map(|Ms(time)| time)
}

/// Says in a few words what the client received.
fn received(call: &Call) -> String {
    match (call.client.answers.as_slice(), &call.cancel) {
        ([], None) if call.asked_ms.is_none() => "(not called)".to_owned(),
        ([], None) => "no answer".to_owned(),
        ([], Some(_)) if call.client.after_cancel == 0 => "nothing after its cancel".to_owned(),
        ([], Some(_)) => "progress that crossed its cancel".to_owned(),
        ([answer], _) => received_answer(call, answer),
        (answers, _) => format!("{} answers", answers.len()),
    }
}

fn received_answer(call: &Call, answer: &Answer) -> String {
    let Some(error) = &answer.error else {
        let after = call.asked_ms.map_or(0.0, |Ms(asked)| answer.at_ms.0 - asked);
        return format!("the result, after {after:.0} ms");
    };
    let data = &error["data"];
    let what = if let Some(after) = data["afterMs"].as_f64() {
        format!("no answer within {} s", after / 1000.0)
    } else if let Some(code) = data["exitCode"].as_i64() {
        format!("server exited, code {code}")
    } else {
        error["message"].as_str().unwrap_or_default().chars().take(AFTER - 15).collect()
    };
    format!("error {}: {what}", error["code"])
}

fn explain_signs(paint: Paint) -> String {
    let glyphs = paint.glyphs;
    let signs = [
        (glyphs.work, Ink::Work, "work runs"),
        (glyphs.unwanted, Ink::Unwanted, "work still runs"),
        (glyphs.cancel, Ink::Cancel, "the client cancels"),
        (glyphs.clock, Ink::Cancel, "the shim cancels: timeout"),
        (glyphs.answer, Ink::Answer, "answer to the client"),
        (glyphs.swallowed, Ink::Unwanted, "late answer, swallowed by the shim"),
        (glyphs.death, Ink::Bad, "the server dies"),
    ];
    legend(&signs, paint)
}
