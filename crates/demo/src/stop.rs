//! The first act: an editor presses Stop, and the work stops three hops away.

mod editor;
#[cfg(test)]
mod example;
mod expectations;

mod receipts;
mod story;
mod timeline;

use std::io;

use crate::paint::{Ink, Paint, wrapped};
pub(crate) use story::Story;

pub(crate) fn play() -> io::Result<Story> {
    let (seen, played) = editor::play()?;
    let mut story = Story::new(&seen);
    story.unexpected = match played {
        Ok(()) => expectations::of_turn(&story),
        // What comes after that follows from it.
        Err(stopped) => vec![stopped.to_string()],
    };
    story.unexpected.extend(expectations::of_session(&story, &seen));
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
    if story.unexpected.is_empty() {
        let said = "As it should be. One Stop closed all six; the session goes on; nothing is left behind.";
        text + &format!("  {}\n", wrapped(said, 2, paint.width))
    } else {
        text + &crate::disappointments(&story.unexpected, paint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fall_where_all_went_well_is_told_at_a_glance() {
        assert_eq!(picture(&example::story(), Paint::PLAIN), include_str!("stop/example.txt"));
    }

    #[test]
    fn what_was_not_as_it_should_be_is_said() {
        let mut story = example::story();
        story.unexpected.push("make: the work must stop".to_owned());
        let text = picture(&story, Paint::PLAIN);
        assert!(text.ends_with("  not as it should be\n  - make: the work must stop\n"), "{text}");
    }

    #[test]
    fn no_line_is_wider_than_the_screen() {
        for width in [80, 88, 96] {
            let text = picture(&example::story(), Paint { width, ..Paint::PLAIN });
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(width), "{widest:?} of {width}:\n{text}");
        }
    }

    #[test]
    fn a_turn_that_never_began_is_drawn_too() {
        let text = picture(&Story::new(&editor::Seen::default()), Paint::PLAIN);
        assert!(text.contains("prompt"), "{text}");
    }
}
