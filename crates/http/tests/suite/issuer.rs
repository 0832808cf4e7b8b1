//! Signed tokens of an issuer: what is taken for one, whose it is, and when its keys come.

use std::time::Duration;

use http::Method;
use rescind_http::server::{Access, HttpServerConfig, Issuer, KeySet, ReplyKey};
use rescind_testkit::tokens::{SigningKey, key_set, sign_with_secret, signed_part};
use serde_json::{Value, json};

use crate::rig::*;

const ISSUER: &str = "https://as.test/t";
const AUDIENCE: &str = "https://mcp.test/mcp";
const NOW: u64 = 1_800_000_000;
const HINT: &str = r#"resource_metadata="https://mcp.test/.well-known/oauth-protected-resource/mcp", scope="use""#;

fn config_of(scopes: &[&str]) -> HttpServerConfig {
    let issuer = Issuer::new(ISSUER, AUDIENCE, scopes).unwrap();
    HttpServerConfig { access: Access::Issuer(issuer), ..config() }
}

/// A server that knows these keys.
fn rig(keys: &[&SigningKey]) -> Rig {
    let mut rig = Rig::with(config_of(&["use"]));
    rig.server.supply_time(Duration::from_secs(NOW));
    rig.knows(keys);
    rig
}

fn claims() -> Value {
    json!({"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": NOW + 300, "scope": "other use"})
}

/// Claims with one changed; taken out if it is null.
fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    if value.is_null() {
        claims.as_object_mut().unwrap().remove(name);
    } else {
        claims[name] = value;
    }
    claims
}

impl Rig {
    fn knows(&mut self, keys: &[&SigningKey]) {
        let keys = KeySet::read(key_set(keys).to_string().as_bytes()).unwrap();
        self.server.handle_keys(self.now, Some(keys));
        self.drain();
    }

    /// A request with this token, which is not for any session.
    fn knock(&mut self, token: &str) -> ReplyKey {
        self.authorization = Some(format!("Bearer {token}"));
        self.post(&[], &call("1"))
    }

    /// Whether a token is taken: then only the session is missing.
    fn status(&mut self, token: &str) -> u16 {
        let key = self.knock(token);
        match self.read(key).status {
            400 => 200,
            status => status,
        }
    }
}

#[test]
fn a_token_of_each_algorithm_is_taken() {
    for key in [SigningKey::rsa("r"), SigningKey::p256("e"), SigningKey::ed25519("o")] {
        let mut rig = rig(&[&SigningKey::p256("another"), &key]);
        assert_eq!(rig.status(&key.token(&claims())), 200, "{}", key.algorithm());
        rig.leaves_nothing();
    }
}

#[test]
fn a_token_says_who_asks_and_until_when() {
    let key = SigningKey::p256("e");
    let mut rig = rig(&[&key]);
    for (claims, status) in [
        (claims(), 200),
        (with("aud", json!(["https://other.test", AUDIENCE])), 200),
        (with("aud", json!(["https://other.test", "https://mcp.test"])), 401),
        (with("aud", json!("https://mcp.test/mcp/")), 401),
        (with("aud", json!([])), 401),
        (with("aud", json!({"x": AUDIENCE})), 401),
        (with("aud", Value::Null), 401),
        (with("iss", json!("https://as.test")), 401),
        (with("iss", json!("https://as.test/t/")), 401),
        (with("iss", json!([ISSUER])), 401),
        (with("iss", Value::Null), 401),
        (with("exp", json!(NOW - 59)), 200),
        (with("exp", json!(NOW - 60)), 401),
        (with("exp", json!(NOW as f64 - 59.5)), 200),
        (with("exp", json!("9999999999")), 401),
        (with("exp", json!(true)), 401),
        (with("exp", Value::Null), 401),
        (with("nbf", json!(NOW + 60)), 200),
        (with("nbf", json!(NOW + 61)), 401),
        (with("nbf", json!("soon")), 401),
        (with("sub", Value::Null), 401),
        (with("sub", json!("")), 401),
        (with("sub", json!(7)), 401),
        (with("sub", json!("x".repeat(513))), 401),
        (with("scope", json!("use")), 200),
        (with("scope", json!("useful us")), 403),
        (with("scope", Value::Null), 403),
        (with("scp", json!(["use"])), 200),
    ] {
        assert_eq!(rig.status(&key.token(&claims)), status, "{claims}");
    }
    let mut granted = with("scope", Value::Null);
    granted["scp"] = json!(["other", "use"]);
    assert_eq!(rig.status(&key.token(&granted)), 200);
    rig.leaves_nothing();
}

