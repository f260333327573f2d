//! The cgroups of a run, in every hierarchy there is, and those of its containers.

use super::NAME;
use crate::wait::{self, seen};
use anyhow::{Context as _, Result, bail, ensure};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// What a kubelet wants of version 1.
const CONTROLLERS: [&str; 7] = [
    "cpu", "cpuacct", "cpuset", "devices", "freezer", "memory", "pids",
];
/// How long processes that are killed may take to leave.
const LEAVING: Duration = Duration::from_secs(20);

/// The cgroups of one run: `/dependency-watchdog-node/<run>`.
#[derive(Clone, Debug)]
pub struct Cgroups {
    hierarchies: Vec<PathBuf>,
    /// One of version 2 beside those of version 1, in which runc makes some too.
    beside: Vec<PathBuf>,
    /// The only one is of version 2.
    unified: bool,
    run: String,
}

impl Cgroups {
    /// Those of a run by its name; none is made yet.
    pub fn of(run: &str) -> Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo")
            .context("cannot read /proc/self/mountinfo")?;
        Self::among(&mounts, run)
    }

    fn among(mounts: &str, run: &str) -> Result<Self> {
        let (mut first, mut second, mut controllers) = (Vec::new(), Vec::new(), Vec::new());
        for line in mounts.lines() {
            let Some((left, right)) = line.split_once(" - ") else {
                continue;
            };
            let (Some(point), Some(kind)) = (left.split(' ').nth(4), right.split(' ').next())
            else {
                continue;
            };
            match kind {
                "cgroup" => {
                    first.push(PathBuf::from(point));
                    let options = right.rsplit(' ').next().unwrap_or_default();
                    controllers.extend(options.split(',').map(str::to_owned));
                }
                "cgroup2" => second.push(PathBuf::from(point)),
                _ => {}
            }
        }
        let unified = first.is_empty();
        if unified {
            ensure!(
                !second.is_empty(),
                "no cgroups: none is mounted, which a kubelet needs"
            );
            second.truncate(1);
        } else {
            let lacking = CONTROLLERS
                .iter()
                .filter(|it| !controllers.iter().any(|there| there == *it));
            let lacking: Vec<&str> = lacking.copied().collect();
            ensure!(
                lacking.is_empty(),
                "no cgroups: those of version 1 lack {}, which a kubelet needs",
                lacking.join(", ")
            );
        }
        let (hierarchies, beside) = if unified {
            (second, Vec::new())
        } else {
            (first, second)
        };
        Ok(Self {
            hierarchies,
            beside,
            unified,
            run: run.to_owned(),
        })
    }

    /// What a kubelet is given as its root, for a node of this name.
    pub fn root_of(&self, node: &str) -> String {
        format!("/{NAME}/{}/{node}", self.run)
    }

    /// Makes and removes those of a node, since they may be there to be read alone.
    pub fn try_out(&self) -> Result<()> {
        self.make("node")?;
        for hierarchy in &self.hierarchies {
            let above = hierarchy.join(NAME);
            remove_tree(&above.join(&self.run))
                .with_context(|| format!("no cgroups: cannot remove {}", above.display()))?;
            // Another run may have some below it.
            let _ = fs::remove_dir(above);
        }
        Ok(())
    }

    /// Makes those of a node.
    pub fn make(&self, node: &str) -> Result<()> {
        for hierarchy in &self.hierarchies {
            let path = hierarchy.join(self.root_of(node).trim_start_matches('/'));
            fs::create_dir_all(&path)
                .with_context(|| format!("no cgroups: cannot make {}", path.display()))?;
            if self.unified {
                self.delegate(hierarchy, &path)?;
            }
        }
        Ok(())
    }

    /// Has what is below the root of version 2 use every controller.
    fn delegate(&self, hierarchy: &Path, path: &Path) -> Result<()> {
        let controllers = fs::read_to_string(hierarchy.join("cgroup.controllers"))?;
        let wanted: Vec<String> = controllers
            .split_whitespace()
            .map(|it| format!("+{it}"))
            .collect();
        let mut above: Vec<&Path> = path
            .ancestors()
            .take_while(|it| it.starts_with(hierarchy))
            .collect();
        above.reverse();
        for directory in above {
            let file = directory.join("cgroup.subtree_control");
            fs::write(&file, wanted.join(" ")).with_context(|| {
                format!(
                    "no cgroups: cannot write {} (in a container, no process may be in the root)",
                    file.display()
                )
            })?;
        }
        Ok(())
    }

    /// Removes all of the run, as soon as its processes have left.
    pub async fn remove(&self) -> Result<()> {
        wait::until_within(LEAVING, "cgroups to be empty", async || {
            let left = self.hierarchies.iter().chain(&self.beside).map(|it| {
                let above = it.join(NAME);
                remove_tree(&above.join(&self.run)).map(|()| {
                    // Another run may have some below it.
                    let _ = fs::remove_dir(above);
                })
            });
            let left: Vec<String> = left
                .filter_map(Result::err)
                .map(|it| it.to_string())
                .collect();
            seen(left.is_empty(), left.join("; "))
        })
        .await
    }

    /// The processes of a container by its id.
    pub fn processes(&self, container: &str) -> Result<Vec<i32>> {
        let path = self.container(container, "cgroup.procs")?;
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(text.lines().filter_map(|it| it.parse().ok()).collect())
    }

    fn container(&self, id: &str, file: &str) -> Result<PathBuf> {
        for hierarchy in &self.hierarchies {
            if let Some(found) = find(&hierarchy.join(NAME).join(&self.run), id)
                && found.join(file).exists()
            {
                return Ok(found.join(file));
            }
        }
        bail!("no cgroup of the container {id} has {file}")
    }
}

fn find(directory: &Path, name: &str) -> Option<PathBuf> {
    for entry in fs::read_dir(directory).ok()?.flatten() {
        if !entry.file_type().is_ok_and(|it| it.is_dir()) {
            continue;
        }
        if entry.file_name() == name {
            return Some(entry.path());
        }
        if let Some(found) = find(&entry.path(), name) {
            return Some(found);
        }
    }
    None
}

/// Only directories can be removed from a cgroup; its files go with it.
fn remove_tree(directory: &Path) -> std::io::Result<()> {
    if !directory.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(directory)?.flatten() {
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        }
    }
    fs::remove_dir(directory)
}
