//! Which era of MCP a server is of, by its answer to `server/discover`: read here, for the bridge, HTTP and the library.

use super::{Dialect, mcp};
use crate::{error_code, frame::ResponseBody, json};

/// The request that asks a server without sessions which revisions it speaks.
pub const DISCOVER: &str = "server/discover";

/// What an answer to [`DISCOVER`] shows of the server that gave it.
///
/// It never grows: a server has sessions or it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discovered {
    /// It has none: a result, or an error that only such servers have. The newest revision without sessions that it names
    /// and that is known here, if there is one. Beside an error it is what the server is to be asked in.
    Stateless(Option<&'static Dialect>),
    /// It has, as far as this tells.
    Sessions,
}

impl Discovered {
    /// Reads an answer.
    #[must_use]
    pub fn of_answer(answer: &ResponseBody<'_>) -> Self {
        match answer {
            ResponseBody::Result(result) => Self::Stateless(newest(json::member(result, "supportedVersions"))),
            ResponseBody::Error(error) => match answer.error_code().and_then(|code| i32::try_from(code).ok()) {
                Some(error_code::UNSUPPORTED_PROTOCOL_VERSION) => {
                    Self::Stateless(newest(json::lookup(error, &["data", "supported"])))
                }
                Some(error_code::MISSING_CLIENT_CAPABILITY | error_code::HEADER_MISMATCH) => Self::Stateless(None),
                Some(_) | None => Self::Sessions,
            },
        }
    }
}

/// The newest revision without sessions in a list, which is JSON.
fn newest(dates: Option<&[u8]>) -> Option<&'static Dialect> {
    let dates = dates.and_then(json::elements).into_iter().flatten().map_while(Result::ok);
    mcp::newest_stateless(dates.filter_map(json::text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEWEST: Discovered = Discovered::Stateless(Some(&mcp::LATEST_STATELESS));

    #[test]
    fn a_result_or_an_error_of_that_era_is_of_a_server_without_sessions() {
        let date = mcp::LATEST_STATELESS.date.unwrap();
        let result = |text: &str| Discovered::of_answer(&ResponseBody::Result(text.as_bytes()));
        assert_eq!(result(&format!(r#"{{"supportedVersions":["2025-11-25","{date}","1999-01-01"]}}"#)), NEWEST);
        for none in [r#"{"supportedVersions":["2025-11-25",1]}"#, r#"{"supportedVersions":{}}"#, "{}", "7"] {
            assert_eq!(result(none), Discovered::Stateless(None), "{none}");
        }
        let error = |code: i32, data: &str| {
            let error = format!(r#"{{"code":{code},"message":"","data":{data}}}"#);
            Discovered::of_answer(&ResponseBody::Error(error.as_bytes()))
        };
        assert_eq!(error(-32022, &format!(r#"{{"supported":["{date}"]}}"#)), NEWEST);
        assert_eq!(error(-32022, r#"{"supported":["2025-11-25"]}"#), Discovered::Stateless(None));
        assert_eq!(error(error_code::HEADER_MISMATCH, "{}"), Discovered::Stateless(None));
        assert_eq!(
            error(error_code::METHOD_NOT_FOUND, &format!(r#"{{"supported":["{date}"]}}"#)),
            Discovered::Sessions
        );
    }
}
