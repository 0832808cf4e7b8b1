//! A device without a browser, on a clock that nobody waits for.

use rescind_sign_in::{Invitation, Settings, SignInError};
use serde_json::json;
use tokio::time::Instant;

use crate::{
    rig::Rig,
    script::{Answer, DEVICE, ISSUER_PAGE, SERVER, TOKEN},
};

fn rig() -> Rig {
    let rig = Rig::with(Settings { uses_device: true, ..Settings::default() });
    rig.script.change(ISSUER_PAGE, |page| page["device_authorization_endpoint"] = json!(DEVICE));
    rig
}

fn error(code: &str) -> Answer {
    Answer::Json(400, json!({"error": code}))
}

#[tokio::test(start_paused = true)]
async fn a_person_types_a_code_elsewhere() {
    let mut rig = rig();
    rig.script.device_answers([
        error("authorization_pending"),
        error("slow_down"),
        Answer::Json(503, json!({})),
        Answer::Json(200, json!({"access_token": "a", "token_type": "Bearer"})),
    ]);
    let begun = Instant::now();
    let record = rig.sign_in.sign_in().await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 5 + 5 + 10 + 20);
    let page = Invitation::Device { page: "https://as.test/activate".into(), code: "ABCD-EFGH".into() };
    assert_eq!(rig.invitation().await, page);
    assert_eq!(record.client_id(), "client-1");
    let asked = &rig.script.asked(DEVICE)[0];
    assert_eq!((asked.value("resource").as_deref(), asked.value("scope").as_deref()), (Some(SERVER), Some("read")));
    assert_eq!(rig.script.asked(TOKEN)[0].value("device_code").as_deref(), Some("device-secret"));
}

#[tokio::test(start_paused = true)]
async fn a_person_says_no_or_is_too_late() {
    for (code, expected) in [("access_denied", SignInError::Denied), ("expired_token", SignInError::TooLate(10))] {
        let rig = rig();
        rig.script.device_answers([error(code)]);
        let error = rig.sign_in.sign_in().await.unwrap_err();
        assert_eq!(error.to_string(), expected.to_string());
        rig.assert_nothing_kept();
    }
    let rig = rig();
    rig.script.answer(TOKEN, error("authorization_pending"));
    let error = rig.sign_in.sign_in().await.unwrap_err();
    assert!(matches!(error, SignInError::TooLate(10)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn without_such_a_way_there_is_an_address() {
    let mut rig = Rig::with(Settings { uses_device: true, ..Settings::default() });
    rig.sign_in.sign_in().await.unwrap_err();
    assert!(matches!(rig.invitation().await, Invitation::Page { .. }));
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_a_code_or_with_a_strange_page_is_refused() {
    for page in ["", "javascript:alert(1)", "file:///etc/passwd"] {
        let mut rig = rig();
        rig.script.answer(
            DEVICE,
            Answer::Json(
                200,
                json!({
                    "device_code": "d", "user_code": "u", "verification_uri": page,
                }),
            ),
        );
        rig.sign_in.sign_in().await.unwrap_err();
        assert!(!rig.was_asked(), "{page}");
    }
}
