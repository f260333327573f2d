//! The seed's kubeconfig, which is read whole or not at all.

use std::{
    env,
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use kube::config::{Kubeconfig, KubeconfigError};

use super::ClientError;

/// No kubeconfig is read that has more, in bytes: a thousand clusters take less.
pub(super) const MAX_BYTES: u64 = 8 * 1024 * 1024;

/// Reads the one at this path.
///
/// # Errors
///
/// If it cannot be read, or has more than [`MAX_BYTES`].
pub(super) fn read(path: &Path) -> Result<Kubeconfig, ClientError> {
    if is_regular(path)? {
        return Kubeconfig::read_from(path).map_err(|error| ClientError::unusable(path, error));
    }
    // A pipe can be read only once, tells no size, and lies beside no other file that it could name.
    let unread =
        |error| ClientError::unusable(path, KubeconfigError::ReadConfig(error, path.into()));
    let mut text = String::new();
    let mut file = File::open(path).map_err(unread)?.take(MAX_BYTES + 1);
    file.read_to_string(&mut text).map_err(unread)?;
    if file.limit() == 0 {
        return Err(too_large(path));
    }
    Kubeconfig::from_yaml(&text).map_err(|error| ClientError::unusable(path, error))
}

/// Whether those that kubectl would use, if there are any, may be read.
///
/// # Errors
///
/// If one of them has more than [`MAX_BYTES`], or cannot be text.
pub(super) fn usable() -> Result<(), ClientError> {
    let named = env::var_os("KUBECONFIG").unwrap_or_default();
    let mut paths: Vec<PathBuf> = env::split_paths(&named).collect();
    paths.retain(|path| !path.as_os_str().is_empty());
    if paths.is_empty() {
        paths.extend(env::home_dir().map(|home| home.join(".kube/config")));
    }
    // That one is not there, or may not be read, is no error: a ServiceAccount may be.
    paths
        .iter()
        .filter(|path| path.is_file() && File::open(path).is_ok())
        .try_for_each(|path| is_regular(path).map(drop))
}

/// Whether this is a file that can be read more than once; it is within the bound.
fn is_regular(path: &Path) -> Result<bool, ClientError> {
    let unread =
        |error| ClientError::unusable(path, KubeconfigError::ReadConfig(error, path.into()));
    let metadata = fs::metadata(path).map_err(unread)?;
    if !metadata.is_file() {
        return Ok(false);
    }
    if metadata.len() > MAX_BYTES {
        return Err(too_large(path));
    }
    let mut start = Vec::new();
    let file = File::open(path).map_err(unread)?;
    file.take(2).read_to_end(&mut start).map_err(unread)?;
    // The client would take each two bytes for a character, and not survive the last one.
    let is_wide = matches!(*start, [0xff, 0xfe] | [0xfe, 0xff]);
    if is_wide && metadata.len() % 2 == 1 {
        let half = io::Error::new(
            io::ErrorKind::InvalidData,
            "UTF-16 that ends in half a character",
        );
        return Err(unread(half));
    }
    Ok(true)
}

fn too_large(path: &Path) -> ClientError {
    let path = path.display().to_string();
    ClientError::KubeconfigTooLarge { path }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error says which file and what to do, and nothing of it was parsed.
    fn refused(path: &Path) {
        let error = read(path).unwrap_err().to_string();
        let begin = format!("the kubeconfig {} has more than 8 MiB", path.display());
        assert!(error.starts_with(&begin), "{error}");
        assert!(
            error.contains("kubectl config view --minify --flatten"),
            "{error}"
        );
    }

    #[test]
    fn a_kubeconfig_of_any_size_is_not_read_whole() {
        let path = env::temp_dir().join(format!("kubeconfig-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        file.set_len(MAX_BYTES).unwrap();
        let error = read(&path).unwrap_err();
        // It was parsed, in vain.
        assert!(
            matches!(error, ClientError::KubeconfigMalformed { .. }),
            "{error}"
        );
        file.set_len(1 << 40).unwrap();
        refused(&path);
        fs::remove_file(&path).unwrap();
        // What tells no size.
        refused(Path::new("/dev/zero"));
    }

    #[test]
    fn what_cannot_be_parsed_is_not_quoted() {
        let path = env::temp_dir().join(format!("kubeconfig-odd-{}", std::process::id()));
        // The name of a context may be of any length.
        let long = format!("current-context: {}", "x".repeat(100_000));
        fs::write(&path, long).unwrap();
        let config = tokio::runtime::Runtime::new().unwrap();
        let error = config.block_on(super::super::config(Some(&path)));
        assert!(error.unwrap_err().to_string().len() < 1_200);
        for text in ["users:\n- user: {token: hush\n", "users: hush", "hush"] {
            fs::write(&path, text).unwrap();
            let error = read(&path).unwrap_err().to_string();
            let begin = format!("the kubeconfig {} cannot be read at line", path.display());
            assert!(
                error.starts_with(&begin) && !error.contains("hush"),
                "{error}"
            );
        }
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn half_a_character_is_an_error() {
        let path = env::temp_dir().join(format!("kubeconfig-wide-{}", std::process::id()));
        for bytes in [&[0xff, 0xfe, b'a'][..], &[0xfe, 0xff, 0, b'a', 0]] {
            fs::write(&path, bytes).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains(&path.display().to_string()), "{error}");
        }
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_pipe_is_read_once() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let path = {
            use std::os::fd::AsRawFd as _;
            PathBuf::from(format!("/dev/fd/{}", reader.as_raw_fd()))
        };
        std::io::Write::write_all(&mut writer, b"current-context: seed\n").unwrap();
        drop(writer);
        assert_eq!(
            read(&path).unwrap().current_context.as_deref(),
            Some("seed")
        );
    }

    #[test]
    fn one_that_is_not_there_is_named() {
        let error = read(Path::new("/nowhere/kubeconfig"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("/nowhere/kubeconfig") && error.contains("No such file"),
            "{error}"
        );
    }
}
