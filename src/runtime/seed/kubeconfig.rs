//! The seed's kubeconfig.

use std::{
    env,
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use kube::config::KubeconfigError;

use super::ClientError;

/// Whether those that kubectl would use, if there are any, may be read.
///
/// # Errors
///
/// If one of them cannot be text.
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
        .try_for_each(|path| is_text(path))
}

/// Checks the start of a file. Anything else, such as a pipe, is not looked at: it can be read only once.
///
/// # Errors
///
/// If it cannot be read, or cannot be text.
pub(super) fn is_text(path: &Path) -> Result<(), ClientError> {
    if !path.is_file() {
        return Ok(());
    }
    let unread =
        |error| ClientError::unusable(path, KubeconfigError::ReadConfig(error, path.into()));
    let mut start = Vec::new();
    let file = File::open(path).map_err(unread)?;
    let length = file.metadata().map_err(unread)?.len();
    file.take(2).read_to_end(&mut start).map_err(unread)?;
    // The client would take each two bytes for a character, and not survive the last one.
    if matches!(*start, [0xff, 0xfe] | [0xfe, 0xff]) && length % 2 == 1 {
        let half = "UTF-16 that ends in half a character";
        return Err(unread(io::Error::new(io::ErrorKind::InvalidData, half)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read(path: &Path) -> Result<kube::Config, ClientError> {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(super::super::config(Some(path)))
    }

    #[test]
    fn what_cannot_be_parsed_is_not_quoted() {
        let path = env::temp_dir().join(format!("kubeconfig-odd-{}", std::process::id()));
        // The name of a context may be of any length.
        let long = format!("current-context: {}", "x".repeat(100_000));
        fs::write(&path, long).unwrap();
        assert!(read(&path).unwrap_err().to_string().len() < 1_200);
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
