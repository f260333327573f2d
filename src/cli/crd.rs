//! `crd`: writes the definitions of the kinds, for `kubectl apply --server-side -f`.

use crate::api::{crd_file_name, crd_yaml, crds};
use clap::Args;
use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Where the definitions go.
#[derive(Args, Clone, Debug)]
pub struct CrdArgs {
    /// Write one file for each kind into this folder, in place of all kinds to the standard output
    #[arg(long, value_name = "FOLDER")]
    pub output_dir: Option<PathBuf>,
}

/// Why the definitions were not written.
#[derive(Debug, thiserror::Error)]
pub enum CrdError {
    /// A definition could not be expressed as YAML: a defect of this program.
    #[error("writing a definition as YAML: {0}; please report this")]
    Yaml(#[from] serde_saphyr::ser::Error),
    /// The standard output took no more.
    #[error("writing to the standard output: {0}")]
    Output(#[from] io::Error),
    /// A file or the folder could not be written.
    #[error("writing {path}: {source}; check that the folder exists or can be made")]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Writes the definitions as files if a folder is given, else to `output`.
///
/// # Errors
/// When a file, a folder or the output cannot be written.
pub fn run(args: &CrdArgs, output: &mut impl Write) -> Result<(), CrdError> {
    let Some(folder) = &args.output_dir else {
        for crd in crds() {
            output.write_all(crd_yaml(&crd)?.as_bytes())?;
        }
        return Ok(output.flush()?);
    };
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| CrdError::File { path, source }
    };
    fs::create_dir_all(folder).map_err(at(folder))?;
    for crd in crds() {
        let path = folder.join(crd_file_name(&crd));
        fs::write(&path, crd_yaml(&crd)?).map_err(at(&path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

    #[test]
    fn without_a_folder_all_definitions_form_one_stream() {
        let mut output = Vec::new();
        run(&CrdArgs { output_dir: None }, &mut output).unwrap();
        let text = String::from_utf8(output).unwrap();
        let read: Vec<CustomResourceDefinition> = serde_saphyr::from_multiple(&text).unwrap();
        assert_eq!(read, crds());
    }

    #[test]
    fn with_a_folder_each_definition_has_a_file() {
        let folder = std::env::temp_dir().join(format!("crds-{}", std::process::id()));
        run(
            &CrdArgs {
                output_dir: Some(folder.join("made")),
            },
            &mut io::sink(),
        )
        .unwrap();
        let mut files: Vec<_> = fs::read_dir(folder.join("made"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        fs::remove_dir_all(&folder).unwrap();
        files.sort();
        assert_eq!(
            files,
            [
                "dependency-watchdog.gardener.cloud_clusterhealths.yaml",
                "dependency-watchdog.gardener.cloud_probepolicies.yaml",
                "dependency-watchdog.gardener.cloud_weedpolicies.yaml",
            ]
        );
    }

    #[test]
    fn an_error_names_the_path() {
        let args = CrdArgs {
            output_dir: Some("/dev/null/crds".into()),
        };
        let error = run(&args, &mut io::sink()).unwrap_err();
        assert!(
            error.to_string().starts_with("writing /dev/null/crds: "),
            "{error}"
        );
    }
}
