//! Reading what `-f` names: a file, or `-` for the standard input, and no more than fits.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use crate::yaml::MAX_BYTES;

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub(super) enum SourceError {
    #[error("reading {path}: {error}", path = .path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error(
        "reading {path}: it is longer than {limit} MiB; name the files that hold policies",
        path = .0.display(),
        limit = MAX_BYTES >> 20
    )]
    TooLong(PathBuf),
    #[error("reading {path}: it is not text in UTF-8", path = .0.display())]
    NotText(PathBuf),
}

/// Whether a path stands for the standard input.
pub(super) fn is_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// What a file is called in messages.
pub(super) fn name(path: &Path) -> String {
    match is_input(path) {
        true => "stdin".to_owned(),
        false => path.display().to_string(),
    }
}

/// The text of a file, or of `input` if that is what the path stands for.
pub(super) fn read(path: &Path, input: &mut impl Read) -> Result<String, SourceError> {
    let failed = |error| SourceError::Io {
        path: name(path).into(),
        error,
    };
    let bytes = match is_input(path) {
        true => limited(input),
        false => File::open(path).and_then(limited),
    };
    let bytes = bytes.map_err(failed)?;
    if bytes.len() > MAX_BYTES {
        return Err(SourceError::TooLong(name(path).into()));
    }
    String::from_utf8(bytes).map_err(|_| SourceError::NotText(name(path).into()))
}

/// At most one byte more than is read.
fn limited(input: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX);
    input
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endless_input_is_given_up() {
        let error = read(Path::new("-"), &mut io::repeat(b' ')).unwrap_err();
        assert_eq!(
            error.to_string(),
            "reading stdin: it is longer than 16 MiB; name the files that hold policies"
        );
    }
}
