//! Reading what `-f` names: a file, the files of a folder, or `-` for the standard input.

use std::{
    fs::{self, File},
    io::{self, Read, Write as _},
    path::{Path, PathBuf},
};

use crate::check::MAX_BYTES;

/// Extensions of the files of a folder that are read.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// Returns the file itself, or all files of a folder, sorted. Folders that begin with a dot, such as .git, and
/// links to folders are passed over.
///
/// # Errors
/// When the folder cannot be read, or has no such file.
pub(super) fn below(path: &Path) -> Result<Vec<PathBuf>, String> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    collect(path, &mut files).map_err(|error| format!("reading {}: {error}", path.display()))?;
    if files.is_empty() {
        return Err(format!(
            "{}: there is no *.yaml, *.yml or *.json in this folder",
            path.display()
        ));
    }
    files.sort();
    Ok(files)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let extension = path.extension().and_then(|it| it.to_str());
        if entry.file_type()?.is_dir() {
            if !entry.file_name().as_encoded_bytes().starts_with(b".") {
                collect(&path, files)?;
            }
        } else if extension.is_some_and(|it| EXTENSIONS.contains(&it)) && !path.is_dir() {
            files.push(path);
        }
    }
    Ok(())
}

/// Returns the text of a file, or of `input` for `-`.
///
/// # Errors
/// When it cannot be read, is no text, or is longer than is read.
pub(super) fn read(path: &Path, input: &mut impl Read) -> Result<String, String> {
    let limit = MAX_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    let read = if path.as_os_str() == "-" {
        input.take(limit).read_to_end(&mut bytes)
    } else {
        File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes))
    };
    let failed = |why: String| Err(format!("reading {}: {why}", name(path)));
    match (read, String::from_utf8(bytes)) {
        (Err(error), _) => failed(error.to_string()),
        (Ok(length), _) if length > MAX_BYTES => failed(format!(
            "it is longer than {} MiB; name the files that hold policies",
            MAX_BYTES >> 20
        )),
        (Ok(_), Err(_)) => failed("it is not text in UTF-8".to_owned()),
        (Ok(_), Ok(text)) => Ok(text),
    }
}

/// Returns what a file is called in messages.
pub(super) fn name(path: &Path) -> String {
    match path.to_str() {
        Some("-") => "stdin".to_owned(),
        _ => path.display().to_string(),
    }
}

/// Writes to the standard output.
///
/// # Errors
/// When it takes no more.
pub(super) fn print(text: &str) -> Result<(), String> {
    let mut output = io::stdout().lock();
    let written = output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush());
    written.map_err(|error| format!("writing to the standard output: {error}"))
}
