//! Readers of docker-compose.yml, the Dockerfile and the README.

use std::path::Path;

use yaml_rust2::{Yaml, YamlLoader};

/// A file of the repository.
#[track_caller]
pub(crate) fn repository_file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("cannot read {name}: {error}"))
}

pub(super) struct ComposeFile {
    services: Yaml,
    volumes: Yaml,
}

impl ComposeFile {
    #[track_caller]
    pub(super) fn read() -> ComposeFile {
        let documents = YamlLoader::load_from_str(&repository_file("docker-compose.yml")).unwrap();
        let part = |name: &str| documents[0][name].clone();
        ComposeFile { services: part("services"), volumes: part("volumes") }
    }

    #[track_caller]
    pub(super) fn image(&self, service: &str) -> String {
        text(&self.services[service]["image"])
    }

    #[track_caller]
    pub(super) fn command(&self, service: &str) -> Vec<String> {
        texts(&self.services[service]["command"])
    }

    /// The program and the arguments of a service's health check.
    #[track_caller]
    pub(super) fn health_check(&self, service: &str) -> Vec<String> {
        let mut words = texts(&self.services[service]["healthcheck"]["test"]);
        assert_eq!(words.remove(0), "CMD", "no command without a shell");
        words
    }

    /// What a service waits for, and until when: `(service, condition)`.
    #[track_caller]
    pub(super) fn depends_on(&self, service: &str) -> Vec<(String, String)> {
        let others = self.services[service]["depends_on"].as_hash();
        let others = others.unwrap_or_else(|| panic!("{service} waits for no other service"));
        others.iter().map(|(name, rule)| (text(name), text(&rule["condition"]))).collect()
    }

    #[track_caller]
    pub(super) fn ports(&self, service: &str) -> Vec<String> {
        texts(&self.services[service]["ports"])
    }

    /// The volume of a service and the folder where it is mounted.
    #[track_caller]
    pub(super) fn volume(&self, service: &str) -> (String, String) {
        let volumes = texts(&self.services[service]["volumes"]);
        let [volume] = &volumes[..] else { panic!("not one volume: {volumes:?}") };
        let (name, folder) = volume.split_once(':').expect("not NAME:FOLDER");
        (name.to_owned(), folder.to_owned())
    }

    /// The volumes that the file declares; using others is an error.
    #[track_caller]
    pub(super) fn volumes(&self) -> Vec<String> {
        self.volumes.as_hash().expect("no volumes").keys().map(text).collect()
    }

    #[track_caller]
    pub(super) fn environment(&self, service: &str) -> Vec<(String, String)> {
        let variables = self.services[service]["environment"].as_hash();
        let variables = variables.unwrap_or_else(|| panic!("{service} has no environment"));
        variables.iter().map(|(name, value)| (text(name), text(value))).collect()
    }
}

#[track_caller]
fn text(value: &Yaml) -> String {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value:?}")).to_owned()
}

#[track_caller]
fn texts(values: &Yaml) -> Vec<String> {
    let values = values.as_vec().unwrap_or_else(|| panic!("not a list: {values:?}"));
    values.iter().map(text).collect()
}

/// What the Dockerfile's `ENV` lines set.
#[track_caller]
pub(super) fn image_environment() -> Vec<(String, String)> {
    let dockerfile = repository_file("Dockerfile");
    let lines = dockerfile.lines().filter_map(|line| line.strip_prefix("ENV "));
    let variables = lines.map(|line| line.split_once('=').expect("ENV without ="));
    variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The words of the README's line that starts with this program, as a shell splits them: quotes
/// keep words together, and a backslash at the end joins a line with the next.
#[track_caller]
pub(super) fn readme_command(program: &str) -> Vec<String> {
    let readme = repository_file("README.md").replace("\\\n", " ");
    let mut lines = readme.lines().filter(|line| line.starts_with(&format!("{program} ")));
    let line = lines.next().unwrap_or_else(|| panic!("the README has no line with {program}"));
    let mut words = Vec::new();
    for (number, part) in line.split('"').enumerate() {
        match number % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}
