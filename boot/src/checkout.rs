//! Finds the checkout of this project, which contains the kernel, its programs, and everything else that this command
//! builds.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Returns the root of the checkout. If cargo runs this command for a package in a checkout of this project, that is
/// the checkout. Otherwise it is the checkout from which this command was compiled. The two may differ, because
/// checkouts that share a target directory share the executable of this command.
#[must_use]
pub fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let compiled = Path::new(env!("CARGO_MANIFEST_DIR"));
        let package = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let running = package.as_deref().and_then(checkout_of);
        running.unwrap_or(compiled.parent().unwrap_or(compiled)).to_path_buf()
    })
}

/// Returns the root of the checkout of this project that contains the folder `package`, if there is one.
fn checkout_of(package: &Path) -> Option<&Path> {
    let has = |root: &Path, member: &str| root.join(member).join("Cargo.toml").is_file();
    package.ancestors().find(|root| has(root, "boot") && has(root, "programs"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::{checkout_of, root};

    #[test]
    fn checkout_is_that_of_the_package_that_runs() {
        assert_eq!(Some(root()), Path::new(env!("CARGO_MANIFEST_DIR")).parent());
        let other = tempfile::tempdir().unwrap();
        for member in ["boot", "programs"] {
            assert_eq!(checkout_of(&other.path().join("labs/checks")), None);
            fs::create_dir(other.path().join(member)).unwrap();
            fs::write(other.path().join(member).join("Cargo.toml"), "").unwrap();
        }
        assert_eq!(checkout_of(&other.path().join("labs/checks")), Some(other.path()));
    }
}
