//! Every command and every configuration of the documentation is run, and does what it says.

use std::process::Command;

use tollgate_e2e::{Answer, Configuration, Demo, Gateway, Setup, repository};

struct Block {
    info: String,
    text: String,
}

/// The fenced blocks of a document.
fn blocks(file: &str) -> Vec<Block> {
    let document = std::fs::read_to_string(repository().join(file)).unwrap();
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in document.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(info), None) => {
                open = Some(Block {
                    info: info.to_owned(),
                    text: String::new(),
                })
            }
            (None, Some(block)) => block.text.extend([line, "\n"]),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block of {file} is not closed");
    blocks
}

/// Whether a line is as shown; `…` stands for anything.
fn line_fits(shown: &str, line: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let mut last = None;
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
        last = Some(part);
    }
    rest.is_empty() || last == Some("")
}

/// Whether the output is as shown; a line of only `…` stands for any lines.
fn fits(shown: &[&str], output: &[&str]) -> bool {
    match (shown, output) {
        ([], []) => true,
        (["…", shown @ ..], _) => (0..=output.len()).any(|skip| fits(shown, &output[skip..])),
        ([one, shown @ ..], [line, output @ ..]) => line_fits(one, line) && fits(shown, output),
        _ => false,
    }
}

fn lines(text: &str) -> Vec<String> {
    let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    text.lines()
        .map(squeezed)
        .filter(|line| !line.is_empty())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_of_the_readme_show_what_it_shows() {
    let run = commands("README.md", &Demo::start().await);
    assert!(run >= 4, "only {run} commands were found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_of_the_guide_to_failed_credentials_show_what_it_shows() {
    let demo = Demo::start_with("envoy/token-endpoint.yaml").await;
    let run = commands("docs/auth-throttles.md", &demo);
    assert!(run >= 5, "only {run} commands were found");
}

/// Runs the commands of a document, one after the other; how many there are.
fn commands(file: &str, demo: &Demo) -> usize {
    let makefile = std::fs::read_to_string(repository().join("Makefile")).unwrap();
    let blocks = blocks(file);
    let mut run = 0;
    for (index, block) in blocks
        .iter()
        .enumerate()
        .filter(|(_, block)| block.info == "sh")
    {
        if block.text.starts_with("make ") {
            // `make run` is what the demo is, and this is `make test`.
            for line in block.text.lines() {
                let target = line.split_whitespace().nth(1).unwrap();
                assert!(
                    makefile.contains(&format!("\n{target}: ")),
                    "there is no `make {target}`"
                );
            }
            continue;
        }
        let script = block
            .text
            .replace("127.0.0.1:10000", &demo.port.to_string())
            .replace("127.0.0.1:9901", &demo.admin.to_string());
        assert_ne!(script, block.text, "this command asks nobody:\n{script}");
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &script])
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{script}\n{printed}");
        let shown = &blocks[index + 1];
        assert_eq!(
            shown.info, "text",
            "what this prints is not shown:\n{script}"
        );
        let (shown, printed) = (lines(&shown.text), lines(&printed));
        let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
        let printed: Vec<&str> = printed.iter().map(String::as_str).collect();
        assert!(
            fits(&shown, &printed),
            "{script}\nshown:\n{shown:#?}\nprinted:\n{printed:#?}"
        );
        run += 1;
    }
    run
}

#[tokio::test]
async fn every_configuration_of_the_readme_starts() {
    let started = configurations("README.md").await;
    assert!(started >= 3, "only {started} configurations were found");
}

#[tokio::test]
async fn every_configuration_of_the_guide_to_failed_credentials_starts() {
    let started = configurations("docs/auth-throttles.md").await;
    assert!(started >= 5, "only {started} configurations were found");
}

/// Starts a gateway with each configuration of a document; how many there are.
async fn configurations(file: &str) -> usize {
    let mut started = 0;
    for block in blocks(file) {
        let setup = match block.info.as_str() {
            "yaml tollgate" => Setup::new(Configuration::yaml_struct(&block.text)),
            "yaml envoy" => {
                let wasm = repository().join("dist/tollgate.wasm");
                let filter = block
                    .text
                    .replace("dist/tollgate.wasm", &wasm.to_string_lossy());
                Setup::without_filter().filter_before(&filter)
            }
            info => {
                assert!(
                    !info.starts_with("yaml"),
                    "this configuration is not run: {}",
                    block.text
                );
                continue;
            }
        };
        works(setup, &block.text).await;
        started += 1;
    }
    started
}

#[tokio::test]
async fn every_example_starts_in_envoy() {
    let folder = repository().join("filter-config/examples/valid");
    let mut started = 0;
    for file in std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
    {
        if file.extension().is_some_and(|e| e == "yaml") {
            let text = std::fs::read_to_string(&file).unwrap();
            let setup = Setup::new(Configuration::yaml_struct(&text));
            works(setup, &file.to_string_lossy()).await;
            started += 1;
        }
    }
    assert!(started >= 10, "only {started} examples were found");
}

/// Starts a gateway and sends a request through it.
async fn works(setup: Setup, what: &str) {
    let gateway = match Gateway::start(setup).await {
        Ok(gateway) => gateway,
        Err(failure) => panic!("{what}\n{failure:?}"),
    };
    gateway.upstream().always(Answer::ok());
    assert_eq!(gateway.get("/").send().await.status, 200, "{what}");
    assert!(gateway.traps().is_empty(), "{what}");
}
