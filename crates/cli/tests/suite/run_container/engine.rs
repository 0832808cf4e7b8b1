//! The engines that the tests have: the stand-in, and Podman where it runs.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use rescind_ledger::container::{self, listing::Container};
use rescind_testkit::puppet::{Rig, RigBuilder};
use tempfile::TempDir;

use crate::shim::PROGRAM;

/// An engine of its own, without containers. Dropping it ends those that it has.
pub(super) struct Engine {
    /// What the program is called by, options included.
    words: Vec<String>,
    /// What has to be between `run` and the image.
    needed: Vec<String>,
    image: &'static str,
    environment: Vec<String>,
    pub(super) folder: TempDir,
}

impl Engine {
    /// The stand-in, as `docker`.
    pub(super) fn stand_in() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("docker");
        let stand_in = Path::new(PROGRAM).with_file_name("examples").join("container_engine");
        assert!(stand_in.exists(), "{} is missing: cargo build --examples", stand_in.display());
        std::os::unix::fs::symlink(stand_in, &program).unwrap();
        let words = vec![program.to_str().unwrap().to_owned()];
        Self { words, needed: Vec::new(), image: "image", environment: Vec::new(), folder }
    }

    /// The stand-in, and Podman where it runs; where it does not, a line says why. That is a failure if
    /// `RESCIND_REQUIRE_PEERS` is set.
    pub(super) fn all() -> Vec<Self> {
        static PODMAN: OnceLock<Result<(), String>> = OnceLock::new();
        let mut all = vec![Self::stand_in()];
        match PODMAN.get_or_init(|| Self::podman().map(drop)) {
            Ok(()) => all.extend(Self::podman().ok()),
            Err(why) => {
                assert!(std::env::var_os("RESCIND_REQUIRE_PEERS").is_none(), "podman: {why}");
                let line = format!("skipped: containers of Podman, the stand-in alone was used: {why}\n");
                std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
            }
        }
        all
    }

    /// Podman with everything in a folder, and an image that has nothing: programs and libraries are those of this machine.
    fn podman() -> Result<Self, String> {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        // What a container may be given without privileges, such as those of a container that the tests are run in.
        let settings = "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=1000:1000\"]\nnetns = \"host\"\n\
             [engine]\nruntime = \"runc\"\nevents_logger = \"file\"\n";
        fs::write(at("containers.conf"), settings).unwrap();
        let words = ["podman", "--root", &at("root"), "--runroot", &at("run"), "--storage-driver", "vfs"];
        let temporary = std::env::temp_dir();
        let build = PathBuf::from(PROGRAM).parent().unwrap().to_owned();
        let shared = ["/usr", "/lib", "/lib64", "/bin", temporary.to_str().unwrap(), build.to_str().unwrap()];
        let shared = shared.iter().filter(|path| Path::new(path).exists());
        let engine = Self {
            words: words.map(str::to_owned).to_vec(),
            needed: shared.map(|path| format!("--volume={path}:{path}")).collect(),
            image: "localhost/nothing:latest",
            environment: vec![format!("CONTAINERS_CONF={}", at("containers.conf"))],
            folder,
        };
        fs::create_dir(engine.folder.path().join("empty")).unwrap();
        let packed = Command::new("tar")
            .args([
                "-C",
                engine.folder.path().join("empty").to_str().unwrap(),
                "-cf",
                &at_of(&engine, "empty.tar"),
                ".",
            ])
            .status();
        packed.map_err(|error| format!("tar: {error}"))?;
        engine.try_run(&["import", &at_of(&engine, "empty.tar"), "nothing"])?;
        engine.try_run(&engine.run_words(&["--rm"], &["/bin/true"]))?;
        Ok(engine)
    }

    /// `run OPTIONS IMAGE COMMAND`.
    fn run_words<'a>(&'a self, options: &[&'a str], command: &[&'a str]) -> Vec<&'a str> {
        let needed = self.needed.iter().map(String::as_str);
        let words = ["run"].into_iter().chain(options.iter().copied()).chain(needed);
        words.chain([self.image]).chain(command.iter().copied()).collect()
    }

    fn try_run(&self, words: &[&str]) -> Result<String, String> {
        let output = self.command("env").args(&self.environment).args(&self.words).args(words).output();
        let output = output.map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(String::from_utf8(output.stdout).unwrap());
        }
        Err(format!("{words:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// A `PATH` with the stand-in first.
    pub(super) fn first_in_path(&self) -> String {
        format!("{}:{}", self.folder.path().display(), std::env::var("PATH").unwrap())
    }

    /// Starts a container that does nothing, and leaves it.
    pub(super) fn start_idle(&self, name: &str) {
        self.try_run(&self.run_words(&["-d", "--rm", "--name", name], &["/bin/sleep", "1000"])).unwrap();
    }

    /// A shim with these flags, before a puppet in a container made with these options.
    pub(super) fn run(&self, flags: &[&str], options: &[&str]) -> Rig {
        let words = self.run_words(options, &[]);
        self.rig(flags, &words).start()
    }

    /// A shim with these flags, before a puppet that is started in this container.
    pub(super) fn exec(&self, flags: &[&str], container: &str) -> Rig {
        self.rig(flags, &["exec", "-i", container]).start()
    }

    fn rig(&self, flags: &[&str], words: &[&str]) -> RigBuilder {
        let under = [&["env".to_owned()], &self.environment[..]].concat();
        let within = self.words.iter().map(String::as_str).chain(words.iter().copied());
        Rig::builder(PROGRAM).flags(flags).under(under).within(within)
    }

    /// The same as words of a shim, for a test without a puppet.
    pub(super) fn shim(&self, flags: &[&str], words: &[&str]) -> Command {
        let mut command = self.command(PROGRAM);
        command.arg("run").args(flags).args(&self.words).args(words);
        command.env("RESCIND_RUNTIME_DIR", self.folder.path().join("sockets"));
        command
    }

    /// What is asked of it, with its environment.
    fn asked(&self) -> container::engine::Engine {
        let (program, options) = ("env".into(), [&self.environment[..], &self.words].concat());
        container::engine::Engine { program, options: options.into_iter().map(Into::into).collect() }
    }

    /// The containers with a mark, running or not.
    pub(super) fn containers(&self) -> Vec<Container> {
        let (found, errors) = container::listing::list(&[self.asked()], None);
        assert!(errors.is_empty(), "{errors:?}");
        found
    }

    /// Whether a container with this name runs.
    pub(super) fn runs(&self, name: &str) -> bool {
        let words = ["inspect", "--type", "container", "--format", "{{.State.Running}}", name];
        self.try_run(&words).is_ok_and(|said| said.trim() == "true")
    }
}

fn at_of(engine: &Engine, name: &str) -> String {
    engine.folder.path().join(name).to_str().unwrap().to_owned()
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.folder.path().join("mode"));
        let ids = self.try_run(&["ps", "--all", "--quiet", "--no-trunc"]).unwrap_or_default();
        for id in ids.split_whitespace() {
            let _ = self.try_run(&["rm", "--force", id]);
        }
    }
}
