//! Plays the stories of `tests/stories/` through the built filter: exact numbers, in virtual time, on the
//! local store and on a real Redis, there with calls that requests share and with a call for each.

#[path = "redis/front.rs"]
mod front;
#[path = "../../agreement/server.rs"]
mod server;

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine};
use serde::Deserialize;
use serde_json::Value as Json;
use tollgate_host::{
    EnvoyOptions, Exchange, Headers, Options, Personality, Process, Request, Response, StreamId,
    Upstream, Vm, filter_wasm,
};

use front::Front;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Story {
    story: String,
    config: Json,
    steps: Vec<Step>,
    #[serde(default)]
    metrics: serde_json::Map<String, Json>,
}

#[derive(Deserialize)]
struct Step {
    #[serde(default)]
    at: f64,
    #[serde(default = "once")]
    times: u32,
    #[serde(flatten)]
    act: Act,
    respond: Option<Respond>,
    #[serde(default)]
    expect: Expect,
}

/// What happens.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Act {
    /// A request comes, and has its response at once.
    Send(Send),
    /// A request comes, and its upstream is at work until it finishes, or the client aborts.
    Begin(Begin),
    /// The upstream answers the request of this name.
    Finish(String),
    /// The client of the request of this name goes away.
    Abort(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Begin {
    name: String,
    send: Send,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Send {
    #[serde(default = "get")]
    method: String,
    path: String,
    #[serde(default)]
    headers: Json,
    /// `user:password` of HTTP Basic, written plainly.
    basic: Option<String>,
    from: Option<String>,
    body: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Respond {
    status: u16,
    #[serde(default)]
    headers: serde_json::Map<String, Json>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Expect {
    status: Option<u16>,
    grpc: Option<u8>,
    verdict: Option<String>,
    #[serde(default)]
    headers: serde_json::Map<String, Json>,
    #[serde(default)]
    body: serde_json::Map<String, Json>,
    text: Option<String>,
    /// `Some(None)`: it was not reached.
    #[serde(default, deserialize_with = "present")]
    upstream: Option<Option<serde_json::Map<String, Json>>>,
}

fn once() -> u32 {
    1
}

fn get() -> String {
    "GET".to_owned()
}

fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// A text of the `time`-th time, where `{n}` stands for that.
fn numbered(text: &str, time: u32) -> String {
    text.replace("{n}", &time.to_string())
}

/// A header's value: text, or `{hex: ..}` for bytes that are not.
fn bytes(value: &Json, time: u32) -> Vec<u8> {
    match value {
        Json::String(text) => numbered(text, time).into_bytes(),
        Json::Object(map) => {
            let hex = map["hex"].as_str().unwrap();
            let digits: Vec<char> = hex.chars().collect();
            let pair = |p: &[char]| u8::from_str_radix(&p.iter().collect::<String>(), 16).unwrap();
            digits.chunks(2).map(pair).collect()
        }
        other => panic!("a header is text or {{hex}}, not {other}"),
    }
}

fn request(send: &Send, time: u32) -> Request {
    let mut request = Request::new(&send.method, numbered(&send.path, time));
    match &send.headers {
        Json::Null => {}
        Json::Object(map) => {
            for (name, value) in map {
                request = request.header(name, bytes(value, time));
            }
        }
        Json::Array(list) => {
            for pair in list {
                request = request.header(pair[0].as_str().unwrap(), bytes(&pair[1], time));
            }
        }
        other => panic!("headers are a map or a list of pairs, not {other}"),
    }
    if let Some(basic) = &send.basic {
        let credentials = BASE64_STANDARD.encode(numbered(basic, time));
        request = request.header("authorization", format!("Basic {credentials}"));
    }
    if let Some(body) = &send.body {
        request = request.body(numbered(body, time));
    }
    match &send.from {
        Some(address) => request.source(&numbered(address, time)),
        None => request,
    }
}

fn response(respond: Option<&Respond>, time: u32) -> Response {
    let Some(respond) = respond else {
        return Response::status(200).body("{}");
    };
    respond
        .headers
        .iter()
        .fold(Response::status(respond.status), |r, (n, v)| {
            r.header(n, bytes(v, time))
        })
}

/// What is wrong with a value, if anything: text is equal, `[a, b]` bounds a number, `{match: t}`
/// starts with t, null is absent.
fn mismatch(what: &str, wanted: &Json, found: Option<&Json>) -> Option<String> {
    let number = |v: &Json| v.as_u64().or_else(|| v.as_str()?.parse().ok());
    let fits = match (wanted, found) {
        (Json::Null, found) => found.is_none(),
        (_, None) => false,
        (Json::Array(range), Some(found)) if range.len() == 2 && range[0].is_u64() => {
            let (low, high) = (range[0].as_u64().unwrap(), range[1].as_u64().unwrap());
            number(found).is_some_and(|n| (low..=high).contains(&n))
        }
        (Json::Object(map), Some(found)) => {
            let start = map["match"].as_str().unwrap();
            found.as_str().is_some_and(|text| text.starts_with(start))
        }
        (wanted, Some(found)) => wanted == found,
    };
    let found = found.map_or_else(|| "nothing".to_owned(), Json::to_string);
    (!fits).then(|| format!("{what}: expected {wanted}, found {found}"))
}

fn header_mismatches(
    whose: &str,
    wanted: &serde_json::Map<String, Json>,
    found: &Headers,
) -> Vec<String> {
    let check = |(name, wanted): (&String, &Json)| {
        let values = found.all(name);
        if values.len() > 1 {
            return Some(format!("{whose} {name} is there {} times", values.len()));
        }
        let value = found.text(name).map(Json::String);
        mismatch(&format!("{whose} {name}"), wanted, value.as_ref())
    };
    wanted.iter().filter_map(check).collect()
}

fn faults(expect: &Expect, exchange: &Exchange) -> Vec<String> {
    let mut faults = Vec::new();
    let mut equal = |what: &str, wanted: &str, found: Option<String>| {
        if found.as_deref() != Some(wanted) {
            faults.push(format!("{what}: expected {wanted}, found {found:?}"));
        }
    };
    if let Some(verdict) = &expect.verdict {
        equal("verdict", verdict, exchange.state("tollgate_verdict"));
    }
    if let Some(code) = expect.grpc {
        let found = exchange.header("grpc-status");
        equal("grpc-status", &code.to_string(), found);
    }
    if let Some(text) = &expect.text {
        equal("body", text, Some(exchange.text()));
    }
    let empty = Headers::new();
    let client = exchange.client.as_ref().map_or(&empty, |m| &m.headers);
    faults.extend(header_mismatches("header", &expect.headers, client));
    if !expect.body.is_empty() {
        match serde_json::from_str::<Json>(&exchange.text()) {
            Ok(body) => {
                let check = |(name, wanted)| {
                    let found = body.get::<&String>(name);
                    mismatch(&format!("body {name}"), wanted, found)
                };
                faults.extend(expect.body.iter().filter_map(check));
            }
            Err(error) => faults.push(format!("the body is not JSON: {error}")),
        }
    }
    match (&expect.upstream, &exchange.upstream) {
        (None, _) | (Some(None), None) => {}
        (Some(None), Some(_)) => faults.push("the upstream was reached".to_owned()),
        (Some(Some(_)), None) => faults.push("the upstream was not reached".to_owned()),
        (Some(Some(wanted)), Some(seen)) => {
            faults.extend(header_mismatches("upstream header", wanted, &seen.headers));
        }
    }
    faults
}

/// Lets time go by, as hosts do: the root is called now and then.
fn pass_time(process: &Process, vm: &mut Vm, to: u64) {
    const SECOND: u64 = 1_000_000_000;
    if process.now() < to {
        vm.tick().unwrap();
        vm.run().unwrap();
    }
    while process.now() < to {
        process.set_now(to.min(process.now() + SECOND));
        vm.tick().unwrap();
        vm.run().unwrap();
    }
}

fn act(
    act: &Act,
    time: u32,
    answer: Response,
    vm: &mut Vm,
    begun: &mut HashMap<String, StreamId>,
) -> Exchange {
    let (name, stream) = match act {
        Act::Send(send) => return vm.exchange(request(send, time), answer),
        Act::Begin(Begin { name, send }) => {
            let name = numbered(name, time);
            let stream = vm.request(request(send, time)).unwrap();
            let before = begun.insert(name.clone(), stream);
            assert!(before.is_none(), "two are called {name}");
            vm.run().unwrap();
            (name, stream)
        }
        Act::Finish(name) => {
            let (name, stream) = of(begun, name, time);
            vm.respond(stream, answer).unwrap();
            vm.run().unwrap();
            (name, stream)
        }
        Act::Abort(name) => {
            let (name, stream) = of(begun, name, time);
            vm.abort(stream).unwrap();
            vm.run().unwrap();
            (name, stream)
        }
    };
    let seen = vm.stream(stream);
    if seen.ended() {
        begun.remove(&name);
    }
    Exchange {
        stream,
        reply: seen.reply().cloned(),
        client: seen.client(),
        upstream: seen.upstream(),
        filter_state: seen.filter_states(),
        resumed: seen.resumed(),
        hung: false,
        trapped: None,
    }
}

/// The request of this name that is under way.
fn of(begun: &HashMap<String, StreamId>, name: &str, time: u32) -> (String, StreamId) {
    let name = numbered(name, time);
    let stream = begun.get(&name);
    let stream = *stream.unwrap_or_else(|| panic!("{name} is not under way"));
    (name, stream)
}

/// Plays a story; with a front, in Redis behind it, by shared calls or by a call for each request.
fn play(story: &Story, wasm: &[u8], front: Option<&Front>, coalesce: &str) -> Vec<String> {
    let envoy = EnvoyOptions {
        allow_on_headers_stop_iteration: true,
        ..EnvoyOptions::default()
    };
    let options = Options::new()
        .env("TOLLGATE_COALESCE", coalesce)
        .personality(Personality::Envoy(envoy));
    let process = Process::with(wasm, options).unwrap();
    let mut vm: Vm = process.vm().unwrap();
    let mut config = story.config.clone();
    if let Some(front) = front.cloned() {
        front.forget_everything();
        config["store"] = serde_json::json!({"kind": "redis", "upstream": "redis-front"});
        // So that no price of a story is refused for being more than a share of a burst.
        config["degraded"] = serde_json::json!({"share": 1});
        process.upstream("redis-front", Upstream::Up);
        vm.set_backend(move |call| front.answer(call));
    }
    let config = config.to_string();
    if !vm.configure(config.as_bytes()).unwrap() {
        let logs: Vec<_> = vm.logs().map(|l| format!("{l:?}")).collect();
        let refused = format!("{}: the configuration was refused: {logs:?}", story.story);
        return vec![refused];
    }
    let start = process.now();
    let mut faults = Vec::new();
    let mut begun = HashMap::new();
    for (index, step) in story.steps.iter().enumerate() {
        let at = start + Duration::from_secs_f64(step.at).as_nanos() as u64;
        pass_time(&process, &mut vm, at);
        for time in 1..=step.times {
            let answer = response(step.respond.as_ref(), time);
            let exchange = act(&step.act, time, answer, &mut vm, &mut begun);
            let mut found = Vec::new();
            if let Some(trap) = &exchange.trapped {
                found.push(format!("trapped: {trap:?}"));
            }
            if step.expect.status.is_some() && exchange.status() != step.expect.status {
                found.push(format!(
                    "status: expected {:?}, found {:?}",
                    step.expect.status,
                    exchange.status()
                ));
            }
            if time == step.times {
                found.extend(self::faults(&step.expect, &exchange));
            }
            let place = format!(
                "{}, step {} (at {}), time {time}",
                story.story,
                index + 1,
                step.at
            );
            faults.extend(found.into_iter().map(|fault| format!("{place}: {fault}")));
        }
    }
    for (name, wanted) in &story.metrics {
        let value = process.metric(name).map(|m| Json::from(m.value));
        faults.extend(mismatch(
            &format!("{}: metric {name}", story.story),
            wanted,
            value.as_ref(),
        ));
    }
    assert!(
        vm.misuses().is_empty(),
        "{}: {:?}",
        story.story,
        vm.misuses()
    );
    faults
}

/// A step's own fields: what it does is one of them, which serde cannot refuse others besides.
fn refuse_unknown_fields(document: &serde_yaml_ng::Value, file: &Path) {
    const KNOWN: [&str; 8] = [
        "at", "times", "send", "begin", "finish", "abort", "respond", "expect",
    ];
    for story in document.as_sequence().unwrap() {
        for step in story["steps"].as_sequence().unwrap() {
            for name in step.as_mapping().unwrap().keys() {
                let known = name.as_str().is_some_and(|name| KNOWN.contains(&name));
                assert!(known, "{}: {name:?} of {step:?}", file.display());
            }
        }
    }
}

fn stories() -> Vec<Story> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../stories");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|f| f.unwrap().path())
        .filter(|f| f.extension().is_some_and(|e| e == "yaml"))
        .collect();
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let mut document: serde_yaml_ng::Value = serde_yaml_ng::from_str(&text).unwrap();
        document.apply_merge().unwrap();
        refuse_unknown_fields(&document, &file);
        let stories: Vec<Story> = serde_yaml_ng::from_value(document)
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        all.extend(stories);
    }
    assert!(!all.is_empty(), "no stories in {}", folder.display());
    all
}

fn told_as_written(front: Option<&Front>, coalesce: &str) {
    let wasm = filter_wasm();
    let stories = stories();
    let faults: Vec<String> = stories
        .iter()
        .flat_map(|story| play(story, &wasm, front, coalesce))
        .collect();
    assert!(
        faults.is_empty(),
        "{} faults in {} stories:\n{}",
        faults.len(),
        stories.len(),
        faults.join("\n")
    );
}

#[test]
fn every_story_is_told_as_written() {
    told_as_written(None, "on");
}

#[test]
fn every_story_is_told_as_written_in_redis() {
    told_as_written(Some(&Front::start()), "on");
}

#[test]
fn every_story_is_told_as_written_in_redis_one_call_each() {
    told_as_written(Some(&Front::start()), "off");
}
