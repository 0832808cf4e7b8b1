//! The second act: six calls through the shim.

mod client;
mod expectations;
mod receipts;
mod recording;
mod script;
mod story;
mod timeline;

use std::io;

use crate::{
    act,
    moment::Moment,
    paint::{Ink, Paint},
    sample_server::tool::Tool,
};
use client::Client;
use recording::Recording;
pub(crate) use story::Story;

pub(crate) fn play() -> io::Result<Story> {
    let mut client = Client::start(&script::FLAGS)?;
    let played = script::play(&mut client);
    let (seen, ending) = client.finish();
    let start = story::sent(&seen, script::id(Tool::Quick)).map_or_else(Moment::now, |message| message.at);
    let recording = Recording::read(&seen.recorded, start);
    let mut story = Story::new(&seen, &recording, ending, start);
    story.unexpected = act::unexpected(played, || expectations::of_calls(&story));
    story.unexpected.extend(expectations::of_session(&story, &seen, &recording));
    Ok(story)
}

pub(crate) fn picture(story: &Story, paint: Paint) -> String {
    let arrow = paint.glyphs.arrow;
    let parts = format!("a client {arrow} rescind run {arrow} a sample tool server");
    let mut text = format!("{} (MCP {})\n\n", paint.text(Ink::Name, parts), story.protocol);
    text += &timeline::draw(story, paint);
    text += "\n";
    text += &receipts::write(story, paint);
    text += "\n";
    let code = story.end.exit_code.unwrap_or_default();
    let summary = format!("All as expected: the shim exited with the server's code, {code}, and no process is left.");
    text + &act::closing(&story.unexpected, &summary, paint)
}

#[cfg(test)]
mod tests;
