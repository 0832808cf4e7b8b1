//! The first act: a person presses Stop in an editor, and the work stops up to three hops away.

mod editor;
mod expectations;
mod receipts;
mod story;
mod timeline;

use std::io;

use crate::{
    act,
    paint::{Ink, Paint},
};
pub(crate) use story::Story;

pub(crate) fn play() -> io::Result<Story> {
    let (seen, played) = editor::play()?;
    let mut story = Story::new(&seen);
    story.unexpected = act::unexpected(played, || expectations::of_turn(&story));
    story.unexpected.extend(story.end.unexpected(&seen.unreadable));
    Ok(story)
}

pub(crate) fn picture(story: &Story, paint: Paint) -> String {
    let arrow = paint.glyphs.arrow;
    let parts = format!("an editor {arrow} an agent {arrow} a tool server {arrow} a process");
    let spoken = format!(" (ACP v1, MCP {})\n\n", story.mcp);
    let mut text = paint.text(Ink::Name, parts) + &spoken;
    text += &timeline::draw(story, paint);
    text += "\n";
    text += &receipts::write(story, paint);
    text += "\n";
    let summary = "All as expected: one Stop ended all six, the session continues, and no process is left.";
    text + &act::closing(&story.unexpected, summary, paint)
}

#[cfg(test)]
mod tests;
