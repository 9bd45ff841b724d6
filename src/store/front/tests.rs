//! Tests of `front`. Answers of Webdis are what Webdis 0.1.9 over Redis 7.0.15 really said.

use proptest::prelude::*;
use tollgate_config::{Breaker, Front as Dialect, Millis, Redis, Secret, Topology};

use super::{Front, Raw, StoreFault};

fn front(dialect: Dialect) -> Front {
    Front::new(&Redis {
        upstream: "redis-front".to_owned(),
        dialect,
        topology: Topology::Standalone,
        timeout: Millis(20),
        authorization: Some(Secret("Basic c2VjcmV0".to_owned())),
        key_prefix: String::new(),
        breaker: Breaker {
            failures: 5,
            open_for: Millis(2000),
        },
    })
}

fn command(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn answer(body: &str) -> Raw<'_> {
    Raw {
        status: Some(b"200"),
        body: body.as_bytes(),
    }
}

/// What Webdis answered to one command.
fn webdis(body: &str) -> Result<Vec<String>, StoreFault> {
    let replies = front(Dialect::Webdis).read(answer(body), 1)?;
    let [reply] = replies.try_into().expect("one reply");
    reply
}

#[test]
fn a_command_of_webdis_is_a_path() {
    let front = front(Dialect::Webdis);
    let words = [
        "EVALSHA",
        "e0e1",
        "1",
        "rl:{t:a-b_c~d}:tb",
        "1 2,3;4=5*6",
        "",
    ];
    let calls = front.call(&[command(&words)]);
    let [call] = calls.as_slice() else {
        panic!("one command is one call: {calls:?}");
    };
    assert_eq!(
        call.headers,
        [
            (":method", "GET".to_owned()),
            (
                ":path",
                "/EVALSHA/e0e1/1/rl:{t:a-b_c~d}:tb/1%202,3;4=5*6/".to_owned()
            ),
            (":authority", "redis-front".to_owned()),
            ("authorization", "Basic c2VjcmV0".to_owned()),
        ]
    );
    assert!(call.body.is_empty());
}

#[test]
fn what_a_path_would_not_keep_is_escaped() {
    let front = front(Dialect::Webdis);
    let words = [
        "EVAL",
        "x/y",
        ".js",
        "a%b",
        "é",
        "q?r#s",
        "s +&",
        "\"\\<>|^`[]@!$'()",
        "\n\u{0}",
    ];
    let [call] = front.call(&[command(&words)]).try_into().expect("one call");
    assert_eq!(
        call.header(":path"),
        Some(
            "/EVAL/x%2Fy/%2Ejs/a%25b/%C3%A9/q%3Fr%23s/s%20%2B%26\
             /%22%5C%3C%3E%7C%5E%60%5B%5D%40%21%24%27%28%29/%0A%00"
        )
    );
}

#[test]
fn a_command_too_long_for_a_path_is_a_body() {
    let front = front(Dialect::Webdis);
    let fits = "a".repeat(3800 - "/EVAL/".len());
    let [call] = front
        .call(&[command(&["EVAL", &fits])])
        .try_into()
        .expect("one call");
    assert_eq!(call.header(":method"), Some("GET"));
    assert_eq!(call.header(":path").map(str::len), Some(3800));

    let longer = format!("{fits}a");
    let [call] = front
        .call(&[command(&["EVAL", &longer])])
        .try_into()
        .expect("one call");
    assert_eq!(call.header(":method"), Some("POST"));
    assert_eq!(call.header(":path"), Some("/"));
    assert_eq!(call.header("content-type"), Some("text/plain"));
    assert_eq!(call.body, format!("EVAL/{longer}").into_bytes());

    // Escapes count.
    let escaped = "/".repeat(1300);
    let [call] = front
        .call(&[command(&["EVAL", &escaped])])
        .try_into()
        .expect("one call");
    assert_eq!(call.header(":method"), Some("POST"));
}

