//! Reading what `-f` names: a file, the files of a folder, or `-` for the standard input.

use std::{
    fs::{self, File},
    io::{self, Read, Write as _},
    path::{Path, PathBuf},
};

use crate::{check::MAX_BYTES, util::text::clean};

/// Extensions of the files of a folder that are read.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];
/// Most characters of a path on Linux.
const MAX_NAME: usize = 4096;

/// Returns the file itself, or all files of a folder, sorted. Folders that begin with a dot, such as .git, and
/// links to folders are passed over.
///
/// # Errors
/// When the folder cannot be read.
pub(super) fn below(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let (path, is_hidden) = (
            entry.path(),
            entry.file_name().as_encoded_bytes().starts_with(b"."),
        );
        let extension = path.extension().and_then(|it| it.to_str());
        if entry.file_type()?.is_dir() && !is_hidden {
            files.extend(below(&path)?);
        } else if extension.is_some_and(|it| EXTENSIONS.contains(&it)) && !path.is_dir() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Returns the text of a file, or of `input` for `-`.
///
/// # Errors
/// When it cannot be read, is no text, or is longer than is read.
pub(super) fn read(path: &Path, input: &mut impl Read) -> Result<String, String> {
    let (limit, mut text) = (MAX_BYTES as u64 + 1, String::new());
    let read = match path.to_str() {
        Some("-") => input.take(limit).read_to_string(&mut text),
        _ => File::open(path).and_then(|file| file.take(limit).read_to_string(&mut text)),
    };
    match read {
        Err(error) => Err(format!("reading {}: {error}", name(path))),
        Ok(length) if length > MAX_BYTES => Err(format!(
            "reading {}: it is longer than {} MiB; name the files that hold policies",
            name(path),
            MAX_BYTES >> 20
        )),
        Ok(_) => Ok(text),
    }
}

/// Returns what a file is called in messages.
pub(super) fn name(path: &Path) -> String {
    match path.to_str() {
        Some("-") => "stdin".to_owned(),
        _ => clean(&path.to_string_lossy(), MAX_NAME),
    }
}

/// Writes to the standard output. A reader that has seen enough is no failure.
///
/// # Errors
/// When the text cannot be written.
pub(super) fn print(text: &str) -> Result<(), String> {
    let mut output = io::stdout().lock();
    let written = output.write_all(text.as_bytes());
    match written.and_then(|()| output.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("writing to the standard output: {error}"))
        }
        _ => Ok(()),
    }
}