/// Hostile ones, each signed as well as its maker could.
#[test]
fn what_is_no_token_of_the_issuer_is_refused() {
    let (rsa, p256, ed) = (SigningKey::rsa("r"), SigningKey::p256("e"), SigningKey::ed25519("o"));
    let stranger = SigningKey::p256("e");
    let mut rig = rig(&[&rsa, &p256, &ed]);
    let text = claims().to_string();
    let head = |alg: &str, kid: &str| json!({"alg": alg, "kid": kid}).to_string();
    let good = p256.token(&claims());
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let (header, body) = signed.split_once('.').unwrap();
    let evil = with("sub", json!("bob")).to_string();
    let evil_part = signed_part(&p256.header().to_string(), &evil);
    let public = rsa.public();
    let modulus = public["n"].as_str().unwrap();
    let twice = text.replacen('{', r#"{"sub":"bob","#, 1);
    let twice_escaped = text.replacen('{', r#"{"\u0073ub":"bob","#, 1);
    let wide = format!(
        "{}.{}",
        signed_part(&p256.header().to_string(), &with("pad", json!("x".repeat(100_000))).to_string()),
        signature
    );
    for (name, token) in [
        ("alg none, without a signature", format!("{}.", signed_part(&head("none", "e"), &text))),
        ("alg None", format!("{}.", signed_part(&head("None", "e"), &text))),
        ("alg missing", p256.sign(r#"{"kid":"e"}"#, &text)),
        ("alg twice", p256.sign(r#"{"alg":"ES256","kid":"e","alg":"ES256"}"#, &text)),
        ("HS256 with the public key as its secret", sign_with_secret(modulus.as_bytes(), &head("HS256", "r"), &text)),
        ("HS256 called RS256", sign_with_secret(modulus.as_bytes(), &head("RS256", "r"), &text)),
        ("ES256 with an RSA key", p256.sign(&head("ES256", "r"), &text)),
        ("RS256 with a P-256 key", rsa.sign(&head("RS256", "e"), &text)),
        ("RS512", rsa.sign(&head("RS512", "r"), &text)),
        ("PS256", rsa.sign(&head("PS256", "r"), &text)),
        ("the kid of another key", p256.sign(&head("EdDSA", "o"), &text)),
        ("a kid of nobody", p256.sign(&head("ES256", "x"), &text)),
        ("a key of the same name", stranger.token(&claims())),
        (
            "a key that it brings along",
            stranger.sign(&json!({"alg": "ES256", "jwk": stranger.public()}).to_string(), &text),
        ),
        ("what it says is critical", p256.sign(r#"{"alg":"ES256","kid":"e","crit":["exp"]}"#, &text)),
        ("a token of another kind", p256.sign(r#"{"alg":"ES256","kid":"e","typ":"logout+jwt"}"#, &text)),
        ("other claims under the same signature", format!("{evil_part}.{signature}")),
        (
            "the signature of another token",
            format!("{signed}.{}", p256.token(&with("sub", json!("bob"))).rsplit_once('.').unwrap().1),
        ),
        ("no signature", format!("{signed}.")),
        ("half a signature", format!("{signed}.{}", &signature[..43])),
        ("a signature of zeros", format!("{signed}.{}", "A".repeat(86))),
        ("a signature with padding", format!("{good}==")),
        ("truncated", good[..good.len() - 4].to_owned()),
        ("one part", header.to_owned()),
        ("two parts", signed.to_owned()),
        ("four parts", format!("{good}.{signature}")),
        ("dots alone", "...".to_owned()),
        ("two dots alone", "..".to_owned()),
        ("an empty header", format!(".{body}.{signature}")),
        ("a claim twice", p256.sign(&p256.header().to_string(), &twice)),
        ("a claim twice, once escaped", p256.sign(&p256.header().to_string(), &twice_escaped)),
        ("claims with more behind them", p256.sign(&p256.header().to_string(), &format!("{text}{text}"))),
        ("claims that are a list", p256.sign(&p256.header().to_string(), &format!("[{text}]"))),
        ("claims that break off", p256.sign(&p256.header().to_string(), &text[..text.len() - 1])),
        ("no JSON", p256.sign(&p256.header().to_string(), "ann")),
        ("a header that is no JSON", p256.sign("ES256", &text)),
        ("100 KB", wide),
        ("100 KB of dots", ".".repeat(100_000)),
        ("no token", "ann".to_owned()),
    ] {
        let key = rig.knock(&token);
        // None that is newer.
        rig.server.handle_keys(rig.now, None);
        let answer = rig.read(key);
        assert_eq!(answer.status, 401, "{name}: {answer:?}");
        let challenge = format!(r#"Bearer error="invalid_token", {HINT}"#);
        assert_eq!(answer.header("www-authenticate"), Some(&*challenge), "{name}");
    }
    assert_eq!(rig.status(&good), 200);
    assert_eq!(rig.keys_wanted, 1, "only for the name that no key has");
    rig.leaves_nothing();
}

#[test]
fn keys_for_other_things_and_short_ones_verify_nothing() {
    let key = SigningKey::p256("e");
    let changed = |name: &str, value: Value| {
        let mut public = key.public();
        public[name] = value;
        public
    };
    let short = json!({"kty": "RSA", "kid": "r", "n": "A".repeat(171), "e": "AQAB"});
    for public in [
        changed("use", json!("enc")),
        changed("alg", json!("ES384")),
        changed("crv", json!("P-384")),
        changed("key_ops", json!(["sign"])),
        changed("x", json!("AAAA")),
        changed("kty", json!("oct")),
        short,
        json!("x"),
    ] {
        let document = json!({"keys": [public]}).to_string();
        assert!(KeySet::read(document.as_bytes()).is_err(), "{document}");
    }
    for document in ["", "[]", "{}", r#"{"keys":{}}"#, r#"{"keys":[]}"#] {
        assert!(KeySet::read(document.as_bytes()).is_err(), "{document}");
    }
    let among_others = json!({"keys": [{"kty": "oct", "k": "AA"}, key.public()]}).to_string();
    assert!(KeySet::read(among_others.as_bytes()).is_ok());
}

/// Where names are missing a key must be the only one of its kind.
#[test]
fn a_token_without_a_name_of_its_key_is_taken_where_one_key_can_be_meant() {
    let (first, second) = (SigningKey::p256("a"), SigningKey::p256("b"));
    let nameless = |key: &SigningKey| key.sign(r#"{"alg":"ES256"}"#, &claims().to_string());
    let mut rig = rig(&[&first, &SigningKey::ed25519("o")]);
    assert_eq!(rig.status(&nameless(&first)), 200);
    rig.knows(&[&first, &second]);
    assert_eq!(rig.status(&nameless(&first)), 401);
    assert_eq!(rig.status(&second.token(&claims())), 200);
    rig.leaves_nothing();
}

#[test]
fn sessions_are_of_the_subject_whatever_token_he_has() {
    let (old, new) = (SigningKey::rsa("r"), SigningKey::ed25519("o"));
    let mut rig = rig(&[&old, &new]);
    rig.authorization = Some(format!("Bearer {}", old.token(&claims())));
    let ann = rig.session(LEGACY);
    assert_eq!(rig.owners, [Some("ann".to_owned())]);
    for (token, status) in [
        (new.token(&with("exp", json!(NOW + 900))), 202),
        (new.token(&with("sub", json!("bob"))), 404),
        (old.token(&with("exp", json!(NOW - 900))), 401),
    ] {
        rig.authorization = Some(format!("Bearer {token}"));
        let key = rig.post_to(&ann, &note("x"));
        assert_eq!(rig.read(key).status, status);
    }
    assert!(!format!("{:?}", rig.server).contains("eyJ"), "a token is shown");
    rig.end();
}

#[test]
fn who_has_no_token_is_told_where_to_get_one() {
    let key = SigningKey::p256("e");
    let mut rig = rig(&[&key]);
    let asked = rig.post(&[], &call("1"));
    let answer = rig.read(asked);
    assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some(&*format!("Bearer {HINT}"))));
    let asked = rig.knock(&key.token(&with("scope", json!("other"))));
    let answer = rig.read(asked);
    let challenge = format!(r#"Bearer error="insufficient_scope", {HINT}"#);
    assert_eq!((answer.status, answer.header("www-authenticate")), (403, Some(&*challenge)));

    rig.authorization = None;
    for path in ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"] {
        let page = rig.send(&Method::GET, path, &[], "");
        let answer = rig.read(page);
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
        let expected = json!({"resource": AUDIENCE, "authorization_servers": [ISSUER],
            "bearer_methods_supported": ["header"], "scopes_supported": ["use"]});
        assert_eq!(answer.json(), expected);
        let posted = rig.send(&Method::POST, path, &[], "{}");
        assert_eq!(rig.read(posted).status, 405);
    }
    for path in ["/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource/other"] {
        let page = rig.send(&Method::GET, path, &[], "");
        assert_eq!(rig.read(page).status, 404, "{path}");
    }
    rig.leaves_nothing();
}

#[test]
fn what_comes_before_the_keys_waits_for_them() {
    let key = SigningKey::p256("e");
    let mut rig = Rig::with(config_of(&[]));
    rig.server.supply_time(Duration::from_secs(NOW));
    let waiting = [rig.knock(&key.token(&claims())), rig.knock(&key.token(&with("exp", json!(1))))];
    // What is no token needs no key.
    assert_eq!(rig.status("ann"), 401);
    assert_eq!(rig.keys_wanted, 1);
    assert!(waiting.iter().all(|waiting| rig.read(*waiting).status == 0));
    let gone = rig.knock(&key.token(&claims()));
    rig.hang_up(gone);
    rig.knows(&[&key]);
    assert_eq!(waiting.map(|waiting| rig.read(waiting).status), [400, 401]);
    rig.leaves_nothing();
}

/// Host, Origin and path are judged without keys, so that no key is asked for on behalf of a page.
#[test]
fn what_no_key_can_admit_is_refused_before_keys_are_known() {
    let key = SigningKey::p256("e");
    let mut rig = Rig::with(config_of(&[]));
    rig.server.supply_time(Duration::from_secs(NOW));
    rig.authorization = Some(format!("Bearer {}", key.token(&claims())));
    for (path, header, status) in [
        ("/mcp", ("host", "evil.test"), 403),
        ("/mcp", ("origin", "https://evil.test"), 403),
        ("/other", ("host", "localhost"), 404),
    ] {
        let asked = rig.send(&Method::POST, path, &[header], &call("1"));
        assert_eq!(rig.read(asked).status, status, "{path} {header:?}");
    }
    assert_eq!(rig.keys_wanted, 0);
    rig.leaves_nothing();
}

#[test]
fn who_waits_in_vain_may_come_again() {
    let key = SigningKey::p256("e");
    let mut rig = Rig::with(config_of(&[]));
    rig.server.supply_time(Duration::from_secs(NOW));
    let token = key.token(&claims());
    // They cannot be fetched.
    let waiting = rig.knock(&token);
    rig.server.handle_keys(rig.now, None);
    rig.drain();
    let answer = rig.read(waiting);
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("5")));
    assert_eq!(rig.status(&token), 503);
    assert_eq!(rig.keys_wanted, 1, "not for every request");
    rig.pass(Duration::from_secs(5));
    // Nothing comes.
    let waiting = rig.knock(&token);
    assert_eq!((rig.keys_wanted, rig.read(waiting).status), (2, 0));
    rig.pass(Duration::from_secs(20));
    assert_eq!(rig.read(waiting).status, 503);
    // What comes late is welcome.
    rig.knows(&[&key]);
    assert_eq!(rig.status(&token), 200);
    rig.leaves_nothing();
}

#[test]
fn a_key_that_is_not_known_is_asked_for_once_a_minute_and_old_ones_stay() {
    let (old, new) = (SigningKey::p256("old"), SigningKey::p256("new"));
    let mut rig = rig(&[&old]);
    let token = new.token(&claims());
    let first = rig.knock(&token);
    let second = rig.knock(&token);
    // Those that can be judged do not wait.
    assert_eq!(rig.status(&old.token(&claims())), 200);
    assert_eq!((rig.keys_wanted, rig.read(first).status), (1, 0));
    rig.server.handle_keys(rig.now, None);
    rig.drain();
    assert_eq!([first, second].map(|waiting| rig.read(waiting).status), [401, 401]);
    assert_eq!(rig.status(&old.token(&claims())), 200, "the old keys are gone");
    rig.pass(Duration::from_secs(59));
    assert_eq!((rig.status(&token), rig.keys_wanted), (401, 1));
    rig.pass(Duration::from_secs(1));
    let third = rig.knock(&token);
    assert_eq!(rig.keys_wanted, 2);
    rig.knows(&[&new]);
    assert_eq!(rig.read(third).status, 400);
    // The issuer has withdrawn it.
    let withdrawn = rig.knock(&old.token(&claims()));
    assert_eq!(rig.read(withdrawn).status, 401);
    rig.leaves_nothing();
}

/// A key that was withdrawn is noticed without a token that names another.
#[test]
fn keys_are_asked_for_again_each_hour() {
    let (old, new) = (SigningKey::p256("old"), SigningKey::p256("new"));
    let mut rig = rig(&[&old]);
    rig.pass(Duration::from_secs(60 * 60));
    assert_eq!((rig.status(&old.token(&claims())), rig.keys_wanted), (200, 1));
    rig.knows(&[&new]);
    rig.pass(Duration::from_secs(60));
    let withdrawn = rig.knock(&old.token(&claims()));
    assert_eq!(rig.keys_wanted, 2);
    rig.knows(&[&new]);
    assert_eq!(rig.read(withdrawn).status, 401);
    rig.leaves_nothing();
}

#[test]
fn what_waits_for_keys_is_bounded_and_ends_with_the_service() {
    let key = SigningKey::p256("e");
    let mut rig = Rig::with(HttpServerConfig { max_input: 20_000, ..config_of(&[]) });
    rig.server.supply_time(Duration::from_secs(NOW));
    let token = key.token(&claims());
    let waiting: Vec<ReplyKey> = (0..300).map(|_| rig.knock(&token)).collect();
    let refused = waiting.iter().filter(|waiting| rig.read(**waiting).status == 503).count();
    assert!((200..300).contains(&refused), "{refused}");
    assert!(rig.server.held() <= HttpServerConfig { max_input: 20_000, ..config_of(&[]) }.most_held());
    rig.server.close(rig.now);
    rig.drain();
    assert!(waiting.iter().all(|waiting| rig.read(*waiting).status == 503));
    rig.leaves_nothing();
}

/// Before the time of day is known nobody can tell whether a token has expired.
#[test]
fn without_the_time_of_day_every_token_has_expired() {
    let key = SigningKey::p256("e");
    let mut rig = Rig::with(config_of(&[]));
    assert!(rig.server.needs_time());
    rig.knows(&[&key]);
    let far = with("exp", json!(u64::MAX));
    assert_eq!([claims(), far].map(|claims| rig.status(&key.token(&claims))), [401, 401]);
    rig.leaves_nothing();
}