#[test]
fn each_command_of_webdis_is_a_call() {
    let front = front(Dialect::Webdis);
    let calls = front.call(&[command(&["A", "1"]), command(&["B", "2"])]);
    let paths: Vec<_> = calls.iter().map(|call| call.header(":path")).collect();
    assert_eq!(paths, [Some("/A/1"), Some("/B/2")]);
    assert_eq!(front.most_commands(), 1);
}

#[test]
fn good_answers_of_webdis() {
    let list = |words: &[&str]| Ok(command(words));
    assert_eq!(webdis(r#"{"EVALSHA":["1","2"]}"#), list(&["1", "2"]));
    assert_eq!(
        webdis(r#"{"EVAL":["nil","","b"]}"#),
        list(&["nil", "", "b"])
    );
    assert_eq!(
        webdis(r#"{"EVAL":["rl:{t:a}:tb","x/y",".js","a%b","é","{a},b;c*d=e~f-g_h\"\\"]}"#),
        list(&[
            "rl:{t:a}:tb",
            "x/y",
            ".js",
            "a%b",
            "é",
            "{a},b;c*d=e~f-g_h\"\\"
        ])
    );
    assert_eq!(
        webdis(r#"{"EVALSHA":[1,-2,9007199254740993,"x"]}"#),
        list(&["1", "-2", "9007199254740993", "x"])
    );
    assert_eq!(webdis(r#"{"EVAL":[]}"#), list(&[]));
}

#[test]
fn answers_of_webdis_that_are_none() {
    for body in [
        // Lists and nothing within a list, errors within a list, no list.
        r#"{"EVAL":[1,2,null,null,"x"]}"#,
        r#"{"EVAL":["a",null]}"#,
        r#"{"EVAL":["a",["b"]]}"#,
        r#"{"EVAL":["a",true]}"#,
        r#"{"EVAL":[true,"OK"]}"#,
        r#"{"EVAL":[false]}"#,
        r#"{"EVAL":7}"#,
        r#"{"EVAL":"s"}"#,
        r#"{"EVAL":null}"#,
        // No answer of Webdis.
        "",
        "{}",
        "[]",
        r#"["1"]"#,
        r#"{"EVAL":["1"],"EVALSHA":["1"]}"#,
        r#"{"EVAL":["1"]"#,
        r#"{"EVAL":["1"]}x"#,
        "<html>upstream connect error</html>",
    ] {
        assert_eq!(webdis(body), Err(StoreFault::Malformed), "{body}");
    }
    let not_utf8 = Raw {
        status: Some(b"200"),
        body: b"{\"EVAL\":[\"\xff\"]}",
    };
    let read = front(Dialect::Webdis).read(not_utf8, 1);
    assert_eq!(read, Err(StoreFault::Malformed));
    let deep = "[".repeat(100_000);
    assert_eq!(webdis(&deep), Err(StoreFault::Malformed));
    let two = front(Dialect::Webdis).read(answer(r#"{"EVAL":["1"]}"#), 2);
    assert_eq!(
        two,
        Err(StoreFault::Malformed),
        "a call carried one command"
    );
}

#[test]
fn errors_of_redis_through_webdis() {
    for (body, fault) in [
        (
            r#"{"EVALSHA":[false,"NOSCRIPT No matching script. Please use EVAL."]}"#,
            StoreFault::NoScript,
        ),
        (
            r#"{"EVALSHA":[false,"READONLY You can't write against a read only replica. script: 2ae75f5684d0a0231d543c10c4fa30643a269a87, on @user_script:1."]}"#,
            StoreFault::ReadOnly,
        ),
        (
            r#"{"EVALSHA":[false,"OOM command not allowed when used memory > 'maxmemory'. script: 2ae75f5684d0a0231d543c10c4fa30643a269a87, on @user_script:1."]}"#,
            StoreFault::Oom,
        ),
        (
            r#"{"EVALSHA":[false,"LOADING Redis is loading the dataset in memory"]}"#,
            StoreFault::Loading,
        ),
        (
            r#"{"EVALSHA":[false,"NOAUTH Authentication required."]}"#,
            StoreFault::NoAuth,
        ),
        (
            r#"{"EVALSHA":[false,"NOPERM this user has no permissions to run the 'evalsha' command"]}"#,
            StoreFault::NoAuth,
        ),
        (
            r#"{"EVALSHA":[false,"NOPERM this user has no permissions to access one of the keys used as arguments"]}"#,
            StoreFault::NoAuth,
        ),
        (
            r#"{"EVALSHA":[false,"ERR Protocol error: unauthenticated multibulk length"]}"#,
            StoreFault::NoAuth,
        ),
        (
            r#"{"EVALSHA":[false,"ERR The user executing the script can't run this command or subcommand script: 2ae75f5684d0a0231d543c10c4fa30643a269a87, on @user_script:147."]}"#,
            StoreFault::NoAuth,
        ),
        (
            r#"{"EVAL":[false,"CROSSSLOT Keys in request don't hash to the same slot"]}"#,
            StoreFault::CrossSlot,
        ),
        (
            r#"{"EVALSHA":[false,"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."]}"#,
            StoreFault::Script,
        ),
        (
            r#"{"EVALSHA":[false,"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."]}"#,
            StoreFault::Script,
        ),
        (
            r#"{"EVAL":[false,"CLUSTERDOWN Hash slot not served"]}"#,
            StoreFault::Script,
        ),
        (
            r#"{"EVAL":[false,"ERR user_script:1: boom script: 872b3fcb081448525c6141cdfa3df8374d30d162, on @user_script:1."]}"#,
            StoreFault::Script,
        ),
        (
            r#"{"NOSUCH":[false,"ERR unknown command 'NOSUCH', with args beginning with: 'a' "]}"#,
            StoreFault::Script,
        ),
        (r#"{"EVAL":[false,""]}"#, StoreFault::Script),
    ] {
        assert_eq!(webdis(body), Err(fault), "{body}");
    }
}

#[test]
fn errors_within_a_script_before_redis_7() {
    let within = |text: &str| {
        webdis(&format!(
            r#"{{"EVALSHA":[false,"ERR Error running script (call to f_2ae7): @user_script:1: @user_script: 1: {text}"]}}"#
        ))
    };
    let full = "-OOM command not allowed when used memory > 'maxmemory'.";
    assert_eq!(within(full), Err(StoreFault::Oom));
    let replica = "-READONLY You can't write against a read only replica.";
    assert_eq!(within(replica), Err(StoreFault::ReadOnly));
    let other = "Wrong number of args";
    assert_eq!(within(other), Err(StoreFault::Script));
}

#[test]
fn a_status_says_what_failed() {
    for dialect in [Dialect::Webdis, Dialect::Upstash] {
        let read =
            |status: Option<&[u8]>, body: &[u8]| front(dialect).read(Raw { status, body }, 1);
        // Of Webdis: Redis is down; no such command allowed; a method it does not know.
        assert_eq!(read(Some(b"503"), b""), Err(StoreFault::Unreachable));
        assert_eq!(read(Some(b"403"), b""), Err(StoreFault::NoAuth));
        assert_eq!(read(Some(b"405"), b""), Err(StoreFault::Status));
        // Of Envoy.
        let timeout = b"upstream request timeout";
        assert_eq!(read(Some(b"504"), timeout), Err(StoreFault::Timeout));
        // Of nginx: nothing at all.
        assert_eq!(read(None, b""), Err(StoreFault::Timeout));
        // Of Upstash.
        let unauthorized = br#"{"error":"WRONGPASS invalid or missing auth token"}"#;
        assert_eq!(read(Some(b"401"), unauthorized), Err(StoreFault::NoAuth));
        let bad = br#"{"error":"ERR failed to parse pipeline request"}"#;
        assert_eq!(read(Some(b"400"), bad), Err(StoreFault::Status));
        // A body is good only with 200.
        let good = br#"{"EVAL":["1"]}"#;
        for status in ["201", "204", "304", "500", "2000", "", "20\u{1}"] {
            let read = read(Some(status.as_bytes()), good);
            assert_eq!(read, Err(StoreFault::Status), "{status}");
        }
    }
}

#[test]
fn commands_of_upstash_are_one_call() {
    let front = front(Dialect::Upstash);
    let commands = [
        command(&["EVALSHA", "e0e1", "0", "a/\"b\"", "é"]),
        command(&["EVALSHA", "e0e1", "0"]),
    ];
    let [call] = front.call(&commands).try_into().expect("one call");
    assert_eq!(
        call.headers,
        [
            (":method", "POST".to_owned()),
            (":path", "/pipeline".to_owned()),
            (":authority", "redis-front".to_owned()),
            ("content-type", "application/json".to_owned()),
            ("authorization", "Basic c2VjcmV0".to_owned()),
        ]
    );
    let body = String::from_utf8(call.body).expect("UTF-8");
    assert_eq!(
        body,
        r#"[["EVALSHA","e0e1","0","a/\"b\"","é"],["EVALSHA","e0e1","0"]]"#
    );
}

#[test]
fn each_command_of_upstash_has_its_answer() {
    let front = front(Dialect::Upstash);
    let body = r#"[{"result":["a",1]},{"error":"NOSCRIPT No matching script. Please use EVAL."},{"result":"OK"},{"result":null},{"result":[["a"]]},{}]"#;
    assert_eq!(
        front.read(answer(body), 6),
        Ok(vec![
            Ok(command(&["a", "1"])),
            Err(StoreFault::NoScript),
            Err(StoreFault::Malformed),
            Err(StoreFault::Malformed),
            Err(StoreFault::Malformed),
            Err(StoreFault::Malformed),
        ])
    );
    for (body, commands) in [
        (r#"[{"result":["a"]}]"#, 2),
        (r#"[{"result":["a"]},{"result":["a"]}]"#, 1),
        (r#"{"result":["a"]}"#, 1),
        (r#"{"error":"ERR"}"#, 1),
        ("", 1),
    ] {
        let read = front.read(answer(body), commands);
        assert_eq!(read, Err(StoreFault::Malformed), "{body}");
    }
}

#[test]
fn faults_have_names_of_their_own() {
    let names: std::collections::HashSet<_> = StoreFault::ALL.iter().map(|f| f.name()).collect();
    assert_eq!(names.len(), StoreFault::ALL.len());
}

#[test]
fn nothing_of_a_call_is_printed() {
    for dialect in [Dialect::Webdis, Dialect::Upstash] {
        let front = front(dialect);
        let call = front.call(&[command(&["GET", "tenant-4711"])]);
        let printed = format!("{front:?} {call:?}");
        for secret in ["4711", "c2VjcmV0", "Basic"] {
            assert!(!printed.contains(secret), "{printed}");
        }
    }
}

/// Words as Webdis reads them.
fn words_of(text: &str) -> Vec<String> {
    let decode = |word| {
        let bytes = percent_encoding::percent_decode_str(word);
        bytes.decode_utf8().expect("UTF-8").into_owned()
    };
    text.split('/').map(decode).collect()
}

proptest! {
    /// Any words arrive as they were sent, and a path holds nothing that would end it.
    #[test]
    fn words_survive(words in prop::collection::vec(any::<String>(), 1..40)) {
        let call = front(Dialect::Webdis).call(std::slice::from_ref(&words)).remove(0);
        let body = String::from_utf8(call.body.clone()).expect("UTF-8");
        let text = match call.header(":path") {
            Some("/") if !body.is_empty() => body,
            Some(path) => path[1..].to_owned(),
            None => String::new(),
        };
        prop_assert!(text.bytes().all(|b| b.is_ascii_graphic() && !b"?#.".contains(&b)));
        prop_assert_eq!(words_of(&text), words);
    }

    /// No bytes are too much for it.
    #[test]
    fn any_answer_is_read(body in prop::collection::vec(any::<u8>(), 0..200), commands in 0_usize..4) {
        for dialect in [Dialect::Webdis, Dialect::Upstash] {
            let raw = Raw { status: Some(b"200"), body: &body };
            let _ = front(dialect).read(raw, commands);
        }
    }
}
