//! What is POSTed to the token endpoint, and what comes of it (RFC 6749, 5).

use http::Uri;

use crate::{Http, Scopes, Secret, SignInError, client::Client, document::Document, error::excerpt, form::Form, web};

/// The longest life of a token that is believed, in seconds: a year.
const LONGEST: u64 = 366 * 24 * 60 * 60;

/// Tokens that were given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tokens {
    pub(crate) access: Secret,
    pub(crate) refresh: Option<Secret>,
    /// For how many seconds the access token is good; `None` if that is not known.
    pub(crate) lasts: Option<u64>,
    /// What it may be used for; `None` for what was asked.
    pub(crate) scopes: Option<Scopes>,
}

/// Asks for tokens.
pub(crate) async fn ask(http: &dyn Http, url: &Uri, client: &Client, form: Form) -> Result<Tokens, SignInError> {
    let answer = submit(http, url, client, form).await?;
    read(answer.as_ref())
}

/// POSTs a form as a client; an error of the server is one of ours.
pub(crate) async fn submit(
    http: &dyn Http,
    url: &Uri,
    client: &Client,
    form: Form,
) -> Result<Option<Document>, SignInError> {
    let (form, authorization) = client.authenticate(form);
    let content = "application/x-www-form-urlencoded";
    let reply = web::post(http, url, content, authorization, form.into_text()).await?;
    let answer = Document::read(&reply.body);
    let text = |name: &str| answer.as_ref().and_then(|answer| answer.text(name)).map(excerpt);
    // Some servers report it with the status 200.
    if let Some(error) = text("error") {
        let description = text("error_description").unwrap_or_default();
        return Err(SignInError::Refused { error, description });
    }
    if !reply.status.is_success() {
        let why = format!("it answered {}", reply.status);
        return Err(SignInError::Http { origin: crate::address::origin(url), why });
    }
    Ok(answer)
}

fn read(answer: Option<&Document>) -> Result<Tokens, SignInError> {
    let text = |name: &str| answer.and_then(|answer| answer.text(name));
    let unusable = |why: String| Err(SignInError::Token(why));
    let Some(access) = text("access_token") else { return unusable("there is none in the answer".to_owned()) };
    let may_be_sent = access.bytes().all(|byte| byte.is_ascii_graphic());
    if !may_be_sent {
        return unusable("it cannot stand in a header".to_owned());
    }
    let kind = text("token_type").unwrap_or_default();
    if !kind.eq_ignore_ascii_case("bearer") {
        return unusable(format!("it is of the type `{}`, not `Bearer`", excerpt(kind)));
    }
    let lasts = answer.and_then(|answer| answer.number("expires_in"));
    Ok(Tokens {
        access: Secret::new(access.to_owned()),
        refresh: text("refresh_token").map(|token| Secret::new(token.to_owned())),
        lasts: lasts.map(|lasts| lasts.min(LONGEST)),
        scopes: text("scope").map(Scopes::parse),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(answer: &Value) -> Result<Tokens, SignInError> {
        super::read(Document::read(answer.to_string().as_bytes()).as_ref())
    }

    #[test]
    fn only_a_bearer_token_is_taken() {
        let good = json!({"access_token": "a", "token_type": "bEARER", "expires_in": "60", "scope": "x y"});
        let tokens = read(&good).unwrap();
        assert_eq!((tokens.access.expose(), tokens.lasts, tokens.refresh), ("a", Some(60), None));
        assert_eq!(tokens.scopes.unwrap().to_string(), "x y");
        for (answer, why) in [
            (json!({"access_token": "a", "token_type": "mac"}), "of the type `mac`"),
            (json!({"access_token": "a"}), "of the type ``"),
            (json!({"token_type": "Bearer"}), "there is none"),
            (json!({"access_token": "a\r\nX: y", "token_type": "Bearer"}), "cannot stand in a header"),
            (json!({"access_token": "", "token_type": "Bearer"}), "there is none"),
            (Value::Null, "there is none"),
        ] {
            let refused = read(&answer).unwrap_err().to_string();
            assert!(refused.contains(why), "{answer}: {refused}");
        }
    }

    #[test]
    fn nobody_is_believed_for_ever() {
        let answer = json!({"access_token": "a", "token_type": "Bearer", "expires_in": u64::MAX});
        assert_eq!(read(&answer).unwrap().lasts, Some(LONGEST));
        let answer = json!({"access_token": "a", "token_type": "Bearer", "expires_in": -5});
        assert_eq!(read(&answer).unwrap().lasts, None);
    }
}
