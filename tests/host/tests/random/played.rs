//! A random request on the host: how it is played, and whether what came of it is legal.

use tollgate_host::{Exchange, Request, Response};

use super::dice::Dice;
use super::legal::Answer;
use super::requests::Asked;
use super::settings::Setting;

/// The request as the host plays it. What identifies it is a property of the proxy, too.
pub(crate) fn request(asked: &Asked) -> Request {
    let mut request =
        Request::new(asked.method, &asked.target).source(&format!("192.0.2.{}:40000", asked.from));
    for (name, value) in &asked.headers {
        request = request.header(name, value);
        let property = match *name {
            "x-tenant-id" => "tenant",
            "x-api-key-id" => "key",
            _ => continue,
        };
        request = request.property(&["a", property], value);
    }
    match &asked.odd {
        Some((name, value)) => request.header(name, value),
        None => request,
    }
}

/// An upstream that also says things that only the filter may.
pub(crate) fn response(dice: &mut Dice) -> Response {
    let response = Response::status(200).header("content-type", "application/json");
    match dice.below(8) {
        0 => response
            .header("ratelimit-limit", "upstream")
            .header("x-ratelimit-reset", b"\xff"),
        1 => response
            .header("ratelimit", "a")
            .header("ratelimit", "b")
            .body("{}"),
        _ => response,
    }
}

/// Checks an exchange; returns its verdict. `busy`: the store could not decide.
pub(crate) fn check(
    asked: &Asked,
    setting: &Setting,
    exchange: &Exchange,
    busy: bool,
) -> Result<String, String> {
    if let Some(trap) = &exchange.trapped {
        return Err(trap.to_string());
    }
    if exchange.hung {
        return Err("it hung".to_owned());
    }
    let Some(client) = &exchange.client else {
        return Err("no answer".to_owned());
    };
    let names: Vec<String> = client
        .headers
        .iter()
        .map(|(name, _)| String::from_utf8_lossy(name).into_owned())
        .collect();
    let values = client.headers.iter().map(|(_, value)| value);
    let answer = Answer {
        status: client.status().unwrap_or_default(),
        fields: names.iter().map(String::as_str).zip(values).collect(),
        body: &client.body,
        dialect: setting.dialect,
        type_base: setting.type_base,
        date_from: setting.date_from,
        head: asked.method == "HEAD",
        grpc: asked.is_grpc(),
    };
    let verdict = exchange.state("tollgate_verdict").unwrap_or_default();
    let bare = verdict.strip_prefix("shadow_").unwrap_or(&verdict);
    match (&exchange.reply, &exchange.upstream) {
        (Some(_), None) => {
            let meant = answer.check_refusal()?;
            if !meant.contains(&verdict.as_str()) {
                return Err(format!("it is called {verdict}"));
            }
        }
        (None, Some(upstream)) => {
            // Many servers take the one for the other.
            let dashed = |byte: &u8| if *byte == b'_' { b'-' } else { *byte };
            let own = |name: &[u8]| name.iter().map(dashed).take(11).eq(*b"x-tollgate-");
            if upstream.headers.iter().any(|(name, _)| own(name)) {
                return Err("the upstream was told what only the filter may say".to_owned());
            }
            match verdict.as_str() {
                "allowed" | "shadow_allowed" => answer.check_passed(true)?,
                "shadow_throttled" if !busy => answer.check_passed(true)?,
                "shadow_throttled" | "exempt" | "shadow_exempt" | "shadow_boxed"
                | "shadow_idempotency" | "shadow_invalid" => {
                    if answer.status != 200 {
                        return Err("the upstream's answer was changed".to_owned());
                    }
                }
                _ => return Err(format!("it passed and is called {verdict}")),
            }
        }
        _ => return Err("it was both answered and passed on, or neither".to_owned()),
    }
    let doubled = asked.doubles(setting.identity);
    if bare != "exempt" && doubled != (bare == "invalid") {
        return Err(format!("doubled: {doubled}, and it is called {verdict}"));
    }
    let spared = setting.json.contains("/healthz") && asked.target == b"/healthz";
    if spared && bare != "exempt" {
        return Err(format!("an exempt path is called {verdict}"));
    }
    Ok(verdict)
}
